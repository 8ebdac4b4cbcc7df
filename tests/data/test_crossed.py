"""Pairs of columns that are crossed: bins of one within bins of the other, of which a row has one."""

import json

import numpy as np
import pandas as pd
import pytest

import parley
from parley.data.cut_points import MAX_BINS_IN_PAIR, cut
from parley.errors import DataError, TermsError
from parley.owner.acceptance_summary import acceptance_summary
from parley.protocol.setup import pin, resolve
from parley.report.figures.shape_functions import shape_functions

PAIRS = [["x", "z"], ["name", "x"]]


def table(rows, seed=0):
    """What x says hangs on the side of z: alone neither says anything."""
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-1, 1, rows), rng.uniform(-1, 1, rows)
    y = (3 * np.sign(x * z) + rng.logistic(size=rows) > 0).astype(int)
    z[::17] = np.nan
    return pd.DataFrame({"x": x, "z": z, "name": rng.choice(["a", "b", "c"], rows), "same": 1.0, "y": y})


def terms(folder, records=400, crossed=PAIRS, **model):
    path = folder / "public.csv"
    table(300, 1).to_csv(path, index=False)
    content = {
        "kind": "logistic-regression", "target": "y", "features": ["x", "z", "name", "same"], "public": str(path),
        "coding": "one-hot", "missing": "fill", "columns": "bins", "bins": 8, "crossed": crossed, **model,
    }  # fmt: skip
    learning = {"algorithm": "gradient-descent", "horizon": 20, "step": 1.0, "decay": 0.0}
    owners = [{"name": "bank", "records": records, "epsilon": 20.0}]
    return parley.Terms.from_dict({"model": content, "learning": learning, "privacy": {}, "owners": owners})


@pytest.mark.parametrize("columns", ["bins", "hinges"])
def test_a_pair_is_every_coarse_bin_of_one_with_every_one_of_the_other(tmp_path, columns):
    plain, prepared = (resolve(terms(tmp_path, crossed=c, columns=columns)).preparation for c in (None, PAIRS))
    rows = table(300, 2)
    rows.loc[:3, "x"], rows.loc[4, "name"] = [1e300, -1e300, 5e-324, -0.0], "nobody has it"
    made = prepared.matrix(rows, "rows")[:, :-1].T
    np.testing.assert_array_equal(made[: plain.forest.leaves], plain.matrix(rows, "rows")[:, :-1].T)
    public = prepared.clipped(prepared.coded(pd.read_csv(tmp_path / "public.csv"), "public"))
    coarse = cut(prepared.encodings, MAX_BINS_IN_PAIR, (prepared.low, prepared.high), public, 1)
    single = coarse.indicators(prepared.clipped(prepared.coded(rows, "rows")))
    alone = {name: single[coarse.tree_of_leaf == tree] for tree, name in enumerate(["x", "z", "name"])}
    expected = [(alone[a][:, None] * alone[b][None]).reshape(-1, len(rows)) for a, b in PAIRS]
    np.testing.assert_array_equal(made[plain.forest.leaves :], np.concatenate(expected))


@pytest.mark.parametrize("columns", ["bins", "hinges"])
def test_a_row_measures_one_for_each_column_and_pair(tmp_path, columns):
    prepared = resolve(terms(tmp_path, columns=columns)).preparation
    assert len(prepared.feature_bound) == 4 + 2 + 1
    made = prepared.matrix(table(400, 3), "rows")
    assert np.abs(made).sum(axis=1).max() <= prepared.feature_bound.sum()
    assert np.square(made).sum(axis=1).max() <= np.square(prepared.feature_bound).sum()


def test_what_columns_do_only_together_is_found(tmp_path):
    new = table(3000, 5)
    owners = [parley.Owner("bank", table(4000, 4))]
    scores = [
        parley.train(terms(tmp_path, 4000, crossed=c), owners, seed=0, measure=False).model.score(new, new["y"])
        for c in (None, PAIRS)
    ]
    assert scores[0] < 0.6
    assert scores[1] > 0.85


@pytest.mark.parametrize("columns", ["bins", "hinges"])
def test_the_level_columns_and_pairs_are_the_models_scores(tmp_path, columns):
    model = parley.train(terms(tmp_path, columns=columns), [parley.Owner("bank", table(400))], seed=0).model
    model.save(tmp_path / "model.json")
    model, public = parley.load_model(tmp_path / "model.json"), pd.read_csv(tmp_path / "public.csv")
    shapes = model.shapes()
    assert [[axis.column for axis in pair.axes] for pair in shapes.pairs] == PAIRS
    assert float(shapes.level) == pytest.approx(model.decision_function(public).mean())
    assert len(shapes.to_json()["pairs"]) == 2
    rows = table(100, 6)

    def places(axis, cells):
        numbers = max(len(axis.cuts) - 1, 0)
        return [
            numbers + axis.names.index("missing" if pd.isna(cell) else cell)
            if pd.isna(cell) or not numbers
            else int(np.searchsorted(axis.cuts[1:-1], cell))
            for cell in cells
        ]

    total = np.full(100, float(shapes.level))
    for shape in shapes:
        if len(shape.knots):
            gap = shape.of_names[0] if len(shape.names) else 0.0
            total += np.where(rows[shape.column].isna(), gap, np.interp(rows[shape.column], shape.knots, shape.steps))
        else:
            total += shape.values[places(shape, rows[shape.column])]
    for pair in shapes.pairs:
        first, second = pair.axes
        total += pair.values[places(first, rows[first.column]), places(second, rows[second.column])]
        assert (pair.values * pair.shares).sum() == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(total, model.decision_function(rows), atol=1e-12)
    titles = [panel.get_title(loc="left") for panel in shape_functions(model).axes]
    assert {"x × z", "name × x"} <= {*titles}


def test_a_pinned_file_has_them_and_a_tampered_one_is_refused(tmp_path):
    pinned = pin(terms(tmp_path), tmp_path / "bins.json")
    assert resolve(pinned).preparation.forest.trees == 6
    content = json.loads((tmp_path / "bins.json").read_text())
    assert len(content["arrays"]["trees.roots"]) == 6
    content["arrays"]["trees.threshold"][content["arrays"]["trees.column"].index(0.0)] += 0.1
    (tmp_path / "bins.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="SHA-256"):
        resolve(pinned)
    with pytest.raises(DataError, match=r"differ from the numbers that this machine .*trees\.threshold"):
        resolve(terms(tmp_path, preparation=str(tmp_path / "bins.json")))
    others = terms(tmp_path, crossed=PAIRS[:1], preparation=str(tmp_path / "bins.json"))
    with pytest.raises(DataError, match="other arrays of numbers"):
        resolve(others)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"crossed": [["x", "x"]]}, "two different columns"),
        ({"crossed": [["x", "z"], ["z", "x"]]}, "each pair once"),
        ({"crossed": [["x", "nobody"]]}, "expected pairs of features"),
        ({"crossed": []}, "crossed"),
        ({"crossed": [["x", "z", "name"]]}, "crossed"),
        ({"columns": None, "bins": None}, "allowed only with columns"),
        ({"columns": "trees", "bins": None}, "allowed only with columns"),
    ],
)
def test_other_pairs_are_refused_in_the_terms(tmp_path, changed, why):
    with pytest.raises(TermsError, match=why):
        terms(tmp_path, **changed)


def test_pairs_that_the_public_sample_does_not_bear_are_refused(tmp_path):
    with pytest.raises(DataError, match="constant in the public sample"):
        resolve(terms(tmp_path, crossed=[["x", "same"]], features=["x", "name", "same"], missing="refuse"))
    many = [f"name {place}" for place in range(200)]
    with pytest.raises(DataError, match="bins together, more than the limit of 1,000"):
        resolve(terms(tmp_path, categories={"name": many}))
    with pytest.raises(DataError, match="correct the pair x and nobody"):
        resolve(terms(tmp_path, features=None, crossed=[["x", "nobody"]]))


def test_left_out_they_change_no_hash_and_who_accepts_is_told(tmp_path):
    agreed = terms(tmp_path)
    assert "crossed" not in terms(tmp_path, crossed=None).canonical
    assert agreed.hash != terms(tmp_path, crossed=PAIRS[:1]).hash
    owner = parley.Owner("bank", table(400), ledger=parley.Ledger(tmp_path / "bank.ledger", lifetime=30.0))
    parley.terms.write_terms(agreed, tmp_path / "terms.toml")
    assert parley.load_terms(tmp_path / "terms.toml").hash == agreed.hash
    assert parley.forecast(agreed).worth.together > 0
    assert "and of 2 pairs" in " ".join(acceptance_summary(owner, owner.prepare(agreed)))
