import numpy as np
import pytest
from samples import make_terms, regression_table

from parley.decisions.games.stakes import noise_law, stakes
from parley.decisions.knowledge.pilot import open_pilot
from parley.decisions.outlook.forecast import forecast

PILOT = regression_table(3000, seed=9)


@pytest.mark.parametrize(
    "privacy", [{"mechanism": "laplace"}, {"mechanism": "gaussian", "delta": 1e-6}, {"shared_records": 2}]
)
def test_the_noise_of_any_budget_is_that_of_the_owners_plan(privacy):
    terms = make_terms(6000, 400, **{f"privacy__{key}": value for key, value in privacy.items()})
    known = stakes(terms, PILOT)
    pilot = open_pilot(terms, PILOT)
    rng = np.random.default_rng(0)
    for epsilon in np.exp(rng.uniform(np.log(0.01), np.log(10), 20)).round(6):
        there = terms.changed(everyone={"epsilon": float(epsilon)})
        for place, part in enumerate(terms.owners):
            expected = pilot.setup.under(there).part(part.name).training.series.mechanism.variance
            assert known.variances(np.full(2, epsilon))[place] == pytest.approx(expected, rel=1e-6)


def test_the_cost_is_the_forecasts():
    terms = make_terms(6000, 4000, privacy__clip=50.0)
    known, expected = stakes(terms, PILOT), forecast(terms, PILOT, resamples=2)
    assert expected.method == "exact-moments"
    noise = known.noise(np.array([part.epsilon for part in terms.owners]))
    everyone = np.ones(2, dtype=bool)
    together = float(known.cost.together(noise, everyone))
    law, unit = expected.outlook.laws[0].owners, open_pilot(terms, PILOT).setup.preparation.target_scale ** 2
    drawn = unit * law.together(np.zeros(len(law.curvature)))[0]
    assert abs(drawn.mean() - together) < 3 * drawn.std() / len(drawn) ** 0.5
    np.testing.assert_allclose(
        unit * 0.5 * law.curvature @ law.scatter / law.records, known.cost.alone(known.records), rtol=1e-9
    )
    excess = together - known.cost.estimation / known.records.sum()
    assert excess / known.least_cost == pytest.approx(expected.relative_fitness.mean, rel=1e-9)
    assert float(known.fitness(noise.variance(everyone))) == pytest.approx(expected.relative_fitness.mean, rel=1e-9)


def test_noise_is_never_free_where_the_clip_binds():
    """With so many rows a pilot run cannot tell the noise from none; the curvature still can."""
    known = stakes(make_terms(10**8, 10**8, privacy__clip=0.5), PILOT)
    assert known.cost.noise_price > 0.01
    assert any("guess" in warning for warning in known.warnings)


def test_the_law_falls_with_the_budget():
    law = noise_law(make_terms(100, privacy__mechanism="gaussian", privacy__delta=1e-5), (0.01, 10.0))
    assert (np.diff(law(np.geomspace(0.01, 10, 500))) < 0).all()


@pytest.mark.parametrize("privacy", [{}, {"privacy__mechanism": "gaussian", "privacy__delta": 1e-6}])
def test_the_noise_of_a_budget_is_that_of_what_the_score_leaves(privacy):
    more = {"model__holdout": 0.2, "model__bounds": {"y": [-2, 2]}, **privacy}
    scored = noise_law(make_terms(100, privacy__score_epsilon=0.4, **more), (0.41, 10.0))
    plain = noise_law(make_terms(100, **more), (0.01, 9.6))
    budgets = np.geomspace(0.42, 10, 50)
    np.testing.assert_allclose(scored(budgets), plain(budgets - 0.4), rtol=1e-9)
