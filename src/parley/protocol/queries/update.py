"""A local update: the mean direction of an owner's own steps from a start (`losses/local_update.py` proves its cost).

An owner remembers nothing of earlier rounds. The learner makes control variates, duals or anchors from released answers
and sends them as a correction; the pull to the start and the length and number of steps are agreed. Of a released
gradient only the k numbers that differ most from what the asker holds may travel. The rest stays in the difference and
grows: error feedback without an owner's memory.

Formal guarantee: post-processing. An answer is cut after its noise was added and its debit written, by a rule about
that answer and the question alone; no sensitivity and no debit changes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from parley.data import Design
from parley.errors import GuaranteeError, Malformed, OutsideBox
from parley.losses import EmpiricalRisk, RecordBound
from parley.losses.local_update import LocallyUpdated, LocalUpdate
from parley.protocol.queries.query import Query, check_parameter
from parley.protocol.queries.question import Context, Question, Tables, check_in_box, limited, rows_and_slack
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class UpdateQuery(Query):
    """The mean direction of `steps` local steps from `start` [..., P]; "..." are replicates."""

    kind: ClassVar[str] = "update"
    start: Floats
    steps: int


@dataclass(frozen=True, eq=False)
class CorrectedQuery(Query):
    """`UpdateQuery` with a constant `correction` [..., P] added to every gradient. 0 steps ask for the uncorrected
    gradient at the start; `correction` is then what the asker already holds of it (`top_k`)."""

    kind: ClassVar[str] = "corrected"
    start: Floats
    correction: Floats
    steps: int


@dataclass(frozen=True, eq=False)
class UpdateQuestion(Question):
    """Records are bounded in L2 whatever the noise, because local steps are non-expansive only there."""

    asks: ClassVar[type[Query]] = UpdateQuery

    objective: EmpiricalRisk
    bound: RecordBound
    local: LocalUpdate

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        local, bound = (
            context.local_update_of(owner),
            limited(context.risk.record_bound(context.preparation, context.limits, "l2")),
        )
        k, (rows, slack, _) = context.terms.privacy.records_per_person, rows_and_slack(context, owner)
        return cls(
            parameters=context.parameters,
            records=rows,
            size=context.parameters,
            norm=local.norm,
            sensitivity=local.sensitivity(bound, rows, slack, k),
            extent=local.extent(bound, slack),
            objective=context.risk,
            bound=bound,
            local=local,
        )

    def check(self, query: Query, replicates: tuple[int, ...]) -> None:
        super().check(query, replicates)
        steps, agreed = query.counts["steps"], self.local.steps_in(query.round)
        if type(steps) is not int or steps != agreed:
            raise Malformed(f"steps: expected the agreed number of local steps, {agreed}, found {steps!r}")
        check_in_box(query.arrays["start"], (*replicates, self.parameters), self.local.radius)

    def exact(self, query: UpdateQuery | CorrectedQuery, tables: Tables) -> Floats:
        return self.local.direction(self._gradient(tables), query.start)

    def _gradient(self, tables: Tables) -> Callable[[Floats], Floats]:
        """Return the gradient that local steps on these rows follow."""
        objective = self.objective
        if not isinstance(objective, LocallyUpdated):
            raise GuaranteeError(
                "learning.algorithm: Parley knows no bound on the effect of one record on this model's local steps; "
                "choose another algorithm"
            )
        return lambda w: objective.local_gradient(tables.train, w, self.bound)

    @property
    def public_numbers(self) -> dict[str, float]:
        return {**super().public_numbers, "step": self.local.step}

    def record_sizes(self, design: Design, theta: Floats) -> Floats:
        return self.objective.record_norms(design, theta, self.bound.norm)

    def words(self) -> str:
        proximal_clause = ", held back towards where they begin" if self.local.proximal else ""
        return (
            f"the mean direction of {self.local.steps} local steps{proximal_clause}, in which {self.records:,} "
            f"records have their say, as vectors of {self.size} numbers"
        )


@dataclass(frozen=True, eq=False)
class CorrectedQuestion(UpdateQuestion):
    """The learner chooses the correction within the agreed size; any one moves neighbouring tables' steps alike."""

    asks = CorrectedQuery

    kept: int = field(default=0, kw_only=True)  # numbers of a gradient that travel; 0: all

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        kept = travelling(context.terms.learning.top_k, context.parameters)
        return replace(super().resolve(context, owner), kept=kept)

    def sent(self, query: Query, released: Floats) -> Floats:
        return packed(released, query.arrays["correction"], self.kept) if self._cuts(query) else released

    def sent_size(self, query: Query) -> int:
        return 2 * self.kept if self._cuts(query) else self.size

    def seen(self, sent: Floats) -> Floats:
        if not self.kept or sent.shape[-1] != 2 * self.kept:  # places and numbers are fewer than all numbers
            return sent
        return unpacked(sent, np.zeros((*sent.shape[:-1], self.size)))

    def _cuts(self, query: Query) -> bool:
        """Whether only some numbers of this answer travel."""
        return self.kept > 0 and query.counts["steps"] == 0

    def check(self, query: Query, replicates: tuple[int, ...]) -> None:
        super().check(query, replicates)
        if (
            not check_parameter(query.arrays["correction"], (*replicates, self.parameters), "correction")
            <= self.local.reach
        ):
            raise OutsideBox(
                f"correction: expected every coordinate to be at most {self.local.reach:g} in absolute value, as agreed"
            )

    def exact(self, query: UpdateQuery | CorrectedQuery, tables: Tables) -> Floats:
        correction, steps = query.arrays["correction"], query.counts["steps"]
        return self.local.direction(self._gradient(tables), query.start, correction, steps)

    def words(self) -> str:
        description = super().words() + ", to which the learner adds a correction made of earlier answers"
        part = f", of which {self.kept} numbers travel," if self.kept else ""
        return f"in turn a mean gradient{part} and {description}" if self.local.paired else description


def travelling(top_k: int | None, parameters: int) -> int:
    """Return how many of P numbers travel, each with its place; 0: all, if none is saved or `top_k` is None.

    >>> travelling(10, 200), travelling(100, 200), travelling(None, 200)
    (10, 0, 0)
    """
    return top_k if top_k is not None and 2 * top_k < parameters else 0


def packed(value: Floats, held: Floats, k: int) -> Floats:
    """Return [..., 2 k] of vectors [..., P]: the increasing places of the k numbers that differ most from those held,
    the first of equal ones, then the numbers there.

    >>> packed(np.array([1.0, 5.0, 0.0, -3.0]), np.array([1.0, 1.0, 1.0, -5.0]), 2).tolist()
    [1.0, 3.0, 5.0, -3.0]
    """
    places = np.sort(np.argsort(-np.abs(value - held), axis=-1, kind="stable")[..., :k], axis=-1)
    return np.concatenate([places.astype(np.float64), np.take_along_axis(value, places, axis=-1)], axis=-1)


def unpacked(sent: Floats, held: Floats) -> Floats:
    """Return what is held [..., P], with the sent numbers in their places.

    >>> unpacked(np.array([1.0, 3.0, 5.0, -3.0]), np.array([1.0, 1.0, 1.0, -5.0])).tolist()
    [1.0, 5.0, 1.0, -3.0]
    """
    places, values = np.split(sent, 2, axis=-1)
    size = held.shape[-1]
    sound = (places == np.floor(places)).all() and (np.diff(places, axis=-1) > 0).all()
    if not (sound and places.min() >= 0 and places.max() < size):
        raise Malformed(f"places: expected increasing whole numbers from 0 to {size - 1}")
    result: Floats = np.array(held)
    np.put_along_axis(result, places.astype(np.intp), values, axis=-1)
    return result
