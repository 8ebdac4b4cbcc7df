"""Rows without a target count and contribute nothing: in memory, streamed, from text, for every kind of question."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from raters import rating_terms, tastes
from samples import BOUNDS, GAUSSIAN, make_terms, regression_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.data import Design
from parley.data.fitting import dropped_rows
from parley.errors import DataError
from parley.learning.outcome.verdict import score
from parley.losses.score import hit_figures, two_class_figures
from parley.owner.warnings import find_warnings, target_words
from parley.protocol.queries import GradientQuery, MinibatchQuery, ScoreQuery, StatisticsQuery, UpdateQuery

ROWS, GAP = 24, 5
CLASSES = ["red", "green", "blue"]
KINDS = {
    "linear-regression": {},
    "linear-svm": {},
    "logistic-regression": {"model__class_weight": {"1": 3.0}},
    "softmax-regression": {"model__categories": {"y": CLASSES}, "model__class_weight": {"red": 2.0}},
    "one-vs-all": {"model__categories": {"y": CLASSES}},
    "least-squares-classes": {"model__categories": {"y": CLASSES}},
}
UPDATE = {
    "learning__algorithm": "federated-averaging",
    "learning__local_steps": 3,
    "learning__step": "auto",
    "model__bounds": BOUNDS,
}
STATISTICS = {"learning__algorithm": "sufficient-statistics", "learning__horizon": 1, "learning__step": None}
BATCHES = {"learning__algorithm": "private-sgd", "learning__horizon": 4, "learning__batches": 2, "model__radius": None}
ASKED = [
    *(("gradient", kind, KINDS[kind]) for kind in KINDS),
    *(("update", kind, KINDS[kind] | UPDATE) for kind in KINDS if kind not in ("linear-svm", "one-vs-all")),
    *(("statistics", kind, KINDS[kind] | STATISTICS) for kind in ("linear-regression", "least-squares-classes")),
    *(("score", kind, KINDS[kind] | {"model__holdout": 0.5, "privacy__score_epsilon": 0.5}) for kind in KINDS),
]


def rows(kind, count=ROWS, seed=0):
    table = regression_table(count, seed=seed)
    if kind in ("linear-svm", "logistic-regression"):
        return table.assign(y=(table["y"] > 0).astype(int))
    return table if kind == "linear-regression" else table.assign(y=np.array(CLASSES)[np.arange(count) % 3])


def agreed(kind, changes, count=ROWS, **more):
    bounds = (
        {"model__bounds": {**BOUNDS}}
        if kind == "linear-regression"
        else {"model__bounds": {c: BOUNDS[c] for c in ("x0", "x1", "x2")}}
    )
    changes = bounds | changes
    if kind != "linear-regression":
        changes["model__bounds"] = bounds["model__bounds"]
    return make_terms(count, **{"model__kind": kind, "privacy__clip": 0.8, **GAUSSIAN, **changes, **more})


def answer(asked, terms, table):
    agreement = parley.Owner("a", table).prepare(terms)
    theta = np.linspace(-1, 1, agreement.setup.parameters)
    query = {
        "gradient": lambda: GradientQuery.ask(terms.hash, "learner", 1, theta),
        "update": lambda: UpdateQuery.ask(terms.hash, "learner", 1, theta, 3),
        "statistics": lambda: StatisticsQuery.ask(terms.hash, "learner", 1),
        "score": lambda: ScoreQuery.ask(terms.hash, "learner", terms.rounds, theta),
        "batch": lambda: MinibatchQuery.ask(terms.hash, "learner", 1, theta),
    }[asked]()
    return agreement, agreement.part.check(query, ()).question.bounded(query, agreement.tables)


def written(folder, table):
    """The same table as a data frame, a CSV file, a Parquet file, and a folder of two."""
    folder.mkdir()
    table.to_csv(folder / "t.csv", index=False)
    table.to_parquet(folder / "t.parquet", row_group_size=7)
    (folder / "parts").mkdir()
    table[:9].to_parquet(folder / "parts" / "1.parquet", row_group_size=4)
    table[9:].to_parquet(folder / "parts" / "2.parquet", row_group_size=4)
    return [table, folder / "t.csv", folder / "t.parquet", folder / "parts"]


@pytest.mark.parametrize(("asked", "kind", "changes"), ASKED, ids=lambda value: value if isinstance(value, str) else "")
def test_a_row_without_a_target_adds_nothing_wherever_the_table_lies(tmp_path, asked, kind, changes):
    """Whatever its other cells hold: the answer is that of the other rows, over the public number of all."""
    terms = agreed(kind, changes)
    table = rows(kind).astype({"y": object}) if kind != "linear-regression" else rows(kind)
    table.loc[GAP, "y"] = None
    found = [answer(asked, terms, each)[1].value for each in written(tmp_path / "one", table)]
    other = table.copy()
    other.loc[GAP, ["x0", "x1", "x2"]] = [9.0, -9.0, 9.0]
    found.append(answer(asked, terms, other)[1].value)
    for each in found[1:]:
        np.testing.assert_allclose(each, found[0], rtol=1e-9, atol=1e-12)
    if asked in ("gradient", "statistics"):
        fewer = agreed(kind, changes, ROWS - 1)
        rest = answer(asked, fewer, table.drop(index=GAP).reset_index(drop=True))[1].value
        np.testing.assert_allclose(found[0] * ROWS, rest * (ROWS - 1), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("asked", "kind", "changes"), ASKED, ids=lambda value: value if isinstance(value, str) else "")
def test_with_and_without_a_target_are_neighbours(asked, kind, changes):
    """A target that comes or goes moves no answer by more than the sensitivity; every row is tried."""
    terms, table = agreed(kind, changes), rows(kind).astype({"y": object})
    table["x0"] = np.where(np.arange(ROWS) % 2, 1.0, -1.0)
    whole = answer(asked, terms, table)[1]
    worst = 0.0
    for row in range(ROWS):
        gone = answer(asked, terms, table.assign(y=table["y"].where(np.arange(ROWS) != row, None)))[1]
        away = gone.value - whole.value
        worst = max(
            worst, float(np.abs(away).sum() if whole.norm == "l1" else np.linalg.norm(away)) / whole.sensitivity
        )
    assert 0 < worst <= 1


def test_a_part_of_zero_is_needed_in_every_objective():
    """The mutant: a row without a target that counts as one of the first class moves what it must not."""
    terms, table = (
        agreed("least-squares-classes", KINDS["least-squares-classes"] | STATISTICS),
        rows("least-squares-classes"),
    )
    table.loc[GAP, "y"] = None
    agreement, zero = answer("statistics", terms, table)
    design = agreement.tables.train
    tables = replace(agreement.tables, train=Design(design.X, design.y, np.ones(ROWS)))
    mutant = agreement.part.training.question.bounded(StatisticsQuery.ask(terms.hash, "learner", 1), tables)
    assert np.abs(mutant.value - zero.value).max() > 1e-3


def test_batches_and_secret_draws_count_it_as_a_row():
    terms = agreed("logistic-regression", BATCHES)
    table = rows("logistic-regression").astype({"y": object})
    whole = answer("batch", terms, table)[1]
    for row in range(ROWS):
        gone = answer("batch", terms, table.assign(y=table["y"].where(np.arange(ROWS) != row, None)))[1]
        assert np.linalg.norm(gone.value - whole.value) <= whole.sensitivity


def test_a_cost_with_a_random_linear_term_bears_it():
    changes = {
        "learning__algorithm": "objective-perturbation",
        "learning__horizon": 1,
        "learning__step": None,
        "privacy__mechanism": "laplace",
    }
    terms = agreed("logistic-regression", changes, privacy__delta=0.0)
    table = rows("logistic-regression").astype({"y": object})
    table.loc[GAP, "y"] = None
    result = parley.train(terms, [parley.Owner("a", table)], seed=1)
    assert np.isfinite(result.model.theta_).all()


@pytest.mark.parametrize("kind", ["linear-regression", "logistic-regression", "softmax-regression"])
def test_training_scoring_and_refining_go_on(kind):
    terms = agreed(kind, KINDS[kind] | {"model__holdout": 0.4})
    table = rows(kind).astype({"y": object})
    table.loc[[GAP, 11, 20], "y"] = [None, float("nan"), "n/a"]
    owner = parley.Owner("a", table)
    result = parley.train(terms, [owner], seed=1)
    assert result.quality is not None
    agreement = owner.prepare(terms)
    assert agreement.tables.train.untargeted + agreement.tables.held_out.untargeted == 3
    assert (
        score(terms, owner, result.model).rows == len(agreement.tables.held_out) - agreement.tables.held_out.untargeted
    )


@pytest.mark.parametrize("cell", ["purple", "2", ""])
def test_an_unlisted_class_is_refused_as_before(cell):
    terms = agreed("softmax-regression", KINDS["softmax-regression"])
    table = rows("softmax-regression")
    table.loc[GAP, "y"] = cell
    if cell == "":
        assert parley.Owner("a", table).prepare(terms).tables.train.untargeted == 1
        return
    table.loc[2, "y"] = None
    with pytest.raises(DataError, match="with a target: column 'y', row 5: the value is not one of the agreed classes"):
        parley.Owner("a", table).prepare(terms)


def test_a_class_that_is_called_none_is_a_class_where_the_terms_list_it():
    table = rows("softmax-regression").assign(y=np.array(["None", "some"])[np.arange(ROWS) % 2])
    terms = make_terms(ROWS, model__kind="softmax-regression", model__categories={"y": ["None", "some"]})
    assert parley.Owner("a", table).prepare(terms).tables.train.untargeted == 0


def test_people_are_counted_as_before():
    table = regression_table(ROWS).assign(who=np.arange(ROWS) // 3)
    table.loc[[0, 1, 4], "y"] = np.nan
    terms = make_terms(16, privacy__person="who", privacy__records_per_person=2)
    assert parley.Owner("a", table).prepare(terms).tables.train.untargeted == 3


def test_the_notice_is_the_owners_own(tmp_path):
    table = regression_table(ROWS)
    table.loc[[1, 2], "y"] = np.nan
    terms = make_terms(ROWS)
    for place in written(tmp_path / "one", table):
        owner = parley.Owner("a", place)
        agreement = owner.prepare(terms)
        words = "In your table 2 of 24 rows have no target: they count as records and contribute nothing."
        assert target_words(owner, agreement).startswith(words)
        assert [warning.about for warning in find_warnings(owner, agreement)].count("model.target") == 1
    full = parley.Owner("a", regression_table(ROWS))
    assert target_words(full, full.prepare(terms)) is None


def test_train_tells_it_on_stderr_and_json_holds_nothing_of_it(tmp_path):
    table = regression_table(ROWS)
    table.loc[[1, 2], "y"] = np.nan
    table.to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "t.toml").write_text(
        '[model]\nkind = "linear-regression"\ntarget = "y"\nfeatures = ["x0"]\nradius = 5.0\n'
        "[learning]\nhorizon = 2\n[privacy]\nclip = 1.0\n"
        f'[[owners]]\nname = "a"\nrecords = {ROWS}\nepsilon = 1.0\ndata = "{tmp_path / "a.csv"}"\n'
    )
    done = CliRunner().invoke(app, ["train", str(tmp_path / "t.toml"), "--json"])
    assert done.exit_code == 0, done.output
    assert "Inside, for a alone: In your table 2 of 24 rows have no target" in done.stderr
    assert json.loads(done.stdout)
    assert "no target" not in done.stdout


def test_public_rows_without_one_are_left_out_with_a_notice(tmp_path):
    public = regression_table(50, seed=3)
    public.loc[[4, 5, 6], "y"] = np.nan
    public.to_parquet(tmp_path / "p.parquet")
    public.dropna().to_parquet(tmp_path / "q.parquet")
    terms, same = (make_terms(ROWS, model__public=str(tmp_path / name)) for name in ("p.parquet", "q.parquet"))
    assert dropped_rows(terms.model) == "3 of the public sample's 50 rows have no target and are not used."
    assert dropped_rows(same.model) is None
    one, two = (parley.Owner("a", regression_table(ROWS)).prepare(each).setup for each in (terms, same))
    np.testing.assert_array_equal(one.public.X, two.public.X)
    np.testing.assert_array_equal(one.preparation.centre, two.preparation.centre)


def test_a_rating_that_is_none_is_left_out_and_its_user_is_not():
    table = tastes(8, 1)
    terms = rating_terms({"a": 8})
    only = table.index[table["who"] == "user 1-3"]
    owner = parley.Owner("a", table.assign(stars=table["stars"].where(~table.index.isin(only), np.nan)))
    agreement = owner.prepare(terms)
    assert len(agreement.tables.train) == 8
    assert f"{len(only)} of {len(table)} rows hold no rating" in target_words(owner, agreement)
    taken = [agreement.tables.train.first, agreement.tables.held_out.first]
    whole = parley.Owner("a", table).prepare(terms)
    for found, before in zip(taken, (whole.tables.train.first, whole.tables.held_out.first), strict=True):
        np.testing.assert_array_equal(
            np.diff(found)[[*range(3), *range(4, 8)]], np.diff(before)[[*range(3), *range(4, 8)]]
        )
        assert np.diff(found)[3] == 0


def test_scores_of_fewer_rows_are_those_of_the_rows_with_a_target():
    """Half of the rows without one: their number is unknown outside, and the shares' sum shows it where noise lets
    it."""
    cells, deviation = np.array([0.3, 0.1, 0.2, 0.4]), 1e-3
    noisy = cells / 2 + deviation * np.random.default_rng(0).standard_normal((20_000, 4))
    for figures in (two_class_figures, hit_figures):
        whole, half, drawn = figures(cells, deviation), figures(cells / 2, deviation), figures(noisy, deviation)
        for name, (value, _) in whole.items():
            assert half[name][0] == pytest.approx(value)
            # four standard errors
            assert drawn[name][0].std() == pytest.approx(half[name][1], rel=4 / (2 * 20_000) ** 0.5)
    drowned = two_class_figures(cells * 0.98, 0.1)["accuracy"][0]  # noise hides it: taken for 1, as before
    assert drowned == pytest.approx(0.98 * 0.7 + 0.01)


def test_a_batch_of_a_file_may_have_no_target_at_all():
    terms = make_terms(3)
    block = parley.Owner(
        "a", pd.DataFrame({"x0": [1.0] * 3, "x1": [1.0] * 3, "x2": [1.0] * 3, "y": [1.0, 2.0, 3.0]})
    ).prepare(terms)
    rows = pa.record_batch(
        {"x0": [1.0, 2.0], "x1": [1.0, 2.0], "x2": [1.0, 2.0], "y": pa.array([None, None], pa.float64())}
    )
    design = block.setup.preparation.block(rows, "a")
    assert not design.X.any()
    assert not design.weight.any()
