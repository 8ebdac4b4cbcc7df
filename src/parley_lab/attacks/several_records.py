"""A few records off a few sums of their gradients, by optimisation: what a mean hides where nothing protects it.

The gradient of the logistic loss is a function of z = y x alone: the mean over m records at theta is that of -z/(1 +
exp(theta.z)). Answers at several theta are as many equations of the m unknown z, which the attacker solves by least
squares. A squared loss tells its second moments and no more, however often it is asked.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from scipy.optimize import least_squares, linear_sum_assignment

from parley.data import Design
from parley.data.design import summation_slack
from parley.errors import SettingError
from parley.losses import EmpiricalRisk, RecordBound
from parley.losses.loss import Logistic, Loss
from parley.privacy.mechanisms import Bounded, FastNoise, Laplace
from parley.validate import Floats, positive, whole
from parley_lab.attacks.leakage import ReadRecord

MAX_SOLVED_MISFIT = 1e-12  # of a mean misfit: no other start is tried
MAX_EVALUATIONS = 400  # of one start
SOLVER_TOLERANCES = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}


def read_records(
    loss: Loss, gradients: Floats, theta: Floats, records: int, seed: int = 0, starts: int = 30
) -> tuple[ReadRecord, ...]:
    """The records whose mean gradients at theta [queries, p] these are [queries, p]: the best of several starts. The
    last feature is the constant 1, weights are 1.

    >>> from parley.losses.loss import Logistic
    >>> z, theta = np.array([[2.0, 1.0], [-1.0, -1.0]]), np.array([[0.5, 0.1], [-0.4, 0.3], [0.2, -1.0]])
    >>> found = read_records(Logistic(), Logistic().gradient(theta @ z.T, np.ones(2)) @ z / 2, theta, 2)
    >>> sorted((float(each.x[0].round(6)), each.y) for each in found)
    [(1.0, -1.0), (2.0, 1.0)]
    """
    if not isinstance(loss, Logistic):
        raise SettingError("loss: expected the logistic loss: others tell one record, or second moments alone")
    width, rng, best = theta.shape[1], np.random.default_rng(seed), None
    one, unit = np.ones(whole(records, "records")), np.eye(width)

    def misfit(flat: Floats) -> Floats:
        z = flat.reshape(records, width)
        return np.asarray((loss.gradient(theta @ z.T, one) @ z / records - gradients).ravel())

    def jacobian(flat: Floats) -> Floats:
        z = flat.reshape(records, width)
        raw = theta @ z.T
        bent = np.einsum("qi,ij,qk->qjik", loss.hessian(raw, one), z, theta)
        straight = np.einsum("qi,jk->qjik", loss.gradient(raw, one), unit)
        return np.asarray((bent + straight).reshape(-1, flat.size) / records)

    method = "lm" if gradients.size >= records * width else "trf"
    for _ in range(starts):
        start = rng.normal(size=records * width)
        found = least_squares(misfit, start, jacobian, method=method, max_nfev=MAX_EVALUATIONS, **SOLVER_TOLERANCES)
        best = found if best is None or found.cost < best.cost else best
        if best.cost < MAX_SOLVED_MISFIT**2 * gradients.size:
            break
    z = np.asarray(best.x).reshape(records, width)  # type: ignore[union-attr]
    return tuple(ReadRecord(row * np.sign(row[-1]), float(np.sign(row[-1]))) for row in z)


def misread(found: Sequence[ReadRecord], rows: Design) -> float:
    """How far records that were read are from the true ones, each taken for another: the median of |read - x|_2/|x|_2,
    where one of the other class is as far as nothing at all."""
    far = np.array([[_far(each, x, y) for x, y in zip(rows.X, rows.y, strict=True)] for each in found])
    return float(np.median(far[linear_sum_assignment(far)]))


def _far(read: ReadRecord, x: Floats, y: float) -> float:
    return float(np.linalg.norm(read.x - x) / np.linalg.norm(x)) if read.y == y else 1.0


def leak_several(
    objective: EmpiricalRisk, rows: Design, theta: Floats, bound: RecordBound, epsilon: float, seed: int = 0
) -> float:
    """How far the records of a small table are misread off its mean gradients at theta [queries, p], all of them
    together with Laplace noise of this epsilon; infinite: without noise.

    Formal guarantee of what is attacked: the answers together are eps-DP (replace-one), eps/queries each.
    """
    if bound.norm != "l1":
        raise SettingError("bound: expected one in L1, as Laplace noise needs it")
    exact = np.array([objective.mean_gradient(rows, each, bound) for each in theta])
    if np.isfinite(epsilon):
        sensitivity = bound.sensitivity(len(rows), summation_slack(len(rows), rows.width))
        each = Fraction(str(positive(epsilon, "epsilon"))) / len(theta)
        exact = Laplace.calibrate(each, sensitivity).release(Bounded(exact, sensitivity, "l1"), FastNoise(seed))
    return misread(read_records(objective.loss, exact, theta, len(rows), seed, starts=10), rows)  # type: ignore[arg-type]
