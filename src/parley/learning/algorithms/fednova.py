"""FedNova (Z section 5.4.5; Wang et al. 2020): owners that take more local steps do not weigh more."""

from collections.abc import Sequence
from dataclasses import dataclass

from parley.learning.algorithms.algorithm import State
from parley.learning.algorithms.federated import Federated
from parley.protocol.queries import Answer
from parley.validate import Floats


@dataclass(frozen=True)
class FedNova(Federated):
    """theta[k+1] = proj(theta[k] - (sum p rho s) sum p answer): an answer is the mean direction of any number of local
    steps.

    On costs h_l/2 |theta - m_l|^2 it ends, without noise, at the mean of the m_l weighted by p (1 - (1 - rho
    h_l)^s_l)/(rho s_l), which is p h_l up to a share of rho s_l h_l/2. So its distance from the optimum falls with the
    step, unlike that of federated averaging with unequal steps.
    """

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        length = self.step * self.local_steps
        if self.owners:
            total = sum(answer.records for answer in answers)
            length = sum(answer.records / total * self.owner(answer.owner).length for answer in answers)
        return State(state.round + 1, self.project(state.theta - length * combined))
