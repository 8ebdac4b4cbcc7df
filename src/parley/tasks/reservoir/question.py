"""The second moments of a reservoir's states and the target, in a single release: all that a read-out needs of a
table."""

from dataclasses import dataclass
from typing import ClassVar, Self

from parley.protocol.queries.query import Query
from parley.protocol.queries.question import Context
from parley.tasks.recorded_moments import RecordedMomentsQuestion
from parley.tasks.reservoir.recordings import features_of, reservoir_of


@dataclass(frozen=True, eq=False)
class StateMomentsQuery(Query):
    """The mean over recordings of each one's mean of z z', z = (f, u, 1, y), as an upper triangle."""

    kind: ClassVar[str] = "state-moments"


@dataclass(frozen=True, eq=False)
class StateMomentsQuestion(RecordedMomentsQuestion):
    """Every recording's matrix is bounded as a whole.

    Formal guarantee: as of all recordings. A row has w = p + 1 numbers: turned states are cut to [-1, 1] as they are
    computed; inputs and the target are cut to bounds that become -1 and 1; the constant is 1. So each is at most 1,
    whatever the recording holds and however its samples hang together, and replacing a recording moves the mean of n by
    at most sqrt 2 Xi/n in L2 with Xi = w or the clip, 2 Xi/n in L1.
    """

    asks = StateMomentsQuery

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        model = context.terms.model
        return cls.of(context, owner, features_of(model).width + 1, reservoir_of(model).rows)

    def words(self) -> str:
        return f"a mean over {self.records:,} recordings as second moments of the reservoir's states"
