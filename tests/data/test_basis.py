"""Features by nearness to public points: what they are, that nothing exceeds them, and that a model with them is as
linear as any."""

import json

import numpy as np
import pandas as pd
import pytest
from samples import BOUNDS, GAUSSIAN, make_terms, regression_table

import parley
from parley.data.basis import polynomials, product_names
from parley.errors import DataError, ModelError, TermsError
from parley.learning.outcome.model import load_model
from parley.protocol.queries import Tables
from parley.protocol.setup import resolve

BENT = {
    "learning__algorithm": "fedinfer",
    "learning__horizon": None,
    "learning__step": None,
    "privacy__clip": None,
    "model__radius": None,
}


def bent_table(rows, seed=0):
    """A target that no straight line fits."""
    table = regression_table(rows, seed)
    return table.assign(y=np.sin(3 * table.x0) - table.x1**2)


def bent_terms(*sizes, **overrides):
    basis = {"points": 12, "width": 0.8, "seed": 3}
    return make_terms(
        *sizes, **{**BENT, "model__bounds": BOUNDS, "model__basis": basis, "model__intercept": True, **overrides}
    )


def test_features_are_what_they_are_said_to_be():
    table, points = regression_table(40), [[0.5, -0.5, 0.0], [1.0, 1.0, -1.0]]
    preparation = resolve(bent_terms(40, model__basis={"points": points, "width": 0.7}), table).preparation
    X = table[["x0", "x1", "x2"]].to_numpy()
    expected = np.exp(-np.square(X[:, None] - np.array(points)).sum(axis=2) / (2 * 0.7**2))
    np.testing.assert_allclose(preparation.matrix(table, "t"), np.column_stack([expected, np.ones(40)]), rtol=1e-12)
    assert preparation.width == 3


def test_waves_are_cosines_whose_products_are_nearness():
    """cos(w.x + b), w and b of the preparation; over 4,000 waves the mean of 2 cos cos is the nearness of two rows,
    within five standard errors."""
    table = regression_table(40)
    waves = {"points": 4000, "width": 0.7, "seed": 2, "kind": "random-fourier"}
    preparation = resolve(bent_terms(40, model__basis=waves), table).preparation
    X, found = table[["x0", "x1", "x2"]].to_numpy(), preparation.matrix(table, "t")[:, :-1]
    expected = np.cos(X @ preparation.basis[:, :-1].T + preparation.basis[:, -1])
    np.testing.assert_allclose(found, expected, atol=1e-11)
    products = 2 * found[0] * found[1:]
    near = np.exp(-np.square(X[0] - X[1:]).sum(axis=1) / (2 * 0.7**2))
    assert np.abs((products.mean(axis=1) - near) / (products.std(axis=1) / 4000**0.5)).max() < 5


@pytest.mark.parametrize("bounds", [BOUNDS, None])
@pytest.mark.parametrize("width", [1e-50, 1.0, 1e50])
def test_no_cell_makes_a_wave_larger_than_its_bound(bounds, width):
    """Over the whole range of doubles: from -1 to 1, on the grid, never a NaN, and the same whoever stands beside."""
    waves = {"points": 20, "width": width, "kind": "random-fourier"}
    terms = bent_terms(40, model__bounds=bounds, model__basis=waves, privacy__clip=9.0)
    preparation = resolve(terms, regression_table(3)).preparation
    rng = np.random.default_rng(0)
    cells = rng.choice([-1.0, 1.0], (900, 3)) * 10.0 ** rng.uniform(-320, 308, (900, 3))
    frame = pd.DataFrame(cells, columns=["x0", "x1", "x2"])
    X = preparation.matrix(frame, "t")
    assert np.abs(X).max() <= 1
    np.testing.assert_allclose(preparation.feature_bound, np.ones(21), rtol=1e-11)
    np.testing.assert_array_equal(preparation.matrix(frame[::7], "t"), X[::7])


def climbed(basis, enough=np.inf):
    """(how far apart the moments of two tables get, until it is `enough`; the question, features): one row after the
    other is drawn anew, over all doubles, if that takes the moments farther apart."""
    setup = resolve(bent_terms(1, model__basis=basis, **GAUSSIAN), regression_table(1))
    question, rng = setup.part("a").training.question, np.random.default_rng(3)

    def drawn():
        sizes = 10.0 ** rng.uniform(-320, 308, 3) if rng.random() < 0.3 else rng.uniform(0, 3, 3)
        cells = [*(rng.choice([-1.0, 1.0], 3) * sizes), rng.choice([-1e308, -3.0, 0.0, 3.0])]
        table = pd.DataFrame([cells], columns=["x0", "x1", "x2", "y"])
        return question.exact(None, _tables(setup, table))

    pair = [drawn(), drawn()]
    worst = float(np.linalg.norm(pair[0] - pair[1]))
    for step in range(300):
        tried = [drawn(), pair[1]] if step % 2 else [pair[0], drawn()]
        if (found := float(np.linalg.norm(tried[0] - tried[1]))) > worst:
            pair, worst = tried, found
        if worst > enough:
            break
    return worst, question, len(setup.preparation.basis)


def test_no_two_tables_move_the_moments_of_waves_beyond_their_sensitivity():
    """Neighbours looked for by climbing. With the sensitivity of half as many features some pair is beyond it."""
    worst, question, _ = climbed({"points": 6, "width": 0.5, "seed": 1, "kind": "random-fourier"})
    assert question.bound.value == pytest.approx(6 + 1 + 9, rel=1e-9)
    assert worst <= question.sensitivity
    assert worst > question.sensitivity * (3 + 1 + 9) / (6 + 1 + 9)


def test_nor_those_of_polynomials_and_larger_ones_would_be_found(monkeypatch):
    worst, question, features = climbed(POLYNOMIAL)
    assert features == 19
    assert question.bound.value == pytest.approx(19 + 1 + 9, rel=1e-9)
    assert worst <= question.sensitivity
    assert worst > question.sensitivity * (19 / 2 + 1 + 9) / (19 + 1 + 9)
    monkeypatch.setattr("parley.data.basis.polynomials", lambda *given: 2 * polynomials(*given))
    assert climbed(POLYNOMIAL, question.sensitivity)[0] > question.sensitivity


POLYNOMIAL = {"kind": "polynomial", "degree": 3}


def test_polynomials_are_products_of_chebyshevs_within_the_bounds():
    table = regression_table(40)
    preparation = resolve(bent_terms(40, model__basis=POLYNOMIAL), table).preparation
    ends = np.array([BOUNDS[column] for column in ("x0", "x1", "x2")], dtype=float)
    t = (table[["x0", "x1", "x2"]].to_numpy().clip(*ends.T) - ends.mean(axis=1)) / (ends[:, 1] - ends[:, 0]) * 2
    found = preparation.matrix(table, "t")
    assert found.shape == (40, 20)  # 3 of degree 1, 6 of 2, 10 of 3, and the constant
    expected = [np.cos(row @ np.arccos(t.T)) if np.count_nonzero(row) == 1 else None for row in preparation.basis]
    for place, column in enumerate(expected):
        if column is not None:
            np.testing.assert_allclose(found[:, place], column, atol=1e-12)
    crossed = preparation.basis.tolist().index([2.0, 1.0, 0.0])
    np.testing.assert_allclose(found[:, crossed], (2 * t[:, 0] ** 2 - 1) * t[:, 1], atol=1e-12)


def test_degrees_that_are_off_by_a_rounding_are_meant_whole():
    columns, ends = np.array([[-0.5, 0.2, 0.9]]), (np.array([-1.0]), np.array([1.0]))
    powers = np.array([[1.0], [3.0]])
    for off in (-1e-6, 1e-6):
        np.testing.assert_array_equal(polynomials(columns, powers + off, *ends), polynomials(columns, powers, *ends))
        assert product_names(["x"], powers + off) == ("T1(x)", "T3(x)")


@pytest.mark.parametrize("degree", [None, -1.0, 0.5, 2.0, 5000.0, 1e9, "inf"])
def test_a_model_file_with_other_degrees_is_refused(degree, tmp_path):
    terms = bent_terms(40, epsilon=1e3, model__basis=POLYNOMIAL, **GAUSSIAN)
    model = parley.train(terms, [parley.Owner("a", bent_table(40))], seed=0).model
    model.save(tmp_path / "m.json")
    np.testing.assert_array_equal(load_model(tmp_path / "m.json").theta_, model.theta_)
    content = json.loads((tmp_path / "m.json").read_text())
    content["basis"][0][0] = degree
    (tmp_path / "m.json").write_text(json.dumps(content))
    with pytest.raises(ModelError, match="not a model saved by Parley"):
        load_model(tmp_path / "m.json")


def test_no_cell_makes_a_polynomial_larger_than_its_bound():
    """Over the whole range of doubles: from -1 to 1, never a NaN, and the same whoever stands beside."""
    terms = bent_terms(40, model__basis=POLYNOMIAL | {"degree": 6})
    preparation = resolve(terms, regression_table(3)).preparation
    rng = np.random.default_rng(0)
    cells = rng.choice([-1.0, 1.0], (900, 3)) * 10.0 ** rng.uniform(-320, 308, (900, 3))
    frame = pd.DataFrame(cells, columns=["x0", "x1", "x2"])
    X = preparation.matrix(frame, "t")
    assert np.abs(X).max() <= 1
    np.testing.assert_array_equal(preparation.matrix(frame[::7], "t"), X[::7])


@pytest.mark.parametrize("width", [1e-50, 1.0])
@pytest.mark.parametrize("bounds", [BOUNDS, None])
def test_no_cell_makes_a_feature_larger_than_its_bound(bounds, width):
    """Over the whole range of doubles, with and without bounds of the columns: 0, or from 1e-50 to 1, and never a
    NaN."""
    points = [[0.5, -0.5, 0.0], [1e50, 1.0, -1e-50]]
    terms = bent_terms(40, model__bounds=bounds, model__basis={"points": points, "width": width}, privacy__clip=9.0)
    preparation = resolve(terms, regression_table(3)).preparation
    rng = np.random.default_rng(0)
    cells = rng.choice([-1.0, 1.0], (900, 3)) * 10.0 ** rng.uniform(-320, 308, (900, 3))
    cells[500:] = rng.uniform(-40, 40, (400, 3))  # where nearness itself is tiny
    cells[:2] = points
    X = preparation.matrix(pd.DataFrame(cells, columns=["x0", "x1", "x2"]), "t")
    assert X.min() >= 0
    assert X.max() <= 1
    assert not ((X > 0) & (X < 1e-50)).any()
    if bounds is None:
        assert (X[:2].diagonal() == 1).all()
    np.testing.assert_allclose(preparation.feature_bound, np.ones(3), rtol=1e-11)


def test_the_moments_of_near_features_keep_to_their_sensitivity():
    """z z' is bounded by points + constant + target squared; two records at the corners come close to it, none goes
    beyond."""
    terms = bent_terms(5, **GAUSSIAN)
    setup = resolve(terms, regression_table(5))
    question = setup.part("a").training.question
    assert question.bound.value == pytest.approx(12 + 1 + 9, rel=1e-9)
    rng, worst = np.random.default_rng(1), 0.0
    for _ in range(80):
        tables = [regression_table(5, int(rng.integers(1000))) for _ in range(2)]
        tables[1].iloc[1:] = tables[0].iloc[1:]
        tables[0].loc[0, "y"], tables[1].loc[0, "y"] = 3.0, rng.choice([-3.0, 0.0])
        answers = [question.exact(None, _tables(setup, table)) for table in tables]
        worst = max(worst, float(np.linalg.norm(answers[0] - answers[1])))
    assert 0.2 * question.sensitivity < worst <= question.sensitivity


def _tables(setup, table):
    design = setup.preparation.design(table, "a")
    return Tables(design, design.empty())


def test_a_bent_target_is_learned_and_the_model_survives_a_file(tmp_path):
    table, rows = bent_table(4000), bent_table(300, 5)
    found = {}
    waves = {"points": 30, "width": 0.8, "kind": "random-fourier"}
    for name, basis in (
        ("straight", None),
        ("waves", waves),
        ("polynomial", POLYNOMIAL | {"degree": 5}),
        ("bent", {"points": 30, "width": 0.8}),
    ):
        terms = bent_terms(4000, epsilon=1e5, model__basis=basis, **GAUSSIAN)
        model = parley.train(terms, [parley.Owner("a", table)], seed=0).model
        model.save(tmp_path / name)
        back = load_model(tmp_path / name)
        mean, std = back.predict(rows, return_std=True)
        np.testing.assert_array_equal(mean, model.predict(rows))
        assert np.isfinite(std).all()
        found[name] = float(np.mean((mean - rows.y) ** 2))
    assert found["bent"] < 0.5 * found["straight"]
    assert found["waves"] < 0.5 * found["straight"]
    assert found["polynomial"] < 0.5 * found["straight"]
    assert model.intervals()[0].name == "near point 1"


def test_points_come_from_the_public_sample_where_there_is_one(tmp_path):
    public = regression_table(50, 9)
    public.to_csv(tmp_path / "public.csv", index=False)
    terms = bent_terms(40, model__public=str(tmp_path / "public.csv"), model__bounds=None)
    setup = resolve(terms)
    assert setup.public.X.shape == (50, 13)
    assert ((setup.public.X[:, :12] == 1.0).sum(axis=0) >= 1).all()  # each point is a row of the sample
    assert parley.forecast(
        bent_terms(4000, model__public=str(tmp_path / "public.csv"), model__bounds=None), resamples=3
    ).path.shape == (1,)


def test_what_makes_no_basis_is_refused():
    for basis in (
        {"points": 0, "width": 1.0},
        {"points": [], "width": 1.0},
        {"points": [[1.0], [1.0, 2.0]], "width": 1.0},
        {"points": 3},
        {"points": 3, "width": 1.0, "kind": "splines"},
        {"points": 3, "width": 1.0, "degree": 2},
        {"points": 3, "degree": 2, "kind": "polynomial"},
        {"kind": "polynomial"},
        {"kind": "polynomial", "degree": 1},
        {"points": [[1.0, 0.0, 0.0]], "width": 1.0, "kind": "random-fourier"},
    ):
        with pytest.raises(TermsError, match="basis"):
            bent_terms(40, model__basis=basis)
    with pytest.raises(DataError, match="one for each feature"):
        resolve(bent_terms(40, model__basis={"points": [[1.0]], "width": 1.0}), regression_table(3))
    with pytest.raises(DataError, match="random points need bounds of every feature"):
        resolve(bent_terms(40, model__bounds=None, privacy__clip=5.0), regression_table(3))
    with pytest.raises(DataError, match="bounds of every feature"):
        resolve(bent_terms(40, model__basis=POLYNOMIAL, model__bounds=None, privacy__clip=5.0), regression_table(3))
    with pytest.raises(TermsError, match="allows neither filled cells nor coding"):
        bent_terms(40, model__basis=POLYNOMIAL, model__missing="fill")
    many = {"model__features": [f"x{k}" for k in range(30)], "model__basis": POLYNOMIAL}
    bounds = {f"x{k}": [-1, 1] for k in range(30)} | {"y": [-3, 3]}
    with pytest.raises(DataError, match="5,455"):
        resolve(bent_terms(40, **many | {"model__bounds": bounds}))
