"""Clipped gradient sums over fixed batches, mixed with earlier ones: training with correlated noise."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, ClassVar, Self

import numpy as np

from parley.data.split import batch, largest_batch, shuffled
from parley.errors import GuaranteeError, SettingError, TermsError
from parley.learning.algorithms.algorithm import Asker, State
from parley.learning.algorithms.private_sgd import MOMENTUM
from parley.privacy.accounting.series import JointSeries
from parley.privacy.mechanisms import Extent
from parley.privacy.mechanisms.banded import MAX_WIDTH, Band, best_band
from parley.protocol.queries import Answer
from parley.protocol.queries.query import Query, check_parameter
from parley.protocol.queries.question import Context, Question, ReleasePlan, Tables
from parley.protocol.setup import Setup
from parley.tasks.networks.clipping import RecordGradients
from parley.tasks.networks.layer_gradients import ROUNDING_UNIT
from parley.tasks.networks.question import NetworkRows, NetworkSGD, agreed_gradients, network_rows_of
from parley.terms import Learning
from parley.validate import Floats

MOST_NUMBERS = 1 << 19  # that a question by terms brings
MAX_REMEMBERED_NUMBERS = 1 << 25  # parameters that all replicates of a study were asked at: a quarter of a gigabyte


@dataclass(frozen=True, eq=False)
class MixedGradientQuery(Query):
    """This round's mixed gradients at theta [width, P], the last rounds' parameters, this one's last."""

    kind: ClassVar[str] = "mixed-network-gradient"
    matrices: ClassVar[frozenset[str]] = frozenset({"theta"})
    theta: Floats


@dataclass(frozen=True, eq=False)
class MixedGradientQuestion(Question):
    """c_0 s_k + c_1 s_(k-1) + ... of a `band` over n/M, where s_j is the sum of clipped gradients at round j's theta
    over batch j of M = `batches`, the same fixed, public batches in every epoch.

    Formal guarantee (C the clip in L2, m rows in the largest batch, r the relative rounding of a sum over them, E
    epochs): a record is in one batch, which comes every M rounds, and the band has at most M diagonals. So at most one
    sum in an answer is about the record, and its index i follows from the record's place and the round. Replacing the
    record moves that sum by at most 2 C, as computed 2 C (1 + r m), at any theta, even if the query names other
    parameters for a past round. Mixing b sums and dividing is off by at most (b + 2) 2^-53 of (|c_0| + |c_1| + ...) m C
    (1 + r) for each of the two tables. So an answer moves by at most d_i = (M/n) (2 C (1 + r m) |c_i| + twice that
    error), or by 0 if no sum is about the record. All answers together move by at most `reach`, the root of E (d_0^2 +
    d_1^2 + ...). Nothing hides who is in a batch. Sums about other records stay the same only if linear algebra gives
    the same bits for the same numbers. Terms or plan fix M, E, the band and each record's pattern before the first
    question, as `JointSeries` needs it; answers of other owners may come in between.
    """

    asks = MixedGradientQuery

    gradients: RecordGradients
    batches: int
    band: Band
    epochs: int
    moves: tuple[float, ...] = ()  # d_0, d_1, ...
    _recent: dict[tuple[int, bytes], tuple[NetworkRows, Floats]] = field(default_factory=dict)
    _lock: Any = field(default_factory=Lock)

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        learning, gradients = context.terms.learning, agreed_gradients(context, owner)
        rows, band = context.terms.train_rows(owner), agreed_band(learning, gradients.parameters)
        table = context.terms.train_places(owner)
        return cls.from_gradients(gradients, rows, learning.batches or 1, band, learning.epochs or 1, table)

    @classmethod
    def from_gradients(
        cls, gradients: RecordGradients, rows: int, batches: int, band: Band, epochs: int, table: int | None = None
    ) -> Self:
        """Return the question about a table of `rows` rows; `table` is as in `NetworkGradientQuestion`."""
        if band.width > batches:
            raise GuaranteeError("band: expected at most one diagonal per batch; otherwise a record counts twice")
        clip, largest_size, share = (
            gradients.bound("l2"),
            largest_batch(table or rows, batches),
            batches / rows * (1 + 4 * ROUNDING_UNIT),
        )
        rounding = gradients.rounding(largest_size)
        mixed = sum(map(abs, band.numbers)) * largest_size * clip * (1 + rounding)
        moved = 2 * clip * (1 + rounding * largest_size)
        off = 2 * (band.width + 2) * ROUNDING_UNIT * mixed * (1 + 2**-20)
        moves = tuple(share * (moved * abs(number) + off) for number in band.numbers)
        largest = share * mixed * (1 + 2**-20)
        return cls(
            parameters=gradients.parameters,
            records=rows,
            size=gradients.parameters,
            norm="l2",
            sensitivity=max(moves),
            extent=Extent(-largest, largest, largest, "l2"),
            bound=None,
            gradients=gradients,
            batches=batches,
            band=band,
            epochs=epochs,
            moves=moves,
        )

    @property
    def reach(self) -> float:
        """The L2 distance by which replacing a record moves all answers together."""
        return math.sqrt(self.epochs * math.fsum(move**2 for move in self.moves)) * (1 + 8 * ROUNDING_UNIT)

    @property
    def together(self) -> int:
        return self.epochs * self.batches

    @property
    def batched(self) -> bool:
        return True

    @property
    def public_numbers(self) -> dict[str, float]:
        own = {"bound": self.gradients.clip, "parameters": self.parameters, "diagonals": self.band.width}
        return {name: float(value) for name, value in own.items()}

    def series(self, plan: ReleasePlan) -> JointSeries:
        """Return all answers under one budget, which the first one spends."""
        if plan.mechanism != "gaussian" or plan.pieces > 1:
            raise GuaranteeError("mixed-network-gradient: needs Gaussian noise and one record per person")
        return JointSeries.from_budget(plan.epsilon, plan.delta, self.together, self.reach, plan.copies)

    def words(self) -> str:
        return (
            f"a mean over {largest_batch(self.records, self.batches):,} of {self.records:,} records, in a fixed batch, "
            f"mixed with the means of {self.band.width - 1} earlier rounds, as vectors of {self.size:,} numbers"
        )

    def require_sound_arithmetic(self) -> None:
        self.gradients.require_sound_shapes()

    def check(self, query: Query, replicates: tuple[int, ...]) -> None:
        super().check(query, replicates)
        check_parameter(query.arrays["theta"], (*replicates, self.band.width, self.parameters))

    def fitted(self, numbers: Mapping[str, Floats]) -> Mapping[str, Floats]:
        return {name: np.resize(each, (self.band.width, self.parameters)) for name, each in numbers.items()}

    def exact(self, query: MixedGradientQuery, tables: Tables) -> Floats:
        rows, thetas = network_rows_of(tables.train), query.theta.reshape(-1, self.band.width, self.parameters)
        with self._lock:
            mixed = [self._mixed(rows, query.round, theta) for theta in thetas]
            while len(self._recent) > self.band.width * len(thetas):
                del self._recent[next(iter(self._recent))]
        return np.array(mixed).reshape(*query.theta.shape[:-2], self.size) * (self.batches / self.records)

    def _mixed(self, rows: NetworkRows, last: int, theta: Floats) -> Floats:
        """Return the mixed sums [P] of this round and earlier ones, asked at theta [width, P]."""
        rounds = range(max(last - self.band.width + 1, 1), last + 1)
        return self.band.mixed(np.array([self._sum(rows, each, theta[each - last - 1]) for each in rounds]))

    def _sum(self, rows: NetworkRows, number: int, theta: Floats) -> Floats:
        """Return a round's clipped sum, from the cache if it is recent."""
        known = (number, hashlib.sha256(np.ascontiguousarray(theta).data).digest())
        of, found = self._recent.pop(known, (None, None))
        if of is not rows or found is None:
            places = np.sort(batch(shuffled(len(rows), 0, "batches", 0), self.batches, (number - 1) % self.batches))
            found = self.gradients.clipped_sum(theta, rows.X, rows.y, places, rows.present)
        self._recent[known] = (rows, found)
        return found


@dataclass(frozen=True)
class CorrelatedSGD(NetworkSGD):
    """`NetworkSGD` on gradients solved from mixed answers; its state is made of answers alone."""

    band: Band = field(default=Band((1.0,)), kw_only=True)

    @classmethod
    def make(cls, setup: Setup) -> Self:
        return replace(super().make(setup), band=agreed_band(setup.terms.learning, setup.parameters))

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        most, wanted = MAX_REMEMBERED_NUMBERS // (self.band.width * origin.shape[-1]), math.prod(replicates)
        if wanted > max(most, 1):
            raise SettingError(f"replicates = {wanted}: expected at most {most} runs of a network of this size")
        begin = super().start(origin, replicates)
        past = np.zeros((*replicates, self.band.width - 1, origin.shape[-1]))
        return State(1, begin.theta, {**begin.memory, "asked": past, "solved": past})

    def thetas(self, state: State) -> Floats:
        return np.concatenate([state.memory["asked"], state.theta[..., None, :]], axis=-2)

    def query(self, state: State, asker: Asker) -> MixedGradientQuery:  # type: ignore[override]
        return MixedGradientQuery.ask(asker.terms_hash, asker.learner, state.round, self.thetas(state))

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        gradient = self.band.solved(combined, state.memory["solved"])
        after = super().update(state, gradient, answers)
        solved = np.concatenate([state.memory["solved"], gradient[..., None, :]], axis=-2)
        past = {"asked": self.thetas(state)[..., 1:, :], "solved": solved[..., 1:, :]}
        return State(after.round, after.theta, {**after.memory, **past})


def usual_momentum(optimiser: str | None) -> float:
    """Return the momentum for which a band is optimised."""
    return 0.0 if optimiser == "plain" else MOMENTUM


def agreed_band(learning: Learning, parameters: int) -> Band:
    """Return the terms' band, as wide as `MOST_NUMBERS` numbers in a question allow."""
    widest = min(MOST_NUMBERS // parameters, MAX_WIDTH)
    if widest < 2:
        raise TermsError(
            f"model.architecture: expected at most {MOST_NUMBERS // 2:,} weights with correlated-sgd; this network has "
            f"{parameters:,}. A question contains the weights of several rounds"
        )
    return best_band(learning.batches or 1, learning.epochs or 1, usual_momentum(learning.optimiser), widest)
