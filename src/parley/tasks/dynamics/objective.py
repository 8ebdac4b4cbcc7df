"""One step ahead: loss = |x[k+1] - F (x[k], u[k], ..., u[k-R])|^2, of which the second moments of a trajectory say
everything.

A record is a trajectory, as the upper triangle of its mean of z z' (`trajectories`), so its loss is linear in the
record. The model is not searched for by gradients: moments are released once, and the plant is identified from them
(`plant`).
"""

from dataclasses import dataclass

from parley.data import Preparation
from parley.losses import Objective
from parley.tasks.dynamics.trajectories import layout_of


@dataclass(frozen=True)
class DelayedDynamics(Objective):
    """A plant with delayed inputs: theta holds its matrix F, row by row."""

    def parameters(self, preparation: Preparation) -> int:
        layout = layout_of(preparation.model)
        return layout.states * len(layout.regressors)
