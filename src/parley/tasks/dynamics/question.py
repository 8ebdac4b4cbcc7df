"""The second moments of trajectories, in a single release: all that identifying a linear plant needs of a table."""

from dataclasses import dataclass
from typing import ClassVar, Self

from parley.protocol.queries.query import Query
from parley.protocol.queries.question import Context
from parley.tasks.dynamics.trajectories import layout_of, rows_of
from parley.tasks.recorded_moments import RecordedMomentsQuestion


@dataclass(frozen=True, eq=False)
class TrajectoriesQuery(Query):
    """The mean over trajectories of the mean of z z' over each one's rows z (`sysid.Layout`), as an upper triangle."""

    kind: ClassVar[str] = "trajectories"


@dataclass(frozen=True, eq=False)
class TrajectoriesQuestion(RecordedMomentsQuestion):
    """Every trajectory's matrix is bounded as a whole.

    Formal guarantee: as of all recordings; a row holds states and inputs, scaled so that each number is at most 1.
    """

    asks = TrajectoriesQuery

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        model = context.terms.model
        return cls.of(context, owner, layout_of(model).width, rows_of(model))

    def words(self) -> str:
        return f"a mean over {self.records:,} trajectories as second moments"
