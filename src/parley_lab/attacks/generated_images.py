"""A generator that an owner trains against the joint network, round by round, to draw likenesses of what a class of
another owner's images has in common (Hitaj, Ateniese and Perez-Cruz 2017).

The joint network is the discriminator: it comes again with every round, and the owner needs nothing else of the others.
What is drawn goes back into its own answers as a class that nobody has, so that the others, who go on learning their
own class, tell the network ever better what their images have and drawn ones have not.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from parley.errors import SettingError

Module = Any  # torch.nn.Module
Tensor = Any  # torch.Tensor

NOISE_SIZE = 64  # numbers that an image is made of
START_SIDE_PIXELS = 7  # pixels of a side to begin with, doubled until there are enough
CHANNELS = 32
RATE, MOMENTS = 1e-3, (0.5, 0.999)  # of Adam, as is usual for generators


class Generator:
    """Square images with pixels from -1 to 1 out of noise; it learns to be taken for a class.

    >>> Generator(14, seed=0).images(3).shape
    (3, 196)
    """

    def __init__(self, side: int, seed: int, device: str = "cpu") -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._module = _network(side).to(device)
        self._random, self._device = torch.Generator().manual_seed(seed + 1), device
        self._optimiser = torch.optim.Adam(self._module.parameters(), RATE, MOMENTS)

    def learn(self, network: Module, target: int, count: int, steps: int = 1) -> None:
        """So many steps, with `count` images each, towards what the network takes for the class `target`; the network
        itself stays as it is."""
        self._module.train()
        wanted = torch.full((count,), target, device=self._device)
        for _ in range(steps):
            loss = nn.functional.cross_entropy(network(self._module(self._noise(count))), wanted)
            own = list(self._module.parameters())
            for parameter, slope in zip(own, torch.autograd.grad(loss, own), strict=True):
                parameter.grad = slope
            self._optimiser.step()

    def images(self, count: int) -> NDArray[np.float32]:
        """So many images [count, side x side]."""
        with torch.no_grad():
            return np.asarray(self._module(self._noise(count)).cpu().numpy())

    def _noise(self, count: int) -> Tensor:
        return torch.randn(count, NOISE_SIZE, generator=self._random).to(self._device)


def _network(side: int) -> Module:
    """Noise to a coarse image of many channels, doubled in size by convolutions until it has its pixels."""
    doublings = max(side // START_SIDE_PIXELS, 1).bit_length() - 1
    if side != START_SIDE_PIXELS << doublings or not doublings:
        raise SettingError(f"side = {side!r}: expected 14, 28, 56 or so: {START_SIDE_PIXELS} doubled some times")
    layers = [
        nn.Linear(NOISE_SIZE, CHANNELS * START_SIDE_PIXELS**2),
        nn.Unflatten(1, (CHANNELS, START_SIDE_PIXELS, START_SIDE_PIXELS)),
    ]
    layers += [*_bent(), nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), *_bent()]
    for _ in range(doublings - 1):
        layers += [nn.ConvTranspose2d(CHANNELS, CHANNELS, 4, stride=2, padding=1), *_bent()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(CHANNELS, 1, 4, stride=2, padding=1), nn.Tanh(), nn.Flatten())


def _bent() -> tuple[Module, Module]:
    return nn.BatchNorm2d(CHANNELS), nn.ReLU()
