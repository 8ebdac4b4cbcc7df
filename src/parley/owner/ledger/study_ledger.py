"""The same rules in memory, for studies."""

from typing import TYPE_CHECKING

import numpy as np

from parley.errors import UnknownTerms
from parley.owner.ledger.account import Account, Reservation
from parley.owner.ledger.interface import Cost, Facts, Release, same_question
from parley.validate import Floats

if TYPE_CHECKING:  # who only looks at books does not wait for statistics libraries
    from parley.protocol.queries import Query


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
