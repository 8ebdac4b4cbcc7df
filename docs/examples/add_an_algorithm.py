"""Add an algorithm: gradient descent with momentum (the heavy ball).

Its rules say which keys of the terms it reads and what they must hold. The algorithm says what a round asks and what
becomes of the combined answer. What it remembers are named arrays; a checkpoint keeps them, and since the update is
linear in the answers, the exact forecast works unchanged.

In the package: terms/catalogue.py, terms/algorithms.py, learning/algorithms/catalogue.py,
learning/algorithms/heavy_ball.py (new)
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import parley
from parley.learning.algorithms.algorithm import Descent, State, step_size
from parley.learning.algorithms.catalogue import register
from parley.terms.rules import AlgorithmRules


class HeavyBallRules(AlgorithmRules):
    """It asks for gradients, and reads one key that most others do not."""

    keys: ClassVar = {"learning.momentum": "how much of the last step is kept in the next"}

    def check_learning(self, learning):
        if learning.momentum is None:
            raise ValueError("momentum|expected a number beside heavy-ball, such as 0.8")


@dataclass(frozen=True)
class HeavyBall(Descent):
    """v[k+1] = momentum v[k] - c (dg1 + answer); theta[k+1] = proj(theta[k] + v[k+1]); the model is theta[T+1]."""

    momentum: float

    memory_name: ClassVar[str | None] = "velocity"

    @classmethod
    def make(cls, setup):
        learning, radius = setup.terms.learning, setup.terms.model.radius
        return cls(setup.objective, learning.horizon, radius, step_size(setup), learning.momentum)

    def start(self, origin, replicates=()):
        begin = super().start(origin, replicates)
        return State(begin.round, begin.theta, {"velocity": np.zeros_like(begin.theta)})

    def update(self, state, combined, answers=()):
        gradient = self.objective.penalty_gradient(state.theta) + combined
        velocity = self.momentum * state.memory["velocity"] - self.step * gradient
        return State(state.round + 1, self.project(state.theta + velocity), {"velocity": velocity})


register("heavy-ball", HeavyBallRules(), HeavyBall)  # terms may name it

table = (
    parley.data.synthetic_lending(5000, seed=1)[["fico", "dti", "int_rate"]]
    .sub([700, 18, 13])
    .div([50, 9, 4])
    .clip(-5, 5)
)
terms = parley.Terms.from_dict(
    {
        "model": {"kind": "linear-regression", "target": "int_rate", "features": ["fico", "dti"], "radius": 50.0},
        "learning": {"algorithm": "heavy-ball", "horizon": 25, "step": 0.05, "momentum": 0.8},
        "privacy": {"clip": 400.0},
        "owners": [{"name": "bank", "records": 5000, "epsilon": 4.0}],
    }
)
result = parley.train(terms, [parley.Owner("bank", table)], replicates=2000, seed=0)
forecast = parley.forecast(terms, table, resamples=2)
error = result.path[-1].std() / 2000**0.5
assert forecast.method == "exact-moments"
assert abs(forecast.relative_fitness.mean - result.relative_fitness["mean"]) < 4 * error
