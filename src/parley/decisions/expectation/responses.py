"""The effect of ways of descending on a start and on noise, as functions of step times curvature alone. One table per
way and number of rounds holds for any step and direction, since a linear recursion sees only their product."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from parley.decisions.expectation.error_moments import end_moments
from parley.learning.algorithms.algorithm import Average, Descent
from parley.learning.algorithms.averaged_subgradient import AveragedSubgradient
from parley.learning.algorithms.gradient_descent import GradientDescent
from parley.losses import LinearRegression
from parley.validate import Floats

STEP_CURVATURES = np.geomspace(1e-6, 4.0, 121)  # step times curvature
MOMENTUM = 0.9


@dataclass(frozen=True)
class DescentWay:
    """A way of descending: its name, its keys of `[learning]`, and the longest step times curvature it bears."""

    name: str
    algorithm: str
    average: str | None = None
    decay: float | None = None
    momentum: float | None = None
    longest: float = 1.2

    @property
    def learning(self) -> Mapping[str, Any]:
        """The keys of `[learning]` that terms need for it."""
        return {
            "algorithm": self.algorithm,
            "average": self.average,
            "decay": self.decay,
            "momentum": self.momentum,
            "local_steps": None,
            "step": "auto",
        }

    def make(self, horizon: int) -> Descent:
        """Make the algorithm with a step of 1."""
        if self.algorithm == "averaged-subgradient":
            return AveragedSubgradient(LinearRegression(), horizon, None, 1.0)
        which: Average = "tail" if self.average == "tail" else "last"
        return GradientDescent(LinearRegression(), horizon, None, 1.0, self.decay, self.momentum or 0.0, which)


DESCENT_WAYS = (
    DescentWay("falling steps, all averaged", "averaged-subgradient"),
    DescentWay("equal steps", "gradient-descent", None, 0.0),
    DescentWay("equal steps, last half averaged", "gradient-descent", "tail", 0.0),
    DescentWay("momentum, last half averaged", "gradient-descent", "tail", 0.0, MOMENTUM, 0.6),
)


@dataclass(frozen=True, eq=False)
class Response:
    """The share of the start's error that T rounds keep, and the gain of a round's variance, at `STEP_CURVATURES`; "
    "step 1."""

    kept: Floats
    gain: Floats

    def at(self, curvature: Floats, steps: Floats) -> tuple[Floats, Floats]:
        """Return (kept, gain) [steps, directions]."""
        x = np.clip(np.multiply.outer(steps, curvature), STEP_CURVATURES[0], STEP_CURVATURES[-1])
        place = np.log(x / STEP_CURVATURES[0]) * (
            (len(STEP_CURVATURES) - 1) / np.log(STEP_CURVATURES[-1] / STEP_CURVATURES[0])
        )
        left = np.minimum(place.astype(np.intp), len(STEP_CURVATURES) - 2)
        share = place - left
        kept, gain = (f[left] * (1 - share) + f[left + 1] * share for f in (self.kept, self.gain))
        return kept, gain * steps[:, None] ** 2


@lru_cache(maxsize=256)
def response(way: DescentWay, horizon: int) -> Response:
    """Return the table of one way of descending for this horizon; infinite where it diverges."""
    with np.errstate(over="ignore", invalid="ignore"):
        kept, gain = end_moments(way.make(horizon), STEP_CURVATURES)
    gain = np.nan_to_num(gain, nan=np.inf)
    return Response(np.nan_to_num(np.clip(kept, -1e30, 1e30), nan=1e30), np.minimum(gain, 1e30))
