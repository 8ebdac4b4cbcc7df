"""One question, one answer, one debit: the rules of an agreement, in a durable ledger and in a study's."""

from fractions import Fraction

import numpy as np
import pytest
from bookkeeping import COST, costing, never, query, reserve, value
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.errors import BudgetExhausted, ContentMismatch, OutOfOrder, Refusal, UnknownTerms
from parley.owner.ledger import Ledger, StudyLedger
from parley.owner.ledger.account import Reservation
from parley.protocol.queries import GradientQuery


@pytest.fixture(params=["durable", "study"])
def ledger(request, tmp_path):
    if request.param == "study":
        return StudyLedger()
    return Ledger(tmp_path / "a.ledger", lifetime=3.0)


def test_an_answer_is_debited_and_repeated_for_free(ledger):
    ledger.accept(reserve("t", Fraction(1), 10))
    first, _ = ledger.answer(query(1), costing(COST), {}, value(1.0))
    again, _ = ledger.answer(query(1), costing(COST), {}, never)
    np.testing.assert_array_equal(first, again)
    assert ledger.account("t").spent == COST
    assert ledger.account("t").answered == 1


def test_all_rounds_spend_the_budget_exactly_and_the_next_is_refused(ledger):
    ledger.accept(reserve("t", Fraction(1), 10))
    for k in range(1, 11):
        ledger.answer(query(k), costing(COST * k), {}, value())
    assert ledger.account("t").spent == 1
    with pytest.raises(OutOfOrder, match="the learner asked for round 11; expected no further round"):
        ledger.answer(query(11), costing(COST * 11), {}, never)
    assert ledger.account("t").spent == 1


@pytest.mark.parametrize(
    ("bad", "cost", "refusal"),
    [
        (query(2), COST, OutOfOrder),
        (query(0), COST, OutOfOrder),
        (query(-1), COST, OutOfOrder),
        (query(1, terms="other"), COST, UnknownTerms),
        (query(1, learner="stranger"), COST, UnknownTerms),
        (query(1), Fraction(1) + Fraction(1, 10**30), BudgetExhausted),
    ],
)
def test_a_refusal_changes_nothing(ledger, bad, cost, refusal):
    ledger.accept(reserve("t", Fraction(1), 10))
    before = ledger.account("t")
    with pytest.raises(refusal):
        ledger.answer(bad, costing(cost), {}, never)
    assert ledger.account("t") == before


def test_a_query_id_names_one_question_for_ever(ledger):
    ledger.accept(reserve("t", Fraction(1), 10))
    asked = query(1, theta=0.0)
    ledger.answer(asked, costing(COST), {}, value())
    forged = GradientQuery(asked.id, "t", "learner", 1, np.ones(3))
    with pytest.raises(ContentMismatch, match="choose a new id"):
        ledger.answer(forged, costing(COST), {}, never)
    with pytest.raises(OutOfOrder):  # another id, but the round is gone
        ledger.answer(query(1, theta=2.0), costing(COST), {}, never)


def test_a_failing_release_leaves_no_debit(ledger):
    ledger.accept(reserve("t", Fraction(1), 10))
    with pytest.raises(AssertionError):
        ledger.answer(query(1), costing(COST), {}, never)
    assert ledger.account("t").spent == 0
    ledger.answer(query(1), costing(COST), {}, value())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 7), st.integers(0, 2), st.fractions(0, Fraction(3, 2))), max_size=25))
def test_no_sequence_of_queries_overspends_or_changes_an_answer(tmp_path_factory, steps):
    ledger = Ledger(tmp_path_factory.mktemp("ledger") / "a.ledger", lifetime=1.0)
    ledger.accept(reserve("t", Fraction(1), 5))
    answers = {}
    for count, (k, theta, spent) in enumerate(steps):
        before = ledger.account("t").spent
        asked = query(k, theta=theta)
        try:
            got, _ = ledger.answer(asked, costing(spent), {}, value(float(count)))
        except Refusal:
            assert ledger.account("t").spent == before
            continue
        np.testing.assert_array_equal(answers.setdefault(asked.id, got), got)
        assert before <= ledger.account("t").spent <= 1
    ledger.verify()
    ledger.close()


@pytest.mark.parametrize("gaps", [True, False])
def test_missed_rounds_cost_nothing_where_the_terms_let_them_be_skipped(tmp_path, gaps):
    ledger = Ledger(tmp_path / "a.ledger", lifetime=1.0)
    ledger.accept(reserve("t", Fraction(1), 10, gaps=gaps))
    ledger.answer(query(1), lambda answers: COST * answers, {}, value())
    if not gaps:
        with pytest.raises(OutOfOrder):
            ledger.answer(query(4), lambda answers: COST * answers, {}, never)
        return
    ledger.answer(query(4), lambda answers: COST * answers, {}, value())
    for late in (2, 3, 4, 11):
        with pytest.raises(OutOfOrder):
            ledger.answer(query(late, theta=9.0), lambda answers: COST * answers, {}, never)
    ledger.close()
    account = Ledger(tmp_path / "a.ledger").account("t")
    assert (account.spent, account.answered, account.answers) == (2 * COST, 4, 2)


def test_a_query_id_belongs_to_its_agreement(tmp_path):
    """Ids follow from public facts, so another agreement's learner can guess one: using it first must spoil nothing."""
    ledger = Ledger(tmp_path / "a.ledger", lifetime=2.0)
    for terms, learner in (("t", "learner"), ("u", "mallory")):
        ledger.accept(Reservation(terms, "a", learner, Fraction(1), Fraction(0), 4))
    honest = GradientQuery.ask("t", "learner", 1, np.zeros(3))
    ledger.answer(
        GradientQuery(honest.id, "u", "mallory", 1, np.ones(3)),
        lambda k: Fraction(k, 4),
        {},
        lambda: lambda: np.ones(3),
    )
    value, _ = ledger.answer(honest, lambda k: Fraction(k, 4), {}, lambda: lambda: np.full(3, 7.0))
    np.testing.assert_array_equal(value, 7.0)
    assert ledger.verify() == 5
