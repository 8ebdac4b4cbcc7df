"""What an owner needs of a ledger, and the one for studies: the same rules in memory."""

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from parley.errors import ContentMismatch, UnknownTerms
from parley.owner.ledger.account import Account, Reservation
from parley.validate import Floats

if TYPE_CHECKING:  # who only looks at books does not wait for statistics libraries
    from parley.protocol.queries import Query

Budget = tuple[Fraction, Fraction]  # epsilon, delta
# how what agreements cost is held against the lifetime budget: epsilon and delta add up, or rho
Rule = Literal["simple", "zcdp"]
RULES: tuple[Rule, ...] = ("simple", "zcdp")
Release = Callable[[], Callable[[], Floats]]  # computes, and returns what then draws the noise
Facts = dict[str, Any]
Cost = Callable[[int], Fraction]  # what this many answers cost together


class AnyLedger(Protocol):
    """Promises kept: terms are accepted once, answered within what they reserve, and every answer is stored."""

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
    """The stored answer, if this is the question that it answers."""
    if query.content != content:
        raise ContentMismatch(f"query id {query.id!r} was already used for another question: choose a new id")
    return value


class StudyLedger:
    """Every study starts a fresh one, and only the latest answer is kept."""

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
            raise UnknownTerms("nobody at this owner accepted these terms")
        return self._accounts[terms_hash]

    def hash_at(self, entries: int) -> str | None:
        """Always None: a study keeps no chain."""
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
