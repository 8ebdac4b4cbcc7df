"""Questions asked once: second moments, which are all a squared loss needs; the held-out score after the last round, if
terms set epsilon aside for it; and the minimum of a perturbed cost (`losses/objective_perturbation.py` has its cost).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from parley.data import Design, Summable
from parley.data.design import summation_slack
from parley.errors import GuaranteeError, TermsError
from parley.losses import EmpiricalRisk, RecordBound
from parley.losses.moments import (
    SufficientMoments,
    mean_moments,
    moment_norms,
    moments_bound,
    moments_length,
    moments_sensitivity,
)
from parley.losses.objective_perturbation import PerturbedCost
from parley.losses.score import Scoring, scoring
from parley.privacy.mechanisms import Bounded, Extent
from parley.privacy.mechanisms.linear_term import ROUNDING_SHARE, Perturbed
from parley.protocol.queries.query import Query, check_parameter
from parley.protocol.queries.question import Context, Question, Tables, limited, rows_and_slack
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class StatisticsQuery(Query):
    """The packed (`losses.moments`) mean of z z' over records z = [x, y] (classes: x and a 1 at the record's class)."""

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
            kind = context.terms.model.kind
            raise TermsError(
                f"learning.algorithm: second moments do not determine the model {kind!r}; choose another algorithm"
            )
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
        """Return the packed mean of the bounded z z' over these records."""
        return mean_moments(design, self.bound, self.outcomes)

    def record_sizes(self, design: Design, theta: Floats) -> Floats:
        return moment_norms(design, self.norm, self.outcomes)

    def words(self) -> str:
        return f"a mean over {self.records:,} records as second moments"


@dataclass(frozen=True, eq=False)
class ScoreQuery(Query):
    """How good the model theta [..., P] is; "..." are replicates."""

    kind: ClassVar[str] = "score"
    theta: Floats


@dataclass(frozen=True, eq=False)
class ScoreQuestion(Question):
    """A row counts for little at any theta, so no box is checked: rounding may move an average out of it."""

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


@dataclass(frozen=True, eq=False)
class MinimumQuery(Query):
    """The minimum of the agreed cost plus a random linear term, in units of its own; there is nothing to choose."""

    kind: ClassVar[str] = "minimum"


@dataclass(frozen=True, eq=False)
class MinimumQuestion(Question):
    """Rows are shortened until w |x| (several classes: sqrt 2 w |x|) is at most Xi, so gradients are, too. The
    sensitivity of `bounded` is not how far a person moves the value, which is random, but twice how far the value may
    be from the exact minimum. `linear_term.Perturbed`, which alone may release it, says what both guarantee together.
    """

    asks = MinimumQuery

    bound: RecordBound
    cost: PerturbedCost
    noise: Perturbed

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        terms, objective, limits = context.terms, context.risk, context.limits
        bound = limited(objective.record_bound(context.preparation, limits, "l2"))
        rows, epsilon, k = terms.train_rows(owner), terms.training_epsilon(owner), terms.privacy.records_per_person
        noise_epsilon = (1 - ROUNDING_SHARE) * epsilon
        cost = PerturbedCost.make(
            objective, context.preparation, bound, limits.largest_weight, limits.radius, rows, k, noise_epsilon
        )
        noise = Perturbed.calibrate(
            epsilon, cost.numbers**0.5 * cost.distance, cost.numbers, (cost.numbers + 1) / cost.rate**2
        )
        return cls(
            parameters=context.parameters,
            records=rows,
            size=cost.numbers,
            norm=noise.norm,
            sensitivity=noise.sensitivity,
            extent=Extent(-cost.radius, cost.radius, cost.numbers**0.5 * cost.radius, noise.norm),
            bound=bound,
            cost=cost,
            noise=noise,
        )

    @property
    def draws(self) -> bool:
        return True

    @property
    def own_noise(self) -> Perturbed:
        return self.noise

    def exact(self, query: Query, tables: Tables) -> Floats:
        raise GuaranteeError("minimum: the owner draws the random linear term in secret; call `bounded` with a seed")

    def bounded(self, query: Query, tables: Tables, replicates: tuple[int, ...] = (), seed: bytes = b"") -> Bounded:
        if len(seed) < 32:
            raise GuaranteeError(
                f"minimum: a secret draw needs a seed of 32 bytes, but this seed has {len(seed)} bytes"
            )
        minima = self.cost.minima(tables.train, seed, int(np.prod(replicates, dtype=np.int64)))
        return Bounded(minima.reshape(*replicates, self.size), self.sensitivity, self.norm)

    def log_density(self, tables: Tables, seen: Floats) -> float:
        """Return the log density of the exact minimum, in the ball: the linear term b that puts it at `seen` is minus
        F's gradient there, has density exp(-rate |b|), and changes with the minimum by F's second derivative."""
        gradient, curvature = self.cost.derivatives(tables.train, seen)
        return float(np.linalg.slogdet(curvature)[1] - self.cost.rate * np.linalg.norm(gradient))

    def simulated(
        self, query: Query, tables: Tables, replicates: tuple[int, ...], rng: np.random.Generator, quiet: bool = False
    ) -> Bounded:
        if not quiet:
            return self.bounded(query, tables, replicates, rng.bytes(32))
        minimum = self.cost.minima(tables.train, bytes(32), 1, quiet=True)[0]
        return Bounded(np.broadcast_to(minimum, (*replicates, self.size)).copy(), self.sensitivity, self.norm)

    def record_sizes(self, design: Design, theta: Floats) -> Floats:
        return np.asarray(design.row_norms("l2") * (self.bound.value / self.cost.row))

    def words(self) -> str:
        return (
            f"the model of {self.size} numbers that fits {self.records:,} records best when a secret random linear "
            "term is added to the cost"
        )
