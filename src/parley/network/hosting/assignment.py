"""What accepted terms ask of a host: whose share bundles it takes in which round, and which noise joins them. Never
from the learner's mouth."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from parley.errors import OutOfOrder, TermsError
from parley.network.exchange.share_bundle import HOSTS, Shape, shape_of
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.protocol.setup import Setup
from parley.protocol.stages import Stage

AHEAD = 4  # noises drawn ahead


@dataclass(frozen=True)
class Turn:
    """One round: who may send what, and of how many owners a sum needs share bundles at least."""

    shape: Shape
    records: Mapping[str, int]  # of the owners that are asked
    quorum: int


@dataclass(frozen=True, eq=False)
class HostAssignment:
    """One agreement as its hosts see it. `ahead`: the shapes of noise that are drawn ahead, and how many at most of
    each."""

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

    @property
    def together(self) -> bool:
        """Whether the hosts draw one noise together; of two each adds its own."""
        return len(self.hosts) == HOSTS

    @property
    def drawn_ahead(self) -> Mapping[Shape, int]:
        """How many noises of which shapes the hosts draw ahead: none that a host draws alone."""
        return self.ahead if self.together else {}

    def index(self, host: str) -> int:
        """Which of the hosts it is."""
        if host not in self.hosts:
            raise TermsError(f"hosts: {host!r} is not one of them, {list(self.hosts)}")
        return self.hosts.index(host)


def assignment_of(setup: Setup) -> HostAssignment:
    """What these terms ask of their hosts."""
    terms = setup.terms
    if not terms.noise.hosts:
        raise TermsError("privacy.noise: by these terms every owner draws its own noise; hosts have nothing to do")
    waits = terms.learning.straggler != "skip" or terms.learning.quorum is None

    @lru_cache(maxsize=64)
    def find(number: int) -> Turn:
        stages = {name: setup.part(name).stage(number) for name in setup.schedule.at(number)}
        records = {name: stage.question.records for name, stage in stages.items()}
        quorum = len(records) if waits else min(len(records), terms.learning.quorum or 1)
        return Turn(_shape(next(iter(stages.values()))), records, quorum)

    ahead = {
        _shape(stage): min(AHEAD, len(stage.rounds)) for stage in reversed(setup.part(terms.owners[0].name).stages)
    }
    hosts = tuple(host.name for host in terms.hosts)
    return HostAssignment(terms.hash, terms.learning.learner, hosts, terms.rounds, ahead, find)


def _shape(stage: Stage) -> Shape:
    noise = stage.series.mechanism
    if not isinstance(noise, SharedNoise):
        raise TermsError("privacy.noise: expected 'shared'")
    return shape_of(noise)
