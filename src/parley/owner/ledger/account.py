"""What one agreement may still cost, and lifetime budgets held as zero-concentrated differential privacy (zCDP), where
the rho of agreements add up. Statistics libraries are not imported, so that looking at books is quick.

Formal guarantee: let every agreement that is accepted be rho_i-zCDP, each chosen in view of all answers before it, and
let the sum of the rho_i never exceed rho. Then all answers together are rho-zCDP, by the privacy filter of Feldman and
Zrnic (2021), at every order at once; Whitehouse, Ramdas, Rogers and Wu (2023) prove it for zCDP. And rho-zCDP implies
(epsilon, delta)-DP, for every order a > 1 (Canonne, Kamath and Steinke 2020, Proposition 12), with

    epsilon = a rho + ln(1 - 1/a) - (ln delta + ln a)/(a - 1)

Any order gives a valid bound, so soundness does not rest on the search for the best one. Numbers are rounded to the
private side, by more than floats can be wrong.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from parley.errors import BudgetExhausted, ContentMismatch, LedgerError, OutOfOrder, UnknownTerms
from parley.validate import Floats

if TYPE_CHECKING:
    from parley.protocol.queries import Query


RHO_TOLERANCE = Fraction(1, 10**6)  # another machine's libraries compute a Gaussian's noise to other last digits


@dataclass(frozen=True)
class Head:
    """The end of a ledger's hash chain: its number of rows and the last hash, by which an older copy is noticed."""

    entries: int
    hash: str


@dataclass(frozen=True)
class Account:
    """What one agreement may still cost. Budgets are exact fractions: no tolerance. `answered` is the last round
    answered, `answers` how many were. They differ only where the terms let rounds be skipped (`gaps`): a missed round
    costs nothing, and is never answered later. `head` is where the ledger's chain ended at that moment; a study's
    ledger has none. `closed` terms are not answered any more."""

    terms_hash: str
    learner: str
    epsilon: Fraction
    delta: Fraction
    rounds: int
    gaps: bool = False
    spent: Fraction = Fraction(0)
    answered: int = 0
    answers: int = 0
    closed: bool = False
    head: Head | None = field(default=None, compare=False)

    @property
    def used_up(self) -> bool:
        """Whether no round is left to ask."""
        return self.closed or self.answered >= self.rounds

    @property
    def delta_left(self) -> Fraction:
        """The delta that the next answer would spend: the first one spends it all."""
        return Fraction(0) if self.answers or self.closed else self.delta

    @property
    def left(self) -> tuple[Fraction, Fraction]:
        """The (epsilon, delta) that are reserved and not spent."""
        return self.epsilon - self.spent, self.delta_left

    def close(self) -> "Account":
        """Return the account with nothing more to answer and everything reserved counted as spent."""
        return replace(self, spent=self.epsilon, closed=True)

    def require_open(self) -> None:
        """Refuse if the terms were closed."""
        if self.closed:
            raise BudgetExhausted(
                "the owner closed these terms, and their whole reserved budget counts as spent; agree on new terms"
            )

    def debit(self, learner: str, number: int, spent_after: Callable[[int], Fraction]) -> "Account":
        """Return the account after the learner's round `number`, if `spent_after(k)` bounds k answers; or refuse."""
        if learner != self.learner:
            raise UnknownTerms(
                f"this owner has not accepted these terms for learner {learner!r}; only the learner in the terms may "
                "send questions"
            )
        self.require_open()
        in_turn = number > self.answered if self.gaps else number == self.answered + 1
        if not in_turn or number > self.rounds:
            where = f"round {self.answered + 1} of {self.rounds}" if self.answered < self.rounds else "no further round"
            raise OutOfOrder(f"the learner asked for round {number}; expected {where}")
        spent = spent_after(self.answers + 1)
        if not self.spent <= spent <= self.epsilon:
            raise BudgetExhausted(
                f"round {number} would raise the spent epsilon to {float(spent):g}, but these terms reserve only "
                f"{float(self.epsilon):g}; agree on new terms"
            )
        return replace(self, spent=spent, answered=number, answers=self.answers + 1)


@dataclass(frozen=True)
class Reservation:
    """What an owner sets aside when it accepts terms. `rho` is what all answers cost as zCDP, for a ledger that holds
    its lifetime budget so; None: unknown. It exceeds the noise's cost by twice `RHO_TOLERANCE`, to cover noise computed
    again on another machine, within that tolerance."""

    terms_hash: str
    owner: str
    learner: str
    epsilon: Fraction
    delta: Fraction
    rounds: int
    gaps: bool = False
    rho: Fraction | None = None

    def account(self) -> Account:
        """Return the account before any answer."""
        return Account(self.terms_hash, self.learner, self.epsilon, self.delta, self.rounds, self.gaps)


ROUNDING_SLACK = 1e-12  # of every term of a bound: floats are right to a thousandth of this
_LOG_ORDER_RANGE = math.log(1e-4), math.log(1e14)  # of a - 1


def epsilon_of(rho: Fraction, delta: Fraction) -> float:
    """Return the smallest epsilon for which rho-zCDP is known to imply (epsilon, delta)-DP, rounded up.

    >>> round(epsilon_of(Fraction(1, 10), Fraction("1e-6")), 3)
    2.142
    """
    return 0.0 if rho == 0 else max(0.0, -_max_over_orders(lambda u: -_epsilon(float(rho), float(delta), u)))


def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest rho for which rho-zCDP is known to imply (epsilon, delta)-DP, rounded down.

    >>> round(float(largest_rho(Fraction("2.142"), Fraction("1e-6"))), 4)
    0.1
    """
    if not float(delta) > 0:
        raise LedgerError(
            "lifetime_delta = 0: a lifetime budget in zCDP needs a delta above 0; set a delta with --lifetime-delta"
        )
    rho = _max_over_orders(lambda u: _rho(float(epsilon), float(delta), u)) * (1 - 1e-9)
    if not rho > 0 or not implies_budget(Fraction(rho), epsilon, delta):
        raise LedgerError(
            f"lifetime = {float(epsilon):g}: the budget cannot be converted to zCDP; expected epsilon from 1e-9 to 1e6"
        )
    return Fraction(rho)


def implies_budget(rho: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Return whether rho-zCDP is known to imply (epsilon, delta)-DP."""
    return rho > 0 and float(delta) > 0 and Fraction(epsilon_of(rho, delta)) <= epsilon


def _epsilon(rho: float, delta: float, u: float) -> float:
    """Return epsilon by the order 1 + e^u, rounded up."""
    a = 1 + math.exp(u)
    terms = a * rho, math.log1p(-1 / a), -math.log(delta) / (a - 1), -math.log(a) / (a - 1)
    return math.fsum(terms) + ROUNDING_SLACK * math.fsum(map(abs, terms))


def _rho(epsilon: float, delta: float, u: float) -> float:
    a = 1 + math.exp(u)
    return (epsilon - math.log1p(-1 / a) + (math.log(delta) + math.log(a)) / (a - 1)) / a


def _max_over_orders(value: Callable[[float], float]) -> float:
    """Return the largest value found by ternary search; both bounds have one hill."""
    low, high = _LOG_ORDER_RANGE
    for _ in range(150):
        first, second = low + (high - low) / 3, high - (high - low) / 3
        low, high = (first, high) if value(first) < value(second) else (low, second)
    return max(value(low), value(high))


Budget = tuple[Fraction, Fraction]  # epsilon, delta
# how what agreements cost is held against the lifetime budget: epsilon and delta add up, or rho
Rule = Literal["simple", "zcdp"]
RULES: tuple[Rule, ...] = ("simple", "zcdp")
Release = Callable[[], Callable[[], Floats]]  # computes, and returns what then draws the noise
Facts = dict[str, Any]
Cost = Callable[[int], Fraction]  # what this many answers cost together


class AnyLedger(Protocol):
    """A ledger: terms are accepted once, answered within what they reserve, and every answer is stored."""

    @property
    def durable(self) -> bool: ...
    @property
    def secret(self) -> bytes: ...
    def accept(
        self,
        reservation: Reservation,
        table: bytes | None = None,
        schema: str | None = None,
        other_books: str | None = None,
    ) -> None: ...
    def answer(
        self, query: "Query", spent_after: Cost, event: Facts, release: Release, prune: bool = False
    ) -> tuple[Floats, Account]: ...
    def account(self, terms_hash: str) -> Account: ...
    def hash_at(self, entries: int) -> str | None: ...


def same_question(query: "Query", content: str, value: Floats) -> Floats:
    """Return the stored answer, if this is the question that it answers."""
    if query.content != content:
        raise ContentMismatch(f"query id {query.id!r} was already used for another question; choose a new id")
    return value


class StudyLedger:
    """A ledger in memory for one study, which keeps only the latest answer."""

    durable = False
    secret = b""  # a study has none

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._latest: dict[str, tuple[str, str, Floats]] = {}

    def accept(
        self,
        reservation: Reservation,
        table: bytes | None = None,
        schema: str | None = None,
        other_books: str | None = None,
    ) -> None:
        self._accounts.setdefault(reservation.terms_hash, reservation.account())

    def account(self, terms_hash: str) -> Account:
        if terms_hash not in self._accounts:
            raise UnknownTerms("this owner has not accepted these terms; to accept them, run parley owner accept")
        return self._accounts[terms_hash]

    def hash_at(self, entries: int) -> str | None:
        """Return None: a study keeps no chain."""
        return None

    def answer(
        self, query: "Query", spent_after: Cost, event: Facts, release: Release, prune: bool = False
    ) -> tuple[Floats, Account]:
        account = self.account(query.terms_hash)
        known, content, value = self._latest.get(query.terms_hash, ("", "", np.empty(0)))
        if query.id == known:
            return same_question(query, content, value), account
        after = account.debit(query.learner, query.round, spent_after)
        value = release()()
        self._accounts[query.terms_hash] = after
        self._latest[query.terms_hash] = (query.id, query.content, value)
        return value, after
