import numpy as np
import pytest
from samples import BOUNDS, STATISTICS, make_terms, regression_table

import parley
from parley.data import Design
from parley.errors import BudgetExhausted, Malformed, TermsError
from parley.learning.algorithms.catalogue import make_algorithm
from parley.losses import RecordBound
from parley.losses.moments import mean_moments
from parley.owner.ledger import Ledger
from parley.protocol.aggregation import weighted_mean
from parley.protocol.queries import GradientQuery, StatisticsQuery
from parley.protocol.setup import resolve


def statistics_terms(*sizes, **overrides):
    settings = {"model__bounds": BOUNDS, "privacy__clip": None, "learning__horizon": None, "learning__step": None}
    return make_terms(*sizes, learning__algorithm="sufficient-statistics", **settings | overrides)


def test_with_a_large_budget_it_is_the_least_squares_fit():
    terms = statistics_terms(800, 700, epsilon=1e9)
    owners = [parley.Owner("a", regression_table(800, 1)), parley.Owner("b", regression_table(700, 2))]
    result = parley.train(terms, owners, seed=0)
    assert terms.learning.horizon == 1
    np.testing.assert_allclose(result.theta[0], result.quality.optimal_theta, atol=1e-5)


@pytest.mark.parametrize("privacy", [{}, {"privacy__mechanism": "gaussian", "privacy__delta": 1e-6}])
def test_the_noise_is_that_of_the_plan(privacy):
    """100,000 replicates of one release: the deviation of the combined answer is what the algorithm was told, within 2
    %."""
    terms = statistics_terms(400, 100, epsilon=2.0, **privacy)
    owners = [parley.Owner("a", regression_table(400, 1)), parley.Owner("b", regression_table(100, 2))]
    parties = [owner.simulate(seed, 100_000) for seed, owner in enumerate(owners)]
    agreements = [party.accept(terms) for party in parties]
    algorithm = make_algorithm(agreements[0].setup)
    answers = [party.answer(StatisticsQuery.ask(terms.hash, "learner", 1)) for party in parties]
    combined = weighted_mean(answers)
    assert combined.std(axis=0) == pytest.approx(np.full(10, algorithm.deviation), rel=0.02)


def test_a_release_is_debited_once_and_repeats_its_stored_answer(tmp_path):
    terms = statistics_terms(200)
    ledger = Ledger(tmp_path / "a.ledger", lifetime=1.5)
    owner = parley.Owner("a", regression_table(200), ledger=ledger)
    owner.accept(terms)
    query = StatisticsQuery.ask(terms.hash, "learner", 1)
    first = owner.answer(query).value
    assert np.array_equal(first, owner.answer(query).value)
    assert float(ledger.account(terms.hash).spent) == 1.0
    with pytest.raises(Malformed, match="kind"):
        owner.answer(GradientQuery.ask(terms.hash, "learner", 1, np.zeros(3)))
    with pytest.raises(BudgetExhausted):
        owner.accept(statistics_terms(200, model__holdout=0.1))
    assert ledger.verify() == 3


def test_a_gradient_agreement_answers_no_statistics(tmp_path):
    terms = make_terms(200)
    owner = parley.Owner("a", regression_table(200), ledger=Ledger(tmp_path / "a.ledger", lifetime=1.0))
    owner.accept(terms)
    with pytest.raises(Malformed, match="the terms set the kind 'gradient' for this round"):
        owner.answer(StatisticsQuery.ask(terms.hash, "learner", 1))
    assert float(owner.ledger.account(terms.hash).spent) == 0


def test_drowned_statistics_still_give_a_bounded_model():
    """At a tiny budget the noisy matrix is indefinite; the lift keeps the system solvable and the model small."""
    terms = statistics_terms(50, epsilon=0.01, model__radius=None)
    result = parley.train(terms, [parley.Owner("a", regression_table(50))], replicates=200, seed=1)
    assert np.isfinite(result.theta).all()
    assert np.median(np.abs(result.theta)) < 10


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"model__kind": "logistic-regression"}, "gradient method"),
        ({"learning__horizon": 7}, "releases once"),
    ],
)
def test_terms_that_make_no_sense_are_refused(changes, match):
    with pytest.raises(TermsError, match=match):
        statistics_terms(100, **changes)


def test_the_clipped_share_is_that_of_the_moments():
    terms = statistics_terms(400, privacy__clip=1.0)
    table = regression_table(400, seed=1)
    result = parley.train(terms, [parley.Owner("a", table)], seed=0)
    z = table.to_numpy()
    share = np.mean((np.abs(z).sum(axis=1) ** 2 + (z**2).sum(axis=1)) / 2 > 1.0)
    assert 0.2 < share < 0.9
    assert result.owners[0].clipped_share == pytest.approx(share)


def test_a_column_that_never_varies_changes_nothing():
    """Without noise its moments are zero to the last digit: the other parameters are as if it were not there, and its
    own is 0."""
    table, found = regression_table(500).assign(x2=0.0), []
    for features in (["x0", "x1", "x2"], ["x0", "x1"]):
        terms = make_terms(
            500, epsilon=1e6, **STATISTICS, model__features=features, model__radius=None, privacy__clip=100.0
        )
        algorithm = make_algorithm(resolve(terms)).without_noise()
        X, y = table[features].to_numpy(), table["y"].to_numpy()
        packed = mean_moments(Design(X, y, np.ones(500)), RecordBound(1e6, "l1", clips=False))
        found.append(algorithm.model(algorithm.update(algorithm.start(np.zeros(len(features))), packed)))
    np.testing.assert_allclose(found[0], [*found[1], 0.0], rtol=1e-9, atol=1e-12)
