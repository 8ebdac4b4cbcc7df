"""The second moments of the records, in a single release: all that a squared loss needs of a table."""

from dataclasses import dataclass
from typing import ClassVar, Self

from parley.data import Design
from parley.errors import TermsError
from parley.objectives import RecordBound
from parley.objectives.moments import mean_moments, moment_norms, moments_bound, moments_length, moments_sensitivity
from parley.queries.query import Query
from parley.queries.question import Context, Question, Tables, limited, rows_and_slack
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class StatisticsQuery(Query):
    """The mean of z z' over the records z = [x, y], packed as `objectives.moments` says."""

    kind: ClassVar[str] = "statistics"


@dataclass(frozen=True, eq=False)
class StatisticsQuestion(Question):
    """Every record's z z' is bounded as a whole."""

    asks = StatisticsQuery

    bound: RecordBound

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        if not context.objective.quadratic:
            raise TermsError(f"learning.algorithm: second moments do not say enough for {context.terms.model.kind}")
        bound = limited(moments_bound(context.preparation, context.limits.clip, context.norm))
        k, (rows, slack) = context.terms.privacy.records_per_person, rows_and_slack(context, owner)
        return cls(
            parameters=context.parameters,
            records=rows,
            size=moments_length(context.preparation.width),
            norm=context.norm,
            sensitivity=moments_sensitivity(bound, rows, slack, k),
            extent=bound.extent(slack),
            bound=bound,
        )

    def exact(self, query: StatisticsQuery, tables: Tables) -> Floats:
        return mean_moments(tables.train, self.bound)

    def record_sizes(self, design: Design, theta: Floats) -> Floats:
        return moment_norms(design, self.norm)

    def words(self) -> str:
        return f"a mean over {self.records:,} records as second moments"
