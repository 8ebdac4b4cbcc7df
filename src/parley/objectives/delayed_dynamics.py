"""One step ahead: loss = |x[k+1] - F (x[k], u[k], ..., u[k-R])|^2, of which the second moments of a trajectory say everything.

A record is a trajectory, as the upper triangle of its mean of z z' (`data.trajectories`), so its loss is linear in the record. The model
is not searched for by gradients: moments are released once, and the plant is identified from them (`learning.identification`).
"""

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from parley.data import Design, Preparation, Summable
from parley.data.trajectories import layout_of
from parley.errors import GuaranteeError
from parley.objectives.objective import ClipNorm, Limits, Objective, RecordBound
from parley.validate import Floats


@dataclass(frozen=True)
class DelayedDynamics(Objective):
    """theta is F, row by row."""

    def parameters(self, preparation: Preparation) -> int:
        layout = layout_of(preparation.model)
        return layout.states * len(layout.regressors)

    def scores(self, X: Floats, theta: Floats) -> NoReturn:
        _refuse()

    def cost(self, design: Summable, theta: Floats) -> NoReturn:
        _refuse()

    def record_losses(self, design: Design, theta: Floats) -> NoReturn:
        _refuse()

    def mean_gradient(self, design: Summable, theta: Floats, bound: RecordBound | None = None) -> NoReturn:
        _refuse()

    def record_gradients(self, design: Design, theta: Floats) -> NoReturn:
        _refuse()

    def record_norms(self, design: Design, theta: Floats, norm: ClipNorm) -> NoReturn:
        _refuse()

    def record_bound(self, preparation: Preparation, limits: Limits, norm: ClipNorm) -> None:
        """Nothing limits a gradient, because none is ever asked for."""
        return

    def walk_gradient(self, design: Summable, theta: Floats, bound: RecordBound) -> NoReturn:
        _refuse()

    def walk_rounding(self, preparation: Preparation, limits: Limits, bound: RecordBound) -> float:
        return float(np.inf)


def _refuse() -> NoReturn:
    raise GuaranteeError("a plant is identified from second moments; nothing bounds other answers of trajectories")
