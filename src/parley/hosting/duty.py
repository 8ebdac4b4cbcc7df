"""What accepted terms ask of a host: whose parcels it takes in which round, and which noise joins them. Never from the learner's mouth."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from parley.errors import OutOfOrder, TermsError
from parley.exchange.parcel import HOSTS, Shape


@dataclass(frozen=True)
class Turn:
    """One round: who may send what, and of how many owners a sum needs parcels at least."""

    shape: Shape
    records: Mapping[str, int]  # of the owners that are asked
    quorum: int


@dataclass(frozen=True, eq=False)
class Duty:
    """One agreement as its hosts see it. `ahead`: the shapes of noise that are drawn ahead, and how many at most of each."""

    terms_hash: str
    learner: str
    hosts: tuple[str, ...]
    rounds: int
    ahead: Mapping[Shape, int]
    find: Callable[[int], Turn]

    def turn(self, number: int) -> Turn:
        """What round `number` is about, or a refusal."""
        if not 1 <= number <= self.rounds:
            raise OutOfOrder(f"round {number} was asked: expected one up to round {self.rounds}")
        return self.find(number)

    def index(self, host: str) -> int:
        """Which of the three hosts it is."""
        if host not in self.hosts or len(self.hosts) != HOSTS:
            raise TermsError(f"hosts: {host!r} is not one of them, {list(self.hosts)}")
        return self.hosts.index(host)
