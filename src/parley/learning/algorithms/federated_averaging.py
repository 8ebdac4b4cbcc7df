"""Federated averaging (Z chapter 5; McMahan et al. 2017), with every record clipped inside the owners' local steps."""

from collections.abc import Sequence
from dataclasses import dataclass

from parley.learning.algorithms.algorithm import State
from parley.learning.algorithms.federated import Federated
from parley.protocol.queries import Answer
from parley.validate import Floats


@dataclass(frozen=True)
class FederatedAveraging(Federated):
    """theta[k+1] = proj(theta[k] - sum p rho s answer), k = 1..T; `step` is rho, `local_steps` is s and the model is
    theta[T+1].

    An answer is the mean direction of s local steps of length rho, so without noise theta[k+1] is the weighted mean of
    their ends; with one step it is gradient descent (FedSGD). On costs h_l/2 |theta - m_l|^2 it ends, without noise, at
    the mean of the m_l weighted by p (1 - (1 - rho h_l)^s_l) instead of p h_l: the optimum only if owners agree or take
    one step each.
    """

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        return State(state.round + 1, self.project(state.theta - self.moved(combined, answers)))
