"""How an algorithm turns noise into error, exactly, for a quadratic cost.

In each eigen-direction of the Hessian the error theta - theta* obeys the algorithm's own update with gradient h (theta - theta*) + noise: a
linear recursion. So its law is known once we know what the algorithm makes of a start without noise and of one unit of noise in one
round. Both are found by running the algorithm itself; no update rule is written a second time, and any algorithm that is linear in its
answers can be forecast.
"""

from dataclasses import dataclass, replace

import numpy as np

from parley.learning.algorithm import Descent, State
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class ErrorMoments:
    """After round k the model's error in direction j has mean `bias`[k, j] and variance `gain`[k, j] times that of one round's noise.

    `point_bias` and `point_gain` say the same of the parameter at which the next round asks.
    """

    bias: Floats  # [T, p]
    gain: Floats  # [T, p]
    point_bias: Floats  # [T, p]
    point_gain: Floats  # [T, p]
    unit: Floats  # what one unit of noise in each round makes of the final model [T, p]


def error_moments(algorithm: Descent, curvature: Floats, start: Floats, noise: Floats | None = None) -> ErrorMoments:
    """The moments in directions of these curvatures (of the data part of the cost) from these starting errors, without a box. `noise` [T]
    is each round's variance in units of one; left out: all are one.

    >>> from parley.learning.gradient_descent import GradientDescent
    >>> from parley.objectives import LinearRegression
    >>> once = error_moments(GradientDescent(LinearRegression(), 1, None, 0.5), np.array([2.0]), np.array([1.0]))
    >>> float(once.bias[0, 0]), float(once.gain[0, 0])
    (0.0, 0.25)
    """
    free = replace(algorithm, radius=None)
    T, p = algorithm.horizon, len(curvature)
    theta = np.zeros((T + 1, p))
    theta[0] = start  # row 0: the start without noise; row i: one unit of noise in round i, from zero
    loudness = np.ones(T) if noise is None else np.sqrt(noise)
    state = State(1, theta, dict.fromkeys(free.start(start).memory, theta))
    bias, gain, point_bias, point_gain = np.empty((4, T, p))
    model = theta
    for k in range(1, T + 1):
        answer = free.answer(lambda away: curvature * away, state.theta)
        answer[k] += loudness[k - 1]
        state = free.update(state, answer)
        model = free.model(state)
        bias[k - 1], point_bias[k - 1] = model[0], state.theta[0]
        gain[k - 1] = np.einsum("ij,ij->j", model[1:], model[1:])
        point_gain[k - 1] = np.einsum("ij,ij->j", state.theta[1:], state.theta[1:])
    return ErrorMoments(bias, gain, point_bias, point_gain, model[1:])
