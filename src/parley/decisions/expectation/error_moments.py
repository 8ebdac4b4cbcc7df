"""The error that an algorithm makes of noise, exactly, for a quadratic cost.

In each eigen-direction of the Hessian the error theta - theta* obeys the algorithm's own update with gradient h (theta
- theta*) + noise: a linear recursion of theta and the algorithm's memory. Running the algorithm for one round shows
what it makes of a unit of each and of noise; mean and covariance follow. So any algorithm that is linear in its answers
can be forecast, and T rounds cost O(T).
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from parley.learning.algorithms.algorithm import Descent, State
from parley.protocol.aggregation import weighted_mean
from parley.protocol.queries import Answer
from parley.validate import Floats

MAX_TRACED_ROUNDS = 64  # rounds up to which the response to each round's noise is kept


@dataclass(frozen=True, eq=False)
class SeparateAnswers:
    """Answers by owner: the names asked in each round, records, and deviations of noise in units of one."""

    turns: Sequence[Sequence[str]]
    records: Mapping[str, int]
    deviations: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class ErrorMoments:
    """The model's error after round k in direction j: mean `kept`[k, j] times the start's, variance `gain`[k, j] times
    that of one round's noise. `point_kept` and `point_gain` are the same for the parameter at which the next round
    asks, or the largest of several."""

    start: Floats  # [p]
    kept: Floats  # [T, p]
    gain: Floats  # [T, p]
    point_kept: Floats  # [T, p]
    point_gain: Floats  # [T, p]
    unit: Floats | None  # what one unit of noise in each round makes of the final model [T, p]; None: too many rounds
    shift: Floats | None = (
        None  # the model's error if every round adds the same unit [T, p]; None: answers are separate
    )

    @property
    def bias(self) -> Floats:
        """The mean error in each direction after each round [T, p]."""
        return self.kept * self.start

    @property
    def point_bias(self) -> Floats:
        """The mean error of the iterate after each round [T, p]."""
        return self.point_kept * self.start


def error_moments(
    algorithm: Descent,
    curvature: Floats,
    start: Floats,
    noise: Floats | None = None,
    separate: SeparateAnswers | None = None,
) -> ErrorMoments:
    """Return the moments in directions of these curvatures (of the cost's data part), from these starting errors,
    without a box. `noise` [T] is each round's variance, default one. With `separate` every owner's answer has its own
    noise.

    >>> from parley.learning.algorithms.gradient_descent import GradientDescent
    >>> from parley.losses import LinearRegression
    >>> once = error_moments(GradientDescent(LinearRegression(), 1, None, 0.5), np.array([2.0]), np.array([1.0]))
    >>> float(once.bias[0, 0]), float(once.gain[0, 0])
    (0.0, 0.25)
    """
    free, T, p = _free(algorithm), algorithm.horizon, len(curvature)
    kept, gain, point_kept, point_gain, shift = np.empty((5, T, p))
    steps = []
    for k, after in enumerate(_rounds(free, curvature, noise, separate)):
        kept[k], gain[k] = after.of_model(free)
        shift[k] = (after.model(free) @ after.shift)[:, 0, 0]
        point_kept[k], point_gain[k] = _widest(free.asked(after.ahead), after.mean, after.spread)
        if T <= MAX_TRACED_ROUNDS and separate is None:
            steps.append((after.inner, after.noisy))
    unit = _traced(steps, after.model(free)) if steps else None
    return ErrorMoments(start, kept, gain, point_kept, point_gain, unit, shift if separate is None else None)


def end_moments(algorithm: Descent, curvature: Floats) -> tuple[Floats, Floats]:
    """Return the moments after the last round alone, (`kept`, `gain`) [p], which is faster.

    >>> from parley.learning.algorithms.gradient_descent import GradientDescent
    >>> from parley.losses import LinearRegression
    >>> end_moments(GradientDescent(LinearRegression(), 1, None, 0.5), np.array([2.0]))
    (array([0.]), array([0.25]))
    """
    free = _free(algorithm)
    return deque(_rounds(free, curvature), maxlen=1).pop().of_model(free)


def _free(algorithm: Descent) -> Descent:
    """Return the algorithm without a box, and with a penalty on the error itself, wherever theta0 lies."""
    return replace(algorithm, radius=None, objective=replace(algorithm.objective, origin=None))


@dataclass(frozen=True, eq=False)
class _Round:
    """Mean [p, part, 1] and covariance [p, part, part] after a round, what the same unit in every round makes of it
    [p, part, 1], its linear maps, and the next state."""

    mean: Floats
    spread: Floats
    shift: Floats
    inner: Floats
    noisy: Floats
    ahead: State

    def model(self, free: Descent) -> Floats:
        """Return the parts that make up the model [p, 1, part]."""
        return free.model(self.ahead)[: self.mean.shape[1]].T[:, None]

    def of_model(self, free: Descent) -> tuple[Floats, Floats]:
        """Return the model's mean and variance [p]."""
        model = self.model(free)
        return (model @ self.mean)[:, 0, 0], (model @ self.spread @ model.transpose(0, 2, 1))[:, 0, 0]


def _rounds(
    free: Descent, curvature: Floats, noise: Floats | None = None, separate: SeparateAnswers | None = None
) -> Iterator[_Round]:
    T, p = free.horizon, len(curvature)
    loudness = np.ones(T) if noise is None else np.sqrt(noise)
    begin = free.start(np.ones(p))
    names = list(begin.memory)
    size, noises = 1 + len(names), 1 if separate is None else len(separate.records)
    basis = np.eye(size, size + noises)[:, :, None] * np.ones(p)  # [part, unit of each part or noise, p]
    mean = np.stack([begin.theta, *begin.memory.values()], axis=1)[:, :, None]  # [p, part, 1]
    spread, shift = np.zeros((p, size, size)), np.zeros_like(mean)
    for k in range(1, T + 1):
        state = _state(k, basis, names)
        if separate is None:
            answer = free.answer(lambda away: curvature * away, state.theta)
            answer[size] += loudness[k - 1]
            after = free.update(state, answer)
        else:
            answers = _separate_answers(free, state, curvature, separate, size)
            after = free.update(state, weighted_mean(answers), answers)
        step = _parts(after, names)  # [p, part, unit]
        inner, noisy = step[:, :, :size], step[:, :, size:]
        mean = inner @ mean
        shift = inner @ shift + noisy[:, :, :1]
        spread = inner @ spread @ inner.transpose(0, 2, 1) + noisy @ noisy.transpose(0, 2, 1)
        yield _Round(mean, spread, shift, inner, noisy, _state(k + 1, basis, names))


def _widest(points: Sequence[Floats], mean: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """Return the largest mean error, signed, and the largest variance [p] among points, given by parts of each unit."""
    rows = np.stack([point[: mean.shape[1]].T for point in points], axis=1)  # [p, point, part]
    means, variances = (rows @ mean)[:, :, 0], np.einsum("pij,pjk,pik->pi", rows, spread, rows)
    most = np.argmax(np.abs(means), axis=1)
    return means[np.arange(len(means)), most], variances.max(axis=1)


def _separate_answers(
    free: Descent, state: State, curvature: Floats, separate: SeparateAnswers, size: int
) -> list[Answer]:
    """Return the answers of those whose turn it is, each with one unit of its own noise."""
    places = {name: size + place for place, name in enumerate(separate.records)}
    answers = []
    for name in separate.turns[state.round - 1]:
        value = free.reply(name, lambda away: curvature * away, state)
        value[places[name]] += separate.deviations[name]
        answers.append(Answer("", name, separate.records[name], value))
    return answers


def _state(number: int, parts: Floats, names: list[str]) -> State:
    return State(number, parts[0], dict(zip(names, parts[1:], strict=True)))


def _parts(state: State, names: list[str]) -> Floats:
    return np.stack([state.theta, *(state.memory[name] for name in names)], axis=1).transpose(2, 1, 0)


def _traced(steps: list[tuple[Floats, Floats]], model: Floats) -> Floats:
    """Trace the effect of each round's noise on the final model, from the last round to the first."""
    unit = np.empty((len(steps), len(model)))
    for k in range(len(steps) - 1, -1, -1):
        inner, noisy = steps[k]
        unit[k] = (model @ noisy)[:, 0, 0]
        model = model @ inner
    return unit
