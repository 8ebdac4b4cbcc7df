"""A rule of the terms on answers as they come: brought within their bounds first, whatever a liar says."""

import numpy as np
import pytest
from samples import make_terms

from parley.protocol.aggregation import EachOwner, Robust
from parley.protocol.aggregation.robust import HONEST_LIMITED_PROBABILITY, RULES, reaches
from parley.protocol.queries import Answer
from parley.protocol.setup import resolve

EXTREMES = [1e308, -1e308, np.inf, -np.inf, np.nan, 5e-324, -0.0, np.finfo(float).max]
LAWS = [{}, {"privacy__mechanism": "gaussian", "privacy__delta": 1e-6}, {"privacy__mechanism": "geometric"}]


def setup_of(rule, law=None, liars=1):
    terms = make_terms(*(50,) * 5, learning__horizon=4, **(law or {}))
    return resolve(terms.changed(aggregation={"rule": rule, "byzantine": liars}))


def told(values):
    return [Answer("q", "abcde"[place], 50, value) for place, value in enumerate(values)]


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("rule", RULES)
def test_no_number_that_a_liar_says_leaves_what_explains_an_answer(rule, extreme):
    setup = setup_of(rule)
    values = np.random.default_rng(0).normal(size=(5, 3))
    values[2] = extreme
    found = setup.aggregation.combine(told(values))
    reach = reaches(setup, HONEST_LIMITED_PROBABILITY)["a"]
    assert np.isfinite(found).all()
    assert reach.holds(found)
    if rule != "mean":
        honest = np.delete(values, 2, axis=0)
        assert np.abs(found).max() <= 3 * np.abs(honest).max()


@pytest.mark.parametrize("law", LAWS, ids=["laplace", "gaussian", "geometric"])
def test_honest_answers_are_taken_as_they_are(law):
    """50,000 rounds of five owners at the edge of their bound, each a quarter of a run: in a round some answer is
    touched with probability at most TOUCHED/4, within 4.5 standard errors."""
    setup, rng = setup_of("median", law), np.random.default_rng(1)
    training = setup.part("a").training
    scale, extent = training.series.mechanism.noise_scale, reaches(setup, HONEST_LIMITED_PROBABILITY)["a"]
    draw = rng.normal if training.question.norm == "l2" else rng.laplace
    exact = np.array([training.question.extent.size, 0.0, 0.0])
    values = exact + draw(0, scale, (50_000, 5, 3))
    touched = ~np.all(extent.nearest(values) == values, axis=(-1, -2))
    assert touched.sum() <= 50_000 * HONEST_LIMITED_PROBABILITY / 4 + 4.5 * np.sqrt(
        50_000 * HONEST_LIMITED_PROBABILITY / 4
    )
    np.testing.assert_array_equal(extent.nearest(values)[~touched], values[~touched])


@pytest.mark.parametrize("extreme", EXTREMES)
def test_a_score_that_nothing_explains_counts_for_no_more_than_one_at_the_edge(extreme):
    terms = make_terms(*(50,) * 5, privacy__score_epsilon=0.2, model__holdout=0.2, model__bounds={"y": [-2, 2]})
    setup = resolve(terms.changed(aggregation={"rule": "median", "byzantine": 1}))
    values = np.zeros((5, setup.part("a").stages[1].question.size))
    values[2] = extreme
    reach = reaches(setup, HONEST_LIMITED_PROBABILITY, stage=1)["a"]
    found = setup.aggregation.pooled(told(values))
    edge = max(np.max(np.abs(reach.low)), np.max(np.abs(reach.high)))
    assert np.abs(found).max() <= edge / 5 * (1 + 1e-9)


def test_plain_terms_average_as_they_did_and_scores_are_averaged_whatever_the_rule():
    assert isinstance(resolve(make_terms(10, 10)).aggregation, EachOwner)
    robust = setup_of("median").aggregation
    assert isinstance(robust, Robust)
    answers = told(np.arange(15.0).reshape(5, 3) ** 2)
    np.testing.assert_allclose(robust.pooled(answers), EachOwner().combine(answers))
    assert not robust.averages
    assert setup_of("mean").aggregation.averages
