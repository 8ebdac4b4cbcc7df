"""Honest owners are believed, at the very edge of their bounds; who says more than the terms can make is not."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from samples import BOUNDS, GAUSSIAN, STATISTICS, UPDATES, make_terms

import parley
from parley.errors import ContradictionError
from parley.network.exchange.answer_checks import FALSE_ALARM_PROBABILITY, Scrutiny
from parley.network.exchange.messages import AccountStatement
from parley.owner.ledger.account import Head
from parley.privacy.mechanisms import Gaussian
from parley.protocol.queries import GradientQuery, ScoreQuery, StatisticsQuery, UpdateQuery
from parley.protocol.setup import resolve

N = 60
SCORED = {"model__holdout": 0.5, "model__bounds": BOUNDS, "privacy__score_epsilon": 0.5}
CLASSES = {**SCORED, "model__kind": "logistic-regression", "model__intercept": False}
KINDS = {
    "gradient": (GradientQuery, {}),
    "gradient, bounds": (GradientQuery, {"privacy__clip": None, "model__bounds": BOUNDS}),
    "gradient, gaussian": (GradientQuery, GAUSSIAN),
    "update": (UpdateQuery, UPDATES),
    "update, gaussian": (UpdateQuery, UPDATES | GAUSSIAN),
    "statistics": (StatisticsQuery, STATISTICS),
    "statistics, gaussian": (StatisticsQuery, STATISTICS | GAUSSIAN),
    "score": (ScoreQuery, SCORED),
    "score, classes": (ScoreQuery, CLASSES),
}


def extreme_table(classes=False):
    """Everybody is the same, at the edge of every bound: nothing cancels in a mean."""
    return pd.DataFrame(
        {"x0": np.ones(N), "x1": np.ones(N), "x2": np.ones(N), "y": np.ones(N) if classes else np.full(N, -3.0)}
    )


def ask(kind, terms, replicates=()):
    """The question with the largest answer: from the corner of the box that is furthest from where the records pull."""
    corner = np.full((*replicates, 3), 5.0)
    if kind is StatisticsQuery:
        return kind.ask(terms.hash, "learner", 1)
    if kind is UpdateQuery:
        return kind.ask(terms.hash, "learner", 1, corner, 3)
    return kind.ask(terms.hash, "learner", terms.rounds if kind is ScoreQuery else 1, corner)


def answers(kind, terms, replicates):
    """Noisy answers of an owner of this extreme table, each with noise of its own [replicates, d]."""
    owner = parley.Owner("a", extreme_table(terms.model.classifies)).simulate(3, replicates)
    agreement = owner.accept(terms)
    query = ask(kind, terms, (replicates,))
    stage = agreement.part.check(query, (replicates,))
    exact = stage.question.bounded(query, agreement.tables, (replicates,))
    return exact.value, stage.series.mechanism.release(exact, owner.noise)


def rules_of(**settings):
    """What a learner holds against owner a, and the owner's part that it follows from."""
    terms = make_terms(N, **settings)
    part = resolve(terms).part("a")
    return Scrutiny(part, terms.learning.straggler == "skip"), part


@pytest.mark.parametrize("name", KINDS)
def test_honest_answers_at_the_edge_are_believed_and_one_just_beyond_is_not(name):
    kind, settings = KINDS[name]
    terms, (rules, part) = make_terms(N, **settings), rules_of(**settings)
    query = ask(kind, terms)
    stage = part.stage(query.round)
    mechanism, extent = (
        stage.series.mechanism,
        stage.question.extent.noisy(stage.series.mechanism, stage.question.size, FALSE_ALARM_PROBABILITY),
    )
    exact, noisy = answers(kind, terms, 3000)
    for value in noisy:
        rules.check_value(query, value)
    assert rules.expected(query)[1] == noisy.shape[1]
    at_edge = np.zeros(noisy.shape[1])
    at_edge[0] = float(np.min(extent.high))
    rules.check_value(query, at_edge * 0.999)
    for lie in (
        at_edge * 1.001,
        at_edge * -1.001,
        np.full_like(at_edge, 1e300),
        np.full_like(at_edge, -1e300),
        at_edge * np.nan,
    ):
        with pytest.raises(ContradictionError, match=rf"a: the answer to round {query.round} is larger than"):
            rules.check_value(query, lie)
    sizes = np.abs(exact).sum(axis=1) if extent.norm == "l1" else np.sqrt((exact**2).sum(axis=1))
    bound = extent.size / (1 + 1e-6) - mechanism.norm_tail(FALSE_ALARM_PROBABILITY / 2, noisy.shape[1])
    assert sizes.max() <= bound * (1 + 1e-9)
    if name not in ("update", "update, gaussian", "score"):  # there a looser bound is taken than a table reaches
        assert sizes.max() >= 0.99 * bound


@pytest.mark.parametrize("name", ["gradient", "gradient, gaussian", "statistics", "update", "score, classes"])
def test_a_bound_without_its_noise_would_refuse_honest_answers(name):
    """The mutant: if the test above passed for it too, it would show nothing."""
    kind, settings = KINDS[name]
    terms, (rules, _) = make_terms(N, **settings), rules_of(**settings)
    _, noisy = answers(kind, terms, 3000)
    largest = max(noisy, key=lambda value: np.abs(value).max())
    rules.check_value(ask(kind, terms), largest)
    rules._extents = [replace(e, low=e.low * 0.1, high=e.high * 0.1, size=e.size * 0.1) for e in rules._extents]
    with pytest.raises(ContradictionError):
        rules.check_value(ask(kind, terms), largest)


def said(spent, answered, epsilon=1, rounds=10, head=None, then=None):
    return AccountStatement(Fraction(epsilon), Fraction(spent), answered, rounds, head, then)


LIES = {
    "nothing spent": said(0, 3),
    "too little": said("1/5", 3),
    "a hair too little": said("2999999/10000000", 3),
    "too much": said("2/5", 3),
    "an earlier round": said("1/5", 2),
    "a round that is not": said("11/10", 11),
    "another epsilon": said("3/5", 3, epsilon=2),
    "other rounds": said("3/20", 3, rounds=20),
}


@pytest.mark.parametrize("lie", LIES)
def test_accounts_follow_from_the_plan(lie):
    rules, _ = rules_of()
    rules.check_statement(said("3/10", 3), 3, 3, None)
    for before in (None, said("4/5", 8)):
        rules.check_statement(said("4/5", 8), 3, 3, before)  # a round answered before: it stands further on
    with pytest.raises(ContradictionError, match="Another learner uses these terms"):
        rules.check_statement(said("4/5", 8), 3, 3, said("1/5", 2))
    with pytest.raises(ContradictionError, match=r"^a: "):
        rules.check_statement(LIES[lie], 3, 3, None)


def test_where_rounds_may_be_missed_no_fewer_answers_than_were_heard_are_booked():
    rules, _ = rules_of(learning__straggler="skip", learning__quorum=1)
    for k in (4, 5, 7):
        rules.check_statement(said(Fraction(k, 10), 7), 7, 4, None)
    for spent in (0, "3/10", "8/10", "9/20"):
        with pytest.raises(ContradictionError, match=r"by round 7, but the terms require at least 0\.4"):
            rules.check_statement(said(spent, 7), 7, 4, None)
    with pytest.raises(ContradictionError, match="reported more spending before, so its ledger was rolled back"):
        rules.check_statement(said("5/10", 7), 7, 4, said("6/10", 6))


@pytest.mark.parametrize("gaps", [{}, {"learning__straggler": "skip", "learning__quorum": 1}])
def test_gaussian_accounts_are_compared_as_far_as_machines_agree(gaps):
    rules, part = rules_of(**GAUSSIAN, **gaps)
    spent_after = part.training.series.spent_after
    assert isinstance(part.training.series.mechanism, Gaussian)
    for k in (1, 5, 9, 10):
        spent = spent_after(k)
        for off in (0, Fraction(1, 10**9), -Fraction(1, 10**9)):
            rules.check_statement(said(spent + off, k), k, k, None)
    for wrong in (0, spent_after(5) * Fraction(99, 100), spent_after(4)):
        with pytest.raises(ContradictionError, match=r"epsilon [0-9.]+ spent by round 5"):
            rules.check_statement(said(wrong, 5), 5, 5, None)


def test_an_account_that_was_closed_is_spent_whole_and_gives_no_further_answer():
    for rules, _ in (rules_of(), rules_of(learning__straggler="skip", learning__quorum=1)):
        rules.check_statement(said(1, 3), 0, 3, None)
        rules.check_statement(said(1, 3), 2, 2, said(1, 3))  # a stored answer
        with pytest.raises(ContradictionError, match="epsilon 1 spent by round 4"):
            rules.check_statement(said(1, 4), 4, 4, said(1, 3))


def test_a_score_costs_its_own_part_on_top():
    rules, _ = rules_of(**SCORED)
    rules.check_statement(said(1, 11, rounds=11), 11, 11, None)
    rules.check_statement(said("1/2", 10, rounds=11), 10, 10, None)
    with pytest.raises(ContradictionError):
        rules.check_statement(said("11/20", 11, rounds=11), 11, 11, None)
    missing, _ = rules_of(**SCORED, learning__straggler="skip", learning__quorum=1)
    missing.check_statement(said("11/20", 11, rounds=11), 11, 2, None)  # one round of training, and the score
    with pytest.raises(ContradictionError):
        missing.check_statement(said("1/10", 11, rounds=11), 11, 2, None)


def test_a_ledger_only_grows():
    (rules, _), before = rules_of(), Head(7, "7" * 64)
    rules.check_head(None, None, grown=True)
    rules.check_head(before, before, grown=False)
    rules.check_head(Head(8, "8" * 64), before, grown=True)
    for now, grown in ((Head(6, "6" * 64), False), (Head(7, "8" * 64), False), (before, True)):
        with pytest.raises(
            ContradictionError, match=r"a: the owner's ledger was rolled back. The ledger had 7 rows.*owner restore"
        ):
            rules.check_head(now, before, grown)
    with pytest.raises(ContradictionError, match="no longer reports"):
        rules.check_head(None, before, grown=False)
    rules.check_history(said("3/10", 3, then="7" * 64), before)
    for then in (None, "8" * 64):
        with pytest.raises(ContradictionError, match="rolled back"):
            rules.check_history(said("3/10", 3, then=then), before)


def test_a_round_that_is_not_an_owners_turn_is_a_contradiction_not_a_refusal():
    terms = make_terms(N, N).changed(owners={"a": {"stride": 2}})
    rules = Scrutiny(resolve(terms).part("a"), gaps=False)
    rules.check_statement(said("2/5", 3, rounds=9), 3, 2, None)
    with pytest.raises(ContradictionError, match="but the terms do not ask this owner in that round"):
        rules.check_statement(said("1/5", 2, rounds=9), 2, 1, None)
