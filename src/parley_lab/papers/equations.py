"""`parley reproduce equations`: printed equations that do not hold, each worked out on the smallest case that shows it.

Each line computes one number by the equation as printed, by the mended one, and what it should be.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from parley_lab.papers.pejo2018.games.joint_learning import PUBLISHED

RELATIVE_TOLERANCE = 1e-6  # relative: the mended equation gives what it should


@dataclass(frozen=True)
class Equation:
    """One printed equation: whose, what is wrong, on which case, and the three numbers."""

    document: str
    where: str
    fault: str
    case: str
    printed: float
    mended: float
    truth: float

    @property
    def holds(self) -> bool:
        """Whether the mended equation gives the truth and the printed one does not."""
        scale = RELATIVE_TOLERANCE * max(1.0, abs(self.truth))
        return abs(self.mended - self.truth) <= scale < abs(self.printed - self.truth)


def equations() -> list[Equation]:
    """All of them, document by document."""
    return [_wu(), *_aarhus(), *_pejo(), *_zawacki()]


def _wu() -> Equation:
    """One step of length 1/curvature from the optimum of curvature theta^2/2, with a gradient's noise of variance 1:
    theta has variance 1/curvature^2."""
    curvature = 10.0
    excess = curvature / 2 / curvature**2
    return Equation(
        "W",
        "(9), (14)",
        "the noise term lacks a factor, half the curvature; the bound fails where that is above 1",
        "curvature 10, one step of 0.1 from the optimum, noise of variance 1: expected excess cost",
        printed=1 / curvature**2,
        mended=excess,
        truth=float(np.mean([curvature / 2 * (0.1 * w) ** 2 for w in (-1.0, 1.0)])),
    )


def _aarhus() -> list[Equation]:
    """Shares that are not reduced tell the sign of what they hide; a wrong exponent gives another slope."""
    bound, value = 1.0, 0.5
    masks = np.linspace(-bound, bound, 20_001)[:-1]
    reduced = (value + masks + bound) % (2 * bound) - bound
    x, y, weight = np.array([-1.0, 2.0]), np.array([-1.0, 1.0]), 0.1

    def slope(sign: float) -> float:
        return -float(np.mean(y * x / (1 + np.exp(sign * y * x * weight))))

    return [
        Equation(
            "A",
            "Algorithm 2",
            "g + r is sent without reduction: a sum beyond the bound tells the sign of g",
            "g = half the bound, r uniform: share of messages beyond the bound",
            printed=float(np.mean(np.abs(value + masks) > bound)),
            mended=float(np.mean(np.abs(reduced) > bound)),
            truth=0.0,
        ),
        Equation(
            "A",
            "Algorithm 3",
            "the exponent in the gradient of the logistic loss has the wrong sign",
            "two records, x = -1 and 2, y = -1 and 1, weight 0.1: slope of the mean loss",
            printed=slope(-1.0),
            mended=slope(1.0),
            truth=_slope(lambda w: float(np.mean(np.log1p(np.exp(-y * x * w)))), weight),
        ),
    ]


def _slope(cost: Callable[[float], float], at: float) -> float:
    step = 1e-5
    return (cost(at + step) - cost(at - step)) / (2 * step)


def _pejo() -> list[Equation]:
    """The slope of a squared error, and the coefficient that follows from table 5."""
    p, q, rating = 0.5, 0.4, 1.0
    bounded = PUBLISHED["bDP"]
    return [
        Equation(
            "P",
            "(3)",
            "the error is r - pq; with pq - r the update climbs",
            "p = 0.5, q = 0.4, r = 1: minus half the slope of (r - pq)^2 by p",
            printed=(p * q - rating) * q,
            mended=(rating - p * q) * q,
            truth=-_slope(lambda at: (rating - at * q) ** 2, p) / 2,
        ),
        Equation(
            "P",
            "after (29), price of privacy",
            "0.701 should be 0.791",
            "the coefficient of p_n p_m, which is -eta1/eta0 of table 5 for bounded DP",
            printed=0.701,
            mended=0.791,
            truth=round(-bounded.eta1 / bounded.eta0, 3),
        ),
    ]


def _zawacki() -> list[Equation]:
    """Two clients with costs (w + 1)^2/2 and (w - 1)^2/2, and one of a line with a constant."""
    x, y, line = np.array([[1.0, 1.0], [2.0, 1.0]]), np.array([1.0, 3.0]), np.array([0.3, -0.2])
    moments = np.column_stack([x.T @ x, x.T @ y])
    gradient = x.T @ (x @ line - y)
    return [
        Equation(
            "Z",
            "(5.9)",
            "an update is added, not subtracted: it already points down",
            "cost w^2/2, w = 1, one local step of 0.1: w afterwards",
            printed=1.0 - (0.9 - 1.0),
            mended=1.0 + (0.9 - 1.0),
            truth=0.9,
        ),
        Equation(
            "Z",
            "(5.22)",
            "each update must be divided by its number of local steps",
            "clients at -1 and 1 take 1 and 4 local steps of 1e-7: the fixed point",
            printed=_fixed_point((1, 4), divided=False),
            mended=_fixed_point((1, 4), divided=True),
            truth=0.0,
        ),
        Equation(
            "Z",
            "(6.4)",
            "the hinge's slope by the constant is -y",
            "y = 1, margin below 1: slope by b",
            printed=1.0,
            mended=-1.0,
            truth=_slope(lambda b: max(0.0, 1 - (0.2 + b)), 0.0),
        ),
        Equation(
            "Z",
            "(8.4)",
            "the second factor is [w; -1]",
            "two rows, w = (0.3, -0.2): first entry of the gradient",
            printed=float((moments @ np.array([*line, 1.0]))[0]),
            mended=float((moments @ np.array([*line, -1.0]))[0]),
            truth=float(gradient[0]),
        ),
    ]


def _fixed_point(steps: Sequence[int], divided: bool) -> float:
    """Where rounds of local steps on (w - c)^2/2, c = -1 and 1, end: each client moves by (1 - (1 - step)^s)(c - w)."""
    pull = np.array([-np.expm1(s * np.log1p(-1e-7)) / (s if divided else 1) for s in steps])
    return float(pull @ np.array([-1.0, 1.0]) / pull.sum())
