"""Two owners of digits: who holds which, what hides the one, and the network that both learn."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from parley.errors import SettingError
from parley.tasks.networks.question import NetworkRows
from parley.validate import Floats, whole
from parley_lab.papers.aarhus2020.digits import SIDE_PIXELS, Digits

Module = Any  # torch.nn.Module

VICTIM, ATTACKER = range(5), range(5, 10)  # digits of either
ARTIFICIAL_CLASS = 10  # the class that the attacker adds: nobody's


@dataclass(frozen=True)
class Protection:
    """What hides the victim: the unit that epsilon speaks of. `epsilon` None: neither noise nor clip."""

    epsilon: float | None = None
    unit: Literal["record", "owner"] = "record"

    @property
    def name(self) -> str:
        """Of a row in a table."""
        unit = {"record": "a record", "owner": "an owner"}[self.unit]
        return "unprotected" if self.epsilon is None else f"ε = {self.epsilon:g}, the unit is {unit}"


@dataclass(frozen=True)
class Settings:
    """How the two learn: images of `side` by `side`, `rows` of them each, of which a round draws `batch` on average."""

    side: int = 14
    rows: int = 3000
    batch: int = 128
    rounds: int = 400
    step: float = 1e-3  # of Adam, constant
    clip: float = 1.0  # in L2, where the victim is protected
    delta: float = 1e-5
    target: int = 3  # the victim's digit that the attacker wants
    pursuit: int = 1  # steps of the generator in a round
    device: str = "cpu"

    def __post_init__(self) -> None:
        whole(self.rounds, "rounds")
        whole(self.batch, "batch")
        if self.target not in VICTIM:
            raise SettingError(f"target = {self.target!r}: expected a digit of the victim, {VICTIM[0]} to {VICTIM[-1]}")


@dataclass(frozen=True, eq=False)
class Parties:
    """Images [n, pixels] from -1 to 1 with their digits [n]: of the victim, of the attacker, of others by which drawn
    images are judged, and of the test."""

    victim: NetworkRows
    attacker: NetworkRows
    others: NetworkRows
    test: NetworkRows

    @classmethod
    def of(cls, digits: Digits, settings: Settings, seed: int = 0) -> "Parties":
        """As many images as the settings say for either, drawn from the first two thirds; the last third is the
        others'."""
        images, labels, side = digits.images, digits.labels, settings.side
        order = np.random.default_rng(seed).permutation(len(labels) * 2 // 3)
        held = [order[np.isin(labels[order], list(each))][: settings.rows] for each in (VICTIM, ATTACKER)]
        held.append(np.arange(len(order), len(labels)))
        victim, attacker, others = (_rows(images[each], labels[each], side) for each in held)
        return cls(victim, attacker, others, _rows(digits.test_images, digits.test_labels, side))


def _rows(images: Floats, labels: Any, side: int) -> NetworkRows:
    """Images shrunk to `side` by `side`, a pixel being the mean of those it covers, from -1 to 1."""
    if SIDE_PIXELS % side:
        raise SettingError(f"side = {side!r}: expected a divisor of {SIDE_PIXELS}, such as 14")
    small = images.reshape(len(images), side, SIDE_PIXELS // side, side, SIDE_PIXELS // side).mean(axis=(2, 4))
    rows = (2 * small - 1).reshape(len(images), -1).astype(np.float32)
    return NetworkRows(rows, labels.astype(np.float64), np.ones(len(images), dtype=np.bool_))


def classifier(side: int, seed: int, outputs: int = ARTIFICIAL_CLASS + 1) -> Module:
    """Two convolutions and two layers with tanh between, for rows of side x side pixels; its parameters are drawn."""
    flat = 32 * (-(-side // 4)) ** 2
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Unflatten(1, (1, side, side)),
            nn.Conv2d(1, 16, 4, stride=2, padding=1),
            nn.Tanh(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(flat, 64),
            nn.Tanh(),
            nn.Linear(64, outputs),
        )
