"""Linear models of prepared rows: costs, gradients of many models at once, ridge by leaving one row out. No privacy
here."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit

from parley.validate import Floats

BLOCK = 1024  # rows whose margins stay in the cache
PENALTIES = np.logspace(-1, 3.5, 10)  # of a sum over rows, of standardised features
TINY = 1e-3


@dataclass(frozen=True, eq=False)
class Rows:
    """Prepared rows X [n, p], the constant last, and targets y [n]: numbers, or classes -1 and 1."""

    X: Floats
    y: Floats
    classes: bool

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def norms(self) -> Floats:
        return np.sqrt(np.einsum("ij,ij->i", self.X, self.X))

    @cached_property
    def short(self) -> tuple[Floats, Floats, Floats]:
        """X, y and norms in single precision: fast, and exact enough under noise."""
        return self.X.astype(np.float32), self.y.astype(np.float32)[:, None], self.norms.astype(np.float32)[:, None]

    def take(self, places: Floats) -> "Rows":
        return Rows(self.X[places], self.y[places], self.classes)

    def within(self, norm: float) -> "Rows":
        """Every x scaled down to this norm at most."""
        return Rows(self.X * np.minimum(1.0, norm / self.norms)[:, None], self.y, self.classes)

    def cost(self, theta: Floats) -> Floats:
        """The mean squared error or log-loss of models [..., p]."""
        flat = theta.reshape(-1, theta.shape[-1])
        total = np.zeros(len(flat))
        for start in range(0, len(self.X), BLOCK):
            total += losses(flat @ self.X[start : start + BLOCK].T, self.y[start : start + BLOCK], self.classes).sum(
                axis=1
            )
        return (total / len(self.X)).reshape(theta.shape[:-1])

    def clipped_gradients(self, theta: Floats, clips: Floats) -> Floats:
        """The mean over rows of each row's gradient, clipped in L2 to `clips` [G], at models [G, p], in single
        precision.

        A row's gradient is a number times x, so clipping it is clipping the number to clip/|x|.
        """
        X, y, norms = self.short
        total = np.zeros(theta.shape, dtype=np.float32)
        towards = np.ascontiguousarray(theta.T, dtype=np.float32)
        limits = clips.astype(np.float32)[None, :]
        for start in range(0, len(X), BLOCK):
            x, target = X[start : start + BLOCK], y[start : start + BLOCK]
            number = x @ towards
            if self.classes:  # (tanh(m/2) - y)/2 = -y expit(-y m): half the time
                number *= 0.5
                np.tanh(number, out=number)
                number -= target
                number *= 0.5
            else:
                number -= target
                number *= 2
            most = limits / norms[start : start + BLOCK]
            np.minimum(number, most, out=number)
            np.maximum(number, np.negative(most, out=most), out=number)
            total += number.T @ x
        return total / np.float32(len(X))  # of these rows, which may stand for more

    def turned(self, turn: Floats) -> "Rows":
        """The same in other coordinates x turn, turn [p, p]: a model theta of them is turn theta of these."""
        return Rows(self.X @ turn, self.y, self.classes)

    def thinned(self, rows: int, centre: Floats) -> "Rows":
        """Fewer rows with gradients like all of them, see `Thinned`; these if they are few."""
        return self if len(self) <= rows else Thinned(self.X[:rows], self.y[:rows], self.classes, self, centre)

    def moments(self, weights: Floats) -> Floats:
        """The weighted sum of all x x' [p, p]."""
        starts = range(0, len(self.X), BLOCK)
        blocks = ((self.X[start : start + BLOCK], weights[start : start + BLOCK, None]) for start in starts)
        return sum((x.T @ (x * weight) for x, weight in blocks), np.zeros((self.X.shape[1],) * 2))

    def curvatures(self, theta: Floats) -> Floats:
        """The second derivative of each row's cost by its margin [n]."""
        if not self.classes:
            return np.full(len(self.y), 2.0)
        chance = expit(self.X @ theta)
        return chance * (1 - chance)

    def derivatives(self, theta: Floats) -> Floats:
        """The first [n]."""
        margins = self.X @ theta
        return -self.y * expit(-self.y * margins) if self.classes else 2 * (margins - self.y)


@dataclass(frozen=True, eq=False)
class Thinned(Rows):
    """Some of many rows, for searches: gradients are theirs, moved by a constant so that at the centre they are those
    of all rows."""

    whole: Rows
    centre: Floats

    def __len__(self) -> int:
        return len(self.whole)

    def within(self, norm: float) -> "Rows":
        return self.whole.within(norm).thinned(len(self.y), self.centre)

    def turned(self, turn: Floats) -> "Rows":
        return Thinned(self.X @ turn, self.y, self.classes, self.whole.turned(turn), np.linalg.solve(turn, self.centre))

    def clipped_gradients(self, theta: Floats, clips: Floats) -> Floats:
        sizes, places = np.unique(clips, return_inverse=True)
        moved = np.array([self._moved(float(size)) for size in sizes])
        return super().clipped_gradients(theta, clips) + moved[places]

    def _moved(self, clip: float) -> Floats:
        if clip not in self._known:
            at, once = self.centre[None, :], np.array([clip])
            self._known[clip] = (self.whole.clipped_gradients(at, once) - super().clipped_gradients(at, once))[0]
        return self._known[clip]

    @cached_property
    def _known(self) -> dict[float, Floats]:
        return {}


def losses(margins: Floats, y: Floats, classes: bool) -> Floats:
    """Log-losses of classes -1 and 1, squared errors of numbers."""
    return np.logaddexp(0.0, -y * margins) if classes else (margins - y) ** 2


def whitening(rows: Rows, theta: Floats) -> Floats:
    """(H + r)^-1/2 [p, p], H the Hessian of the rows' mean cost at theta and r its mean a parameter times
    parameters/rows: what so few rows cannot tell is not blown up."""
    values, vectors = np.linalg.eigh(rows.moments(rows.curvatures(theta)) / len(rows))
    return vectors / np.sqrt(np.maximum(values, 0.0) + len(values) / len(rows) * values.mean()) @ vectors.T


def ridge(rows: Rows, penalty: float, start: Floats | None = None) -> Floats:
    """The minimum of sum of costs + penalty/2 |theta|^2, the constant free, by Newton's method with halved steps."""
    weight = np.append(np.full(rows.X.shape[1] - 1, penalty), TINY)

    def total(at: Floats) -> float:
        return float(rows.cost(at) * len(rows) + (weight * at**2).sum() / 2)

    theta = np.zeros(rows.X.shape[1]) if start is None else start
    cost = total(theta)
    for _ in range(50):
        gradient = rows.X.T @ rows.derivatives(theta) + weight * theta
        step = np.linalg.solve(rows.moments(rows.curvatures(theta)) + np.diag(weight), gradient)
        length = 1.0
        while (there := total(theta - length * step)) > cost + 1e-7 * abs(cost) and length > 1e-6:
            length /= 2
        theta, gained, cost = theta - length * step, cost - there, there
        if gained <= 1e-7 * abs(cost):
            return theta
    return theta


def chosen_ridge(rows: Rows) -> Floats:
    """Ridge whose penalty leaving one row out at a time likes best: exact for squared errors, one Newton step for
    log-loss."""
    best, theta = (np.inf, np.zeros(rows.X.shape[1])), None
    for penalty in PENALTIES[::-1]:
        theta = ridge(rows, penalty, theta)
        curvatures = rows.curvatures(theta)
        curvature = rows.moments(curvatures) + np.diag(np.append(np.full(rows.X.shape[1] - 1, penalty), TINY))
        leverage = np.einsum("ij,ij->i", rows.X @ np.linalg.inv(curvature), rows.X)
        margins = rows.X @ theta + rows.derivatives(theta) * leverage / (1 - np.minimum(curvatures * leverage, 0.99))
        left_out = float(losses(margins, rows.y, rows.classes).mean())
        best = min(best, (left_out, theta), key=lambda pair: pair[0])
    return best[1]
