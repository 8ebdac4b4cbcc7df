"""A local update: the mean direction of an owner's own steps from a start (`objectives/local_update.py` says why it costs no more)."""

from dataclasses import dataclass
from typing import ClassVar, Self

from parley.data import Design
from parley.errors import Malformed
from parley.objectives import Objective, RecordBound
from parley.objectives.local_update import LocalUpdate
from parley.queries.query import Query
from parley.queries.question import Context, Question, Tables, check_in_box, limited, rows_and_slack
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class UpdateQuery(Query):
    """The mean direction of `steps` local steps from `start` [..., P]; "..." are replicates."""

    kind: ClassVar[str] = "update"
    start: Floats
    steps: int


@dataclass(frozen=True, eq=False)
class UpdateQuestion(Question):
    """Records are bounded in L2 whatever the noise: local steps are non-expansive there alone."""

    asks = UpdateQuery

    objective: Objective
    bound: RecordBound
    walk: LocalUpdate

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        walk, bound = context.walk, limited(context.objective.record_bound(context.preparation, context.limits, "l2"))
        k, (rows, slack) = context.terms.privacy.records_per_person, rows_and_slack(context, owner)
        return cls(
            parameters=context.parameters,
            records=rows,
            size=context.parameters,
            norm=walk.norm,
            sensitivity=walk.sensitivity(bound, rows, slack, k),
            extent=walk.extent(bound, slack),
            objective=context.objective,
            bound=bound,
            walk=walk,
        )

    def check(self, query: Query, worlds: tuple[int, ...]) -> None:
        super().check(query, worlds)
        steps = query.counts["steps"]
        if type(steps) is not int or steps != self.walk.steps:
            raise Malformed(f"steps: expected the agreed number of local steps, {self.walk.steps}")
        check_in_box(query.arrays["start"], (*worlds, self.parameters), self.walk.radius)

    def exact(self, query: UpdateQuery, tables: Tables) -> Floats:
        return self.walk.direction(lambda w: self.objective.walk_gradient(tables.train, w, self.bound), query.start)

    def record_sizes(self, design: Design, theta: Floats) -> Floats:
        return self.objective.record_norms(design, theta, self.bound.norm)

    def words(self) -> str:
        return (
            f"the mean direction of {self.walk.steps} local steps, in which {self.records:,} records have their say, "
            f"as vectors of {self.size} numbers"
        )
