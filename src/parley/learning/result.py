"""What came out of a run."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.learning.metrics import Metrics
from parley.learning.model import JointModel
from parley.terms import Terms
from parley.validate import Floats


@dataclass(frozen=True)
class OwnerOutcome:
    """What one owner promised and spent."""

    name: str
    records: int
    epsilon: float
    epsilon_spent: float
    clipped_share: float | None  # of its records at the final model; study only


@dataclass(frozen=True, eq=False)
class Result:
    """A trained model and, in a study, how good it is. All None fields are functions of private data that a release withholds."""

    terms: Terms
    model: JointModel
    own_model: JointModel | None  # the learning owner's own refinement, which never leaves it
    theta: Floats  # [replicates, p]
    path: Floats | None  # relative fitness after each round [T, replicates]
    cost: float | None
    optimal_cost: float | None
    optimal_theta: Floats | None
    metrics: Metrics
    optimal_metrics: Metrics
    owners: tuple[OwnerOutcome, ...]
    adjacency: str
    shared_record_epsilon: float
    safe_noise: bool
    released: bool
    seconds: float

    @property
    def terms_hash(self) -> str:
        return self.terms.hash

    @property
    def replicates(self) -> int:
        return len(self.theta)

    @property
    def relative_fitness(self) -> dict[str, float] | None:
        """psi = f(model)/f(theta*) - 1 over the replicates (W eq. 13)."""
        if self.path is None:
            return None
        q25, median, q75 = (float(q) for q in np.quantile(self.path[-1], [0.25, 0.5, 0.75]))
        return {"mean": float(self.path[-1].mean()), "median": median, "q25": q25, "q75": q75}

    def to_json(self) -> dict[str, Any]:
        """The object that `parley train --json` prints."""
        return {
            "title": self.terms.title,
            "relative_fitness": self.relative_fitness,
            "cost": self.cost,
            "optimal_cost": self.optimal_cost,
            "metrics": self.metrics,
            "optimal_metrics": self.optimal_metrics,
            "owners": [vars(owner) for owner in self.owners],
            "adjacency": self.adjacency,
            "shared_record_epsilon": self.shared_record_epsilon,
            "replicates": self.replicates,
            "safe_noise": self.safe_noise,
            "released": self.released,
            "theta": self.theta[0].tolist(),
            "terms_hash": self.terms_hash,
            "seconds": self.seconds,
        }
