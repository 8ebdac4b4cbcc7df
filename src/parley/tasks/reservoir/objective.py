"""Squared error of the read-out: loss = (y - theta.(f, u, 1))^2, of which the second moments of a recording say
everything."""

from dataclasses import dataclass

from parley.data import Preparation
from parley.losses import Objective
from parley.tasks.reservoir.recordings import features_of


@dataclass(frozen=True)
class ReadOutError(Objective):
    """theta has a number for each node, each input and the constant."""

    def parameters(self, preparation: Preparation) -> int:
        return features_of(preparation.model).width
