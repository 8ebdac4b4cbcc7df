"""The sum of records' clipped gradients of a network, each a function of its own record alone.

Formal guarantee, for networks that may be released (`layers`); v is a record's contribution to the sum. (1) v is a
function of the record and theta, to the bit. Activations and slopes of losses are so by construction (`elementwise`).
For matrix products and sums of a record's numbers, rows are padded with zeros to public shapes, at places that are all
computed in one order (`kernels`). A gradient that is not a number counts 0, and so does a record without a target,
which keeps its place. (2) |v| <= clip in `norm`: the norm of the float32 gradient is computed in float64, raised by
more than its error, and the record is scaled down by it (`layer_gradients`). (3) Sums of v are computed in float64. The
computed sum over m records is off by at most `rounding(m)` m clip in that norm: no path from a record's number to the
result has more than (size of a shape x places + shapes + 8) roundings of 2^-53. Where a record's places are added
within the sum, their sizes before cancellation count; a record with more than `MAX_CLIPS_BEFORE_CANCELLATION` clips of
them is scaled down by that, too.
"""

import math
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from threading import RLock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from parley.errors import GuaranteeError
from parley.losses.loss import ClipNorm, RecordBound
from parley.privacy.mechanisms import Norm
from parley.tasks.networks.architectures import binary_cross_entropy, cross_entropy, set_parameters, sole_copy, squared
from parley.tasks.networks.elementwise import (
    Scaled,
    binary_cross_entropy_slopes,
    cross_entropy_slopes,
    squared_slopes,
)
from parley.tasks.networks.kernels import (
    Slots,
    exact_kernels,
    require_alike_threads,
    require_device,
    shape_sizes,
    sound_shapes,
)
from parley.tasks.networks.layer_gradients import (
    ROUNDING_UNIT,
    LayerGradients,
    Places,
    Trace,
    Written,
    layer_gradients,
    windows,
)
from parley.tasks.networks.layers import STUDY_HINT, exact_network, require_parameters, require_row_axes
from parley.validate import Floats

Tensor = Any  # torch.Tensor
Module = Any  # torch.nn.Module
Losses = Callable[[Tensor, Tensor], Tensor]  # (outputs [n, ...], targets [n]) to a loss for each record [n]
Numbers = NDArray[np.float32]
Chosen = NDArray[np.int64]  # places of rows
Present = NDArray[np.bool_]

SLOPES: dict[Losses, Losses] = {  # of losses by what a network says: the exact version of each that may be released
    cross_entropy: cross_entropy_slopes,
    squared: squared_slopes,
    binary_cross_entropy: binary_cross_entropy_slopes,
}
MAX_CLIPS_BEFORE_CANCELLATION = 2.0**10  # clips that a record may measure before its places cancel
MAX_GRADIENT_NUMBERS = 1 << 23  # float64 numbers that the gradients of a shape may hold


class RecordGradients:
    """The sum of a network's clipped gradients over rows. Buffers are reused, so they hold private numbers of the last
    rows; a sum reads only what was written for it."""

    def __init__(
        self,
        module: Module,
        losses: Losses,
        row: tuple[int, ...],
        clip: float,
        norm: ClipNorm,
        expected: float,
        device: str = "cpu",
        study: bool = False,
    ) -> None:
        """`row` is the shape of a record; `norm` that of the clip, which need not be the noise's (`bound`); `expected`,
        the average number drawn, decides the batch shapes. A `study` also takes unlisted modules and losses, with
        gradients by torch.func."""
        require_parameters(module)
        self.listed, made = True, None
        try:
            made = _exact(module, losses, row)
        except GuaranteeError:
            if not study:
                raise
            self.listed = False
        self.module = (sole_copy(module) if made is None else made).to(require_device(device))
        self.losses, self.row, self.clip, self.norm, self.device = losses, row, clip, norm, device
        self._lock, self._expected = RLock(), expected
        self._shapes: dict[int, list[Slots]] = {}  # by the number of threads
        self._memory: dict[int, Tensor] = {}  # of rows, by the size of their shape
        self._doubles: dict[int, Tensor] = {}  # of rows in float64, by the layer that takes them
        _ = self._by_zeros  # what has no gradients of single records is refused now

    @property
    def parameters(self) -> int:
        """P: the number of parameters."""
        return sum(parameter.numel() for parameter in self.module.parameters())

    def bound(self, norm: Norm) -> float:
        """Return the largest norm of a clipped gradient in another norm, rounded up. A rounding is bounded likewise, as
        it is a share of the clip in every norm."""
        return RecordBound(self.clip, self.norm, clips=True).within(norm, self.parameters)

    @cached_property
    def sizes(self) -> list[int]:
        """The sizes of the public shapes for rows, largest first."""
        held = sum(number[0].numel() for layer in self._by_zeros for number in layer.numbers)
        return shape_sizes(self._expected, MAX_GRADIENT_NUMBERS / held)

    @property
    def shapes(self) -> list[Slots]:
        """The shapes at which this machine's kernels, with this number of threads, treat every row alike."""
        threads = torch.get_num_threads()
        with self._lock:
            if threads not in self._shapes:
                self._shapes[threads] = self._sound_shapes()
            return self._shapes[threads]

    def require_sound_shapes(self) -> None:
        """Refuse (`GuaranteeError`) kernels by which a row's gradient depends on the rows beside it."""
        _ = self.shapes

    def _sound_shapes(self) -> list[Slots]:
        if not self.listed:  # a study promises nothing
            return [Slots(size, torch.arange(size)) for size in self.sizes]

        def computed(rows: Tensor) -> list[Tensor]:
            made = self._gradients(rows, torch.zeros(len(rows), dtype=torch.float64, device=self.device))
            return [number for layer in made for number in (*layer.numbers, layer.size(self.norm))]

        with exact_kernels(self.device):
            require_alike_threads()
            set_parameters(self.module, self._probing_parameters())
            return sound_shapes(computed, self.row, self.sizes, self.device)

    def _probing_parameters(self) -> Floats:
        """Return random weights [P]; zeros or powers of 2 would not reveal the order of additions."""
        draw, pieces = np.random.default_rng(0), []
        for parameter in self.module.parameters():
            width = math.prod(parameter.shape[1:])
            pieces.append(draw.normal(0, width**-0.5, parameter.numel()))
        return np.concatenate(pieces)

    def rounding(self, rows: int) -> float:
        """Return the relative rounding of a sum over at most `rows`; times rows and clip it bounds the error."""
        places = max((layer.a.shape[2] for layer in self._by_zeros if isinstance(layer, Places)), default=1)
        path = (self.sizes[0] * places + 2 * rows / self.sizes[-1] + 9) * ROUNDING_UNIT
        return path / (1 - path) * (MAX_CLIPS_BEFORE_CANCELLATION if places > 1 else 1.0)

    @cached_property
    def _by_zeros(self) -> list[LayerGradients]:
        """The layer gradients of two rows of zeros, which show the form of each layer."""
        with exact_kernels(self.device):
            rows = torch.zeros(2, *self.row, device=self.device)
            return self._gradients(rows, torch.zeros(2, dtype=torch.float64, device=self.device))

    def clipped_sum(
        self, theta: Floats, X: Numbers, y: Floats, chosen: Chosen | None = None, present: Present | None = None
    ) -> Floats:
        """Return the sum of clipped gradients [P] at theta [P] over rows X [n, ...] with targets y [n], or over the
        chosen places. Rows not `present` [n] keep their place and count 0."""
        shapes = self.shapes
        total = torch.zeros(self.parameters, dtype=torch.float64, device=self.device)
        with self._lock, exact_kernels(self.device):
            set_parameters(self.module, theta)
            for rows, targets, row_weights in self._batches(shapes, X, y, chosen, present):
                made = self._gradients(rows, targets, again=True)
                factors = self._factors(made)
                if bool((factors == 0).any()):  # gradients that are no numbers
                    made = [layer.kept(factors > 0) for layer in made]
                total += torch.cat([piece for layer in made for piece in layer.weighted(factors * row_weights)])
        return np.asarray(total.cpu().numpy())

    def record_norms(self, theta: Floats, X: Numbers, y: Floats) -> Floats:
        """Return the norm of every record's unclipped gradient [n]; infinite where it is not a number. Private."""
        shapes, found = self.shapes, [np.empty(0)]
        with self._lock, exact_kernels(self.device):
            set_parameters(self.module, theta)
            for rows, targets, row_weights in self._batches(shapes, X, y):
                norms, _ = self._measured(self._gradients(rows, targets))
                found.append(torch.nan_to_num(norms, nan=torch.inf)[row_weights > 0].cpu().numpy())
        return np.concatenate(found)

    def _batches(
        self,
        shapes: list[Slots],
        X: Numbers,
        y: Floats,
        chosen: Chosen | None = None,
        present: Present | None = None,
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield (rows, targets, 1 where a row stands and else 0) in public shapes; each reuses the same memory."""
        chosen = np.arange(len(X)) if chosen is None else chosen
        held, begin = torch.from_numpy(np.ascontiguousarray(X).reshape(len(X), math.prod(self.row))), 0
        while begin < len(chosen):
            slots = next((each for each in reversed(shapes) if len(each) >= len(chosen) - begin), shapes[0])
            some = chosen[begin : begin + len(slots)]
            places = slots.places[: len(some)]
            rows = self._room(slots.size, held.shape[1])
            targets, row_weights = torch.zeros(2, slots.size, dtype=torch.float64)
            if len(slots) == slots.size:  # one after the other, then zeros
                torch.index_select(held, 0, torch.from_numpy(some), out=rows[: len(some)])
                rows[len(some) :].zero_()
            else:
                rows.zero_()[places] = held[torch.from_numpy(some)]
            counted = np.ones(len(some), dtype=np.bool_) if present is None else present[some]
            rows[places[torch.from_numpy(~counted)]] = 0.0
            targets[places] = torch.from_numpy(np.where(counted, y[some], 0.0))
            row_weights[places] = torch.from_numpy(counted.astype(np.float64))
            shaped = rows.reshape(slots.size, *self.row)
            yield tuple(each.to(self.device) for each in (shaped, targets, row_weights))
            begin += len(slots)

    def _room(self, size: int, width: int) -> Tensor:
        if size not in self._memory:
            self._memory[size] = torch.zeros(size, width)
        return self._memory[size]

    def _gradients(self, rows: Tensor, targets: Tensor, again: bool = False) -> list[LayerGradients]:
        """Return records' gradients in parameter order; `again` allows memory that the next call overwrites."""
        if not self.listed:
            return [self._written(rows, targets)]
        outputs, notes = rows, list[tuple[Module, Tensor, Tensor]]()
        for layer in self.module:
            taken, outputs = outputs, layer.forward(outputs)
            if any(True for _ in layer.parameters()):
                outputs = outputs if outputs.requires_grad else outputs.requires_grad_()
                notes.append((layer, taken.detach(), outputs))
        begin = SLOPES[self.losses](outputs.detach(), targets)
        slopes = torch.autograd.grad(outputs, [each for *_, each in notes], begin)
        return [
            self._layer(place, layer, taken, slope, again)
            for place, ((layer, taken, _), slope) in enumerate(zip(notes, slopes, strict=True))
        ]

    def _layer(self, place: int, layer: Module, taken: Tensor, slope: Tensor, again: bool) -> LayerGradients:
        if isinstance(layer, Scaled):
            return Written(layer.gradients(taken, slope))
        double = partial(self._as_float64, place) if again else torch.Tensor.double
        return layer_gradients(_trace(layer, taken, slope), self.norm, double)

    def _as_float64(self, layer: int, rows: Tensor) -> Tensor:
        """Return rows in float64, in the layer's old memory: fresh memory is slow."""
        held = self._doubles.get(layer)
        if held is None or len(held) < len(rows):
            held = self._doubles[layer] = torch.empty(rows.shape, dtype=torch.float64, device=rows.device)
        return held[: len(rows)].copy_(rows)

    def _written(self, rows: Tensor, targets: Tensor) -> Written:
        parameters = {name: parameter.detach() for name, parameter in self.module.named_parameters()}

        def loss(parameters: dict[str, Tensor], row: Tensor, target: Tensor) -> Tensor:
            outputs = torch.func.functional_call(self.module, parameters, (row[None],))
            return self.losses(outputs, target[None]).sum()

        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0), randomness="error")
        try:
            gradients = each(parameters, rows, targets)
        except (RuntimeError, ValueError) as error:
            raise GuaranteeError(
                "network: PyTorch cannot compute per-record gradients of this module. The module must not mix records, "
                "draw at random or change buffers. The loss must be one number per record"
            ) from error
        return Written([gradients[name].flatten(1).double() for name in parameters])

    def _measured(self, made: list[LayerGradients]) -> tuple[Tensor, Tensor]:
        """Return upper bounds (on the gradients' norms [n], on those norms without cancellation between places [n])."""
        error = 4 * max(layer.error for layer in made) + 64 * ROUNDING_UNIT
        sizes = [layer.size(self.norm) for layer in made]
        total = torch.stack(sizes).amax(0) if self.norm == "linf" else _added(sizes)
        spreads = [layer.spread for layer in made if layer.spread is not None]
        spread = _added(spreads) if spreads else torch.zeros_like(total)
        total = (total + spread * error) * (1 + error)
        return (total.sqrt() * (1 + error), spread.sqrt() * (1 + error)) if self.norm == "l2" else (total, spread)

    def _factors(self, made: list[LayerGradients]) -> Tensor:
        """Return the factor [n] that scales each record down: at most 1, and 0 for a gradient that is not a number."""
        norms, spread = self._measured(made)
        clip = self.clip * (1 - 16 * ROUNDING_UNIT)
        factors = torch.clamp(torch.minimum(clip / norms, clip * MAX_CLIPS_BEFORE_CANCELLATION / spread), max=1.0)
        return torch.where(torch.isfinite(norms) & torch.isfinite(spread), factors, 0.0)


def _exact(module: Module, losses: Losses, row: tuple[int, ...]) -> Module:
    """Return the exact version of a network that may be released with this loss; refuse others (GuaranteeError)."""
    made = exact_network(module)
    if losses not in SLOPES:
        raise GuaranteeError(
            f"loss: expected one of {', '.join(each.__name__ for each in SLOPES)} for a release. Other losses may mix "
            f"records; use one of the listed losses, {STUDY_HINT}"
        )
    require_row_axes(made, row)
    return made


def _trace(layer: Module, taken: Tensor, slope: Tensor) -> Trace:
    """Return a layer's inputs and slopes by place."""
    constant = layer.bias is not None
    if isinstance(layer, nn.Conv1d | nn.Conv2d):
        seen, axes = windows(layer, taken), len(layer.kernel_size)
        patches = seen.permute(0, 1, *range(2 + axes, 2 + 2 * axes), *range(2, 2 + axes))
        return Trace(patches.flatten(2 + axes).flatten(1, 1 + axes), slope.flatten(2), constant)
    a, d = (each.reshape(len(each), -1, each.shape[-1]).transpose(1, 2) for each in (taken, slope))
    return Trace(a, d, constant)


def _added(numbers: list[Tensor]) -> Tensor:
    """Return the sum [n] in a fixed order; PyTorch's own sum adds the last places in another order."""
    total = numbers[0]
    for each in numbers[1:]:
        total = total + each
    return total
