"""The networks that terms can name, so that no code travels: modules, initial parameters and losses."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from parley.data import Preparation
from parley.errors import SettingError
from parley.losses import Objective
from parley.tasks.networks.terms import NetworkModel, image_shape
from parley.validate import Floats

DEEP_PARAMETER_COUNT = 16  # weights and constants of more than eight layers
Module = Any  # torch.nn.Module, which is not imported before somebody needs it


@dataclass(frozen=True)
class Architecture:
    """A named network: inputs (an image of `shape` if it takes one), outputs, hidden layers."""

    name: str
    inputs: int
    outputs: int
    shape: tuple[int, int, int] | None = None
    layers: tuple[int, ...] = ()

    @classmethod
    def from_name(cls, name: str, inputs: int, outputs: int, layers: tuple[int, ...] = ()) -> "Architecture":
        """Return the named network for rows of `inputs` numbers; refuse rows that are no image it takes."""
        if name not in _BUILDERS:
            raise SettingError(f"architecture = {name!r}: expected one of {', '.join(_BUILDERS)}")
        shape = image_shape(name)
        if shape is not None and math.prod(shape) != inputs:
            numbers, (_, height, width) = math.prod(shape), shape
            raise SettingError(
                f"architecture = {name!r}: expected {numbers} numbers per row, the pixels of a {height} x {width} image"
            )
        return cls(name, inputs, outputs, shape, layers)

    def module(self) -> Module:
        """Return its modules for rows [n, inputs], with parameters still to be set."""
        from torch import nn

        view = nn.Unflatten(1, self.shape) if self.shape is not None else nn.Identity()
        return nn.Sequential(view, *_BUILDERS[self.name](self))

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every parameter by name, in the order of theta."""
        import torch

        with torch.device("meta"):
            return {name: tuple(p.shape) for name, p in self.module().named_parameters()}

    @property
    def parameters(self) -> int:
        """P: the number of parameters."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def initial(self, seed: int = 0) -> Floats:
        """Return public initial parameters [P]: uniform within 1/sqrt(inputs of a unit), as in PyTorch. Deep networks
        get sqrt(6) times that and constants of 0, so that signals of ReLUs neither vanish nor grow."""
        rng, pieces, reach = np.random.default_rng(seed), [], 1.0
        deep = len(self.shapes) > DEEP_PARAMETER_COUNT
        for shape in self.shapes.values():
            if len(shape) > 1:  # a bias follows the weights of its unit
                reach = math.prod(shape[1:]) ** -0.5 * (6**0.5 if deep else 1.0)
            elif deep:
                reach = 0.0
            pieces.append(rng.uniform(-reach, reach, math.prod(shape)))
        return np.concatenate(pieces)


def _logistic(network: Architecture) -> list[Module]:
    from torch import nn

    return [nn.Linear(network.inputs, network.outputs)]


def _mlp(network: Architecture) -> list[Module]:
    """Hidden layers of the terms' widths, with tanh between: bounded, which suits clipped gradients."""
    from torch import nn

    made, width = [], network.inputs
    for hidden in network.layers:
        made += [nn.Linear(width, hidden), nn.Tanh()]
        width = hidden
    return [*made, nn.Linear(width, network.outputs)]


def _zawacki_cnn(network: Architecture) -> list[Module]:
    """Z section 4.3: two convolutions, each with ReLU and pooling, then two layers."""
    from torch import nn

    from parley.tasks.networks.elementwise import Pooled

    return [
        nn.Conv2d(1, 16, 8, stride=2, padding=3),
        nn.ReLU(),
        Pooled(1),
        nn.Conv2d(16, 32, 4, stride=2),
        nn.ReLU(),
        Pooled(1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.ReLU(),
        nn.Linear(32, network.outputs),
    ]


def _chase_small(network: Architecture) -> list[Module]:
    """Three layers; A section 2.1 gives their number alone, so the widths are our own."""
    from torch import nn

    from parley.tasks.networks.elementwise import Pooled

    return [
        nn.Conv2d(1, 8, 5, stride=2, padding=2),
        nn.Tanh(),
        Pooled(2),
        nn.Flatten(),
        nn.Linear(392, 32),
        nn.Tanh(),
        nn.Linear(32, network.outputs),
    ]


def _chase_large(network: Architecture) -> list[Module]:
    """Four layers, also of our own widths."""
    from torch import nn

    return [
        nn.Conv2d(1, 16, 5, stride=2, padding=2),
        nn.Tanh(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(1568, 64),
        nn.Tanh(),
        nn.Linear(64, network.outputs),
    ]


def _tanh_cnn(network: Architecture) -> list[Module]:
    """Z's network with tanh instead of ReLU (Papernot et al. 2021)."""
    from torch import nn

    return [nn.Tanh() if isinstance(part, nn.ReLU) else part for part in _zawacki_cnn(network)]


def _scattering_linear(network: Architecture) -> list[Module]:
    """A linear score for each class of public wavelet features, of which nothing is learned."""
    from torch import nn

    from parley.tasks.networks.layers import SCATTERING_CHANNELS, SIDE_DIVISOR, Scattering

    return [
        Scattering(),
        nn.Flatten(),
        nn.Linear(SCATTERING_CHANNELS * network.inputs // SIDE_DIVISOR**2, network.outputs),
    ]


def _zawacki_cnn_9(network: Architecture) -> list[Module]:
    """Z section 4.4: four convolutions with ReLU and averages between, an average over all pixels, then one layer."""
    from torch import nn

    from parley.tasks.networks.elementwise import Averaged, Pooled

    made, channels = list[Module](), 3
    for place, width in enumerate((32, 64, 64, 128)):
        pooled = Averaged() if place == 3 else Pooled(2, mean=True)
        made += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), pooled]
        channels = width
    return [*made, nn.Flatten(), nn.Linear(channels, network.outputs)]


def _vgg_11(network: Architecture) -> list[Module]:
    """Z section 4.5: VGG-11 without batch normalisation, padded to 32 by 32, with one last layer instead of three."""
    from torch import nn

    from parley.tasks.networks.elementwise import Pooled

    made, channels = list[Module]([nn.ZeroPad2d(2)]), 1
    for width, pooled in zip(VGG, VGG_POOLED, strict=True):
        made += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), *([Pooled(2)] if pooled else [])]
        channels = width
    return [*made, nn.Flatten(), nn.Linear(channels, network.outputs)]


VGG, VGG_POOLED = (64, 128, 256, 256, 512, 512, 512, 512), (True, True, False, True, False, True, False, True)
_BUILDERS: Mapping[str, Callable[[Architecture], list[Module]]] = {
    "logistic": _logistic,
    "mlp": _mlp,
    "zawacki-cnn": _zawacki_cnn,
    "chase-small": _chase_small,
    "chase-large": _chase_large,
    "zawacki-cnn-9": _zawacki_cnn_9,
    "vgg-11": _vgg_11,
    "tanh-cnn": _tanh_cnn,
    "scattering-linear": _scattering_linear,
}


Tensor = Any  # torch.Tensor

AT_ONCE = 1024  # rows that are predicted at once


def sole_copy(module: Module) -> Module:
    """Return a copy in training mode whose parameters require no gradient."""
    made = copy.deepcopy(module).train()
    for parameter in made.parameters():
        parameter.requires_grad_(False)
    return made


def set_parameters(module: Module, theta: Floats) -> None:
    """Set a module's parameters to theta [P] as float32; beyond its range they are infinite."""
    with np.errstate(over="ignore"):
        numbers = torch.from_numpy(theta.astype(np.float32))
    numbers = numbers.to(next((each.device for each in module.parameters()), "cpu"))  # one transfer for all
    begin = 0
    with torch.no_grad():
        for parameter in module.parameters():
            piece = numbers[begin : begin + parameter.numel()]
            parameter.copy_(piece.reshape(parameter.shape))
            begin += parameter.numel()


def parameters_of(module: Module) -> Floats:
    """Return the parameters of a module in order [P]."""
    return np.concatenate([p.detach().cpu().double().numpy().reshape(-1) for p in module.parameters()])


def module_scores(module: Module, X: NDArray[np.float32]) -> Floats:
    """Return a module's outputs for rows [n, outputs]; they are as private as the rows."""
    where = next(module.parameters()).device
    with torch.no_grad():
        parts = [torch.from_numpy(np.ascontiguousarray(X[at : at + AT_ONCE])) for at in range(0, len(X), AT_ONCE)]
        scores = [module(part.to(where)).double().cpu().numpy() for part in parts or [torch.zeros(0, *X.shape[1:])]]
    return np.concatenate(scores)


@dataclass(frozen=True)
class NetworkParameters(Objective):
    """theta [P] holds all weights and constants, in the order of the modules."""

    def parameters(self, preparation: Preparation) -> int:
        return architecture_of(preparation).parameters

    def start(self, preparation: Preparation) -> Floats:
        """Return drawn weights that are public and the same for all."""
        return architecture_of(preparation).initial()


def architecture_of(preparation: Preparation) -> Architecture:
    """Return the terms' network for columns prepared in this way."""
    model = NetworkModel.expect(preparation.model)
    return _architecture(model.architecture, preparation.width, preparation.outcomes, model.layers or ())


@lru_cache(maxsize=16)
def _architecture(name: str, inputs: int, outputs: int, layers: tuple[int, ...]) -> Architecture:
    return Architecture.from_name(name, inputs, outputs, layers)


def cross_entropy(said: Tensor, y: Tensor) -> Tensor:
    """Return -ln of the probability given to each row's class [n]."""
    from torch.nn import functional

    return functional.cross_entropy(said, y.long(), reduction="none")


def squared(said: Tensor, y: Tensor) -> Tensor:
    """Return half the squared error of each row [n]."""
    return (said[:, 0] - y.to(said.dtype)) ** 2 / 2


def binary_cross_entropy(said: Tensor, y: Tensor) -> Tensor:
    """Return -ln of the probability given to each row's class, 0 or 1 [n], from the log-odds of class 1."""
    from torch.nn import functional

    return functional.binary_cross_entropy_with_logits(said[:, 0], y.to(said.dtype), reduction="none")
