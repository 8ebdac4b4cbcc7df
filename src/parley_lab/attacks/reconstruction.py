"""An owner's series again, from the sums that it sends for an echo-state network (Z section 6.3): by descending their
misfit, as printed and by L-BFGS, and without any descent.

Without noise the sums hold the series: B = Z'Z has the rank of its rows, so that every row lies in its range. The first
row is a function of u[1] alone, the next one of u[2] and what is known then: one unknown number after the other.
"""

from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
from scipy.optimize import minimize

from parley.errors import SettingError
from parley.validate import Floats
from parley_lab.attacks.reservoir import Reservoir, Sums

STEP, MOMENTUM = 1e-8, -0.1  # as printed: the momentum of Z eq. 6.20 has the sign of a brake
POINTS, ROUNDS = 401, 16  # inputs that are tried at once, and how often between neighbours of the best
MAX_MISFIT_SHARE = 1e-9  # of the sums' own size: a misfit that no other start could lower


@dataclass(frozen=True, eq=False)
class Guess:
    """A series [T], how far its sums are from those sent, and the guesses on the way to it [steps, T]."""

    u: Floats
    misfit: float
    path: Floats

    def error(self, true: Floats) -> float:
        """The mean squared error of the series."""
        return float(np.mean((self.u - true) ** 2))


def descend(
    reservoir: Reservoir,
    sent: Sums,
    start: Floats,
    steps: int,
    step: float = STEP,
    momentum: float = MOMENTUM,
) -> Guess:
    """Gradient descent with momentum: u[k+1] = u[k] - step dL/du + momentum (u[k] - u[k-1])."""
    u = before = start
    path, value = [start], np.inf
    for _ in range(steps):
        value, gradient = reservoir.misfit(u, sent)
        u, before = u - step * gradient + momentum * (u - before), u
        path.append(u)
    return Guess(u, value, np.array(path))


def minimise(reservoir: Reservoir, sent: Sums, start: Floats, reach: float = np.inf, steps: int = 600) -> Guess:
    """L-BFGS from one start, within |u| <= reach: noise drives guesses far away, else a box is in the way."""
    path = [start]
    found = minimize(
        reservoir.misfit,
        start,
        (sent,),
        method="L-BFGS-B",
        jac=True,
        bounds=None if np.isinf(reach) else [(-reach, reach)] * len(start),
        callback=lambda u: path.append(u.copy()),
        options={"maxiter": steps, "maxfun": 2 * steps, "ftol": 1e-30, "gtol": 1e-12},
    )
    return Guess(np.asarray(found.x), float(found.fun), np.array(path))


def read_off(reservoir: Reservoir, sent: Sums, samples: int, reach: float) -> Floats:
    """The series [T], number by number: each is the input within `reach` whose row is nearest to the range of B, and
    the last follows from the sums of inputs that begin and end one later."""
    outside = np.linalg.eigh(sent.B)[1][:, : len(sent.B) - (samples - 1)]
    state, found = np.zeros(len(reservoir.w)), list[float]()
    for _ in range(samples - 1):
        low, high = -reach, reach
        for _ in range(ROUNDS):
            inputs = np.linspace(max(low, -reach), min(high, reach), POINTS)
            rows = reservoir.next_rows(state, inputs)
            best = int(np.argmin(((rows @ outside) ** 2).sum(axis=1)))
            near = 2 * (high - low) / (POINTS - 1)
            low, high = inputs[best] - near, inputs[best] + near
            if near < 1e-14 * reach:
                break
        found.append(float(inputs[best]))
        state = rows[best, 2:]
    last = float(np.clip(sent.A[0] - sent.B[0, 1] + found[0], -reach, reach))
    return np.array([*found, last])


def search(
    reservoir: Reservoir, sent: Sums, samples: int, reach: float, starts: int, seed: int = 0, reads: bool = True
) -> Guess:
    """The best of L-BFGS from several starts, up to the first that explains what was sent: what can be read off, zero,
    and random ones, within `reach`. Without reading (`reads`) there is no box. The misfit has other minima."""
    rng, enough = np.random.default_rng(seed), MAX_MISFIT_SHARE * float(np.vdot(sent.B, sent.B))
    first = [read_off(reservoir, sent, samples, reach)] if reads else []
    drawn = (rng.uniform(-reach, reach, samples) for _ in range(starts))
    best: Guess | None = None
    for start in islice(chain(first, [np.zeros(samples)], drawn), starts):
        found = minimise(reservoir, sent, start, reach if reads else np.inf)
        best = found if best is None or found.misfit < best.misfit else best
        if best.misfit < enough:
            break
    if best is None:
        raise SettingError("starts = 0: expected at least one")
    return best
