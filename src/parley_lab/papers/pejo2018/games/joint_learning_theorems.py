"""P's four theorems as code: each returns the profile it promises, or None with the reason why its conditions do not
hold.

The conditions (P eq. 14 to 16) are decided exactly: derivatives of a quadratic are linear, so their extremes lie at
corners. Two theorems say less than they print. Theorem 3 answers "no privacy" whenever that pays at all, though an
interior choice can pay more; here the best of the three candidates is taken. Theorem 4 promises an equilibrium other
than training alone; its proof gives some equilibrium of a game with twice differentiable payoffs, which the benefit
[Phi - theta]^+ is not, and at concerns of (5, 0.2) training alone is the only one.
"""

from dataclasses import dataclass

import numpy as np

from parley.validate import Floats
from parley_lab.papers.pejo2018.games.joint_learning import Interpolation

CORNERS = [(np.array(x), np.array(y)) for x in (0.0, 1.0) for y in (0.0, 1.0)]


@dataclass(frozen=True)
class Assumptions:
    """Which of P's three assumptions a fitted gain meets."""

    privacy_never_helps: bool  # eq. 14: both derivatives are at most 0 everywhere
    full_privacy_is_alone: bool  # eq. 15: no gain where either keeps everything to itself
    together_helps: bool  # eq. 16: a gain where nobody protects anything


@dataclass(frozen=True, eq=False)
class Theorem:
    """What a theorem says about a game; `profile` is None where it does not apply."""

    number: int
    profile: Floats | None
    because: str


def assumptions(gain: Interpolation) -> Assumptions:
    """Decide P eq. 14 to 16 for a quadratic gain, exactly.

    >>> from parley_lab.papers.pejo2018.games.joint_learning import PUBLISHED
    >>> assumptions(PUBLISHED["hide"]).privacy_never_helps, assumptions(PUBLISHED["bDP"]).privacy_never_helps
    (True, False)
    """
    derivatives = [gain.alpha1 + gain.eta1 * y + 2 * gain.beta1 * x for x, y in CORNERS]
    derivatives += [gain.alpha2 + gain.eta1 * x + 2 * gain.beta2 * y for x, y in CORNERS]
    zero, one = np.array(0.0), np.array(1.0)
    alone = max(float(gain.benefit(one, zero)), float(gain.benefit(zero, one)))  # largest gain on either edge
    return Assumptions(max(float(s) for s in derivatives) <= 0, alone <= 0, float(gain(zero, zero)) > 0)


def theorem_1(gain: Interpolation) -> Theorem:
    """Training alone, (1, 1), is an equilibrium whenever full privacy of one means no gain for both (eq. 15)."""
    if not assumptions(gain).full_privacy_is_alone:
        return Theorem(1, None, "somebody gains although the other keeps everything to itself (eq. 15 fails)")
    return Theorem(1, np.ones(2), "nobody gains from a partner that gives nothing")


def theorem_2(gain: Interpolation, concern: tuple[float, float]) -> Theorem:
    """Two unconcerned players protect nothing, (0, 0), if no privacy raises the gain (eq. 14)."""
    if max(concern) > 0:
        return Theorem(2, None, "somebody is concerned")
    if not assumptions(gain).privacy_never_helps:
        return Theorem(2, None, "the fitted gain rises with privacy somewhere (eq. 14 fails)")
    return Theorem(2, np.zeros(2), "nobody pays for privacy, and it only lowers the gain")


def theorem_3(gain: Interpolation, concern: tuple[float, float]) -> Theorem:
    """One concerned player against one that is not: the latter protects nothing, the former plays rho (eq. 18,
    mended)."""
    if not (min(concern) == 0 < max(concern)):
        return Theorem(3, None, "expected exactly one concerned player")
    met = assumptions(gain)
    if not (met.privacy_never_helps and met.full_privacy_is_alone):
        return Theorem(3, None, f"the fitted gain breaks P's assumption in eq. {15 if met.privacy_never_helps else 14}")
    weight = max(concern)
    candidates = [0.0]
    if gain.beta2 < 0:  # the stationary point is a maximum
        candidates.append(min(max((-weight - gain.alpha2) / (2 * gain.beta2), 0.0), 1.0))
    payoff = [float(gain(np.array(0.0), np.array(p))) - weight * (1 - p) for p in candidates]
    best = int(np.argmax(payoff))
    rho = candidates[best] if payoff[best] > 0 else 1.0
    if rho == 1.0:
        alone = np.array([1.0, 0.0] if concern[0] > 0 else [0.0, 1.0])
        return Theorem(3, alone, "the concerned player trains alone; to the other it is then all one")
    profile = np.array([rho, 0.0] if concern[0] > 0 else [0.0, rho])
    return Theorem(3, profile, f"the concerned player keeps {rho:.4g}, the other nothing")


def theorem_4(gains: tuple[Interpolation, Interpolation], concern: tuple[float, float]) -> Theorem:
    """With equal mixed derivatives (eq. 23) the game before clamping is a potential game: the potential's maximum is an
    equilibrium.

    >>> from parley_lab.papers.pejo2018.games.joint_learning import PUBLISHED
    >>> theorem_4((PUBLISHED["bDP"], PUBLISHED["bDP"]), concern=(1.0, 1.0)).profile.round(4).tolist()
    [0.1461, 0.1461]
    """
    first, second = gains
    if first.eta1 != second.eta1:
        return Theorem(4, None, f"mixed derivatives differ: {first.eta1:g} and {second.eta1:g} (eq. 23 fails)")
    return Theorem(
        4, _potential_maximum(gains, concern), "equal mixed derivatives make it a potential game, before clamping"
    )


def _potential_maximum(gains: tuple[Interpolation, Interpolation], concern: tuple[float, float]) -> Floats:
    """Where sum_n ((alpha2 + c_n) p_n + beta2 p_n^2) + eta1 p1 p2 is largest on the box.

    It is a quadratic, so its own stationary point, those of the edges and the corners are all that can win.
    """
    linear = [gain.alpha2 + c for gain, c in zip(gains, concern, strict=True)]
    quadratic, cross = [gain.beta2 for gain in gains], gains[0].eta1

    def potential(p: tuple[float, float]) -> float:
        return (
            linear[0] * p[0]
            + quadratic[0] * p[0] ** 2
            + linear[1] * p[1]
            + quadratic[1] * p[1] ** 2
            + cross * p[0] * p[1]
        )

    def peak(player: int, other: float) -> float:
        return (
            min(max(-(linear[player] + cross * other) / (2 * quadratic[player]), 0.0), 1.0)
            if quadratic[player]
            else 0.0
        )

    ends = (0.0, 1.0)
    points = [(p, q) for p in ends for q in ends] + [(p, peak(1, p)) for p in ends] + [(peak(0, q), q) for q in ends]
    matrix = np.array([[2 * quadratic[0], cross], [cross, 2 * quadratic[1]]])
    if np.linalg.det(matrix) != 0:
        inside = np.clip(np.linalg.solve(matrix, [-linear[0], -linear[1]]), 0, 1)
        points.append((float(inside[0]), float(inside[1])))
    return np.array(max(points, key=potential))
