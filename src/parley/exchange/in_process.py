"""Owners in the same process: studies, and runs on one machine."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from parley.queries import Answer, Query

if TYPE_CHECKING:  # a relay imports this room and must not load everything that an owner needs
    from parley.owner import Owner


class Exchange(Protocol):
    """Brings a query to every owner and their answers back; the learning loop cannot tell how."""

    def ask(self, query: Query) -> list[Answer]: ...


class InProcess:
    """Asks each owner in turn. A refusal of any owner ends the round."""

    def __init__(self, owners: "Sequence[Owner]") -> None:
        self._owners = tuple(owners)

    def ask(self, query: Query) -> list[Answer]:
        return [owner.answer(query) for owner in self._owners]
