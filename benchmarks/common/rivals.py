"""Private methods of other people, written from their papers' formulas: (eps, delta), replace-one adjacency, one row a
person.

Each is tuned by an oracle that no real user has: the settings with the least *test* cost on the first split, by
climbing from the best of a coarse grid until no neighbour along any knob is better by 1 %, so the best is never at an
edge. (The search for descent and objective perturbation takes gradients of 4,096 rows, moved to vanish where those of
all do; noise is always that of all rows.) They are then run anew on all rows, with fresh noise, on every split.
Wherever a sharper analysis than the paper's is known and short, the rival gets it.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

from common.linear import TINY, Rows, ridge
from parley.privacy.mechanisms.gaussian import gaussian_ratio
from parley.validate import Floats

FACTOR = math.sqrt(2)  # between neighbouring settings in the end
SEARCH, FEW, MOST_STEPS = 4, 4096, 2048  # runs and rows of a search; steps of descent
Setting = tuple[float, ...]


@dataclass(frozen=True)
class Privacy:
    """The promise of each owner, and how many owners of equal size draw noise of their own."""

    epsilon: float
    delta: float
    owners: int = 1

    @property
    def unit(self) -> float:
        """sigma/sensitivity of one Gaussian release."""
        return gaussian_ratio(self.epsilon, self.delta)


class Rival(Protocol):
    """A method: where to look for its best settings, and its models."""

    descends: ClassVar[bool]  # whether it asks rows for gradients alone

    def grid(self, rows: Rows) -> Iterable[Setting]: ...

    def neighbours(self, setting: Setting, factor: float) -> Iterable[Setting]: ...

    def models(self, rows: Rows, settings: Sequence[Setting], privacy: Privacy, runs: int, seed: int) -> Floats:
        """[settings, runs, p]"""
        ...


def tuned(rival: Rival, train: Rows, test: Rows, privacy: Privacy) -> Setting:
    """The settings with the least mean test cost; no neighbour takes another 1 % off the excess."""
    optimum = ridge(train, TINY)
    least = float(test.cost(optimum))
    train = train.thinned(FEW, optimum) if rival.descends else train
    seen: dict[Setting, float] = {}

    def judge(settings: Iterable[Setting], runs: int) -> Setting:
        fresh = [setting for setting in dict.fromkeys(settings) if setting not in seen]
        if fresh:
            excess = test.cost(rival.models(train, fresh, privacy, runs, seed=10_000)).mean(axis=1) - least
            seen.update(zip(fresh, np.nan_to_num(excess, nan=np.inf, posinf=np.inf).tolist(), strict=True))
        return min(seen, key=seen.__getitem__)

    judge(rival.grid(train), 2)
    starts = sorted(seen, key=seen.__getitem__)[:4]
    for factor in (2.0, FACTOR):
        seen.clear()
        before, best = np.inf, judge(starts, SEARCH)
        while seen[best] < before - 0.01 * abs(seen[best]):
            before = seen[best]
            best = judge(rival.neighbours(best, factor), SEARCH)
        starts = [best]
    return best


def _steps(setting: Setting, factor: float) -> list[Setting]:
    """The settings one knob away."""
    found = []
    for place in range(len(setting)):
        for change in (factor, 1 / factor):
            moved = list(setting)
            moved[place] = float(f"{moved[place] * change:.4g}")
            found.append(tuple(moved))
    return found


@dataclass(frozen=True, eq=False)
class GradientDescent:
    """Gradient descent on all rows (Song et al. 2013, Bassily et al. 2014): T steps of one length, each row's gradient
    clipped, from 0 or from a `start` that is public, in coordinates that are public too (`turn`: a preconditioner).

    A setting is (clip, rate, T, average): the last iterate, or the mean of the second half of them. One row moves a
    mean gradient by at most 2 clip/n in L2, so each owner's noise is `unit` sqrt(T) 2 clip/n_l (T Gaussian releases are
    one of sqrt(T) times the shift), and the mean of N equal owners' answers carries 1/sqrt(N) of that.
    """

    descends: ClassVar[bool] = True
    start: Floats | None = None
    turn: Floats | None = None  # [p, p]: coordinates to descend in, as public as the start
    _known: dict[Rows, Rows] = field(default_factory=dict)

    def _seen(self, rows: Rows) -> Rows:
        """The rows in those coordinates."""
        if self.turn is None:
            return rows
        if rows not in self._known:
            self._known[rows] = rows.turned(self.turn)
        return self._known[rows]

    def grid(self, rows: Rows) -> Iterable[Setting]:
        rows = self._seen(rows)
        X = rows.short[0]
        steepest = float(np.linalg.eigvalsh(X.T @ X / len(X))[-1]) * (0.25 if rows.classes else 2.0)
        size = float(np.median(rows.norms)) * (0.5 if rows.classes else 1.0)
        clips, lengths = (size / 3, size, size * 3), (0.2, 1.0)
        steps = (4, 24, 144) if self.start is None else (1, 4, 24, 144)  # a good start may not need many
        for clip, length, many, average in itertools.product(clips, lengths, steps, (0.0, 1.0)):
            yield (float(f"{clip:.4g}"), float(f"{length / steepest:.4g}"), float(many), average)

    def neighbours(self, setting: Setting, factor: float) -> Iterable[Setting]:
        """One knob away, and both kinds of answer of each: they come from the same steps."""
        *knobs, average = setting
        yield (*knobs, 1 - average)
        for clip, rate, steps in _steps(tuple(knobs), factor):
            whole = float(max(1, round(steps)))
            if whole == knobs[2] and (clip, rate) == tuple(knobs[:2]):
                whole += math.copysign(1.0, steps - knobs[2])
            if 1 <= whole <= MOST_STEPS:
                yield from ((clip, rate, whole, 0.0), (clip, rate, whole, 1.0))

    def models(self, rows: Rows, settings: Sequence[Setting], privacy: Privacy, runs: int, seed: int) -> Floats:
        descents = list(dict.fromkeys(setting[:3] for setting in settings))
        last, means = self._descended(self._seen(rows), descents, privacy, runs, seed)
        found = np.array([(means if setting[3] else last)[descents.index(setting[:3])] for setting in settings])
        return found if self.turn is None else found @ self.turn.T

    def _descended(
        self, rows: Rows, descents: Sequence[Setting], privacy: Privacy, runs: int, seed: int
    ) -> tuple[Floats, Floats]:
        """The last iterates and the means of the second halves, both [descents, runs, p]."""
        clips, rates, steps = (np.repeat(np.array(knob), runs) for knob in zip(*descents, strict=True))
        width, rng = rows.X.shape[1], np.random.default_rng(seed)
        each = privacy.unit * np.sqrt(steps) * 2 * clips / (len(rows) / privacy.owners)
        noise = each / math.sqrt(privacy.owners)
        begin = np.zeros(width) if self.start is None else self.start
        begin = begin if self.turn is None else np.linalg.solve(self.turn, begin)
        theta, total = np.tile(begin.astype(np.float32), (len(steps), 1)), np.zeros((len(steps), width))
        for step in range(int(steps.max())):
            at = np.flatnonzero(step < steps)
            gradient = rows.clipped_gradients(theta[at], clips[at]) + noise[at, None] * rng.standard_normal(
                (len(at), width)
            )
            theta[at] -= (rates[at, None] * gradient).astype(np.float32)
            np.clip(theta, -1e4, 1e4, out=theta)  # what diverges is bad enough there
            kept = at[step >= np.floor(steps[at] / 2)]
            total[kept] += theta[kept]
        means = total / (steps - np.floor(steps / 2))[:, None]
        shape = (len(descents), runs, width)
        return theta.reshape(shape), means.reshape(shape)


def objective_noise(epsilon: float, delta: float) -> float:
    """sigma/S of the noise vector in objective perturbation, S = 2 clip bounding how far one row replaced moves a sum
    of gradients.

    Why it suffices: at a model theta the noise vectors b and b' = b + D that make it the minimum for two neighbouring
    tables differ by D, a combination of the two rows, |D| <= S. The loss ln N(b)/N(b') = (2 b.D + |D|^2)/(2 sigma^2) is
    at most r m + m^2/2, m = S/sigma, r sigma the length of b in the plane of the two rows: r follows Rayleigh's law. So
    delta(eps) <= E max(0, 1 - exp(eps - r m - m^2/2)). What the change of variables adds is paid for in
    `ObjectivePerturbation`.
    """

    def excess(log_ratio: float) -> float:
        m = math.exp(-log_ratio)
        low = max(0.0, epsilon / m - m / 2)
        value, _ = quad(
            lambda r: r * math.exp(-r * r / 2) * -math.expm1(min(0.0, epsilon - r * m - m * m / 2)),
            low,
            low + 12,
            epsabs=0,
            limit=200,
        )
        return math.log(max(value, 1e-300)) - math.log(delta)

    return math.exp(brentq(excess, -3.0, 12.0)) * (1 + 1e-9)


@dataclass(frozen=True)
class ObjectivePerturbation:
    """Objective perturbation (Kifer et al. 2012; approximate minima: Iyengar et al. 2019), logistic regression of one
    owner.

    Minimises sum of losses + L/2 |theta|^2 + b.theta, b normal. A setting is (norm, clip, share): rows are scaled to
    this norm, derivatives clipped so that a gradient is at most `clip` (the cost stays convex and no less smooth), and
    `share` of eps pays for the Jacobians: for one row replaced their ratio is at most 1 + c/L, c = norm^2/4, so L =
    c/(e^(share eps) - 1). The minimum is taken as exact, which costs the rival nothing.
    """

    descends: ClassVar[bool] = True
    rounds: int = 80

    def grid(self, rows: Rows) -> Iterable[Setting]:
        usual = float(np.median(rows.norms))
        for norm, clip, share in itertools.product((1.0, 2.0), (0.25, 0.7), (0.1, 0.4)):
            yield tuple(float(f"{value:.4g}") for value in (norm * usual, clip * norm * usual, share))

    def neighbours(self, setting: Setting, factor: float) -> Iterable[Setting]:
        return [there for there in _steps(setting, factor) if there[2] < 1]

    def models(self, rows: Rows, settings: Sequence[Setting], privacy: Privacy, runs: int, seed: int) -> Floats:
        if privacy.owners != 1 or not rows.classes:
            raise ValueError("objective perturbation is for one owner's classes")
        drawn = np.random.default_rng(seed).standard_normal((runs, rows.X.shape[1]))
        return np.array([self._minima(rows, setting, privacy, drawn) for setting in settings])

    def _minima(self, rows: Rows, setting: Setting, privacy: Privacy, drawn: Floats) -> Floats:
        """[runs, p], by Nesterov's method in the metric of the largest curvature, in which the cost has condition
        1/share of the rows."""
        norm, clip, share = setting
        scaled, count = rows.within(norm), len(rows)
        spent = share * privacy.epsilon
        weight = norm**2 / 4 / math.expm1(spent) / count
        pull = objective_noise(privacy.epsilon - spent, privacy.delta) * 2 * clip / count * drawn
        steepest = np.linalg.inv(scaled.X.T @ scaled.X / (4 * len(scaled.X)) + weight * np.eye(drawn.shape[1]))
        theta = ahead = np.zeros(drawn.shape)
        clips = np.full(len(drawn), clip)
        for step in range(self.rounds):
            gradient = scaled.clipped_gradients(ahead, clips) + weight * ahead + pull
            there = ahead - gradient @ steepest
            ahead, theta = there + step / (step + 3) * (there - theta), there
        return theta


@dataclass(frozen=True)
class Statistics:
    """AdaSSP (Wang 2018): least squares from noisy X'X and X'y with a ridge that fits the noise; regression of one
    owner.

    A setting is (norm, largest |y|, times the paper's ridge). One row replaced moves X'X by at most sqrt 2 norm^2 in
    Frobenius norm (both rows' parts are positive semidefinite), its least eigenvalue by norm^2, X'y by 2 norm |y|.
    Three Gaussian releases with sqrt 3 `unit` times those are one with `unit`: exact, and less noise than the paper's
    thirds of eps and delta.
    """

    descends: ClassVar[bool] = False
    _known: dict[tuple[Rows, float, float], tuple[Floats, Floats]] = field(default_factory=dict)

    def grid(self, rows: Rows) -> Iterable[Setting]:
        usual = float(np.median(rows.norms))
        for norm, target, times in itertools.product((0.7, 1.0, 1.4, 2.0), (1.0, 2.0, 4.0), (0.01, 0.1, 1.0)):
            yield (float(f"{norm * usual:.4g}"), target, times)

    def neighbours(self, setting: Setting, factor: float) -> Iterable[Setting]:
        return _steps(setting, factor)

    def models(self, rows: Rows, settings: Sequence[Setting], privacy: Privacy, runs: int, seed: int) -> Floats:
        if privacy.owners != 1 or rows.classes:
            raise ValueError("AdaSSP is for one owner's numbers")
        rng, width = np.random.default_rng(seed), rows.X.shape[1]
        square, line, point = (
            rng.standard_normal((runs, width, width)),
            rng.standard_normal((runs, width)),
            rng.standard_normal(runs),
        )
        upper = np.triu(square) + np.triu(square, 1).transpose(0, 2, 1)
        # Off the diagonal each number stands for two: noise of 1/sqrt 2 there is spherical in the Frobenius norm.
        symmetric = np.where(np.eye(width, dtype=bool), upper, upper / math.sqrt(2))
        each, found = math.sqrt(3) * privacy.unit, []
        for norm, most, times in settings:
            XX, Xy = self._sums(rows, norm, most)
            wide = each * math.sqrt(2) * norm**2
            lowest = (
                np.linalg.eigvalsh(XX)[0]
                + each * norm**2 * point
                - each * norm**2 * math.sqrt(2 * math.log(6 / privacy.delta))
            )
            spread = math.sqrt(width * math.log(2 * width**2 / 0.05)) * wide
            weight = times * np.maximum(0.0, spread - np.maximum(0.0, lowest)) + 1e-9
            noisy = XX + wide * symmetric + weight[:, None, None] * np.eye(width)
            values, vectors = np.linalg.eigh(noisy)
            values = np.maximum(values, 1e-3 * np.trace(XX) / width)  # a matrix of moments has no negative eigenvalue
            right = (Xy + each * 2 * norm * most * line)[:, :, None]
            found.append((vectors @ ((vectors.transpose(0, 2, 1) @ right) / values[:, :, None]))[:, :, 0])
        return np.array(found)

    def _sums(self, rows: Rows, norm: float, most: float) -> tuple[Floats, Floats]:
        key = (rows, norm, most)
        if key not in self._known:
            X = rows.within(norm).X
            self._known[key] = X.T @ X, X.T @ np.clip(rows.y, -most, most)
        return self._known[key]
