"""FedSplit (Z section 5.4.4; Pathak and Wainwright 2020): Peaceman-Rachford splitting, with duals made of answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.learning.algorithms.algorithm import State
from parley.learning.algorithms.federated import Corrected
from parley.protocol.queries import Answer
from parley.validate import Floats


@dataclass(frozen=True)
class FedSplit(Corrected):
    """w_l = prox_l(2 theta - z_l), z_l <- z_l + 2 (w_l - theta), theta <- proj(sum p z), prox of strong convexity
    `proximal` = mu.

    Local steps go from theta towards the prox: f_l(w) + mu/2 |w - 2 theta + z_l|^2 has, up to a constant, the gradient
    f_l'(w) + mu (w - theta) + mu (z_l - theta), a pull to the start and the correction mu (z_l - theta). The answer d
    is (theta - w_l)/(rho s). Steps from theta that stop early do not move the resting point: there every d is 0, so
    f_l'(theta) = -mu (z_l - theta), and the mean of these is 0. A dual stays within its correction's limit around
    theta.
    """

    keeps: ClassVar[str] = "dual"

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        begin = super().start(origin, replicates)
        return State(1, begin.theta, self.memory({each.name: begin.theta for each in self.owners}))

    def corrections(self, state: State) -> Mapping[str, Floats]:
        return {name: self.proximal * (dual - state.theta) for name, dual in self.kept(state).items()}

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        duals = self.kept(state)
        duals |= {a.owner: duals[a.owner] - 2 * self.owner(a.owner).length * a.value for a in answers}
        theta = self.project(self.everybody(duals))
        return State(
            state.round + 1, theta, self.memory({name: self._near(name, dual, theta) for name, dual in duals.items()})
        )

    def _near(self, name: str, dual: Floats, theta: Floats) -> Floats:
        if self.radius is None:
            return dual
        far = self.owner(name).reach / self.proximal
        return np.asarray(theta + np.clip(dual - theta, -far, far))
