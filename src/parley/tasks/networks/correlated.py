"""Sums of clipped gradients over fixed batches, mixed with those of the steps before: what training with correlated
noise asks."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from parley.data.batches import batch, largest_batch, shuffled
from parley.errors import GuaranteeError
from parley.learning.algorithms.algorithm import Asker, State
from parley.privacy.accounting.joint_series import JointSeries
from parley.privacy.mechanisms import Extent
from parley.privacy.mechanisms.banded import Band
from parley.protocol.queries import Answer
from parley.protocol.queries.query import Query, check_parameter
from parley.protocol.queries.question import Context, Question, Tables
from parley.tasks.networks.algorithm import NetworkSGD
from parley.tasks.networks.clipping import RecordGradients
from parley.tasks.networks.layer_gradients import UNIT
from parley.tasks.networks.prepared_rows import NetworkRows, network_rows_of
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class MixedGradientQuery(Query):
    """The mixed gradients of this round: at theta [width, P], the parameters of the last rounds, this one's last; what
    stands for rounds before the first is not looked at."""

    kind: ClassVar[str] = "mixed-network-gradient"
    theta: Floats


@dataclass(frozen=True, eq=False)
class MixedGradientQuestion(Question):
    """c_0 s_k + c_1 s_(k-1) + ... of a `band`, divided by n/M: s_j is the sum of clipped gradients at round j's theta
    over batch j of M = `batches`, the same fixed, public batches in every epoch.

    Formal guarantee (C the clip, m rows in the largest batch, r the relative rounding of a sum over them, E epochs): a
    record is in one batch, which comes every M rounds; the band has at most M diagonals, so that of the sums in an
    answer at most one is about the record, and it is the i-th one back in a round that follows from the record's place
    alone. Replacing the record moves that sum by at most 2 C, as computed 2 C (1 + r m), wherever theta is, also if
    somebody names other parameters for a round than were asked at it. Mixing b sums and dividing is off by at most
    (b + 2) 2^-53 of what is mixed, (|c_0| + |c_1| + ...) m C (1 + r), for each of the two tables. So the answer moves
    by at most d_i = (M/n) (2 C (1 + r m) |c_i| + twice that), and not at all where no sum is about the record: all
    answers together by `reach`, the root of E (d_0^2 + d_1^2 + ...). Nothing hides who is in a batch: none is drawn.
    """

    asks = MixedGradientQuery

    gradients: RecordGradients
    batches: int
    band: Band
    epochs: int
    moves: tuple[float, ...] = ()  # d_0, d_1, ...
    _recent: dict[tuple[int, bytes], tuple[NetworkRows, Floats]] = field(default_factory=dict)

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        raise GuaranteeError("mixed-network-gradient: terms cannot ask for correlated noise yet")

    @classmethod
    def of(cls, gradients: RecordGradients, rows: int, batches: int, band: Band, epochs: int) -> Self:
        """The question about a table of so many rows."""
        if band.width > batches:
            raise GuaranteeError("band: expected at most as many diagonals as batches, or a record counts twice")
        clip, most, share = gradients.clip, largest_batch(rows, batches), batches / rows * (1 + 4 * UNIT)
        rounding = gradients.rounding(most)
        mixed = sum(map(abs, band.numbers)) * most * clip * (1 + rounding)
        moved = 2 * clip * (1 + rounding * most)
        off = 2 * (band.width + 2) * UNIT * mixed * (1 + 2**-20)
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
        """How far replacing a record moves all answers together, in L2."""
        return math.sqrt(self.epochs * math.fsum(move**2 for move in self.moves)) * (1 + 8 * UNIT)

    def joint_series(self, epsilon: Fraction, delta: Fraction) -> JointSeries:
        """All answers under one budget, which the first one spends."""
        return JointSeries.of(epsilon, delta, self.epochs * self.batches, self.reach)

    def words(self) -> str:
        return (
            f"a mean over {largest_batch(self.records, self.batches):,} of {self.records:,} records, in a fixed batch, "
            f"mixed with those of {self.band.width - 1} rounds before, as vectors of {self.size:,} numbers"
        )

    def check(self, query: Query, replicates: tuple[int, ...]) -> None:
        super().check(query, replicates)
        if replicates:
            raise GuaranteeError("mixed-network-gradient: expected one run; this question knows no replicates")
        check_parameter(query.arrays["theta"], (self.band.width, self.parameters))

    def exact(self, query: MixedGradientQuery, tables: Tables) -> Floats:
        rows, last = network_rows_of(tables.train), query.round
        rounds = range(max(last - self.band.width + 1, 1), last + 1)
        sums = [self._sum(rows, each, query.theta[each - last - 1]) for each in rounds]
        return np.asarray(self.band.mixed(np.array(sums)) * (self.batches / self.records))

    def _sum(self, rows: NetworkRows, number: int, theta: Floats) -> Floats:
        """The clipped sum of a round; of the last ones it is remembered, and else computed again."""
        known = (number, hashlib.sha256(np.ascontiguousarray(theta).data).digest())
        of, found = self._recent.pop(known, (None, None))
        if of is not rows or found is None:
            places = np.sort(batch(shuffled(len(rows), 0, "batches", 0), self.batches, (number - 1) % self.batches))
            found = self.gradients.clipped_sum(theta, rows.X, rows.y, places[rows.present[places]])
        self._recent[known] = (rows, found)
        while len(self._recent) > self.band.width:
            del self._recent[next(iter(self._recent))]
        return found


@dataclass(frozen=True)
class CorrelatedSGD(NetworkSGD):
    """The same steps on answers that are solved for the gradients they mix: it remembers those, and where they were
    asked. All of it is made of answers."""

    band: Band = field(default=Band((1.0,)), kw_only=True)

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        begin, past = super().start(origin, replicates), np.zeros((self.band.width - 1, origin.shape[-1]))
        return State(1, begin.theta, {**begin.memory, "asked": past, "solved": past})

    def thetas(self, state: State) -> Floats:
        return np.concatenate([state.memory["asked"], state.theta[None]])

    def query(self, state: State, asker: Asker) -> MixedGradientQuery:  # type: ignore[override]
        return MixedGradientQuery.ask(asker.terms_hash, asker.learner, state.round, self.thetas(state))

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        gradient = self.band.solved(combined, state.memory["solved"])
        after = super().update(state, gradient, answers)
        past = {
            "asked": self.thetas(state)[1:],
            "solved": np.concatenate([state.memory["solved"], gradient[None]])[1:],
        }
        return State(after.round, after.theta, {**after.memory, **past})
