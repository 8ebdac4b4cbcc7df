"""A record read off its own gradient: exactly where nothing protects it, and no better than epsilon allows where noise
does (Z chapter 6); and off what an owner that learns asks, where its own answers have no noise (W section II).

The gradient of a margin's loss is a number times x. Where a feature is the constant 1, that number stands in its place,
so that one gradient tells x, and with theta the target.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from parley.audit.distinguishing import rates
from parley.data import Design
from parley.data.design import summation_slack
from parley.errors import SettingError
from parley.losses import EmpiricalRisk, RecordBound
from parley.losses.loss import Loss
from parley.privacy.accounting.meaning import posterior_bounds
from parley.privacy.mechanisms import Bounded, FastNoise, Laplace
from parley.validate import Floats, positive, whole

RELATIVE_TOLERANCE = 1e-9  # relative: a class explains a derivative


@dataclass(frozen=True, eq=False)
class ReadRecord:
    """Features [p], the constant last, and the target of a record that was read off."""

    x: Floats
    y: float


def read_record(loss: Loss, gradient: Floats, theta: Floats) -> ReadRecord | None:
    """The record whose unprotected gradient [p] at theta [p] this is; None where that is 0, which tells that its loss
    is flat there and nothing else. The last feature is the constant 1, weights are 1.

    >>> from parley.losses.loss import Hinge
    >>> found = read_record(Hinge(), np.array([-2.0, 3.0, 1.0]), np.zeros(3))
    >>> found.x.tolist(), found.y
    ([-2.0, 3.0, 1.0], -1.0)
    """
    derivative = float(gradient[-1])
    if derivative == 0:
        return None
    x = gradient / derivative
    raw = float(theta @ x)
    at = {y: float(loss.gradient(np.array([raw]), np.array([y]))[0]) for y in (-1.0, 0.0, 1.0)}
    for y in (-1.0, 1.0):
        if math.isclose(at[y], derivative, rel_tol=RELATIVE_TOLERANCE):
            return ReadRecord(x, y)
    slope = at[1.0] - at[0.0]  # a number: the derivative of its loss is straight in it
    return ReadRecord(x, (derivative - at[0.0]) / slope if slope else math.nan)


def alone(objective: EmpiricalRisk, mean: Floats, known: Design, theta: Floats) -> Floats:
    """The gradient [p] of the one record that is not known, from an unprotected mean gradient of all."""
    rest = objective.mean_gradient(known, theta) * len(known) if len(known) else np.zeros_like(mean)
    return np.asarray(mean * (len(known) + 1) - rest)


def learners_gradient(
    objective: EmpiricalRisk, before: Floats, after: Floats, length: float, share: float, others_gradient: Floats
) -> Floats:
    """The mean gradient [p] of a learner's own rows, as an owner reads it that is asked twice in succession.

    W lets an owner that learns set its own epsilon to infinity. The next query is after = before - length (dg1 + share
    gradient + rest), with `share` the learner's part of all rows; whoever knows `others_gradient`, the weighted answers
    of all others, solves it. With two owners the other one does: its own answer is all of it. A step that ends at the
    box hides what was cut off.

    >>> from parley.losses import LinearSVM
    >>> before, own, rest = np.array([1.0, 0.0]), np.array([3.0, -1.0]), np.array([0.5, 0.5])
    >>> after = before - 0.1 * (before + 0.25 * own + rest)
    >>> learners_gradient(LinearSVM(regularisation=1.0), before, after, 0.1, 0.25, rest).round(9)
    array([ 3., -1.])
    """
    return np.asarray(((before - after) / length - objective.penalty_gradient(before) - others_gradient) / share)


@dataclass(frozen=True)
class Leak:
    """What one protected gradient of one record tells: how far the features that are read off it are from the true
    ones, and how often somebody who knows that it is one of two records guesses right."""

    epsilon: float  # replace-one
    error: float  # of features, the median of |read - x|_2/|x|_2
    right: float  # share of right guesses, at even odds
    right_at_least: float  # of the true share, at 99 %
    most: float  # of it, that epsilon allows

    @property
    def holds(self) -> bool:
        """Whether nothing was found that contradicts the claim."""
        return self.right_at_least <= self.most


def leak(
    objective: EmpiricalRisk, two: Design, theta: Floats, bound: RecordBound, epsilon: float, runs: int, seed: int = 0
) -> Leak:
    """Attack `runs` clipped gradients of either of two records, alone in a table, with Laplace noise of this epsilon.

    Formal guarantee of what is attacked: a belief of one half in either record rises to at most e^eps/(1 + e^eps)
    (`accounting.meaning.posterior_bounds`), so no rule guesses right more often than that.
    """
    epsilon, runs = positive(epsilon, "epsilon"), whole(runs, "runs")
    if len(two) != 2 or bound.norm != "l1":
        raise SettingError("two, bound: expected two records and a bound in L1, as Laplace noise needs it")
    sensitivity = bound.sensitivity(1, summation_slack(1, two.width))
    mechanism, noise = Laplace.calibrate(Fraction(str(epsilon)), sensitivity), FastNoise(seed)
    exact = [objective.mean_gradient(two.cut(slice(i, i + 1)), theta, bound) for i in (0, 1)]
    right, errors = 0, []
    for place, value in enumerate(exact):
        many = np.broadcast_to(value, (runs, len(value)))
        noisy = mechanism.release(Bounded(many, sensitivity, "l1"), noise)
        far = [np.abs(noisy - other).sum(axis=1) for other in exact]
        right += int(np.count_nonzero(far[place] < far[1 - place]))
        with np.errstate(divide="ignore", invalid="ignore"):
            read = noisy / noisy[:, -1:]
        errors.append(np.linalg.norm(read - two.X[place], axis=1) / np.linalg.norm(two.X[place]))
    return Leak(
        epsilon=epsilon,
        error=float(np.median(np.concatenate(errors))),
        right=right / (2 * runs),
        right_at_least=float(rates(right, 2 * runs, 0.01)[0]),
        most=posterior_bounds(epsilon, 0.5)[1],
    )
