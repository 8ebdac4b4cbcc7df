"""The second moments of the records, in a single release: all that a squared loss needs of a table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

from parley.data import Design, Summable
from parley.errors import TermsError
from parley.losses import RecordBound
from parley.losses.moments import (
    SufficientMoments,
    mean_moments,
    moment_norms,
    moments_bound,
    moments_length,
    moments_sensitivity,
)
from parley.protocol.queries.query import Query
from parley.protocol.queries.question import Context, Question, Tables, limited, rows_and_slack
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class StatisticsQuery(Query):
    """The mean of z z' over the records z = [x, y] (with classes: x and a 1 at the record's class), packed as
    `losses.moments` says."""

    kind: ClassVar[str] = "statistics"


@dataclass(frozen=True, eq=False)
class StatisticsQuestion(Question):
    """Every record's z z' is bounded as a whole."""

    asks = StatisticsQuery

    bound: RecordBound
    outcomes: Callable[[Design], Floats]

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        preparation, objective = context.preparation, context.objective
        if not isinstance(objective, SufficientMoments):
            raise TermsError(f"learning.algorithm: second moments do not say enough for {context.terms.model.kind}")
        bound = limited(moments_bound(preparation, context.limits.clip, context.norm))
        k, numbers = context.terms.privacy.records_per_person, preparation.outcomes
        rows, slack, most = rows_and_slack(context, owner, preparation.width + numbers - 1)
        return cls(
            parameters=context.parameters,
            records=rows,
            size=moments_length(preparation.width, numbers),
            norm=context.norm,
            sensitivity=moments_sensitivity(bound, rows, slack, k),
            extent=bound.extent(slack, most),
            bound=bound,
            outcomes=objective.outcomes(preparation),
        )

    def exact(self, query: StatisticsQuery, tables: Tables) -> Floats:
        return self.moments(tables.train)

    def moments(self, design: Summable) -> Floats:
        """The packed mean of the bounded z z' over these records."""
        return mean_moments(design, self.bound, self.outcomes)

    def record_sizes(self, design: Design, theta: Floats) -> Floats:
        return moment_norms(design, self.norm, self.outcomes)

    def words(self) -> str:
        return f"a mean over {self.records:,} records as second moments"
