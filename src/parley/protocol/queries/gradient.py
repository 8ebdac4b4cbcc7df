"""The mean gradient at a parameter, over an owner's records (descent) or one batch (private gradient descent)."""

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np

from parley.data import Design, Summable
from parley.data.design import summation_slack
from parley.data.split import Places, batch, draw_places, largest_batch, shuffled
from parley.errors import GuaranteeError
from parley.losses import EmpiricalRisk, RecordBound
from parley.losses.objective import SplitBatches
from parley.privacy.mechanisms import Bounded, Extent
from parley.protocol.queries.query import Query
from parley.protocol.queries.question import Context, Question, Tables, check_in_box, limited, rows_and_slack
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
    """Every record's gradient is bounded by clip or bounds; replacing k of n moves their mean by at most 2 k Xi/n."""

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


MAX_BATCH_GROUPS, REPLICATES_PER_GROUP = (
    8,
    24,
)  # of a pilot's replicates that see batches of their own: at most so many, each of about so many


@dataclass(frozen=True, eq=False)
class MinibatchQuery(Query):
    """The gradient at theta [..., P] over the round's batch; the round fixes the batch, so nobody chooses it."""

    kind: ClassVar[str] = "minibatch"
    theta: Floats


@dataclass(frozen=True, eq=False)
class MinibatchQuestion(Question):
    """The sum of the batch's clipped gradients, divided by the public n/M; people who are held out add 0.

    Formal guarantee (M batches, k rows a person, Xi the bound of a row in the mechanism's norm, s the relative rounding
    of a sum over the largest possible batch, r that batch's size over n/M). Partition: an epoch costs at most what one
    release of sensitivity S = 2 Xi k (M/n + s r) costs, whatever was asked in it (`stages.Stage`). Proof. Batches are
    public functions of places, disjoint within an epoch; a row replaced in place stays in its batch, and no other batch
    changes by a bit. An answer about k_b of a person's rows moves by at most 2 Xi (k_b M/n + s r), all of an epoch
    together by at most S in L1, and in L2 too (squares add up to less). Nothing is divided by a batch's own size.
    Poisson: the answer moves by at most Xi (M/n + 2 s r) when a row is drawn or not, half of S = 2 Xi (M/n + 2 s r), as
    sampled events need. Proof. Row j adds c_j, at most Xi, a function of that row and theta, to the bit, whoever else
    is drawn (`Summable.drawn`). Exact sums with and without a row differ by its c, and each computed one is off by at
    most s r Xi n/M. If a squared loss is summed by second moments (bounds, no clip), c_j is the row's exact gradient,
    and the products of bounds in Xi cover the roundings of all its terms. An empty draw is exactly 0. A batch in parts
    (`SplitBatches.parts`), one per block of parameters, is split by places too: a row adds to one block, and its bound
    is that of its block's P/parts numbers.
    """

    asks = MinibatchQuery

    objective: EmpiricalRisk
    bound: RecordBound
    radius: float | None
    owner: str
    batches: int
    poisson: bool
    seed: int
    parts: int
    table: int  # rows that batches are made of: more than `records` where people are held out

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        terms, objective, prepared = context.terms, context.risk, context.preparation
        learning, rows, norm = terms.learning, terms.train_rows(owner), context.norm
        table = terms.train_places(owner)
        parts, bound_of, batches = 1, objective.record_bound, learning.batches or 1
        if isinstance(objective, SplitBatches):
            parts, bound_of = objective.parts(prepared), objective.batch_bound
        bound = limited(bound_of(prepared, context.limits, terms.privacy.clip_norm or norm))
        value = bound.within(norm, context.parameters // parts)
        implied = bound_of(prepared, replace(context.limits, clip=None), norm)
        if implied is not None:
            value = min(value, implied.value)
        largest_batch_rows = table if learning.poisson else largest_batch(table, batches)
        slack, ratio = summation_slack(largest_batch_rows, prepared.width + 4), largest_batch_rows * batches / rows
        rounding = ratio * slack * (2 if learning.poisson else 1)
        largest = value * ratio * (1 + slack)
        return cls(
            parameters=context.parameters,
            records=rows,
            size=context.parameters,
            norm=norm,
            sensitivity=2 * value * terms.privacy.records_per_person * (batches / rows + rounding),
            extent=Extent(-largest, largest, largest, norm),
            objective=objective,
            bound=bound,
            radius=context.limits.radius,
            owner=owner,
            batches=batches,
            poisson=learning.poisson,
            seed=learning.batch_seed or 0,
            parts=parts,
            table=table,
        )

    @property
    def disjoint(self) -> int:
        return 1 if self.poisson else self.batches

    @property
    def rate(self) -> float:
        return 1 / self.batches if self.poisson else 1.0

    def likely_extent(self, probability: float) -> Extent:
        """Return where exact answers lie except with this probability; k drawn rows sum to at most k Xi over n/M.

        Formal guarantee: more rows than the binomial tail of that probability says (plus one, for its own rounding) are
        drawn that rarely; places are drawn independently, each with at most 1/M. `extent` is that of a draw of all
        rows.
        """
        if not self.poisson:
            return self.extent
        from scipy.stats import binom  # it takes half a second to load

        most_rows = min(self.table, int(binom.isf(probability, self.table, self.rate)) + 1)
        largest = self.extent.size * most_rows / self.table
        return Extent(-largest, largest, largest, self.norm)

    def words(self) -> str:
        size = f"about {self.records / self.batches:,.0f} of {self.records:,} records"
        how = (
            f"drawn in secret, each with probability 1/{self.batches},"
            if self.poisson
            else "a batch that changes every round,"
        )
        return f"a mean over {size}, {how} as vectors of {self.size} numbers"

    @property
    def centred(self) -> bool:
        return True

    def check(self, query: Query, replicates: tuple[int, ...]) -> None:
        super().check(query, replicates)
        check_in_box(query.arrays["theta"], (*replicates, self.parameters), self.radius)

    def exact(self, query: MinibatchQuery, tables: Tables) -> Floats:
        if self.poisson:
            raise GuaranteeError(
                "minibatch: under these terms owners draw their records in secret; call `bounded` with a seed"
            )
        epoch, number = divmod(query.round - 1, self.batches)
        rows = len(tables.train)
        places = batch(shuffled(rows, self.seed, self.owner, epoch), self.batches, number)
        return self._sum(tables.train, self._split(places, rows, epoch), query.theta) * (
            self.batches / tables.train.divisor
        )

    def bounded(self, query: Query, tables: Tables, replicates: tuple[int, ...] = (), seed: bytes = b"") -> Bounded:
        if not self.poisson:
            return super().bounded(query, tables, replicates)
        if len(seed) < 32:
            raise GuaranteeError(
                f"minibatch: a secret draw needs a seed of 32 bytes, but this seed has {len(seed)} bytes"
            )
        thetas = query.arrays["theta"].reshape(-1, self.parameters)
        value = np.empty_like(thetas)
        for place, theta in enumerate(thetas):  # each replicate has draws of its own
            own = hashlib.sha256(seed + place.to_bytes(8, "little")).digest()
            value[place] = self._drawn_mean(theta, query.round, tables, draw_places(len(tables.train), own, self.rate))
        return Bounded(value.reshape(*replicates, self.size), self.sensitivity, self.norm)

    def about(self, query: Query, tables: Tables, places: Places) -> Floats:
        if not self.poisson:
            return super().about(query, tables, places)
        return self._drawn_mean(query.arrays["theta"], query.round, tables, places)

    def _drawn_mean(self, theta: Floats, number: int, tables: Tables, places: Places) -> Floats:
        """Sum over the rows drawn in secret for round `number`, divided by their average number."""
        rows, epoch = len(tables.train), (number - 1) // self.batches
        total = self._sum(tables.train, self._split(places, rows, epoch), theta, secret=True)
        return total * (self.batches / tables.train.divisor)

    def simulated(
        self, query: Query, tables: Tables, replicates: tuple[int, ...], rng: np.random.Generator, quiet: bool = False
    ) -> Bounded:
        """Return batches of the owner's size from the pilot's rows (all, if too few); replicate groups share them."""
        rows, expected = len(tables.train), self.records / self.batches
        theta = query.arrays["theta"].reshape(-1, self.parameters)
        means = []
        # where all see the whole pilot, one group is enough
        group_count = 1 if expected >= rows else max(1, min(MAX_BATCH_GROUPS, len(theta) // REPLICATES_PER_GROUP))
        for group in np.array_split(theta, group_count):
            size = int(rng.binomial(self.records, self.rate)) if self.poisson else max(1, round(expected))
            places = rng.permutation(rows)[: min(size, rows)]
            split = [places[part :: self.parts] for part in range(self.parts)]
            means.append(self._sum(tables.train, split, group) / max(len(places), 1) * (size / expected))
        return Bounded(np.concatenate(means).reshape(*replicates, self.size), self.sensitivity, self.norm)

    def record_sizes(self, design: Design, theta: Floats) -> Floats:
        objective = self.objective
        sizes = objective.batch_norms if isinstance(objective, SplitBatches) else objective.record_norms
        return sizes(design, theta, self.bound.norm)

    def _split(self, places: Places, rows: int, epoch: int) -> list[Places]:
        """Split the places into parts: publicly, and differently in each epoch, whoever else is in the batch."""
        if self.parts == 1:
            return [places]
        labels = _ranks(rows, self.seed, self.owner, epoch)[places] % self.parts
        return [places[labels == part] for part in range(self.parts)]

    def _sum(self, design: Summable, split: list[Places], theta: Floats, secret: bool = False) -> Floats:
        """Sum bounded gradients over the rows at these places [..., P]; `secret`: nobody else knows the places."""
        if isinstance(design, Design) and self.bound.clips:
            design.row_norms(self.bound.norm)  # once for all batches
        pick = design.drawn if secret else design.batch
        designs = (pick(np.sort(places)) for places in split)  # one at a time: their memory is used again
        if isinstance(self.objective, SplitBatches):
            return self.objective.split_gradient(designs, theta, self.bound)
        rows = next(designs)
        return (
            self.objective.mean_gradient(rows, theta, self.bound) * rows.divisor if len(rows) else np.zeros_like(theta)
        )


@lru_cache(maxsize=4)
def _ranks(rows: int, seed: int, owner: str, epoch: int) -> Places:
    """Return each place's position in the order of an epoch."""
    return np.argsort(shuffled(rows, seed, owner, epoch)).astype(np.int64)
