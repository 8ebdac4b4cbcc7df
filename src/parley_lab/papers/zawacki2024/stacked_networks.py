"""Many runs of one network at once, for studies: parameters are [runs, P], and a product of matrices serves all runs.

Formal guarantee: none. Draws, sums and noise are numbers of a seeded generator, in float32, so nothing of it may be
released. The steps are those of private training otherwise: every record is drawn with the same probability, on its
own; its gradient is clipped in L2; noise is added to the sum, which is divided by the number of records that are drawn
on average. Everything stays on one device: a step asks it for nothing and tells it nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from parley.errors import SettingError
from parley.tasks.networks.kernels import exact_kernels, require_device
from parley.tasks.networks.layer_gradients import windows
from parley.validate import Floats

Tensor = Any  # torch.Tensor
Module = Any  # torch.nn.Module

AT_ONCE = 1 << 22  # places that are drawn at once
MAX_DEVIATIONS = (
    5.0  # deviations above the mean for which a draw has room: what is beyond is left out, once in 10^6 draws
)
ROWS_AT_ONCE = {"cuda": 1 << 14, "cpu": 1 << 10}  # rows, of all runs together, that are judged at once


@dataclass(frozen=True)
class StudyNoise:
    """What one run adds: symmetric alpha-stable noise of `scale` clips to every number of a sum of gradients clipped in
    L2; with neither, it is trained without privacy."""

    alpha: float = 2.0
    scale: float = 0.0
    clip: float = math.inf

    def __post_init__(self) -> None:
        if not 1 <= self.alpha <= 2:
            raise SettingError(f"alpha = {self.alpha!r}: expected a number from 1 (Cauchy) to 2 (Gaussian)")
        if not (self.scale == 0 or 0 < self.scale * self.clip < math.inf):
            raise SettingError("scale: expected a finite clip with noise")


@dataclass(frozen=True)
class StudySteps:
    """`count` steps, in each of which a record is drawn with probability `rate`; the first has length `step`. With
    `decay` they shrink along half a cosine."""

    rate: float
    count: int
    step: float
    momentum: float = 0.0
    decay: bool = True

    def length(self, place: int) -> float:
        """The length of the step at this place, from 0."""
        return self.step * (1 + math.cos(math.pi * place / self.count)) / 2 if self.decay else self.step


class StackedNetwork:
    """A sequence of layers with parameters of their own for every run: theta [runs, P], rows [runs, n, ...]."""

    def __init__(self, module: Module, device: str = "cpu") -> None:
        self._parts: list[tuple[Module, int | None]] = []
        begin = 0
        for part in module:
            held = sum(parameter.numel() for parameter in part.parameters())
            if held and not (isinstance(part, nn.Linear | nn.Conv2d) and part.bias is not None):
                raise SettingError(f"network: {type(part).__name__}: expected Linear or Conv2d, with constants")
            self._parts.append((part.to(device), begin if held else None))
            begin += held
        self.parameters = begin

    def scores(self, theta: Tensor, X: Tensor, notes: list[tuple[Tensor, Tensor]] | None = None) -> Tensor:
        """What the networks say of their rows [runs, n, outputs]; `notes` get what each layer took in, place by place
        [runs n, places, in], and what it said [runs, n places, out]."""
        runs, outputs = len(theta), X.flatten(0, 1)
        for part, begin in self._parts:
            if begin is None:
                outputs = part(outputs)
                continue
            taken, output_size = _places(part, outputs)
            out, width = len(part.weight), taken.shape[2]
            weight = theta[:, begin : begin + out * width].unflatten(1, (out, width))
            constant = theta[:, begin + out * width : begin + out * (width + 1)]
            whole = torch.baddbmm(constant[:, None], taken.reshape(runs, -1, width), weight.transpose(1, 2))
            if notes is not None:
                notes.append((taken.detach(), whole if whole.requires_grad else whole.requires_grad_()))
            outputs = whole.reshape(len(taken), -1, out).transpose(1, 2).reshape(len(taken), out, *output_size)
        return outputs.unflatten(0, (runs, -1))

    def clipped_sums(self, theta: Tensor, X: Tensor, y: Tensor, row_weights: Tensor, clips: Tensor) -> Tensor:
        """The sums of records' gradients, each clipped to its run's clip [runs, 1], over rows X [runs, n, ...] with
        classes y [runs, n], those that are there (1, else 0) [runs, n]: [runs, P]."""
        runs, notes = len(theta), list[tuple[Tensor, Tensor]]()
        scores = self.scores(theta, X, notes)
        losses = nn.functional.cross_entropy(scores.flatten(0, 1), y.flatten(), reduction="sum")
        slopes = torch.autograd.grad(losses, [each for _, each in notes])
        layers = [_Layer.of(a, d.reshape(len(a), a.shape[1], -1)) for (a, _), d in zip(notes, slopes, strict=True)]
        squares = torch.stack([layer.square() for layer in layers]).sum(0).reshape(runs, -1)
        factors = torch.clamp(clips / squares.sqrt(), max=1.0) * row_weights
        return torch.cat([piece for layer in layers for piece in layer.weighted(factors)], dim=1)

    def accuracies(self, theta: Tensor, X: Tensor, y: Tensor) -> Floats:
        """The share of rows X [n, ...] whose class y [n] each run tells right [runs]."""
        right = torch.zeros(len(theta), device=theta.device)
        size = max(ROWS_AT_ONCE[theta.device.type] // len(theta), 1)
        with torch.no_grad():
            for rows, classes in zip(X.split(size), y.split(size), strict=True):
                said = self.scores(theta, rows.expand(len(theta), *rows.shape))
                right += (said.argmax(2) == classes).sum(1)
        return np.asarray((right / len(X)).cpu().numpy(), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Layer:
    """What records brought to a layer, place by place [n, places, in], and the slopes of losses by what it said
    [n, places, out]; `written`: records' gradients [n, out, in] where those are shorter than products of places."""

    a: Tensor
    d: Tensor
    written: Tensor | None

    @classmethod
    def of(cls, a: Tensor, d: Tensor) -> "_Layer":
        (places, width), out = a.shape[1:], d.shape[2]
        short = places > 1 and 2 * places * (width + out) >= width * out
        return cls(a, d, torch.bmm(d.transpose(1, 2), a) if short else None)

    def square(self) -> Tensor:
        """Records' squared norms [n]."""
        a, d = self.a, self.d
        if self.written is not None:
            return self.written.square().sum((1, 2)) + d.sum(1).square().sum(1)
        near = torch.bmm(a, a.transpose(1, 2)) + 1
        return (near * torch.bmm(d, d.transpose(1, 2))).sum((1, 2))

    def weighted(self, factors: Tensor) -> list[Tensor]:
        """The weighted sums of records' gradients by the weights [runs, out in] and the constants [runs, out]."""
        runs, n = factors.shape
        constant = torch.bmm(factors[:, None], self.d.sum(1).reshape(runs, n, -1))[:, 0]
        if self.written is not None:
            return [torch.bmm(factors[:, None], self.written.reshape(runs, n, -1))[:, 0], constant]
        d = (self.d * factors.reshape(-1, 1, 1)).reshape(runs, -1, self.d.shape[2])
        return [torch.bmm(d.transpose(1, 2), self.a.reshape(runs, -1, self.a.shape[2])).flatten(1), constant]


def _places(part: Module, said: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """(what a layer takes in at each of its places [n, places, in], how those are arranged)."""
    if isinstance(part, nn.Linear):
        return said[:, None], ()
    seen = windows(part, said)
    return seen.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2), tuple(seen.shape[2:4])


def trained_runs(
    module: Module,
    begin: Floats,
    X: NDArray[np.float32],
    y: NDArray[np.int64],
    noises: Sequence[StudyNoise],
    steps: StudySteps,
    seed: int,
    device: str = "cpu",
    progress: Callable[[int, int], None] = lambda done, count: None,
) -> Tensor:
    """The parameters [runs, P] after all steps, from `begin` [runs, P] on, each run with its own noise and draws, on
    rows X [n, ...] with classes y [n]; for studies alone."""
    draw = torch.Generator(require_device(device)).manual_seed(seed)
    network, theta = StackedNetwork(module, device), torch.tensor(begin, dtype=torch.float32, device=device)
    rows, classes = torch.from_numpy(np.ascontiguousarray(X)).to(device), torch.from_numpy(y).to(device)
    clips, scales, alphas = (
        torch.tensor([[getattr(noise, key)] for noise in noises], dtype=torch.float64, device=device)
        for key in ("clip", "scale", "alpha")
    )
    scales, velocity = torch.where(scales > 0, scales * clips, 0.0), torch.zeros_like(theta)
    silent, expected = bool((scales == 0).all()), steps.rate * len(X)
    with exact_kernels(device):
        for place, (chosen, row_weights) in enumerate(_draws(len(X), len(theta), steps, draw)):
            total = network.clipped_sums(theta, rows[chosen], classes[chosen], row_weights, clips.float())
            if not silent:
                total = total + (scales * stable_draws(alphas, theta.shape[1], draw)).float()
            velocity = steps.momentum * velocity + total / expected
            theta = theta - steps.length(place) * velocity
            progress(place + 1, steps.count)
    return theta


def _draws(rows: int, runs: int, steps: StudySteps, draw: torch.Generator) -> Any:
    """For every step (places [runs, room], 1 where one was drawn and 0 where none was): each of the places 0 to
    rows - 1 with the same probability, independently, since the gaps between successes are geometric numbers."""
    mean = rows * steps.rate
    room = min(math.ceil(mean + MAX_DEVIATIONS * math.sqrt(mean)) + 1, rows)
    chunk = max(min(AT_ONCE // (runs * room), steps.count), 1)
    for first in range(0, steps.count, chunk):
        size = min(chunk, steps.count - first), runs, room
        gaps = torch.empty(size, dtype=torch.float64, device=draw.device).geometric_(steps.rate, generator=draw)
        places = gaps.long().cumsum(2) - 1
        yield from zip(places.clamp(max=rows - 1), (places < rows).float(), strict=True)


def stable_draws(alphas: Tensor, size: int, draw: torch.Generator) -> Tensor:
    """Symmetric alpha-stable numbers of scale 1, of each alpha [runs, 1] so many [runs, size], by Chambers, Mallows and
    Stuck (1976); alpha = 2: normal ones of variance 2."""
    like = torch.empty((len(alphas), size), dtype=torch.float64, device=draw.device)
    angle = (torch.rand(like.shape, dtype=like.dtype, device=draw.device, generator=draw) - 0.5) * math.pi
    wait = like.exponential_(generator=draw)
    skew = (torch.cos((1 - alphas) * angle) / wait) ** ((1 - alphas) / alphas)
    return torch.sin(alphas * angle) / torch.cos(angle) ** (1 / alphas) * skew
