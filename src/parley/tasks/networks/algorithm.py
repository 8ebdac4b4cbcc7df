"""Private SGD of networks: plain, momentum or Adam steps at the learner, which shrink along half a cosine."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from parley.errors import SettingError
from parley.learning.algorithms.algorithm import Asker, State
from parley.learning.algorithms.private_sgd import MEMORY, PrivateSGD
from parley.protocol.queries import Answer
from parley.tasks.networks.question import NetworkGradientQuery
from parley.validate import Floats

DECAYS = ("cosine", "none")


def check_steps(optimiser: str, decay: str) -> None:
    """Refuse (SettingError) steps that are none of those that a plan can name."""
    for name, value, known in (("optimiser", optimiser, tuple(MEMORY)), ("decay", decay, DECAYS)):
        if value not in known:
            raise SettingError(f"{name} = {value!r}: expected {', '.join(map(repr, known[:-1]))} or {known[-1]!r}")


@dataclass(frozen=True)
class NetworkSGD(PrivateSGD):
    """Steps as of private SGD, the k-th of T times (1 + cos(pi (k - 1)/T))/2 unless they are `constant`."""

    constant: bool = False

    def thetas(self, state: State) -> Floats:
        """The parameters that a question of this round brings."""
        return state.theta

    def query(self, state: State, asker: Asker) -> NetworkGradientQuery:
        return NetworkGradientQuery.ask(asker.terms_hash, asker.learner, state.round, state.theta)

    def share(self, number: int) -> float:
        """What of the first step's length the step of this round has."""
        return 1.0 if self.constant else (1 + math.cos(math.pi * (number - 1) / self.horizon)) / 2

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        shrunk = replace(self, step=self.step * self.share(state.round))
        return super(NetworkSGD, shrunk).update(state, combined, answers)
