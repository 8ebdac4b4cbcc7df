"""Owners in the same process: studies, and runs on one machine."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from parley.protocol.queries import Answer, Query

if TYPE_CHECKING:  # a relay imports this room and must not load everything that an owner needs
    from parley.owner.owner import Owner


class Exchange(Protocol):
    """Brings each owner its question and the answers back; the learning loop cannot tell how."""

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]: ...


class InProcess:
    """Asks each owner in turn. A refusal of any owner ends the round."""

    def __init__(self, owners: "Sequence[Owner]") -> None:
        self._owners = {owner.name: owner for owner in owners}

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        return [self._owners[name].answer(query) for name, query in questions.items()]
