from fractions import Fraction

import numpy as np
import pytest
from samples import make_terms

from parley.errors import BudgetExhausted, DataError, ExchangeError, LedgerError, Unavailable, UnknownTerms
from parley.network.exchange.federation import Federation
from parley.network.exchange.messages import AccountStatement, AnswerReply
from parley.network.serving.service import loggable
from parley.protocol.queries import Answer, GradientQuery, ScoreQuery
from parley.protocol.setup import resolve


class Peer:
    """An owner of an older version that answers every round at once, or always raises the same error."""

    def __init__(self, name, error=None):
        self.name, self._error = name, error

    def ask(self, query, records, size, timeout):
        if self._error is not None:
            raise self._error
        return AnswerReply(Answer(query.id, self.name, records, np.ones(size)), statement(query.round))

    def numbers(self, terms, learner, timeout, first):
        return None  # as an older version

    def close(self):
        pass


def statement(answered, rounds=10):
    return AccountStatement(Fraction(1), Fraction(answered, rounds), answered, rounds)


def everybody(terms, kind, k):
    """The same question for all owners."""
    return dict.fromkeys([part.name for part in terms.owners], kind.ask(terms.hash, "learner", k, np.zeros(3)))


def federation(error, warnings, quorum=1):
    terms = make_terms(100, 100, learning__quorum=quorum, learning__straggler="skip")
    return terms, Federation(resolve(terms), [Peer("a"), Peer("b", error)], 5.0, warnings.append)


def test_an_owner_that_refuses_is_named_once_when_the_run_goes_on_without_it():
    warnings = []
    terms, owners = federation(BudgetExhausted("b: nothing left"), warnings)
    for k in (1, 2):
        assert [answer.owner for answer in owners.ask(everybody(terms, GradientQuery, k))] == ["a"]
    owners.close()
    assert [sentence for sentence in warnings if "going on" in sentence] == [
        "going on without an owner that refuses: b: nothing left"
    ]
    assert [sentence.partition(";")[0] for sentence in warnings if "going on" not in sentence] == [
        "a: an older version, which does not report the length of its ledger"
    ]


@pytest.mark.parametrize(
    ("error", "quorum"), [(UnknownTerms("b: nobody accepted"), 1), (BudgetExhausted("b: nothing left"), 2)]
)
def test_an_owner_that_never_agreed_or_that_the_quorum_needs_ends_the_run(error, quorum):
    terms, owners = federation(error, [], quorum)
    with pytest.raises(ExchangeError, match="b: n"):
        owners.ask(everybody(terms, GradientQuery, 1))
    owners.close()


def test_a_log_says_nothing_about_where_a_cell_is_bad():
    assert "row 6" not in loggable(DataError("a: column 'x1', row 6: the value is missing"))
    assert loggable(LedgerError("a.ledger: the disk is full")) == "a.ledger: the disk is full"


def test_a_score_has_its_own_size_and_weight():
    """Peers are told to expect the score's three numbers over held-out rows, where a gradient has p over training
    rows."""
    terms = make_terms(100, model__holdout=0.25, model__bounds={"y": [-3, 3]}, privacy__score_epsilon=0.5)

    class Scored(Peer):
        def ask(self, query, records, size, timeout):
            spent = Fraction(1, 2) + Fraction(1, 2) * (query.round - 10)
            told = super().ask(query, records, size, timeout)
            return AnswerReply(told.answer, AccountStatement(Fraction(1), spent, query.round, 11))

    owners = Federation(resolve(terms), [Scored("a")], 5.0, lambda sentence: None)
    asked = [owners.ask(everybody(terms, kind, k))[0] for kind, k in ((GradientQuery, 10), (ScoreQuery, 11))]
    owners.close()
    assert [(answer.records, len(answer.value)) for answer in asked] == [(75, 3), (25, 3)]


def test_owners_that_were_late_are_heard_once_more_and_who_cannot_be_reached_is_named():
    """A late answer is debited all the same: what is told at the end must not be an old figure."""

    class Late(Peer):
        def ask(self, query, records, size, timeout):
            raise Unavailable(f"{self.name}: computing")

        def statement(self, terms, learner, timeout, entries=0):
            if self.name == "c":
                raise Unavailable("c: gone")
            return statement(2 if self.name == "b" else 0)

    terms = make_terms(100, 100, 100, 100, learning__quorum=1, learning__straggler="skip")
    peers = [Peer("a"), Late("b"), Late("c"), Late("d")]
    owners = Federation(resolve(terms), peers, 0.1, lambda sentence: None)
    assert owners.catch_up() == []  # nothing was asked
    owners.ask(everybody(terms, GradientQuery, 1))
    assert owners.spent("b") is None
    assert owners.catch_up() == ["c", "d"]  # d may still be at work
    assert (owners.spent("a"), owners.spent("b"), owners.spent("c")) == (0.1, 0.2, None)
    owners.close()
