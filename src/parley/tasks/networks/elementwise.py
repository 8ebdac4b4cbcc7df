"""Activations, normalisation, pooling and slopes of losses that do not depend on a row's place.

PyTorch computes most elements by vector instructions and the last of each thread's piece by a scalar formula, which may
differ in the last digit. So these functions consist of single additions, subtractions, multiplications, divisions,
square roots, roundings to whole numbers and comparisons.

Formal guarantee: a row's result is a function of that row's numbers and public settings, the same to the bit at every
place, beside any other rows, with any number of threads. IEEE 754 fixes each operation's result for one element, in a
vector or not, and the order of sums follows from their length (`folded`). Threads must round and treat tiny numbers
alike (`kernels.require_alike_threads`).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

Tensor = Any  # torch.Tensor
Activation = Callable[[Tensor], tuple[Tensor, Tensor]]  # x to what it becomes, and the slope of that

AT_ONCE = 1 << 16  # numbers that a thread works on at a time: they fit a core's own memory
MAX_EXPONENT = 87.0  # beyond it, exponentials are taken to be those of its ends: 1e-38 and 1e38
PER_LN2 = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693359375, -2.1219444005469057e-4  # of the first every multiple up to 2^14 is exact in float32
COTH_COEFFICIENTS = (
    1 / 6,
    -1 / 360,
    1 / 15120,
)  # r coth(r/2) = 2 + r^2/6 - ...; for |r| <= ln(2)/2 what is left out is below 1e-9
ERF_COEFFICIENTS = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)  # Abramowitz and Stegun 7.1.26
ERF_STRETCH = 0.3275911
SOFTPLUS_LINEAR_FROM = 15.0  # from where on softplus is linear in float32
CUBIC, ROOT_2_PI = 0.044715, math.sqrt(2 / math.pi)


def folded(terms: Tensor) -> Tensor:
    """Return the sum over the last axis by repeated halving. Overwrites `terms`.

    >>> folded(torch.tensor([[1.0, 2.0, 4.0, 8.0, 16.0]]))
    tensor([31.])
    """
    width = terms.shape[-1]
    while width > 1:
        half = width // 2
        terms[..., :half] += terms[..., width - half : width]
        width -= half
    return terms[..., 0]


def _parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return (p, c, r) with e^x = p (c + r)/(c - r), x = k ln 2 + r, |r| <= ln(2)/2, p = 2^k, c = r coth(r/2)."""
    r = x.clamp(-MAX_EXPONENT, MAX_EXPONENT)
    k = (r * PER_LN2).round_()
    r -= k * LN2_HIGH
    r -= k * LN2_LOW
    square = r * r
    c = square * COTH_COEFFICIENTS[-1]
    for term in COTH_COEFFICIENTS[-2::-1]:
        c += term
        c *= square
    c += 2.0
    p = k.to(torch.int32).add_(127).bitwise_left_shift_(23).view(torch.float32)  # by its digits
    return p, c, r


def _exp(x: Tensor) -> Tensor:
    p, c, r = _parts(x)
    return (c + r).mul_(p).div_(c.sub_(r))


def _sigmoid_pair(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return (1/(1 + e^-x), 1/(1 + e^x))."""
    p, c, r = _parts(x)
    above, below = (c + r).mul_(p), c.sub_(r)
    total = above + below
    return above.div_(total), below.div_(total)


def _tanh(x: Tensor) -> Tensor:
    p, c, r = _parts(x * 2)
    more, less = p + 1, p.sub_(1)
    return (c * less).add_(r * more).div_(c.mul_(more).add_(r.mul_(less)))


def tanh(x: Tensor) -> tuple[Tensor, Tensor]:
    said = _tanh(x)
    return said, (said * said).neg_().add_(1)


def sigmoid(x: Tensor) -> tuple[Tensor, Tensor]:
    said, other = _sigmoid_pair(x)
    return said, other.mul_(said)


def silu(x: Tensor) -> tuple[Tensor, Tensor]:
    share, other = _sigmoid_pair(x)
    said = x * share
    return said, other.mul_(said).add_(share)


def elu(x: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    p, c, r = _parts(x.clamp(max=0.0))
    below = (c * (p - 1)).add_(r * (p + 1)).div_(c.sub_(r)).mul_(alpha)  # e^x - 1, without what cancels; 0 above 0
    above = x.clamp(min=0.0)
    slope = below + alpha
    return below + above, slope if alpha == 1 else slope.add_(above.sign_().mul_(1 - alpha))


def softplus(x: Tensor, beta: float, threshold: float) -> tuple[Tensor, Tensor]:
    z = x * beta
    u = _exp(z.abs().neg_())
    ratio = u / (u + 2)  # ln(1 + u) = 2 artanh(u/(u + 2)), at most 1/3
    square = ratio * ratio
    series = square / 17
    for odd in range(15, 1, -2):
        series.add_(1 / odd).mul_(square)
    value = series.add_(1).mul_(ratio).mul_(2).add_(z.clamp(min=0.0)).div_(beta)
    slope = _sigmoid_pair(z)[0]
    if threshold < SOFTPLUS_LINEAR_FROM:
        far = (z - threshold).clamp_(min=0.0).sign_()
        value += far * (x - value)
        slope += far * (1 - slope)
    return value, slope


def gelu(x: Tensor) -> tuple[Tensor, Tensor]:
    bell = _exp(x * x / -2)
    t = 1 / (x.abs() * (ERF_STRETCH / math.sqrt(2)) + 1)
    tail = t * ERF_COEFFICIENTS[-1]
    for term in ERF_COEFFICIENTS[-2::-1]:
        tail.add_(term).mul_(t)
    tail.mul_(bell).div_(2)
    side = x.sign()
    share = (side + 1).div_(2).sub_(side.mul_(tail))
    return x * share, bell.mul_(x).div_(math.sqrt(2 * math.pi)).add_(share)


def gelu_by_tanh(x: Tensor) -> tuple[Tensor, Tensor]:
    square = x * x
    t = _tanh((square * CUBIC + 1) * x * ROOT_2_PI)
    share = (t + 1) / 2
    steep = (t * t).neg_().add_(1).mul_(x).mul_(square.mul_(3 * CUBIC).add_(1)).mul_(ROOT_2_PI / 2)
    return x * share, steep.add_(share)


def leaky_relu(x: Tensor, below: float) -> tuple[Tensor, Tensor]:
    above = x.clamp(min=0.0)
    return x.clamp(max=0.0).mul_(below).add_(above), above.sign_().mul_(1 - below).add_(below)


class Elementwise(nn.Module):  # type: ignore[misc]
    """An activation applied to every number by itself."""

    def __init__(self, activation: Callable[..., tuple[Tensor, Tensor]], **settings: float) -> None:
        super().__init__()
        self.activation: Activation = partial(activation, **settings)

    def forward(self, rows: Tensor) -> Tensor:
        return _Applied.apply(rows, self.activation)


class _Applied(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Tensor, activation: Activation) -> Tensor:
        size = AT_ONCE * torch.get_num_threads() if x.device.type == "cpu" else max(x.numel(), 1)
        made = [activation(some) for some in x.reshape(-1).split(size)]
        said, slope = made[0] if len(made) == 1 else (torch.cat(each) for each in zip(*made, strict=True))
        ctx.save_for_backward(slope.view(x.shape))
        return said.view(x.shape)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        (slope,) = ctx.saved_tensors
        return slopes[0] * slope, None


class Normalised(nn.Module):  # type: ignore[misc]
    """Bring each row's `groups` of neighbours, or its last `axes` axes if that is 0, to mean 0 and deviation 1."""

    def __init__(self, groups: int, eps: float, axes: int = 0) -> None:
        super().__init__()
        self.groups, self.eps, self.axes = groups, eps, axes

    def forward(self, rows: Tensor) -> Tensor:
        grouped = rows.reshape(len(rows), self.groups, -1) if self.groups else rows.flatten(-self.axes)
        return _Standard.apply(grouped, self.eps).reshape(rows.shape)


class _Standard(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        z = x - _mean(x)
        per = 1 / (_mean(z * z) + eps).sqrt()
        said = z * per
        ctx.save_for_backward(said, per)
        return said

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        said, per = ctx.saved_tensors
        slope = slopes[0]
        return (slope - _mean(slope) - said * _mean(slope * said)) * per, None


def _mean(x: Tensor) -> Tensor:
    return folded(x.contiguous().clone())[..., None] / x.shape[-1]


class Scaled(nn.Module):  # type: ignore[misc]
    """Weights and constants for every channel, or for every number of the `last` axes."""

    def __init__(self, shape: tuple[int, ...], last: bool, bias: bool = True) -> None:
        super().__init__()
        self.last, self.weight = last, nn.Parameter(torch.ones(shape))
        self.register_parameter("bias", nn.Parameter(torch.zeros(shape)) if bias else None)

    def forward(self, rows: Tensor) -> Tensor:
        shape = self.weight.shape if self.last else (-1, *[1] * (rows.dim() - 2))
        said = rows * self.weight.reshape(shape)
        return said if self.bias is None else said + self.bias.reshape(shape)

    def gradients(self, taken: Tensor, slope: Tensor) -> list[Tensor]:
        """Return every record's gradients by weights and constants, in float64 [n, numbers]."""
        found = [taken.double() * slope.double()] + ([] if self.bias is None else [slope.double()])
        if self.last:
            return [folded(each.reshape(len(each), -1, self.weight.numel()).transpose(1, 2)) for each in found]
        return [folded(each.flatten(2) if each.dim() > 2 else each[..., None]) for each in found]


class Pooled(nn.Module):  # type: ignore[misc]
    """The largest, or the mean, of every `kernel` neighbours along each last axis, `stride` apart. Unlike nn.MaxPool2d
    on a GPU, its slopes are added in one order on every device."""

    def __init__(
        self,
        stride: int | tuple[int, ...],
        kernel: int | tuple[int, ...] = 2,
        padding: int | tuple[int, ...] = 0,
        mean: bool = False,
        axes: int = 2,
    ) -> None:
        super().__init__()
        self.stride, self.kernel, self.padding = (
            each if isinstance(each, tuple) else (each,) * axes for each in (stride, kernel, padding)
        )
        self.mean = mean

    def forward(self, images: Tensor) -> Tensor:
        if any(self.padding):
            frame = [width for width in reversed(self.padding) for _ in range(2)]
            images = nn.functional.pad(images, frame, value=0.0 if self.mean else -math.inf)
        for back, (kernel, stride) in enumerate(zip(reversed(self.kernel), reversed(self.stride), strict=True)):
            images = self._along(images, -1 - back, kernel, stride)
        return images / math.prod(self.kernel) if self.mean else images

    def _along(self, images: Tensor, axis: int, kernel: int, stride: int) -> Tensor:
        count = (images.shape[axis] - kernel) // stride + 1
        other_axes = (slice(None),) * (-1 - axis)
        shifted = (images[(..., slice(at, at + (count - 1) * stride + 1, stride), *other_axes)] for at in range(kernel))
        pooled = next(shifted)
        for each in shifted:
            pooled = pooled + each if self.mean else torch.maximum(pooled, each)
        return pooled


class Averaged(nn.Module):  # type: ignore[misc]
    """The mean of each channel over all pixels, or over all places of a sequence."""

    def forward(self, images: Tensor) -> Tensor:
        return _Mean.apply(images.flatten(2)).reshape(*images.shape[:2], *[1] * (images.dim() - 2))


class _Mean(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.shape = x.shape
        return _mean(x)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        return (slopes[0] / ctx.shape[-1]).expand(ctx.shape)


def cross_entropy_slopes(said: Tensor, y: Tensor) -> Tensor:
    """Slopes of `architectures.cross_entropy`: probabilities, less 1 for the true class."""
    odds = _exp(said - said.amax(1, keepdim=True))
    share = odds / folded(odds.clone())[:, None]
    return share - (torch.arange(said.shape[1], device=said.device) == y[:, None]).to(share.dtype)


def squared_slopes(said: Tensor, y: Tensor) -> Tensor:
    """Slopes of `architectures.squared`: the error of the first number."""
    return _in_first_column(said, said[:, 0] - y.to(said.dtype))


def binary_cross_entropy_slopes(said: Tensor, y: Tensor) -> Tensor:
    """Slopes of `architectures.binary_cross_entropy`: the probability of class 1, less 1 where it is true."""
    return _in_first_column(said, _sigmoid_pair(said[:, 0])[0] - y.to(said.dtype))


def _in_first_column(said: Tensor, slope: Tensor) -> Tensor:
    found = torch.zeros_like(said)
    found[:, 0] = slope
    return found
