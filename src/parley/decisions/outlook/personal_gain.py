"""What joining adds: the expected cost of an owner's personal model beside its model alone, from moments.

In each direction of the cost's curvature an owner has two estimates of its own best parameter: its own, whose error
falls with its rows, and the joint model, whose error is the owners' difference, the consortium's estimation error and
privacy. A ridge towards the joint model weighs the two: with a weight of k records the joint one counts for a = k h/(k
h + n lambda) (`outcome.ridge`). For a squared loss the expected cost is exact, given the variance of the owners'
differences (random effects: own optima scatter around a common one). For other losses it is that of their quadratic
approximation at the optimum.

Moments know linear models alone, with the best weight. The joint model as it is is among them, so nobody is thought to
lose by it; finding the weight, or staying near the joint model for want of proof (`outcome.correction`), costs
something. Trees of own rows on top of it are not in these figures: as far as they go, a gain is a lower bound.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from parley.learning.outcome.ridge import WEIGHTS
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class Owners:
    """What is known of the owners' estimates in each direction: curvature lambda [P], n_l [N], the variance of an own
    estimate of one record (its own rows' noise) [P], the joint model's squared error about the best joint model, [P] or
    for each owner [N, P], and the common optimum [P]. `moved` is how far the joint model goes from its public start (0)
    to the mean of the owners' estimates (1); `copies`: how many owners there are like each of these."""

    curvature: Floats
    records: Floats
    scatter: Floats
    error: Floats
    optimum: Floats
    moved: float = 1.0
    copies: float = 1.0

    @property
    def share(self) -> Floats:
        """Of all records, what each owner has [N]."""
        return np.asarray(self.records / self.together_records)

    @property
    def together_records(self) -> float:
        """The records of all owners."""
        return self.copies * float(self.records.sum())

    def alone(self, differences: Floats) -> Floats:
        """Expected excess cost of the models alone [N], pulled towards zero with the best weight; `differences`: tau^2
        [P]."""
        own, zero = self.scatter / self.records[:, None], self.optimum**2 + differences
        return np.asarray(np.min([self._cost((1 - a) ** 2 * own + a**2 * zero) for a in self._pulls], axis=0))

    def together(self, differences: Floats) -> Floats:
        """The joint model's, for each owner's own rows [N]."""
        return self._cost(self._away(differences))

    def personal(self, differences: Floats) -> Floats:
        """The personal models' [N]: pulled towards the joint model or towards zero, whichever is better, with the best
        weight."""
        own, away = self.scatter / self.records[:, None], self._away(differences)
        # own rows are in the joint model too
        both = 2 * self.moved * self.share[:, None] * own
        pulled = [self._cost((1 - a) ** 2 * own + a**2 * away + a * (1 - a) * both) for a in self._pulls]
        return np.asarray(np.min([*pulled, self._cost(away), self.alone(differences)], axis=0))

    def _cost(self, squares: Floats) -> Floats:
        return np.asarray(0.5 * squares @ self.curvature)

    def _away(self, differences: Floats) -> Floats:
        """E (joint model - own optimum)^2 [N, P]: of the mean of all optima, of what each owner's rows scatter, of
        privacy."""
        share, m = self.share, self.moved
        apart = 1 - 2 * m * share + m**2 * self.copies * np.sum(share**2)
        return np.asarray(apart[:, None] * differences + m**2 * self.scatter / self.together_records + self.error)

    @property
    def _pulls(self) -> Iterator[Floats]:
        """a in each direction [N, P], for every weight."""
        average = self.curvature.mean()
        for weight in (0.0, *WEIGHTS):
            yield np.asarray(weight * average / (weight * average + self.records[:, None] * self.curvature + 1e-300))
