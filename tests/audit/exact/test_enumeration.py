"""The exact law of an answer, for every kind of question that is registered: a new kind is in neither list, and
fails."""

import math

import numpy as np
import pytest
from federated import family_terms
from mutants import missing_factor_two, no_clipping
from samples import BOUNDS, GAUSSIAN, STATISTICS, make_terms

from parley.audit.canary import CanarySearch, present_rows
from parley.audit.exact.enumeration import AnswerLaw, answer_law, count_epsilon, exact_verdicts, largest_log_ratio
from parley.data import Design
from parley.errors import TermsError
from parley.privacy.sharing.matching.dummies import CountLaw, count_law
from parley.protocol.queries import QUESTION_KINDS, MinibatchQuery, Tables
from parley.protocol.setup import resolve

ONE = {"model__features": ["x0"], "privacy__mechanism": "geometric"}
SGD = {"learning__algorithm": "private-sgd", "learning__horizon": None, "learning__batches": 2, "learning__epochs": 2}
LAPLACE = {"privacy__mechanism": "geometric", "privacy__delta": None}
# terms that ask each kind, and how much of the claim the pair that is found uses, at least
ASKED = {
    "gradient": (make_terms(40, **ONE), 0.999),
    "minibatch": (make_terms(40, **ONE, **SGD, learning__sampling="poisson"), 0.99),
    "update": (family_terms("federated-averaging", 40, **LAPLACE), 0.99),
    "corrected": (family_terms("scaffold", 40, **LAPLACE), 0.99),
    "statistics": (make_terms(40, **STATISTICS, privacy__mechanism="geometric"), 0.85),
    "score": (make_terms(40, privacy__score_epsilon=0.5, model__holdout=0.5, model__bounds=BOUNDS), 0.9),
}
# the same kind in another way
OTHERWISE = {"batches": (make_terms(40, **ONE, **SGD), 0.99)}
# noise of its own kind, inside of the cost: there is no law to sum up
WITHOUT = {"minimum"}


def test_every_registered_kind_is_looked_at():
    assert {*ASKED} | WITHOUT == {*QUESTION_KINDS}


@pytest.mark.parametrize("case", [*ASKED, *OTHERWISE])
def test_no_answer_costs_more_than_is_claimed_by_its_exact_law(case):
    terms, used = (ASKED | OTHERWISE)[case]
    found = exact_verdicts(resolve(terms), "a")[-1]
    assert found.kind == (case if case in ASKED else "minibatch")
    assert found.holds
    assert used * found.claimed_epsilon < found.epsilon


@pytest.mark.parametrize("mutant", [missing_factor_two, no_clipping])
def test_mutants_are_caught_without_a_single_draw(mutant):
    with mutant():
        assert not exact_verdicts(resolve(ASKED["gradient"][0]), "a")[0].holds


def test_secret_draws_cost_what_amplification_says_exactly():
    """ln(1 + q (e^eps - 1)) for a row that is drawn or not; the claim covers a row that is replaced."""
    here, gone = np.array([[0.0], [8.0]]), np.array([[0.0], [0.0]])
    q, chances = 0.25, np.array([0.75, 0.25])
    drawn, without = (AnswerLaw(values, chances, 8.0, unit=1.0) for values in (here, gone))
    assert largest_log_ratio(drawn, without) == pytest.approx(math.log(1 + q * (math.e - 1)))


def test_without_the_sampling_in_the_law_the_same_noise_is_too_little():
    """As if a batch that all know had the noise of one that is drawn in secret."""
    setup = resolve(ASKED["minibatch"][0])
    stage = setup.part("a").training
    rows = Design(np.array([[1.0], [-1.0]]), np.array([3.0, 3.0]), np.ones(2))
    query = MinibatchQuery.ask(setup.hash, "learner", 1, np.zeros(1))

    def law(place):
        table = present_rows(rows.where(np.array([place])), np.arange(1), 40)
        return answer_law(stage.question, query, Tables(table, table), stage.series.mechanism)

    a, b = law(0), law(1)
    assert len(a.values) == 2
    once = float(stage.series.spent_after(1))
    assert largest_log_ratio(a, b) <= once * (1 + 1e-9)
    sure = [AnswerLaw(each.values[1:], np.ones(1), each.scale, each.unit) for each in (a, b)]
    assert largest_log_ratio(*sure) > 1.2 * once


def test_answers_of_many_numbers_are_compared_where_they_lie():
    """One draw each: exact in any dimension."""
    a, b = np.zeros((1, 900)), np.full((1, 900), 0.5)
    assert largest_log_ratio(AnswerLaw(a, np.ones(1), 90.0), AnswerLaw(b, np.ones(1), 90.0)) == pytest.approx(5.0)


def test_other_noise_and_too_many_rows_are_refused():
    gaussian = resolve(make_terms(40, **GAUSSIAN))
    assert exact_verdicts(gaussian, "a") == []
    question, query = CanarySearch(gaussian, "a").asked
    with pytest.raises(TermsError, match="laplace or geometric"):
        answer_law(
            question, query, CanarySearch(gaussian, "a").tables()[0], gaussian.part("a").training.series.mechanism
        )
    setup = resolve(ASKED["minibatch"][0])
    stage = setup.part("a").training
    table = present_rows(Design(np.ones((20, 1)), np.ones(20), np.ones(20)), np.arange(20), 40)
    query = MinibatchQuery.ask(setup.hash, "learner", 1, np.zeros(1))
    with pytest.raises(TermsError, match="at most 10"):
        answer_law(stage.question, query, Tables(table, table), stage.series.mechanism)


def left_over(law, moves, epsilon):
    """The delta that an epsilon leaves counts that move so, by all their values."""
    chances = np.array([0, *law.chances, 0], dtype=float) / 2**64

    def all_values(steps):
        return [np.roll(chances, step) for step in steps]

    def joint(laws):
        return np.prod(np.meshgrid(*laws, indexing="ij"), axis=0)

    one, other = joint(all_values([0] * len(moves))), joint(all_values(moves))
    return max(np.maximum(p - np.exp(epsilon) * q, 0).sum() for p, q in ((one, other), (other, one)))


@pytest.mark.parametrize("moves", [(1,), (-1,), (1, -1), (-1, -1, 1)])
def test_the_exact_epsilon_of_counts_is_that_of_all_their_values(moves):
    law = count_law(0.7, 1e-3)
    for delta in (law.delta * 1.01, 0.01, 0.2):
        found = count_epsilon(law, moves, delta)
        if not np.isfinite(found):
            assert left_over(law, moves, 50.0) > delta
            continue
        assert left_over(law, moves, found + 1e-6) <= delta
        assert found == 0 or left_over(law, moves, found - 1e-6) > delta


def test_counts_without_enough_dummies_have_no_epsilon():
    law = count_law(0.5, 1e-4)
    assert 0.5 - 1e-6 <= count_epsilon(law, [1], law.delta) <= 0.5
    few = CountLaw(0.5, count_law(0.5, 1e-2).thresholds)
    assert count_epsilon(few, [1], 1e-4) == math.inf
    assert count_epsilon(law, [], 1e-4) == 0
