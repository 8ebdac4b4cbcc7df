"""What joining adds: the expected cost of an owner's personal model beside its model alone, from moments.

In each direction of the cost's curvature an owner has two estimates of its own best parameter: its own, whose error falls with its rows,
and the joint model, whose error is the owners' difference, the consortium's estimation error and privacy. A ridge towards the joint model
weighs the two: with a weight of k records the joint one counts for a = k h/(k h + n lambda) (`outcome.ridge`). For a squared loss the
expected cost is exact, given the variance of the owners' differences (random effects: own optima scatter around a common one).
"""

from dataclasses import dataclass

import numpy as np

from parley.outcome.ridge import WEIGHTS
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class Owners:
    """What is known of the owners' estimates in each direction: curvature lambda [P], n_l [N], the variance of an own estimate of one
    record (its own rows' noise) [P], the joint model's squared error about the best joint model [P], and the common optimum [P]."""

    curvature: Floats
    records: Floats
    scatter: Floats
    error: Floats
    optimum: Floats

    def alone(self, differences: Floats) -> Floats:
        """Expected excess cost of the models alone [N], pulled towards zero with the best weight; `differences`: tau^2 [P]."""
        return np.asarray(self._alone(differences).min(axis=-1))

    def together(self, differences: Floats) -> Floats:
        """The joint model's, for each owner's own rows [N]."""
        return np.asarray(0.5 * self._away(differences) @ self.curvature)

    def personal(self, differences: Floats) -> Floats:
        """The personal models' [N]: pulled towards the joint model or towards zero, whichever is better, with the best weight."""
        a, own = self._pull, self.scatter / self.records[:, None]
        share = (self.records / self.records.sum())[:, None]
        parts = (1 - a) ** 2 * own[:, None] + a**2 * self._away(differences)[:, None] + 2 * a * (1 - a) * (share * own)[:, None]
        pulled = np.minimum(0.5 * parts @ self.curvature, self.together(differences)[:, None])
        return np.asarray(np.minimum(pulled.min(axis=-1), self.alone(differences)))

    def _alone(self, differences: Floats) -> Floats:
        a, own = self._pull, self.scatter / self.records[:, None]
        return np.asarray(0.5 * ((1 - a) ** 2 * own[:, None] + a**2 * (self.optimum**2 + differences)) @ self.curvature)

    def _away(self, differences: Floats) -> Floats:
        """E (joint model - own optimum)^2 [N, P]: of the mean of all optima, of what each owner's rows scatter, of privacy."""
        share = self.records / self.records.sum()
        apart = 1 - 2 * share + np.sum(share**2)
        return np.asarray(apart[:, None] * differences + self.scatter / self.records.sum() + self.error)

    @property
    def _pull(self) -> Floats:
        """a of every weight and direction [N, weights, P]."""
        strength = np.array([0.0, *WEIGHTS]) * self.curvature.mean()
        return np.asarray(strength[:, None] / (strength[:, None] + self.records[:, None, None] * self.curvature + 1e-300))
