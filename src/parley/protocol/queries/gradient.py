"""The mean gradient over an owner's records at a parameter: what descent asks, round after round."""

from dataclasses import dataclass
from typing import ClassVar, Self

from parley.data import Design
from parley.losses import EmpiricalRisk, RecordBound
from parley.protocol.queries.query import Query
from parley.protocol.queries.question import Context, Question, Tables, check_in_box, rows_and_slack
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class GradientQuery(Query):
    """The mean record gradient at theta [..., P]; "..." are replicates.

    >>> import numpy as np
    >>> query = GradientQuery.ask("ab12", "learner", 1, np.zeros(3))
    >>> query.id == query.content[:32]
    True
    """

    kind: ClassVar[str] = "gradient"
    theta: Floats


@dataclass(frozen=True, eq=False)
class GradientQuestion(Question):
    """Every record's gradient is bounded, by its clip or by the bounds, and replacing k of n moves their mean by at
    most 2 k Xi/n."""

    asks = GradientQuery

    objective: EmpiricalRisk
    bound: RecordBound
    radius: float | None

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        bound = context.record_bound
        k, (rows, slack, most) = context.terms.privacy.records_per_person, rows_and_slack(context, owner)
        return cls(
            parameters=context.parameters,
            records=rows,
            size=context.parameters,
            norm=context.norm,
            sensitivity=bound.sensitivity(rows, slack, k),
            extent=bound.extent(slack, most),
            objective=context.risk,
            bound=bound,
            radius=context.limits.radius,
        )

    @property
    def centred(self) -> bool:
        return True

    def check(self, query: Query, replicates: tuple[int, ...]) -> None:
        super().check(query, replicates)
        check_in_box(query.arrays["theta"], (*replicates, self.parameters), self.radius)

    def exact(self, query: GradientQuery, tables: Tables) -> Floats:
        return self.objective.mean_gradient(tables.train, query.theta, self.bound)

    def record_sizes(self, design: Design, theta: Floats) -> Floats:
        return self.objective.record_norms(design, theta, self.bound.norm)
