"""One round that asks for the second moments of states, from which the read-out is solved."""

from dataclasses import dataclass
from typing import Any

from parley.learning.algorithms.algorithm import Asker, State
from parley.learning.algorithms.sufficient_statistics import SufficientStatistics
from parley.learning.outcome.posterior import Posterior
from parley.protocol.setup import Setup
from parley.tasks.reservoir.question import StateMomentsQuery


@dataclass(frozen=True)
class ReadOut(SufficientStatistics):
    """Least squares of the released moments, lifted where they do not stand clear of the noise."""

    def query(self, state: State, asker: Asker) -> StateMomentsQuery:  # type: ignore[override]
        return StateMomentsQuery.ask(asker.terms_hash, asker.learner, state.round)

    def posterior(self, state: State) -> Posterior | None:
        """None: samples of a recording hang together, so no number of records says how sure it is."""
        return None

    def released(self, state: State, setup: Setup) -> dict[str, Any] | None:
        """None: no forecast knows what to make of states' moments."""
        return None
