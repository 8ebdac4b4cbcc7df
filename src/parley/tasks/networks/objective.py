"""A network's parameters, where a search for them begins, and the losses that they are to make small."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from parley.data import Preparation
from parley.losses import Objective
from parley.tasks.networks.architectures import Architecture
from parley.validate import Floats

Tensor = Any  # torch.Tensor


@dataclass(frozen=True)
class NetworkParameters(Objective):
    """theta [P] has all weights and constants, in the order of the modules."""

    def parameters(self, preparation: Preparation) -> int:
        return architecture_of(preparation).parameters

    def start(self, preparation: Preparation) -> Floats:
        """Drawn weights, the same for everybody: public."""
        return architecture_of(preparation).initial()


def architecture_of(preparation: Preparation) -> Architecture:
    """The network that the terms name, for columns prepared so."""
    model = preparation.model
    return _architecture(str(model.architecture), preparation.width, preparation.outcomes, model.layers or ())


@lru_cache(maxsize=16)
def _architecture(name: str, inputs: int, outputs: int, layers: tuple[int, ...]) -> Architecture:
    return Architecture.of(name, inputs, outputs, layers)


def cross_entropy(said: Tensor, y: Tensor) -> Tensor:
    """-ln of the probability that each row's class was given [n]."""
    from torch.nn import functional

    return functional.cross_entropy(said, y.long(), reduction="none")


def squared(said: Tensor, y: Tensor) -> Tensor:
    """Half the squared error of each row [n]."""
    return (said[:, 0] - y.to(said.dtype)) ** 2 / 2


def binary_cross_entropy(said: Tensor, y: Tensor) -> Tensor:
    """-ln of the probability that each row's class, 0 or 1, was given [n], by the log-odds of class 1."""
    from torch.nn import functional

    return functional.binary_cross_entropy_with_logits(said[:, 0], y.to(said.dtype), reduction="none")
