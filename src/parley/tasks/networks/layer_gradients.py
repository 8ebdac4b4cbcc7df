"""How records' gradients by the parameters of one layer are measured and added up, by the cheapest way for the layer.

A linear layer or a convolution multiplies a weight with what it takes in at T places: with a_t what a record brings to
place t and d_t the slope of its loss there, the record's gradient is the sum of d_t a_t' over places, and that of d_t
for the constant. One place (a linear layer of rows): |gradient| is a product of two norms, and nothing is written out.
Several: the gradient of every record is written out, or, where it is long and places are few, its square is the sum
of (d_s . d_t) (a_s . a_t), and the weighted sum of all records is one product of matrices.

Formal guarantee: a and d are float32 numbers as the module computed them; all arithmetic on them that a bound rests on
is done in float64. `size` is a record's squared L2 norm, or its L1 norm, within a relative error of `error`, not
counting that of `spread`: for products of places the error is `error` times `spread`, the square of what a record would
measure if nothing cancelled.

PyTorch's own `nn.functional.unfold` copies image by image: on a GPU thousands of launches for a batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from parley.privacy.mechanisms import Norm
from parley.tasks.networks.elementwise import folded

Module = Any  # torch.nn.Conv1d or torch.nn.Conv2d
Tensor = Any  # torch.Tensor


def windows(layer: Module, images: Tensor) -> Tensor:
    """The numbers that a convolution with padding by zeros multiplies with its weight at each of its places [n,
    channels, rows, columns, height, width], of images [n, channels, ...]; no copy but that of padded images. Of
    sequences [n, channels, places, width].

    >>> import torch
    >>> windows(nn.Conv2d(1, 4, 3, stride=2), torch.arange(25.0).reshape(1, 1, 5, 5))[0, 0, 0, 1, 0]
    tensor([2., 3., 4.])
    """
    frame = [width for width in reversed(layer.padding) for _ in range(2)]
    seen = nn.functional.pad(images, frame) if any(frame) else images
    for axis, (kernel, apart, stride) in enumerate(zip(layer.kernel_size, layer.dilation, layer.stride, strict=True)):
        seen = seen.unfold(2 + axis, (kernel - 1) * apart + 1, stride)
    return seen[(..., *(slice(None, None, apart) for apart in layer.dilation))]


UNIT = 2.0**-53


@dataclass(frozen=True, eq=False)
class Trace:
    """What a layer took in, [n, in, places], and the slopes of losses by what it said, [n, out, places]; whether it has
    a constant."""

    taken: Tensor
    slopes: Tensor
    constant: bool


@dataclass(frozen=True, eq=False)
class Outer:
    """One place: a and d in float64, [n, in] and [n, out]."""

    a: Tensor
    d: Tensor
    constant: bool
    spread: ClassVar[Tensor | None] = None

    @property
    def numbers(self) -> list[Tensor]:
        """All that was computed of records."""
        return [self.a, self.d]

    @property
    def error(self) -> float:
        return float(self.a.shape[1] + self.d.shape[1] + 8) * UNIT

    def size(self, norm: Norm) -> Tensor:
        a, d = (measured(each, norm) for each in (self.a, self.d))
        return d * (a + 1) if self.constant else d * a

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
        return float(sum(piece.shape[1] for piece in self.pieces) + 8) * UNIT

    def size(self, norm: Norm) -> Tensor:
        return torch.stack([measured(piece, norm) for piece in self.pieces]).sum(0)

    def kept(self, rows: Tensor) -> "Written":
        return Written([zeroed(piece, rows) for piece in self.pieces])

    def weighted(self, weights: Tensor) -> list[Tensor]:
        return [weights @ piece for piece in self.pieces]


@dataclass(frozen=True, eq=False)
class Places:
    """Several places, nothing written out: a and d in float64, [n, in, places] and [n, out, places]. L2 alone."""

    a: Tensor
    d: Tensor
    constant: bool

    @property
    def numbers(self) -> list[Tensor]:
        return [self.a, self.d]

    @property
    def error(self) -> float:
        return float(self.a.shape[2] ** 2 + self.a.shape[1] + self.d.shape[1] + 8) * UNIT

    @property
    def spread(self) -> Tensor:
        """(sum of |d_t| |a_t|)^2 at most [n], the constant's included."""
        return square(self.d) * (square(self.a) + self.a.shape[2] * self.constant)

    def size(self, norm: Norm) -> Tensor:
        near = self.a.transpose(1, 2) @ self.a + (1.0 if self.constant else 0.0)
        return (near * (self.d.transpose(1, 2) @ self.d)).sum((1, 2)).clamp(min=0.0)

    def kept(self, rows: Tensor) -> "Places":
        return Places(zeroed(self.a, rows), zeroed(self.d, rows), self.constant)

    def weighted(self, weights: Tensor) -> list[Tensor]:
        d = (self.d * weights[:, None, None]).transpose(0, 1).flatten(1)
        whole = d @ self.a.transpose(0, 1).flatten(1).T
        return [whole.reshape(-1)] + ([d.sum(1)] if self.constant else [])


LayerGradients = Outer | Written | Places


def layer_gradients(trace: Trace, norm: Norm, double: Callable[[Tensor], Tensor]) -> LayerGradients:
    """Records' gradients by a layer's weight and constant, by the cheapest way; `double`: long rows in float64."""
    a, d = trace.taken, trace.slopes
    (width, places), out = a.shape[1:], d.shape[1]
    if places == 1:
        return Outer(double(a[:, :, 0]), d[:, :, 0].double(), trace.constant)
    if norm == "l2" and 2 * places * (width + out) < width * out:
        return Places(a.double(), d.double(), trace.constant)
    whole = (d @ a.transpose(1, 2).contiguous()).flatten(1).double()  # three times as fast in one stretch
    return Written([whole, folded(d.double())] if trace.constant else [whole])


def measured(rows: Tensor, norm: Norm) -> Tensor:
    """The squared L2 norm, or the L1 norm, of every row [n]."""
    return rows.abs().sum(1) if norm == "l1" else torch.linalg.vector_norm(rows, dim=1).square()


def square(stack: Tensor) -> Tensor:
    """The squared L2 norm of every stack [n]."""
    return measured(stack.flatten(1), "l2")


def zeroed(stack: Tensor, rows: Tensor) -> Tensor:
    """The same with 0 in all rows but those that are marked: a number that is none times 0 would be none."""
    return torch.where(rows.reshape(-1, *[1] * (stack.dim() - 1)), stack, 0.0)
