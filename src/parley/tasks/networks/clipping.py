"""The sum of records' clipped gradients of a network, each a function of its own record alone.

Formal guarantee, of networks that may be released (`layers`): let v be what a record hands to the sum. (1) v is a
function of the record and theta, to the bit: activations and slopes of losses are so by construction (`elementwise`);
for products of matrices and sums of a record's numbers, rows are put into public shapes at places of which all are
computed in one order, filled up with zeros (`kernels`). A gradient that is no number counts 0, and so does a record
without a target, which keeps its place. (2) |v| <= clip in `norm`: the norm of the float32 gradient is measured in
float64 (`layer_gradients`), taken to be larger by more than that can be off, and the record scaled down by it. (3) Sums
of v are computed in float64: the computed sum over m records is off by at most `rounding(m)` m clip in that norm, for
no path from a record's number to the result has more than (size of a shape x places + shapes + 8) roundings of 2^-53.
Where a record's places are added up within the sum, their sizes before they cancel count, which `CANCELLED` limits: a
record that would measure more than so many clips without cancellation is scaled down by that, too.
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
from parley.tasks.networks.layer_gradients import UNIT, LayerGradients, Places, Trace, Written, layer_gradients, windows
from parley.tasks.networks.layers import STUDY, exact_network, require_parameters, require_row_axes
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
CANCELLED = 2.0**10  # clips that a record may measure before its places cancel
MEMORY = 1 << 23  # float64 numbers that the gradients of a shape may hold


class RecordGradients:
    """A network's clipped gradients, summed over rows: parameters come and go. Memory for rows and their gradients is
    used again, so it holds private numbers of the last rows until others are written there; nothing is read from it
    that was not written for the same sum."""

    def __init__(
        self,
        module: Module,
        losses: Losses,
        row: tuple[int, ...],
        clip: float,
        norm: Norm,
        expected: float,
        device: str = "cpu",
        study: bool = False,
    ) -> None:
        """`row`: the shape of a record; `expected`: how many are drawn on average, by which shapes are chosen; `study`:
        modules and losses that may not be released are taken, too, their gradients written out by torch.func."""
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
        """P: how many numbers the network has."""
        return sum(parameter.numel() for parameter in self.module.parameters())

    @cached_property
    def sizes(self) -> list[int]:
        """Of the public shapes that rows may be put into, largest first."""
        held = sum(number[0].numel() for layer in self._by_zeros for number in layer.numbers)
        return shape_sizes(self._expected, MEMORY / held)

    @property
    def shapes(self) -> list[Slots]:
        """Those of them by which the kernels of this machine, with so many threads, treat every row alike."""
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
        """Random weights [P], which show in what order products are added up; zeros, or powers of 2, would not."""
        draw, pieces = np.random.default_rng(0), []
        for parameter in self.module.parameters():
            width = math.prod(parameter.shape[1:])
            pieces.append(draw.normal(0, width**-0.5, parameter.numel()))
        return np.concatenate(pieces)

    def rounding(self, rows: int) -> float:
        """The relative rounding of a sum over up to so many rows: times rows and clip, how far it may be off."""
        places = max((layer.a.shape[2] for layer in self._by_zeros if isinstance(layer, Places)), default=1)
        path = (self.sizes[0] * places + 2 * rows / self.sizes[-1] + 9) * UNIT
        return path / (1 - path) * (CANCELLED if places > 1 else 1.0)

    @cached_property
    def _by_zeros(self) -> list[LayerGradients]:
        """How layers are added up, by two rows of zeros."""
        with exact_kernels(self.device):
            rows = torch.zeros(2, *self.row, device=self.device)
            return self._gradients(rows, torch.zeros(2, dtype=torch.float64, device=self.device))

    def clipped_sum(
        self, theta: Floats, X: Numbers, y: Floats, chosen: Chosen | None = None, present: Present | None = None
    ) -> Floats:
        """The sum of clipped gradients at theta [P] over rows X [n, ...] with targets y [n], or those of them at the
        chosen places: [P]. Rows that are not present [n] keep their place and count 0."""
        shapes = self.shapes
        total = torch.zeros(self.parameters, dtype=torch.float64, device=self.device)
        with self._lock, exact_kernels(self.device):
            set_parameters(self.module, theta)
            for rows, targets, there in self._batches(shapes, X, y, chosen, present):
                made = self._gradients(rows, targets, again=True)
                factors = self._factors(made)
                if bool((factors == 0).any()):  # gradients that are no numbers
                    made = [layer.kept(factors > 0) for layer in made]
                total += torch.cat([piece for layer in made for piece in layer.weighted(factors * there)])
        return np.asarray(total.cpu().numpy())

    def record_norms(self, theta: Floats, X: Numbers, y: Floats) -> Floats:
        """What every record's gradient measures before it is clipped [n]; infinite where it is no number. Private."""
        shapes, found = self.shapes, [np.empty(0)]
        with self._lock, exact_kernels(self.device):
            set_parameters(self.module, theta)
            for rows, targets, there in self._batches(shapes, X, y):
                norms, _ = self._measured(self._gradients(rows, targets))
                found.append(torch.nan_to_num(norms, nan=torch.inf)[there > 0].cpu().numpy())
        return np.concatenate(found)

    def _batches(
        self,
        shapes: list[Slots],
        X: Numbers,
        y: Floats,
        chosen: Chosen | None = None,
        present: Present | None = None,
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """(rows, targets, 1 where a row stands and 0 where none does), all chosen rows in public shapes; the same
        memory is used for each in turn."""
        chosen = np.arange(len(X)) if chosen is None else chosen
        held, begin = torch.from_numpy(np.ascontiguousarray(X).reshape(len(X), math.prod(self.row))), 0
        while begin < len(chosen):
            slots = next((each for each in reversed(shapes) if len(each) >= len(chosen) - begin), shapes[0])
            some = chosen[begin : begin + len(slots)]
            places = slots.places[: len(some)]
            rows = self._room(slots.size, held.shape[1])
            targets, there = torch.zeros(2, slots.size, dtype=torch.float64)
            if len(slots) == slots.size:  # one after the other, then zeros
                torch.index_select(held, 0, torch.from_numpy(some), out=rows[: len(some)])
                rows[len(some) :].zero_()
            else:
                rows.zero_()[places] = held[torch.from_numpy(some)]
            counted = np.ones(len(some), dtype=np.bool_) if present is None else present[some]
            rows[places[torch.from_numpy(~counted)]] = 0.0
            targets[places] = torch.from_numpy(np.where(counted, y[some], 0.0))
            there[places] = torch.from_numpy(counted.astype(np.float64))
            shaped = rows.reshape(slots.size, *self.row)
            yield tuple(each.to(self.device) for each in (shaped, targets, there))
            begin += len(slots)

    def _room(self, size: int, width: int) -> Tensor:
        """Memory for the rows of a shape [size, width]."""
        if size not in self._memory:
            self._memory[size] = torch.zeros(size, width)
        return self._memory[size]

    def _gradients(self, rows: Tensor, targets: Tensor, again: bool = False) -> list[LayerGradients]:
        """Records' gradients in the order of the parameters; `again`: in memory that the next ones are written to."""
        if not self.listed:
            return [self._written(rows, targets)]
        said, notes = rows, list[tuple[Module, Tensor, Tensor]]()
        for layer in self.module:
            taken, said = said, layer.forward(said)
            if any(True for _ in layer.parameters()):
                said = said if said.requires_grad else said.requires_grad_()
                notes.append((layer, taken.detach(), said))
        begin = SLOPES[self.losses](said.detach(), targets)
        slopes = torch.autograd.grad(said, [each for *_, each in notes], begin)
        return [
            self._layer(place, layer, taken, slope, again)
            for place, ((layer, taken, _), slope) in enumerate(zip(notes, slopes, strict=True))
        ]

    def _layer(self, place: int, layer: Module, taken: Tensor, slope: Tensor, again: bool) -> LayerGradients:
        if isinstance(layer, Scaled):
            return Written(layer.gradients(taken, slope))
        double = partial(self._doubled, place) if again else torch.Tensor.double
        return layer_gradients(_trace(layer, taken, slope), self.norm, double)

    def _doubled(self, layer: int, rows: Tensor) -> Tensor:
        """Rows in float64, where those of this layer were before: fresh memory takes longer than the numbers do."""
        held = self._doubles.get(layer)
        if held is None or len(held) < len(rows):
            held = self._doubles[layer] = torch.empty(rows.shape, dtype=torch.float64, device=rows.device)
        return held[: len(rows)].copy_(rows)

    def _written(self, rows: Tensor, targets: Tensor) -> Written:
        parameters = {name: parameter.detach() for name, parameter in self.module.named_parameters()}

        def loss(parameters: dict[str, Tensor], row: Tensor, target: Tensor) -> Tensor:
            said = torch.func.functional_call(self.module, parameters, (row[None],))
            return self.losses(said, target[None]).sum()

        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0), randomness="error")
        try:
            found = each(parameters, rows, targets)
        except (RuntimeError, ValueError) as error:
            raise GuaranteeError(
                "network: PyTorch cannot compute gradients of single records of this module. It must not mix records, "
                "draw at random or change buffers, and the loss must be one number per record"
            ) from error
        return Written([found[name].flatten(1).double() for name in parameters])

    def _measured(self, made: list[LayerGradients]) -> tuple[Tensor, Tensor]:
        """(norms [n] of records' gradients from above, what they would measure at most if no places cancelled [n])."""
        error = 4 * max(layer.error for layer in made) + 64 * UNIT
        total = _added([layer.size(self.norm) for layer in made])
        spreads = [layer.spread for layer in made if layer.spread is not None]
        spread = _added(spreads) if spreads else torch.zeros_like(total)
        total = (total + spread * error) * (1 + error)
        return (total, spread) if self.norm == "l1" else (total.sqrt() * (1 + error), spread.sqrt() * (1 + error))

    def _factors(self, made: list[LayerGradients]) -> Tensor:
        """By what each record is scaled down [n]: at most 1, and 0 where its gradient is no number."""
        norms, spread = self._measured(made)
        clip = self.clip * (1 - 16 * UNIT)
        factors = torch.clamp(torch.minimum(clip / norms, clip * CANCELLED / spread), max=1.0)
        return torch.where(torch.isfinite(norms) & torch.isfinite(spread), factors, 0.0)


def _exact(module: Module, losses: Losses, row: tuple[int, ...]) -> Module:
    """The exact version of a network that may be released with this loss; else it is refused (GuaranteeError)."""
    made = exact_network(module)
    if losses not in SLOPES:
        raise GuaranteeError(
            f"loss: a release takes {', '.join(each.__name__ for each in SLOPES)}, whose gradients are known to be "
            f"those of single records; choose one, {STUDY}"
        )
    require_row_axes(made, row)
    return made


def _trace(layer: Module, taken: Tensor, slope: Tensor) -> Trace:
    """What a layer took in and the slopes, place by place."""
    constant = layer.bias is not None
    if isinstance(layer, nn.Conv1d | nn.Conv2d):
        seen, axes = windows(layer, taken), len(layer.kernel_size)
        patches = seen.permute(0, 1, *range(2 + axes, 2 + 2 * axes), *range(2, 2 + axes))
        return Trace(patches.flatten(2 + axes).flatten(1, 1 + axes), slope.flatten(2), constant)
    a, d = (each.reshape(len(each), -1, each.shape[-1]).transpose(1, 2) for each in (taken, slope))
    return Trace(a, d, constant)


def _added(numbers: list[Tensor]) -> Tensor:
    """Their sum [n], one after another: PyTorch's own sum adds the last places in another order."""
    total = numbers[0]
    for each in numbers[1:]:
        total = total + each
    return total
