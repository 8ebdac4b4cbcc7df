"""Bins joined by straight lines: scikit-learn's linear splines, which no cell makes longer than a row of one leaf."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import differential_evolution
from sklearn.preprocessing import SplineTransformer

import parley
from parley.data import Design
from parley.data.cut_points import Hinged, cut
from parley.data.encoding import Numbers
from parley.data.forest import Forest
from parley.errors import DataError, TermsError
from parley.learning.outcome.posterior import in_own_units
from parley.owner.acceptance_summary import acceptance_summary
from parley.protocol.setup import pin, resolve

LONGEST = 1 + 1e-12  # of a row in one tree, as `Preparation.feature_bound` has it
EXTREMES = [0.0, -0.0, 5e-324, -5e-324, 1e300, -1e300, 1e50, -1e50, 1.0, np.nextafter(1.0, 2)]


def table(rows, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=rows), np.where(rng.random(rows) < 0.4, 0.0, np.exp(rng.normal(size=rows)))
    name = rng.choice(["a", "b"], rows)
    y = (2 * np.sin(2 * x) + (name == "a") + rng.logistic(size=rows) > 0.5).astype(int)
    z[::17] = np.nan
    return pd.DataFrame({"x": x, "z": z, "name": name, "y": y})


def terms(folder, records=300, **model):
    path = folder / "public.csv"
    table(300, 1).to_csv(path, index=False)
    content = {
        "kind": "logistic-regression", "target": "y", "features": ["x", "z", "name"], "public": str(path),
        "coding": "one-hot", "missing": "fill", "columns": "hinges", "bins": 6, **model,
    }  # fmt: skip
    learning = {"algorithm": "gradient-descent", "horizon": 5, "step": 0.5}
    owners = [{"name": "bank", "records": records, "epsilon": 1.0}]
    return parley.Terms.from_dict({"model": content, "learning": learning, "privacy": {}, "owners": owners})


def test_a_column_of_numbers_is_scikit_learns_linear_spline(tmp_path):
    """Knots at public medians of the bins, flat beyond the outer ones."""
    prepared = resolve(terms(tmp_path)).preparation
    bins = prepared.forest
    line = np.flatnonzero(bins.lines == 0)
    public, rows = table(300, 1), table(500, 2)
    sides = np.searchsorted(np.sort(bins.threshold[bins.column == 0]), public["x"])
    medians = public["x"].groupby(sides).quantile(0.5, interpolation="lower").to_numpy()
    np.testing.assert_array_equal(bins.knots[line], medians)
    spline = SplineTransformer(degree=1, knots=bins.knots[line][:, None], extrapolation="constant")
    theirs = spline.fit(public[["x"]].to_numpy()).transform(rows[["x"]].to_numpy())
    np.testing.assert_allclose(prepared.matrix(rows, "rows")[:, line], theirs, atol=1e-12)


def test_names_gaps_and_values_that_fill_a_bin_stay_apart(tmp_path):
    prepared = resolve(terms(tmp_path)).preparation
    labels = in_own_units(prepared)[0]
    rows = pd.DataFrame({"x": 0.3, "z": [np.nan, 0.0], "name": ["a", "c"]})
    found = [dict(zip(labels, row, strict=True)) for row in prepared.matrix(rows, "rows")]
    z_gap, z_zero = ([label for label, weight in row.items() if weight and label.startswith("tree 2")] for row in found)
    assert z_gap == ["tree 2: z missing > 0.5"]
    assert z_zero == ["tree 2: z near 0"]
    assert all(set(row) == set(labels) for row in found)


def lengths(bins, cells):
    """What rows of these cells measure at most in (L1, L2)."""
    weights = bins.indicators(np.atleast_2d(cells))
    return np.abs(weights).sum(axis=0).max(), np.sqrt(np.square(weights).sum(axis=0)).max()


def bins_of(known, kind=Hinged):
    made = cut([Numbers("x", fills=False, fill=np.nan)], 5, (np.array([-9.0]), np.array([9.0])), known[None], 1, True)
    return kind(**{name: getattr(made, name) for name in made.__dataclass_fields__})


KNOWN = [np.linspace(-3, 3, 50), np.array([1.0, np.nextafter(1.0, 2), 2.0] * 9), np.array([0.0, 5e-324, 1e50] * 9),
         np.array([-1e50, 1e-300, 1e50, 3.0] * 9)]  # fmt: skip


@pytest.mark.parametrize("known", KNOWN, ids=["even", "neighbours", "least", "largest"])
@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=30))
def test_no_cell_makes_a_row_longer(known, cells):
    bins = bins_of(known)
    near = [np.nextafter(each, side) for each in bins.knots for side in (-np.inf, each, np.inf)]
    l1, l2 = lengths(bins, [*cells, *EXTREMES, *near])
    assert l1 <= LONGEST
    assert l2 <= LONGEST


class Twice(Hinged):
    """A mutant: what is added to one bin is not taken from the other."""

    def indicators(self, columns):
        return np.where(super().indicators(columns) > 0, 1.0, 0.0)


def longest(bins):
    """The longest row that a search finds, in L2."""
    found = differential_evolution(lambda cell: -lengths(bins, cell)[1], [(-5.0, 5.0)], seed=0, maxiter=40, tol=1e-12)
    return -found.fun


def test_a_search_finds_no_longer_row_and_finds_a_mutants():
    assert longest(bins_of(KNOWN[0])) <= LONGEST
    assert longest(bins_of(KNOWN[0], Twice)) > 1.4


def farthest(setup, prepared):
    """How far a search gets in moving one record's gradient: cells of both records, extreme doubles among them, and the
    parameters."""

    def moved(v):
        cells = [EXTREMES[int(abs(cell)) % len(EXTREMES)] if abs(cell) > 5 else cell for cell in v[:2]]
        X, theta = prepared.transform(np.array(cells)[:, None]), 50 * v[2:]
        one, other = (Design(X[i : i + 1], np.array([2.0 * i - 1]), np.ones(1)) for i in (0, 1))
        return -np.abs(setup.risk.mean_gradient(one, theta) - setup.risk.mean_gradient(other, theta)).sum()

    limits = [(-9.0, 9.0)] * 2 + [(-1.0, 1.0)] * setup.parameters
    return -differential_evolution(moved, limits, seed=0, maxiter=40, popsize=8, polish=False).fun


def test_a_search_for_neighbours_ends_at_the_sensitivity_and_beyond_it_for_a_mutant(tmp_path):
    setup = resolve(terms(tmp_path, records=1, missing="refuse", features=["x"], bins=4))
    question, prepared = setup.part("bank").training.question, setup.preparation
    assert question.norm == "l1"
    assert 0.95 * question.sensitivity < farthest(setup, prepared) <= question.sensitivity
    mutant = Twice(**{name: getattr(prepared.forest, name) for name in Hinged.__dataclass_fields__})
    assert farthest(setup, replace(prepared, forest=mutant)) > 1.2 * question.sensitivity


def test_pinned_knots_are_compared_and_a_tampered_file_is_refused(tmp_path):
    pinned = pin(terms(tmp_path), tmp_path / "bins.json")
    resolve(pinned)
    content = json.loads((tmp_path / "bins.json").read_text())
    assert {"trees.knots", "trees.joined"} <= content["arrays"].keys()
    content["arrays"]["trees.knots"][1] += 0.1
    (tmp_path / "bins.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="SHA-256"):
        resolve(pinned)
    with pytest.raises(DataError, match=r"differ from the numbers that this machine .*trees\.knots"):
        resolve(terms(tmp_path, preparation=str(tmp_path / "bins.json")))


def test_a_saved_model_predicts_the_same_and_no_other_file_is_one(tmp_path):
    result = parley.train(terms(tmp_path), [parley.Owner("bank", table(300))], seed=0)
    result.model.save(tmp_path / "model.json")
    again, rows = parley.load_model(tmp_path / "model.json"), table(100, 4)
    np.testing.assert_array_equal(again.predict_proba(rows), result.model.predict_proba(rows))
    arrays = result.model.preparation_.forest.arrays
    sizes = len(result.model.preparation_.labels), 1
    assert isinstance(Hinged.from_arrays(arrays, *sizes), Forest)
    joined, knots = arrays["trees.joined"], arrays["trees.knots"]
    across = joined.copy()
    across[np.flatnonzero(joined[:-1] < 0)[1]] = 0  # with the first leaf of the next tree
    wrong = [
        {"trees.joined": across}, {"trees.joined": np.full_like(joined, 99)}, {"trees.joined": joined[1:]},
        {"trees.knots": -knots}, {"trees.knots": np.zeros_like(knots)}, {"trees.knots": np.full_like(knots, np.nan)},
        {"trees.joined": np.append(joined[:-1], 0)},
    ]  # fmt: skip
    for each in wrong:
        with pytest.raises(DataError, match=r"model\.preparation"):
            Hinged.from_arrays(arrays | each, *sizes)


def test_without_a_sample_knots_lie_in_the_middle_of_equal_steps(tmp_path):
    declared = terms(tmp_path, public=None, features=["x"], bounds={"x": [0, 8]}, bins=4, missing="refuse")
    assert resolve(declared).preparation.forest.knots.tolist() == [1.0, 3.0, 5.0, 7.0]


def test_shapes_are_lines_through_the_knots(tmp_path):
    model = parley.train(terms(tmp_path, transforms={"z": "log1p"}), [parley.Owner("bank", table(300))], seed=0).model
    rows, shapes = table(200, 3), model.shapes()
    x, z, name = shapes
    assert not len(x.cuts)
    steps = np.interp(np.log1p(rows["z"]), np.log1p(z.knots), z.steps)
    total = np.interp(rows["x"], x.knots, x.steps) + np.where(rows["z"].isna(), z.of_names[0], steps)
    total += np.array([name.of_names[name.names.index(each)] for each in rows["name"]])
    np.testing.assert_allclose(float(shapes.level) + total, model.decision_function(rows), atol=1e-9)
    public = pd.read_csv(tmp_path / "public.csv")
    assert float(shapes.level) == pytest.approx(model.decision_function(public).mean())


def test_who_accepts_is_told_and_forecasts_run(tmp_path):
    agreed = terms(tmp_path)
    owner = parley.Owner("bank", table(300), ledger=parley.Ledger(tmp_path / "bank.ledger", lifetime=2.0))
    said = " ".join(acceptance_summary(owner, owner.prepare(agreed)))
    assert "two neighbouring leaves of each of 3 trees" in said
    assert parley.forecast(agreed).worth.together > 0
    with pytest.raises(TermsError, match="hinges"):
        terms(tmp_path, columns=None)
