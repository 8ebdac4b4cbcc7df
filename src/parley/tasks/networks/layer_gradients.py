"""Norms and weighted sums of records' gradients by the parameters of one layer.

A linear layer or convolution multiplies a weight with its inputs at T places. With a_t a record's input at place t and
d_t the slope of its loss there, the gradient is the sum of d_t a_t' over places, and of d_t for the constant. With one
place |gradient| is a product of two norms. With several, every record's gradient is written out, or, where it is long
and places are few, its square is the sum of (d_s . d_t) (a_s . a_t) and the weighted sum over records is one matrix
product.

Formal guarantee: a and d are float32 numbers as the module computed them; all arithmetic on them that a bound relies on
is in float64. `size` is a record's squared L2 norm, its L1 norm or its largest entry, within a relative error of
`error`, except for `spread`: for products of places the error is `error` times `spread`, the square of the norm without
cancellation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from parley.losses.loss import ClipNorm
from parley.tasks.networks.elementwise import folded

Module = Any  # torch.nn.Conv1d or torch.nn.Conv2d
Tensor = Any  # torch.Tensor


def windows(layer: Module, images: Tensor) -> Tensor:
    """Return the windows of a zero-padded convolution [n, channels, rows, columns, height, width] of images [n,
    channels, ...], or of sequences [n, channels, places, width]. Only padding copies; PyTorch's own unfold launches
    kernels image by image.

    >>> import torch
    >>> windows(nn.Conv2d(1, 4, 3, stride=2), torch.arange(25.0).reshape(1, 1, 5, 5))[0, 0, 0, 1, 0]
    tensor([2., 3., 4.])
    """
    frame = [width for width in reversed(layer.padding) for _ in range(2)]
    seen = nn.functional.pad(images, frame) if any(frame) else images
    for axis, (kernel, dilation, stride) in enumerate(
        zip(layer.kernel_size, layer.dilation, layer.stride, strict=True)
    ):
        seen = seen.unfold(2 + axis, (kernel - 1) * dilation + 1, stride)
    return seen[(..., *(slice(None, None, dilation) for dilation in layer.dilation))]


ROUNDING_UNIT = 2.0**-53


@dataclass(frozen=True, eq=False)
class Trace:
    """A layer's inputs [n, in, places], slopes by its outputs [n, out, places], and if it has a constant."""

    taken: Tensor
    slopes: Tensor
    constant: bool


@dataclass(frozen=True, eq=False)
class Outer:
    """One place: a [n, in] and d [n, out] in float64."""

    a: Tensor
    d: Tensor
    constant: bool
    spread: ClassVar[Tensor | None] = None

    @property
    def numbers(self) -> list[Tensor]:
        """All numbers computed of records."""
        return [self.a, self.d]

    @property
    def error(self) -> float:
        return float(self.a.shape[1] + self.d.shape[1] + 8) * ROUNDING_UNIT

    def size(self, norm: ClipNorm) -> Tensor:
        a, d = (measured(each, norm) for each in (self.a, self.d))
        if not self.constant:
            return d * a
        return d * (a.clamp(min=1.0) if norm == "linf" else a + 1)

    def kept(self, rows: Tensor) -> "Outer":
        return Outer(zeroed(self.a, rows), zeroed(self.d, rows), self.constant)

    def weighted(self, weights: Tensor) -> list[Tensor]:
        d = self.d * weights[:, None]
        return [(d.T @ self.a).reshape(-1)] + ([d.sum(0)] if self.constant else [])


@dataclass(frozen=True, eq=False)
class Written:
    """Every record's gradient, as pieces [n, numbers] in float64."""

    pieces: list[Tensor]
    spread: ClassVar[Tensor | None] = None

    @property
    def numbers(self) -> list[Tensor]:
        return self.pieces

    @property
    def error(self) -> float:
        return float(sum(piece.shape[1] for piece in self.pieces) + 8) * ROUNDING_UNIT

    def size(self, norm: ClipNorm) -> Tensor:
        sizes = torch.stack([measured(piece, norm) for piece in self.pieces])
        return sizes.amax(0) if norm == "linf" else sizes.sum(0)

    def kept(self, rows: Tensor) -> "Written":
        return Written([zeroed(piece, rows) for piece in self.pieces])

    def weighted(self, weights: Tensor) -> list[Tensor]:
        return [weights @ piece for piece in self.pieces]


@dataclass(frozen=True, eq=False)
class Places:
    """Several places, not written out: a [n, in, places] and d [n, out, places] in float64. L2 alone."""

    a: Tensor
    d: Tensor
    constant: bool

    @property
    def numbers(self) -> list[Tensor]:
        return [self.a, self.d]

    @property
    def error(self) -> float:
        return float(self.a.shape[2] ** 2 + self.a.shape[1] + self.d.shape[1] + 8) * ROUNDING_UNIT

    @property
    def spread(self) -> Tensor:
        """An upper bound on (sum of |d_t| |a_t|)^2 [n], the constant included."""
        return square(self.d) * (square(self.a) + self.a.shape[2] * self.constant)

    def size(self, norm: ClipNorm) -> Tensor:
        near = self.a.transpose(1, 2) @ self.a + (1.0 if self.constant else 0.0)
        return (near * (self.d.transpose(1, 2) @ self.d)).sum((1, 2)).clamp(min=0.0)

    def kept(self, rows: Tensor) -> "Places":
        return Places(zeroed(self.a, rows), zeroed(self.d, rows), self.constant)

    def weighted(self, weights: Tensor) -> list[Tensor]:
        d = (self.d * weights[:, None, None]).transpose(0, 1).flatten(1)
        whole = d @ self.a.transpose(0, 1).flatten(1).T
        return [whole.reshape(-1)] + ([d.sum(1)] if self.constant else [])


LayerGradients = Outer | Written | Places


def layer_gradients(trace: Trace, norm: ClipNorm, double: Callable[[Tensor], Tensor]) -> LayerGradients:
    """Return records' gradients by a layer's weight and constant in the cheapest form; `double` converts long rows."""
    a, d = trace.taken, trace.slopes
    (width, places), out = a.shape[1:], d.shape[1]
    if places == 1:
        return Outer(double(a[:, :, 0]), d[:, :, 0].double(), trace.constant)
    if norm == "l2" and 2 * places * (width + out) < width * out:
        return Places(a.double(), d.double(), trace.constant)
    whole = (d @ a.transpose(1, 2).contiguous()).flatten(1).double()  # three times as fast in one stretch
    return Written([whole, folded(d.double())] if trace.constant else [whole])


def measured(rows: Tensor, norm: ClipNorm) -> Tensor:
    """Return the squared L2 norm, the L1 norm or the largest size of an entry of every row [n]."""
    if norm == "l2":
        return torch.linalg.vector_norm(rows, dim=1).square()
    return rows.abs().sum(1) if norm == "l1" else rows.abs().amax(1)


def square(stack: Tensor) -> Tensor:
    """Return the squared L2 norm of every stack [n]."""
    return measured(stack.flatten(1), "l2")


def zeroed(stack: Tensor, rows: Tensor) -> Tensor:
    """Set all rows except the marked ones to 0; multiplying NaN by 0 would not."""
    return torch.where(rows.reshape(-1, *[1] * (stack.dim() - 1)), stack, 0.0)
