"""A public margin: of many public trees the first are fitted again, and what the others say counts as it is."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import differential_evolution

import parley
from parley.data import Design
from parley.data.forest import MARGIN_SCALE, Forest, MarginForest, MarginLines
from parley.errors import DataError, TermsError
from parley.owner.acceptance_summary import acceptance_summary
from parley.protocol.setup import pin, resolve

EXTREMES = [0.0, -0.0, 1e-320, -1e-320, 1e300, -1e300, 1.0, np.nextafter(1.0, 2), np.nextafter(1.0, 0)]
SIZE = {"count": 12, "leaves": 4, "rate": 0.3, "rows": 1.0, "refitted": 3}
LINES = {**SIZE, "refitted": 0}
KINDS = ["linear-regression", "logistic-regression", "softmax-regression"]


def table(rows, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=rows), rng.uniform(-1, 1, rows)
    name = rng.choice(["a", "b", "c"], rows)
    price = np.sin(2 * x) + 2 * (z > 0.3) * (name == "b") + 0.1 * rng.normal(size=rows)
    return pd.DataFrame({"x": x, "z": z, "name": name, "price": price, "dear": (price > 0.5).astype(int)})


def terms(tmp_path, kind="linear-regression", records=400, epsilon=1.0, clip=2.0, learning=None, **model):
    path = tmp_path / "public.csv"
    if not path.exists():
        table(300, 1).to_csv(path, index=False)
    content = {
        "kind": kind, "target": "price" if kind == KINDS[0] else "dear", "features": ["x", "z", "name"],
        "public": str(path), "coding": "one-hot", "columns": "trees", "trees": SIZE, **model,
    }  # fmt: skip
    rounds = {"algorithm": "gradient-descent", "horizon": 5, "step": 0.1, **(learning or {})}
    owners = [{"name": "bank", "records": records, "epsilon": epsilon}]
    privacy = {"mechanism": "gaussian", "delta": 1e-6, "clip": clip}
    return parley.Terms.from_dict({"model": content, "learning": rounds, "privacy": privacy, "owners": owners})


@pytest.mark.parametrize("kind", KINDS)
def test_the_public_model_is_that_of_all_trees(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("parley.data.tree_growing.COLUMN_SHARE", 1.0)
    some, rows = resolve(terms(tmp_path, kind)).preparation, table(200, 2)
    every = resolve(terms(tmp_path, kind, trees={**SIZE, "refitted": None})).preparation
    assert every.forest.trees == SIZE["count"] * every.outcomes
    assert some.forest.trees == SIZE["refitted"] * every.outcomes
    said = [p.origin.reshape(p.outcomes, -1) @ p.matrix(rows, "rows").T for p in (some, every)]
    np.testing.assert_allclose(*said, atol=1e-12)
    np.testing.assert_allclose(some.forest.added(some.clipped(some.coded(rows, "rows"))), said[0], atol=1e-12)
    assert len(some.forest.labels(some.labels)) == some.forest.width == some.forest.leaves + some.outcomes


@pytest.mark.parametrize("kind", KINDS)
def test_lines_beside_a_margin_begin_at_what_all_trees_say(tmp_path, kind):
    """Within what public rows reach: the model of the same trees whose leaves are columns."""
    lines, leaves = (resolve(terms(tmp_path, kind, trees={**SIZE, "refitted": r})).preparation for r in (0, None))
    public = pd.read_csv(tmp_path / "public.csv")
    said = [p.origin.reshape(p.outcomes, -1) @ p.matrix(public, "rows").T for p in (lines, leaves)]
    np.testing.assert_allclose(*said, atol=1e-12)
    forest, X = lines.forest, lines.matrix(public, "rows")
    assert (forest.leaves, forest.width) == (1, 1 + len(lines.labels) + lines.outcomes)
    assert len(forest.labels(lines.labels)) == forest.width
    np.testing.assert_allclose(X[:, 1 : 1 + len(lines.labels)].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(X[:, 1 : forest.width].std(axis=0), 1, atol=1e-12)


def test_without_noise_lines_and_what_a_margin_counts_are_least_squares(tmp_path):
    rows, learning = table(400), {"horizon": 2000, "step": 0.2, "decay": 0.0}
    loud = terms(tmp_path, epsilon=1e6, clip=30.0, learning=learning, trees=LINES)
    design = resolve(loud).preparation.design(rows, "bank")
    best = design.X @ np.linalg.lstsq(design.X, design.y, rcond=None)[0]
    assert np.abs(best - design.X @ resolve(loud).preparation.origin).max() > 0.05
    np.testing.assert_allclose(trained(loud, rows), best, atol=0.01)


@pytest.mark.parametrize("wrong", ["no lines", "a column less", "not a number", "a scale of 0", "a size below 0"])
def test_lines_that_arithmetic_cannot_bear_are_not_read(tmp_path, wrong):
    prepared = resolve(terms(tmp_path, trees=LINES)).preparation
    lines = prepared.forest.lines.copy()
    if wrong == "not a number":
        lines[0, 0] = np.nan
    elif wrong == "a scale of 0":
        lines[1, 0] = 0.0
    elif wrong == "a size below 0":
        lines[2, 0] = -1.0
    changed = {"no lines": np.empty(0), "a column less": lines[:, 1:]}.get(wrong, lines)
    with pytest.raises(DataError, match="lacks a valid centre, scale or size"):
        MarginLines.from_arrays(prepared.forest.arrays | {"trees.lines": changed}, len(prepared.labels), 1)


@pytest.mark.parametrize("size", [SIZE, LINES], ids=["leaves", "lines"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_row_is_longer_than_its_bound_whatever_a_file_holds(tmp_path, kind, size):
    prepared, rows = resolve(terms(tmp_path, kind, trees=size)).preparation, table(200, 2)
    rows.loc[: len(EXTREMES) - 1, "x"] = EXTREMES
    rng = np.random.default_rng(0)
    for large in (1e-300, 1e-52, 1e-3, 1e6, 1e50):
        margin = prepared.forest.margin
        other = replace(margin, values=np.clip(large * rng.normal(size=margin.values.shape), -1e50, 1e50))
        there = replace(prepared, forest=replace(prepared.forest, margin=other))
        X, bound = there.matrix(rows, "rows"), there.feature_bound
        assert np.abs(X).sum(axis=1).max() <= bound.sum()
        assert np.sqrt(np.square(X).sum(axis=1)).max() <= np.sqrt(np.square(bound).sum())
        assert ((X == 0) | ((np.abs(X) >= 1e-50) & (np.abs(X) <= 1e50))).all()


def least_squares(prepared, rows):
    """(what all trees say, the same with leaf values of least squares on the residuals) of rows in prepared units."""
    design = prepared.design(rows, "bank")
    leaves, public = design.X[:, : prepared.forest.leaves], design.X @ prepared.origin
    return public, public + leaves @ np.linalg.lstsq(leaves, design.y - public, rcond=None)[0]


def trained(agreed, rows):
    """Raw predictions of a model that was trained with as good as no noise."""
    result = parley.train(agreed, [parley.Owner("bank", rows)], seed=0, measure=False)
    return result.model.preparation_.matrix(rows, "bank") @ result.theta[0]


def test_without_noise_training_is_least_squares_on_the_residuals_of_the_margin(tmp_path):
    rows, learning = table(400), {"horizon": 500, "step": 0.3, "decay": 0.0}
    loud = terms(tmp_path, epsilon=1e6, clip=10.0, learning=learning)
    public, fitted = least_squares(resolve(loud).preparation, rows)
    assert np.abs(fitted - public).max() > 0.05
    left = trained(loud, rows) - fitted  # of leaves with few rows, which steps reach last
    assert np.median(np.abs(left)) < 5e-3
    assert np.mean(left**2) < 0.01 * np.mean((public - fitted) ** 2)


def test_with_a_heavy_ridge_it_is_the_public_model(tmp_path):
    rows, learning = table(400), {"horizon": 100, "step": 1e-5, "decay": 0.0}
    heavy = terms(tmp_path, epsilon=1e5, learning=learning, regularisation=1e5)
    np.testing.assert_allclose(trained(heavy, rows), least_squares(resolve(heavy).preparation, rows)[0], atol=1e-3)


def test_noise_does_not_move_the_margin(tmp_path):
    """As loud as it gets: leaves move by more than what they say, the margin by less than a thousandth of itself."""
    result = parley.train(terms(tmp_path, epsilon=1e-3), [parley.Owner("bank", table(400))], seed=0, measure=False)
    forest = result.model.preparation_.forest
    assert np.abs(result.theta[0, : forest.leaves] - forest.values[0]).max() > 0.1
    assert abs(result.theta[0, forest.leaves] * MARGIN_SCALE - 1) < 1e-3


def test_a_clipped_gradient_is_the_same_however_it_is_summed(tmp_path):
    """Where rows are studied they are sorted by their residuals at a best fit, which knows no margin."""
    setup = resolve(terms(tmp_path))
    design = setup.preparation.design(table(2000, 4), "bank")
    bound = setup.part("bank").training.question.bound
    theta = setup.preparation.origin + 0.1 * np.random.default_rng(0).normal(size=(3, setup.parameters))
    plain, studied = (setup.risk.mean_gradient(each, theta, bound) for each in (design, design.for_studies()))
    np.testing.assert_allclose(plain, studied, atol=1e-10)
    assert (np.abs(design.X @ theta[0] - design.y) * np.sqrt(setup.preparation.forest.trees) > bound.value).any()


class Unnoticed(MarginForest):
    """A mutant: what margins measure is forgotten."""

    @property
    def sizes(self):
        return np.ones(self.trees)


class Unclipped(MarginForest):
    """A mutant: a margin is as large as its trees say twice."""

    def indicators(self, columns):
        made = super().indicators(columns)
        made[self.leaves :] *= 2
        return made


class Shortened(MarginLines):
    """A mutant: lines are said to be half as long as they are."""

    @property
    def sizes(self):
        return super().sizes / [1, *[2] * self.lines.shape[1]]


def sensitivity_and_farthest(agreed, kind=None):
    """The sensitivity that terms have with trees of this kind, and how far a search gets in moving one record's
    gradient: cells of both records, extreme doubles among them, and the parameters."""
    setup = resolve(agreed)
    forest = setup.preparation.forest
    names = (kind or type(forest)).__dataclass_fields__
    made = (kind or type(forest))(**{name: getattr(forest, name) for name in names})
    prepared = replace(setup.preparation, forest=made)
    limit = setup.risk.record_bound(prepared, setup.limits, "l1")

    def moved(v):
        cells = [EXTREMES[int(abs(cell)) % len(EXTREMES)] if abs(cell) > 5 else cell for cell in v[:2]]
        X, theta = prepared.transform(np.array(cells)[:, None]), 50 * v[2:]
        one, other = (Design(X[i : i + 1], np.array([2.0 * i - 1]), np.ones(1)) for i in (0, 1))
        return -np.abs(setup.risk.mean_gradient(one, theta) - setup.risk.mean_gradient(other, theta)).sum()

    limits = [(-9.0, 9.0)] * 2 + [(-1.0, 1.0)] * setup.parameters
    found = differential_evolution(moved, limits, seed=0, maxiter=20, popsize=6, polish=False)
    return 2 * limit.value, -found.fun


def test_a_search_for_neighbours_ends_at_the_sensitivity_and_beyond_it_for_mutants(tmp_path):
    """In a file whose margin is as large as two leaves, and the same for most rows."""
    size = {"count": 4, "leaves": 2, "refitted": 3}
    plain = {"features": ["x"], "trees": size, "intercept": False}
    pin(terms(tmp_path, KINDS[1], 1, clip=1e9, **plain), tmp_path / "trees.json")
    content = json.loads((tmp_path / "trees.json").read_text())
    content["arrays"] |= {
        "trees.margin.values": [[-2 / MARGIN_SCALE, 2 / MARGIN_SCALE]],
        "trees.margin.threshold": [-2.0, 0, 0],
    }
    (tmp_path / "trees.json").write_text(json.dumps(content))
    hostile = terms(tmp_path, KINDS[1], 1, clip=1e9, preparation=str(tmp_path / "trees.json"), **plain)
    sensitivity, found = sensitivity_and_farthest(hostile)
    assert sensitivity == pytest.approx(2 * 5)
    assert 0.9 * sensitivity < found <= sensitivity
    for mutant in (Unnoticed, Unclipped):
        sensitivity, found = sensitivity_and_farthest(hostile, mutant)
        assert found > 1.2 * sensitivity


def test_of_lines_a_search_ends_at_the_sensitivity_too(tmp_path):
    plain = {"features": ["x"], "trees": {"count": 4, "leaves": 2, "refitted": 0}, "intercept": False}
    agreed = terms(tmp_path, KINDS[1], 1, clip=1e9, **plain)
    sensitivity, found = sensitivity_and_farthest(agreed)
    assert 0.8 * sensitivity < found <= sensitivity
    sensitivity, found = sensitivity_and_farthest(agreed, Shortened)
    assert found > 1.1 * sensitivity


@pytest.mark.parametrize("size", [SIZE, LINES], ids=["leaves", "lines"])
def test_pinned_trees_are_the_same(tmp_path, size):
    pinned, rows = pin(terms(tmp_path, trees=size), tmp_path / "trees.json"), table(50, 3)
    there, here = (resolve(each).preparation for each in (pinned, terms(tmp_path, trees=size)))
    assert type(there.forest) is type(here.forest)
    np.testing.assert_array_equal(there.matrix(rows, "rows"), here.matrix(rows, "rows"))


@pytest.mark.parametrize(("place", "value"), [((0, 0), 9.0), ((1, 0), 1e-50), ((2, 0), 1e40), ((1, -1), 3.0)])
def test_lines_that_the_public_sample_does_not_give_are_refused(tmp_path, place, value):
    """A file may hold any trees; but where their sum lies beside lines, those follow from the sample."""
    pinned = pin(terms(tmp_path, trees=LINES), tmp_path / "trees.json")
    content = json.loads((tmp_path / "trees.json").read_text())
    lines = np.array(content["arrays"]["trees.lines"])
    lines[place] = value
    content["arrays"]["trees.lines"] = lines.tolist()
    (tmp_path / "trees.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="scales are not those of the public sample"):
        resolve(pinned.changed(model={"preparation_sha256": None}))


def test_a_column_that_never_differs_stays_as_it_is(tmp_path):
    """Its spread is rounding alone: to divide by it would make 1 and -1 of cells that hardly differ."""
    table(300, 1).assign(z=0.1).to_csv(tmp_path / "public.csv", index=False)
    prepared = resolve(terms(tmp_path, trees=LINES, bounds={"z": [-5, 5]})).preparation
    rows = table(3, 2).assign(z=[0.1, 0.1 + 1e-7, 4.0])
    assert np.abs(prepared.matrix(rows, "rows")[:2, 2]).max() < 1e-6


def test_other_files_of_trees_are_refused(tmp_path):
    pinned = pin(terms(tmp_path), tmp_path / "trees.json")
    files = {"preparation": pinned.model.preparation}
    for size in ({**SIZE, "refitted": 2}, {**SIZE, "count": 11}, {**SIZE, "leaves": 3}):
        with pytest.raises(DataError, match="contains more or larger trees than"):
            resolve(terms(tmp_path, trees=size, **files))
    with pytest.raises(DataError, match=r"other arrays|trees in the file"):  # by whether a tree splits at the margin
        resolve(terms(tmp_path, trees={**SIZE, "refitted": None}, **files))
    content = json.loads((tmp_path / "trees.json").read_text())
    content["arrays"]["trees.margin.left"][0] = 0.0  # its own parent
    (tmp_path / "other.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="trees in the file are broken"):
        resolve(terms(tmp_path, preparation=str(tmp_path / "other.json")))


LETTERS = list("abcdefgh")


def test_a_split_may_part_several_names_from_the_others(tmp_path):
    """By their rank in what public rows say of each; a name that those have not is in the middle."""
    names = np.random.default_rng(0).choice(LETTERS, 400)
    named = table(400, 1).assign(name=names, price=lambda t: np.isin(t["name"], list("aceg")) + 0.01 * t["x"])
    named.to_csv(tmp_path / "public.csv", index=False)
    size = {"count": 2, "leaves": 2, "rate": 1.0, "rows": 1.0, "refitted": 1}
    prepared = resolve(pin(terms(tmp_path, trees=size), tmp_path / "trees.json")).preparation
    forest = prepared.forest
    assert forest.labels(prepared.labels)[0].startswith("tree 1: rank of name <= ")
    ranks = dict(zip(LETTERS, forest.orders[0, prepared.named[0]], strict=True))
    assert min(ranks[name] for name in "aceg") > 0 > max(ranks[name] for name in "bdfh")
    coded = prepared.clipped(prepared.coded(named, "rows"))
    np.testing.assert_array_equal(forest._with_ranks(coded), np.concatenate([coded, forest.orders @ coded]))
    assert (forest._with_ranks(prepared.coded(named.assign(name="z"), "rows"))[-1] == 0).all()
    found = MarginForest.from_arrays(forest.arrays, len(prepared.labels), 1)
    np.testing.assert_array_equal(found.indicators(coded), forest.indicators(coded))
    for wrong in (forest.orders[0], forest.orders[:, 1:], np.full_like(forest.orders, np.nan)):
        with pytest.raises(DataError, match="orders the names of categories wrongly"):
            MarginForest.from_arrays(forest.arrays | {"trees.orders": wrong}, len(prepared.labels), 1)


@pytest.mark.parametrize("size", [SIZE, LINES], ids=["leaves", "lines"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_predicts_the_same(tmp_path, kind, size):
    rows = table(100, 4)
    agreed, owner = terms(tmp_path, kind, trees=size), parley.Owner("bank", table(400))
    model = parley.train(agreed, [owner], seed=0, measure=False).model
    model.save(tmp_path / "model.json")
    again = parley.load_model(tmp_path / "model.json")
    assert type(again.preparation_.forest) is (MarginForest if size["refitted"] else MarginLines)
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    assert again.shapes() is None


@pytest.mark.parametrize("size", [SIZE, LINES], ids=["leaves", "lines"])
def test_a_margin_is_a_function_of_its_own_row(tmp_path, size):
    """Also where rows are drawn in secret."""
    prepared, rows = resolve(terms(tmp_path, trees=size)).preparation, table(60, 5)
    np.testing.assert_array_equal(prepared.columns(rows, "rows"), prepared.columns(rows, "rows", secret=True))
    alone = np.hstack([prepared.columns(rows[i : i + 1], "rows") for i in range(len(rows))])
    np.testing.assert_array_equal(prepared.columns(rows, "rows"), alone)


def test_who_accepts_is_told(tmp_path):
    owner = parley.Owner("bank", table(400), ledger=parley.Ledger(tmp_path / "bank.ledger", lifetime=2.0))
    said = " ".join(acceptance_summary(owner, owner.prepare(terms(tmp_path))))
    assert "one leaf of each of 3 trees" in said
    assert "The predictions of 9 more trees for the record add up to a public margin" in said
    assert "grown on the public sample;" in said
    lines = " ".join(acceptance_summary(owner, owner.prepare(terms(tmp_path, trees=LINES))))
    assert "the record gets one more column: the prediction of 12 trees" in lines
    pinned = pin(terms(tmp_path), tmp_path / "trees.json")
    said = " ".join(acceptance_summary(owner, owner.prepare(pinned)))
    assert "from the pinned file that came with the terms" in said
    assert "The pinned trees equal the trees that this machine grows on the public sample." in said


def test_terms_without_a_margin_keep_their_hash_and_odd_ones_are_refused(tmp_path):
    assert "refitted" not in terms(tmp_path, trees={**SIZE, "refitted": None}).canonical
    with pytest.raises(TermsError, match="fewer trees than count"):
        terms(tmp_path, trees={"count": 3, "refitted": 3})
    with pytest.raises(TermsError, match=r"radius.*public margin"):
        terms(tmp_path, radius=5.0)


def test_forests_without_a_margin_have_a_column_a_leaf():
    plain = Forest(*(np.array(each) for each in ([0, -1, -1], [1.5, 0, 0], [1, 0, 1], [2, 0, 0], [0], [[-1.0, 1.0]])))
    assert (plain.width, plain.sizes.tolist(), plain.begin.tolist()) == (2, [1.0], [[-1.0, 1.0]])


def test_orders_that_no_columns_have_are_not_read(tmp_path):
    forest = resolve(terms(tmp_path)).preparation.forest
    columns = forest.orders.shape[1]
    many = forest.arrays | {"trees.orders": np.zeros((columns + 1, columns))}
    with pytest.raises(DataError, match="at most one order for each column and outcome"):
        MarginForest.from_arrays(many, columns, 1)


def test_a_margin_that_settles_upwards_is_no_longer_than_its_bound(tmp_path):
    forest = resolve(terms(tmp_path)).preparation.forest
    grid = 2.0**-166 / MARGIN_SCALE  # a value of 0.6 of it becomes 1
    tiny = replace(forest, margin=replace(forest.margin, values=np.full_like(forest.margin.values, 0.6 * grid / 9)))
    columns = np.zeros((forest.orders.shape[1], 1))
    assert 0 < abs(tiny.indicators(columns)[-1, 0]) <= tiny.sizes[-1]
