"""How good the finished model is on held-out rows: asked once, after the last round, where the terms set a part of
epsilon aside."""

from dataclasses import dataclass
from typing import ClassVar, Self

from parley.data.design import summation_slack
from parley.losses import EmpiricalRisk
from parley.losses.score import Scoring, scoring
from parley.protocol.queries.query import Query, check_parameter
from parley.protocol.queries.question import Context, Question, Tables
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class ScoreQuery(Query):
    """How good the model theta [..., P] is; "..." are replicates."""

    kind: ClassVar[str] = "score"
    theta: Floats


@dataclass(frozen=True, eq=False)
class ScoreQuestion(Question):
    """A row counts for little whatever theta is: an average of iterates may leave the box by a rounding, so there is
    none here."""

    asks = ScoreQuery

    objective: EmpiricalRisk
    scoring: Scoring
    table: int  # rows that are looked at: more than `records`, by which sums are divided, where people are held out

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        terms, rule = context.terms, scoring(context.preparation)
        k, rows = terms.privacy.records_per_person, terms.held_out_rows(owner)
        table = rows if terms.model.holdout_by is None else terms.owner(owner).records
        slack, most = summation_slack(table, context.preparation.width) * (table / rows), table / rows
        return cls(
            parameters=context.parameters,
            records=rows,
            size=rule.size,
            norm="l1",
            sensitivity=rule.sensitivity(rows, slack, k),
            extent=rule.extent(slack, most),
            bound=None,
            objective=context.risk,
            scoring=rule,
            table=table,
        )

    def check(self, query: Query, replicates: tuple[int, ...]) -> None:
        super().check(query, replicates)
        check_parameter(query.arrays["theta"], (*replicates, self.parameters))

    def exact(self, query: ScoreQuery, tables: Tables) -> Floats:
        return self.scoring.mean(self.objective, tables.held_out, query.theta)

    def words(self) -> str:
        about = "" if self.table == self.records else "about "
        return f"{self.size} means over {about}{self.records:,} held-out records"
