"""The joint-learning game of two players (P sections 5 to 7).

u_n(p1, p2) = B_n b(theta_n, Phi_n(p1, p2)) - C_n (1 - p_n): each chooses how much privacy p_n to keep, 0 none and 1
all. Only C/B, the concern, matters for who plays what, so B = 1 here and payoffs are in units of accuracy, percent in
P.

What is gained by learning together, (Phi - theta)/theta, is a quadratic in p fitted to measurements (P eq. 24). As P
uses it in its section 7 it may be negative, and more privacy may raise it; that is `participation=False`. With
`participation=True` the benefit obeys P's own assumptions: never negative (eq. 13: whoever gains nothing trains alone,
which is p = 1) and never raised by more privacy (eq. 14: the least such function above the fit).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from parley.decisions.games.game import Game
from parley.errors import SettingError
from parley.validate import Floats, finite, non_negative

Mechanism = Literal["hide", "bDP", "uDP"]


@dataclass(frozen=True)
class Interpolation:
    """f(x, y) = eta0 + alpha1 x + alpha2 y + eta1 x y + beta1 x^2 + beta2 y^2, x the other's p, y one's own (P eq.
    24)."""

    eta0: float
    alpha1: float
    alpha2: float
    eta1: float
    beta1: float
    beta2: float
    rmse: float = field(default=0.0)  # of the fit, in the units of the measurements

    def __call__(self, x: Floats, y: Floats) -> Floats:
        return self.eta0 + self.alpha1 * x + self.alpha2 * y + self.eta1 * x * y + self.beta1 * x**2 + self.beta2 * y**2

    def benefit(self, x: Floats, y: Floats) -> Floats:
        """The least function above f that is never negative and that no privacy raises: the largest of 0 and f on [x,
        1] x [y, 1].

        A quadratic on a rectangle is largest at a corner, at the stationary point of an edge or at its own; all of
        those are tried, each moved into the rectangle, so every candidate is a point of it.
        """
        one = np.ones_like(x)
        points = [(a, b) for a in (x, one) for b in (y, one)]
        points += [(a, np.clip(self._peak_own(a), y, 1)) for a in (x, one)]
        points += [(np.clip(self._peak_other(b), x, 1), b) for b in (y, one)]
        if self._peak is not None:
            points.append((np.clip(self._peak[0], x, 1), np.clip(self._peak[1], y, 1)))
        others, owns = (np.stack(each) for each in zip(*points, strict=True))
        return np.asarray(np.maximum(0.0, self(others, owns).max(axis=0)))

    @cached_property
    def _peak(self) -> Floats | None:
        """Where f is stationary; None where that is no one point."""
        hessian = np.array([[2 * self.beta1, self.eta1], [self.eta1, 2 * self.beta2]])
        return np.linalg.solve(hessian, [-self.alpha1, -self.alpha2]) if abs(np.linalg.det(hessian)) > 0 else None

    def _peak_own(self, x: Floats) -> Floats:
        """Where f(x, .) is stationary; 0 where it is straight."""
        return -(self.alpha2 + self.eta1 * x) / (2 * self.beta2) if self.beta2 else np.zeros_like(x)

    def _peak_other(self, y: Floats) -> Floats:
        return -(self.alpha1 + self.eta1 * y) / (2 * self.beta1) if self.beta1 else np.zeros_like(y)


# P table 5, for the 1M dataset split equally; improvements in percent.
PUBLISHED: dict[Mechanism, Interpolation] = {
    "hide": Interpolation(1.19595, -2.42762, -2.6924, -1.33884, 1.19784, 0.614583, rmse=0.120167),
    "bDP": Interpolation(0.91385, 1.09862, 2.58863, -0.7225, -4.73438, -11.9219, rmse=0.0525943),
    "uDP": Interpolation(1.09361, -1.77917, -5.19583, 7.3125, -6.16667, -3.16667, rmse=0.0965053),
}


def fit(other: ArrayLike, own: ArrayLike, improvement: ArrayLike) -> Interpolation:
    """Fit the interpolation to measured improvements at these privacy parameters by least squares; `rmse` is the fit's
    error.

    The error counts degrees of freedom (n - 6), so a table of six measurements, which any quadratic meets, is refused.

    >>> x, y = np.meshgrid(np.linspace(0, 1, 5), np.linspace(0, 1, 5))
    >>> again = fit(x, y, PUBLISHED["bDP"](x, y))
    >>> round(again.beta2, 4), round(again.rmse, 9)
    (-11.9219, 0.0)
    """
    x, y, f = (finite(v, name).ravel() for v, name in ((other, "other"), (own, "own"), (improvement, "improvement")))
    if not len(x) == len(y) == len(f):
        raise SettingError(f"other, own, improvement: expected as many of each, found {len(x)}, {len(y)} and {len(f)}")
    terms = np.stack([np.ones_like(x), x, y, x * y, x**2, y**2], axis=1)
    if len(f) < 7 or np.linalg.matrix_rank(terms) < 6:
        raise SettingError("measurements: expected at least 7, at three or more different values of each player's p")
    eta0, alpha1, alpha2, eta1, beta1, beta2 = (float(c) for c in np.linalg.lstsq(terms, f, rcond=None)[0])
    fitted = Interpolation(eta0, alpha1, alpha2, eta1, beta1, beta2)
    error = float(np.sqrt(np.sum((fitted(x, y) - f) ** 2) / (len(f) - 6)))
    return Interpolation(eta0, alpha1, alpha2, eta1, beta1, beta2, rmse=error)


def published(mechanism: Mechanism, concern: Sequence[float], participation: bool = False) -> Game:
    """P's game for one of its three mechanisms, with the coefficients of its table 5; concern = (C1/B1, C2/B2).

    >>> from parley.decisions.games import solve
    >>> found = solve(published("bDP", concern=(5, 0.2)))
    >>> found.privacy.round(5).tolist(), found.epsilon.round(3).tolist(), round(found.price_of_privacy, 3), found.unique
    ([0.31501, 0.10741], [2.175, 8.31], 0.184, True)
    """
    if mechanism not in PUBLISHED:
        raise SettingError(f"mechanism = {mechanism!r}: expected one of {', '.join(PUBLISHED)}")
    gain = PUBLISHED[mechanism]
    return joint_learning((gain, gain), concern, participation, budgets=mechanism != "hide")


def joint_learning(
    gains: tuple[Interpolation, Interpolation],
    concern: Sequence[float],
    participation: bool = False,
    budgets: bool = True,
) -> Game:
    """The game of two players with these gains. Without `budgets` (hiding) p is a share of the data and no epsilon
    follows."""
    weight = _concern(concern)

    def improvement(p: Floats) -> Floats:
        pairs = ((p[..., 1], p[..., 0]), (p[..., 0], p[..., 1]))
        return np.stack(
            [g.benefit(*at) if participation else g(*at) for g, at in zip(gains, pairs, strict=True)], axis=-1
        )

    def payoff(p: Floats) -> Floats:
        return improvement(p) - weight * (1 - p)

    first, second = gains
    curvature = np.array([[2 * first.beta2, first.eta1], [second.eta1, 2 * second.beta2]])
    return Game(
        payoff,
        np.zeros(2),
        np.ones(2),
        privacy=lambda p: p,
        epsilon=_epsilon if budgets else None,
        improvement=improvement,
        without_privacy=np.zeros(2),
        curvature=None if participation else (curvature, curvature),
    )


def _concern(concern: Sequence[float]) -> Floats:
    if len(concern) != 2:
        raise SettingError(f"concern: expected two numbers, one for each player, found {len(concern)}")
    return np.array([non_negative(c, "concern") for c in concern])


def _epsilon(p: Floats) -> Floats:
    """eps = 1/p - 1 (P section 3.3); without protection, infinite."""
    return np.divide(1.0, p, out=np.full_like(p, np.inf), where=p > 0) - 1


def table_6(mechanism: Mechanism, concern: float, other: float) -> float:
    """The best response as P's table 6 prints it, in closed form.

    P asks for a positive payoff of *every* player. A player's own is what its best response depends on; the other's is
    part of the other's best response, so equilibria are the same, and only the own condition is applied here.

    >>> table_6("hide", concern=0.5, other=0.1), round(table_6("bDP", concern=1.0, other=0.14608), 4)
    (0.0, 0.1461)
    """
    f, x = PUBLISHED[mechanism], np.array(float(other))
    stationary = (-non_negative(concern, "concern") - f.alpha2 - f.eta1 * other) / (2 * f.beta2)  # P eq. 26
    chosen = min(max(stationary, 0.0), 1.0)
    if f.beta2 > 0:  # a minimum: only the ends count
        chosen = 0.0 if stationary > 0 else 1.0
    return chosen if float(f(x, np.array(chosen))) - concern * (1 - chosen) > 0 else 1.0
