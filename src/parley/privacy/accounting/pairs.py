"""The worst pair of output laws of one release, and its exact privacy curve delta(eps).

One person's record is replaced. With probability q (Poisson sampling, drawn by the owner in secret; q = 1: always) it
takes part. Then it moves the value by at most half the sensitivity to one side, and its replacement to the other:

    P = (1 - q) f(x) + q f(x - c),   Q = (1 - q) f(x) + q f(x + c),   c = sensitivity/2

Replace-one adjacency in one dimension; P and Q are mirror images.

Formal guarantee, Gaussian noise of any dimension: whatever the directions u, v of the two moves, |u|, |v| <= c, this
pair has the largest delta at every eps, so sequences of releases are bounded by sequences of it.

Proof. For q = 1 the law is rotation invariant. For q < 1 let g = e^eps >= 1 (below 0 exchange P and Q). Then P(S) - g
Q(S) = q (N_u(S) - k R(S)), where k >= 1 and R is a mixture, in shares that q and eps fix, of the laws centred at 0 and
at v. Seen from u, its largest value over S is q E[(1 - k M)_+]. Here M is the sum of shares times exp(<w, x> -
|w|^2/2), x is standard normal, and w is each of the two centres less u, in units of the noise: |w| <= c and <= 2 c. The
function t -> (1 - k t)_+ is convex. Of sums with given marginal laws the comonotone one is largest in convex order, and
parallel w give it. Each summand grows in convex order with |w| (a martingale), and comonotone sums grow with their
summands. So the value is largest for w = c e and 2 c e with one e: v = -u. Tests check this by quadrature in two
dimensions over directions and lengths.

For other noise this is the worst case of a single number, as far as that was checked; nothing is claimed of several.

Privacy-loss distributions are discretised by "connect the dots" (Doroshenko et al. 2022) and composed by FFT;
dp-accounting does both. On a grid of eps the discrete distribution's delta(eps) equals the true one, and between grid
points it lies above it. So every result is an upper bound, and refining the grid closes the gap quadratically.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from parley.errors import SettingError
from parley.privacy.mechanisms.stable_law import log_pdf, survival
from parley.validate import Floats

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


Curve = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Law:
    """A symmetric noise law of scale 1: its log-density, and its upper tail P[Y > z] for z >= 0."""

    log_pdf: Callable[[Floats], Floats]
    survival: Callable[[Floats], Floats]
    reach: float  # beyond this many scales the tail mass is below 1e-19


def make_stable_law(alpha: float) -> Law:
    """Return symmetric alpha-stable noise; alpha = 2 is the Gaussian of standard deviation sqrt(2)."""
    reach = 14.0 if alpha == 2 else 1e12
    return Law(lambda z: log_pdf(z, alpha), lambda z: survival(z, alpha), reach)


@dataclass(frozen=True)
class Pair:
    """P and Q above for a noise law of scale 1, half-shift c = sensitivity/(2 scale) and sampling rate q."""

    law: Law
    half_shift: float
    sampling: float = 1.0

    def loss(self, x: Floats) -> Floats:
        """Return ln P/Q at x: odd in x, positive for x > 0."""
        q, c, f = self.sampling, self.half_shift, self.law.log_pdf
        up, down = f(x - c), f(x + c)
        if q == 1:
            return up - down
        centre = math.log1p(-q) + f(x)
        return np.logaddexp(centre, math.log(q) + up) - np.logaddexp(centre, math.log(q) + down)

    def upper_tail(self, x: Floats, side: int) -> Floats:
        """Return P[X > x] under P (side +1) or Q (side -1)."""
        moved = self._above(x - side * self.half_shift)
        return moved if self.sampling == 1 else (1 - self.sampling) * self._above(x) + self.sampling * moved

    def curve(self) -> tuple[Curve, float]:
        """Return (delta as a function of eps >= 0, the largest loss). {loss > eps} is an interval (a, b) in x > 0: the
        loss rises from 0 to its top and, for heavy tails, falls back. Its ends are found on a grid and polished. An
        error dx in an end changes delta by less than dx^2, and rounding is added: errors are upward."""
        c = self.half_shift
        grid = np.sinh(np.linspace(0, math.asinh(self.law.reach + c), 6_000))
        x = np.concatenate([grid, c + grid, np.maximum(c - grid, 0.0), np.linspace(0, 2 * c, 2_000)])
        x = np.unique(x)
        loss = self.loss(x)
        top = int(np.argmax(loss))
        # the top itself lies between grid points
        near = np.linspace(x[max(top - 1, 0)], x[min(top + 1, len(x) - 1)], 201)
        x = np.unique(np.concatenate([x, near]))
        loss = self.loss(x)
        top = int(np.argmax(loss))
        rising = np.maximum.accumulate(loss[: top + 1])
        falling = np.maximum.accumulate(loss[top:][::-1])

        def delta(epsilon: Floats) -> Floats:
            start = self._polish(np.interp(epsilon, rising, x[: top + 1]), epsilon)
            below_end = loss[-1] >= epsilon  # the loss never comes back: Gaussian and Laplace tails
            end = np.where(below_end, np.inf, self._polish(np.interp(epsilon, falling, x[top:][::-1]), epsilon))
            mass = [
                self.upper_tail(start, side) - np.where(below_end, 0.0, self.upper_tail(end, side)) for side in (1, -1)
            ]
            # what the second difference may have lost to rounding
            lost = 4e-16 * np.exp(epsilon) * self.upper_tail(start, -1)
            value = np.where(epsilon < loss[top], mass[0] - np.exp(epsilon) * mass[1] + lost, 0.0)
            return np.clip(value, 0.0, 1.0)

        return delta, float(loss[top])

    def _polish(self, x: Floats, epsilon: Floats) -> Floats:
        """Take two secant steps towards loss(x) = eps, kept only where they stay close."""
        for _ in range(2):
            h = 1e-6 * (1 + np.abs(x))
            derivative = (self.loss(x + h) - self.loss(x - h)) / (2 * h)
            with np.errstate(divide="ignore", invalid="ignore"):
                step = (epsilon - self.loss(x)) / derivative
            x = x + np.where(np.abs(step) < 1e-2 * (1 + np.abs(x)), step, 0.0)
        return x

    def _above(self, x: Floats) -> Floats:
        tail = self.law.survival(np.abs(x))
        return np.where(x >= 0, tail, 1 - tail)


def gaussian_pair(multiplier: float, sampling: float = 1.0) -> Pair:
    """Return the worst pair of Gaussian noise of standard deviation multiplier x sensitivity, in any dimension."""
    return Pair(make_stable_law(2.0), 2**-0.5 / multiplier, sampling)  # scale = sigma/sqrt(2)


DELTA_ROUNDING = 1e-13  # error of one computed delta of a curve (measured: 2e-14): added to it


def reading_error(compositions: int) -> float:
    """Return the error, charged to delta, of reading it off (measured: 3e-13 once, 3e-12 at 1e5, 6e-11 at 1e6)."""
    return 1e-12 + 2e-16 * compositions


def from_curve(curve: Curve, largest: float, interval: float) -> "PrivacyLossDistribution":
    """Return the loss distribution of mirror images with this curve for eps >= 0 and this largest loss. For eps < 0
    symmetry gives delta(-eps) = 1 - exp(-eps) (1 - delta(eps))."""
    if not 0 < interval <= 1:  # beyond 1 the exponentials overflow
        raise SettingError(
            "pld: this method cannot handle the number or the privacy loss of these releases; use method rdp"
        )
    steps = int(np.ceil(min(largest, 60.0) / interval)) + 1
    epsilon = interval * np.arange(steps + 1, dtype=np.float64)
    right = np.minimum(np.maximum.accumulate(curve(epsilon)[::-1])[::-1] + DELTA_ROUNDING, 1.0)
    left = 1 - np.exp(-epsilon[:0:-1]) * (1 - right[:0:-1])
    deltas = np.minimum.accumulate(np.concatenate([left, right]))
    keep = deltas < 1
    if not keep.any():
        raise SettingError("pld: this release has too little noise to hide anything; use more noise")
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    pmf = create_pmf_pessimistic_connect_dots(interval, np.arange(-steps, steps + 1)[keep], deltas[keep])
    return PrivacyLossDistribution(
        pmf.to_dense_pmf()
    )  # composing a dictionary a million times begins with a number of a million digits


def delta_at(distribution: "PrivacyLossDistribution", epsilon: ArrayLike, compositions: int = 1) -> Floats:
    """Return an upper bound on delta at eps."""
    epsilons = np.asarray(epsilon, dtype=np.float64)
    deltas = np.asarray(
        distribution.get_delta_for_epsilon(float(epsilons) if epsilons.ndim == 0 else epsilons.reshape(-1))
    )
    return np.minimum(deltas.reshape(epsilons.shape) + reading_error(compositions), 1.0)


def epsilon_at(distribution: "PrivacyLossDistribution", delta: float, compositions: int = 1) -> float:
    """Return an upper bound on eps at delta; infinite where the grid does not reach it."""
    error = reading_error(compositions)
    if not delta > 10 * error:
        raise SettingError(
            f"delta = {delta:g}: too small for method pld, whose error in delta is {error:.0e} for these releases; use "
            "method rdp"
        )
    with np.errstate(over="ignore"):
        return float(distribution.get_epsilon_for_delta(delta - error))
