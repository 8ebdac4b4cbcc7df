"""The minimum of a perturbed cost, asked once: objective perturbation (`losses/objective_perturbation.py` says what it
costs)."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from parley.data import Design
from parley.errors import GuaranteeError
from parley.losses import RecordBound
from parley.losses.objective_perturbation import PerturbedCost
from parley.privacy.mechanisms import Bounded, Extent
from parley.privacy.mechanisms.linear_term import SHARE, Perturbed
from parley.protocol.queries.query import Query
from parley.protocol.queries.question import Context, Question, Tables, limited
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class MinimumQuery(Query):
    """The minimum of the agreed cost and a random linear term, in units of its own; there is nothing to choose."""

    kind: ClassVar[str] = "minimum"


@dataclass(frozen=True, eq=False)
class MinimumQuestion(Question):
    """Rows are shortened until w |x| (several classes: sqrt 2 w |x|) is at most Xi; gradients then are.

    `bounded` has a sensitivity of its own kind: not how far a person moves the value, which is random, but twice how
    far the value may be from the exact minimum. What the two together guarantee is said in `mechanisms.Perturbed`,
    which alone may release it.
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
        inside = (1 - SHARE) * epsilon
        cost = PerturbedCost.make(
            objective, context.preparation, bound, limits.largest_weight, limits.radius, rows, k, inside
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
        raise GuaranteeError("minimum: what is minimised has a random linear term; a draw needs a seed")

    def bounded(self, query: Query, tables: Tables, replicates: tuple[int, ...] = (), seed: bytes = b"") -> Bounded:
        if len(seed) < 32:
            raise GuaranteeError("minimum: a secret draw needs a seed of 32 bytes")
        found = self.cost.minima(tables.train, seed, int(np.prod(replicates, dtype=np.int64)))
        return Bounded(found.reshape(*replicates, self.size), self.sensitivity, self.norm)

    def log_density(self, tables: Tables, seen: Floats) -> float:
        """Of the exact minimum, in the ball: the linear term b that puts it at `seen` is minus F's gradient there, of
        density exp(-rate |b|), and b changes with the minimum by F's second derivative."""
        gradient, curvature = self.cost.derivatives(tables.train, seen)
        return float(np.linalg.slogdet(curvature)[1] - self.cost.rate * np.linalg.norm(gradient))

    def simulated(
        self, query: Query, tables: Tables, replicates: tuple[int, ...], rng: np.random.Generator, quiet: bool = False
    ) -> Bounded:
        if not quiet:
            return self.bounded(query, tables, replicates, rng.bytes(32))
        found = self.cost.minima(tables.train, bytes(32), 1, quiet=True)[0]
        return Bounded(np.broadcast_to(found, (*replicates, self.size)).copy(), self.sensitivity, self.norm)

    def record_sizes(self, design: Design, theta: Floats) -> Floats:
        return np.asarray(design.row_norms("l2") * (self.bound.value / self.cost.row))

    def words(self) -> str:
        return (
            f"the model of {self.size} numbers that fits {self.records:,} records best when a secret random linear "
            "term is added to the cost"
        )
