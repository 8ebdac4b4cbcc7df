"""Poisson regression: its formulas, its optimum, and bounds that no pair of neighbours exceeds, searched for by hill
climbing over raw cells."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from climbs import hill_climbs
from samples import make_terms, row_batch
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import d2_tweedie_score, mean_poisson_deviance

from parley.data import Design, preparation
from parley.learning.outcome.metrics import task_metrics
from parley.losses.local_update import mean_direction
from parley.losses.loss import Limits, Poisson
from parley.losses.objectives.margin import PoissonRegression
from parley.protocol.queries import GradientQuery, ScoreQuery, Tables, UpdateQuery
from parley.protocol.setup import resolve

ORDER = {"l1": 1, "l2": 2}
MECHANISM = {"l1": {}, "l2": {"privacy__mechanism": "gaussian", "privacy__delta": 1e-6}}
LOCAL = {"learning__algorithm": "federated-averaging", "learning__local_steps": 4, "learning__step": "auto"}
EXTREMES = [0.0, 5e-324, 1e-300, -1e-50, 1e-50, 1.0, 1e50, -1e300, 1.7e308, -1.7e308]


def claims(n=600, seed=0):
    """Counts of claims in a part of a year, by three columns."""
    rng = np.random.default_rng(seed)
    X, years = rng.uniform(-1, 1, (n, 3)), rng.uniform(0.05, 1.2, n)
    counted = rng.poisson(years * np.exp(0.3 + X @ [0.8, -0.5, 0.2]))
    return pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(years=years, y=counted)


def count_terms(n=1, clip=None, norm="l2", bound=1.0, most=20.0, years=(0.1, 1.0), **overrides):
    bounds = {f"x{j}": [-bound, bound] for j in range(3)} | {"y": [0.0, most], "years": list(years)}
    return make_terms(
        n,
        model__kind="poisson-regression",
        model__exposure="years",
        model__bounds=bounds,
        privacy__clip=clip,
        **MECHANISM[norm] | overrides,
    )


def prepared(terms, table):
    setup = resolve(terms)
    return setup, setup.preparation.designs(table, terms, "a")[0]


# --- What it computes


@pytest.mark.parametrize("loss", [Poisson(), Poisson(ceiling=3.0)], ids=repr)
def test_gradient_and_hessian_are_the_derivatives_and_the_bounds_are_reached(loss):
    rng, h = np.random.default_rng(0), 1e-6
    raw, y = rng.uniform(-4, 4, 4000), rng.poisson(1.5, 4000).clip(0, 3).astype(float)
    numeric = (loss.loss(raw + h, y) - loss.loss(raw - h, y)) / (2 * h)
    np.testing.assert_allclose(loss.gradient(raw.copy(), y), numeric, rtol=1e-6, atol=1e-6)
    curvature = (loss.gradient(raw + h, y) - loss.gradient(raw - h, y)) / (2 * h)
    smooth = np.abs(raw - np.log(loss.ceiling)) > 2 * h
    np.testing.assert_allclose(loss.hessian(raw, y)[smooth], curvature[smooth], rtol=1e-5, atol=1e-5)
    largest = loss.largest_derivative(4.0, 3.0)
    assert 0.95 * largest < np.abs(loss.gradient(raw.copy(), y)).max() <= largest
    assert loss.hessian(raw, y).max() <= loss.largest_curvature
    assert loss.largest_derivative(np.inf, 2.0) == max(loss.ceiling, 2.0)


def test_no_raw_prediction_is_beyond_what_exponentials_bear():
    raw, y = np.array([-1e107, -800.0, 800.0, 1e107]), np.array([0.0, 5.0, 0.0, 5.0])
    for loss in (Poisson(), Poisson(7.0)):
        for found in (loss.loss(raw, y), loss.gradient(raw.copy(), y), loss.hessian(raw, y)):
            assert np.isfinite(found).all()
        assert (loss.loss(raw, y) >= 0).all()


def test_of_rows_drawn_in_secret_each_is_computed_on_its_own():
    rng = np.random.default_rng(2)
    rows = Design(rng.normal(size=(37, 5)), rng.poisson(1.0, 37).astype(float), np.ones(37), secret=True)
    theta, loss = rng.normal(size=(1, 5)), Poisson(50.0)
    together = loss.gradient(rows.margins(theta)[0], rows.y, rows)
    for place in range(37):
        one = rows.cut(slice(place, place + 1))
        np.testing.assert_array_equal(loss.gradient(one.margins(theta)[0], one.y, one)[0], together[place])


@pytest.mark.parametrize("penalty", [0.0, 0.1])
@pytest.mark.parametrize("centre", [None, 0.2])
def test_the_optimum_equals_scikit_learns_whatever_rate_is_typical(centre, penalty):
    """Rates with their exposures as weights, which scikit-learn's weighted mean divides by; no intercept where there
    is a penalty, which scikit-learn's spares."""
    table = claims(2000)
    table["years"] = table["years"].clip(0.1, 1.0)
    overrides = {"model__centres": {"y": centre}} if centre else {}
    setup, design = prepared(
        count_terms(
            2000, model__regularisation=penalty, model__intercept=not penalty, **overrides if not penalty else {}
        ),
        table,
    )
    theta = setup.risk.optimum([design])
    weight = table["years"].to_numpy()
    alpha = penalty * len(table) / weight.sum()
    solver = PoissonRegressor(alpha=alpha, fit_intercept=not penalty, tol=1e-12, max_iter=10_000)
    oracle = solver.fit(table[["x0", "x1", "x2"]], table["y"] / weight, sample_weight=weight)
    np.testing.assert_allclose(theta[:3], oracle.coef_, rtol=1e-4, atol=1e-5)
    expected = design.weight * np.exp(design.X @ theta)
    np.testing.assert_allclose(expected, weight * oracle.predict(table[["x0", "x1", "x2"]]), rtol=1e-4)
    cost = 0.5 * mean_poisson_deviance(table["y"], expected) + 0.5 * penalty * theta @ theta
    assert setup.risk.cost(design, theta) == pytest.approx(cost, rel=1e-10)


def test_metrics_equal_scikit_learns():
    setup, design = prepared(count_terms(600), claims())
    theta = np.array([[0.3, -0.2, 0.1, 0.2], [0.0, 0.5, 0.0, -0.1]])
    got = task_metrics(setup.risk, setup.preparation, design, theta)
    counted, expected = design.y * design.weight, design.weight * np.exp(theta @ design.X.T)
    rates = np.exp(theta @ design.X.T)
    assert got["mean_deviance"] == pytest.approx(np.mean([mean_poisson_deviance(counted, e) for e in expected]))
    d2 = [d2_tweedie_score(design.y, r, sample_weight=design.weight, power=1) for r in rates]
    assert got["d2"] == pytest.approx(np.mean(d2))
    nothing = replace(design, y=np.zeros(len(design)))
    assert task_metrics(setup.risk, setup.preparation, nothing, theta)["d2"] is None


def test_counts_and_exposures_beyond_their_bounds_are_cut_and_missing_ones_count_for_nothing():
    counted, years = [3.0, 1e9, -4.0, np.nan, 2.0, 5.0], [0.5, 0.5, 1e-9, 0.5, np.nan, 7.0]
    table = claims(6).assign(y=counted, years=years)
    setup, design = prepared(count_terms(6), table)
    np.testing.assert_allclose(design.weight, [0.5, 0.5, 0.1, 0.0, 0.0, 1.0])
    np.testing.assert_allclose(design.y * design.weight, [3.0, 20.0, 0.0, 0.0, 0.0, 5.0])
    assert design.untargeted == 2
    assert not setup.objective.record_gradients(design, np.zeros(4))[3:5].any()


def test_curvature_covers_the_start_and_the_records_own_rates():
    setup, design = prepared(count_terms(600), claims())
    for theta in (np.zeros(4), setup.risk.optimum([design])):
        assert np.linalg.eigvalsh(setup.risk.hessian(design, theta))[-1] <= setup.risk.curvature(design) * 1.01
    assert setup.risk.curvature(design) < setup.risk.largest_curvature(setup.preparation)


# --- How far one record moves it


def hill_climb(values, size, seeds, tries=300, cells=0, enough=np.inf):
    """The largest value found by two climbs a seed, the first above `enough`; the first `cells` numbers may become any
    double."""

    def move(rng, here, length):
        moved = here + length * rng.normal(size=size) * (rng.random(size) < 0.4)
        if cells and rng.random() < 0.05:
            moved[rng.integers(cells)] = rng.choice(EXTREMES)
        return moved

    return hill_climbs(values, lambda rng: rng.normal(size=size), move, range(2 * seeds), tries, enough)


def farthest(terms, norm, unit, seeds, query=GradientQuery, more=(), enough=np.inf):
    """The largest distance between the answers about neighbours, raw rows of cells, over their sensitivity."""
    setup = resolve(terms)
    question = setup.part("a").training.question if query is not ScoreQuery else setup.part("a").stages[1].question
    radius = terms.model.radius

    def ratios(candidates):
        with np.errstate(over="ignore"):
            cells = np.clip(np.array(candidates)[:, :10].reshape(-1, 5) * unit, -1.7e308, 1.7e308)
        rows = setup.preparation.design(row_batch(cells, ["x0", "x1", "x2", "y", "years"]), "a")
        return [ratio(rows, 2 * place, v[10:]) for place, v in enumerate(candidates)]

    def ratio(rows, first, at):
        tables, theta = [rows.cut(slice(one, one + 1)) for one in (first, first + 1)], radius * np.tanh(at)
        asked = query.ask("t", "l", 1, theta, *more)
        values = [question.bounded(asked, Tables(table, table)).value for table in tables]
        return float(np.linalg.norm(values[0] - values[1], ord=ORDER[norm])) / question.sensitivity

    return hill_climb(ratios, 14, seeds, cells=10, enough=enough)


UNIT = np.array([1.0, 1.0, 1.0, 10.0, 0.5])
HOSTILE = {
    "usual": {},
    "tiny counts": {"most": 1e-49},
    "exposures of all sizes": {"years": (1e-50, 1e50)},
    "a rate that is typical for nobody": {"model__centres": {"y": 1e50}},
    "none is typical": {"model__centres": {"y": 1e-50}, "years": (1e-50, 1e-3)},
}


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("clip", [0.5, None], ids=["clip", "bounds"])
@pytest.mark.parametrize("case", HOSTILE)
def test_no_neighbours_move_the_mean_gradient_further_than_claimed(case, clip, norm):
    found = farthest(count_terms(clip=clip, norm=norm, **HOSTILE[case]), norm, UNIT, seeds=2 if case == "usual" else 1)
    assert found <= 1
    if case == "usual":
        assert found > (0.9 if clip else 0.45)  # the search does look where it hurts


def test_the_search_finds_exposures_that_are_not_cut(monkeypatch):
    """The mutant: whatever exposure a record claims, its bounds notwithstanding."""
    monkeypatch.setattr(
        preparation,
        "exposure_weights",
        lambda model, typical, rows, name: np.abs(rows["years"].to_numpy()).clip(1e-9, 1e50),
    )
    assert farthest(count_terms(norm="l2"), "l2", 40 * UNIT, seeds=2, enough=1.5) > 1.5


@pytest.mark.parametrize("clip", [0.5, None], ids=["clip", "bounds"])
def test_no_neighbours_move_a_local_update_further_than_claimed(clip):
    terms = count_terms(clip=clip, model__radius=2.0, **LOCAL)
    assert farthest(terms, "l2", UNIT, 2, UpdateQuery, (4,)) <= 1


def test_the_score_moves_by_no_more_than_claimed():
    terms = count_terms(2, clip=1.0, norm="l1", model__holdout=0.5, privacy__score_epsilon=0.25)
    found = farthest(terms, "l1", UNIT, 3, ScoreQuery)
    assert 0.5 < found <= 1


def test_a_score_is_that_of_expected_counts():
    terms = count_terms(600, clip=1.0, model__holdout=0.5, privacy__score_epsilon=0.25)
    setup, table = resolve(terms), claims()
    _, held = setup.preparation.designs(table, terms, "a")
    rule, theta = setup.part("a").stages[1].question.scoring, np.array([0.3, -0.2, 0.1, 0.2])
    figures = rule.figures(rule.mean(setup.risk, held, theta), 0.0)
    expected, counted = held.weight * np.exp(held.X @ theta), held.weight * held.y
    assert float(figures["mean_squared_error"][0]) == pytest.approx(float(np.mean((expected - counted) ** 2)))


# --- Local steps


def expansion(setup, length, tries=400, enough=np.inf):
    """How much further apart a step of `length` times 1/L drives two close points at most; one record, clipped."""
    limits = Limits.from_terms(setup.terms, setup.preparation)
    bound = setup.risk.record_bound(setup.preparation, limits, "l2")
    rho = length / setup.risk.walked_curvature(setup.preparation, limits)

    def ratio(v):
        row = Design(np.append(np.tanh(v[:3]), 1.0)[None], 20 / (1 + np.exp(v[3:4])), np.ones(1))
        here = 3 * np.tanh(v[4:8])
        there = here + 1e-6 * v[8:12] / max(np.linalg.norm(v[8:12]), 1e-9)
        ends = [
            mean_direction(lambda w: setup.risk.local_gradient(row, w, bound), point, 1, rho, 0.0, None) * -rho + point
            for point in (here, there)
        ]
        return float(np.linalg.norm(ends[0] - ends[1]) / np.linalg.norm(here - there))

    return hill_climb(lambda candidates: [ratio(v) for v in candidates], 12, 2, tries, enough=enough)


@pytest.mark.parametrize("clip", [0.5, 30.0])
def test_steps_up_to_two_over_the_walked_curvature_drive_no_points_apart_and_longer_ones_do(clip):
    setup = resolve(count_terms(clip=clip, years=(1.0, 1.0 + 1e-9), **LOCAL))
    assert expansion(setup, 2.0) <= 1 + 1e-7
    assert expansion(setup, 12.0, enough=1.5) > 1.5


def test_the_walked_curvature_is_clip_and_count():
    setup = resolve(count_terms(clip=0.5, years=(0.5, 1.0), **LOCAL))
    limits = Limits.from_terms(setup.terms, setup.preparation)
    assert setup.risk.walked_curvature(setup.preparation, limits) == pytest.approx(0.5 * 2 + 20 * 4, rel=1e-6)
    wide = resolve(count_terms(clip=0.5, years=(0.001, 1.0), **LOCAL))
    assert wide.risk.walked_curvature(wide.preparation, limits) < wide.risk.largest_curvature(wide.preparation) / 100


def test_a_mutant_that_forgets_the_count_lets_steps_expand(monkeypatch):
    setup = resolve(count_terms(clip=0.5, years=(1.0, 1.0 + 1e-9), **LOCAL))
    monkeypatch.setattr(PoissonRegression, "walked_curvature", lambda *_: 0.5 * 2)
    assert expansion(setup, 2.0, enough=2.0) > 2


def test_the_implied_bound_is_that_of_counts_and_of_rates_in_the_box():
    setup = resolve(count_terms(norm="l2", model__radius=0.1, years=(0.5, 1.0)))
    # margins up to 0.4: a rate of e^0.4 at most, so the count counts
    assert setup.record_bound.value == pytest.approx(20.0 * 2, rel=1e-6)
    assert not setup.record_bound.clips
    wide = resolve(count_terms(norm="l2", model__radius=5.0, years=(0.5, 1.0)))
    assert wide.record_bound.value == pytest.approx(40.0 * 2, rel=1e-6)  # the largest rate, 20 over half a year
