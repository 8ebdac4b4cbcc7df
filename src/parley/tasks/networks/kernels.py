"""Batch shapes in which a row's numbers do not depend on who else was drawn, found by probing this machine's kernels.

Libraries choose instructions by a batch's shape and a row's place in it, which changes the last digits. The number of
secretly drawn rows must not show, so rows are padded with zeros to a few public shapes, and only shapes and places that
all give the same bits are used.

Formal guarantee, for products and sums whose order of operations on a row follows from the shape and the row's place,
not from any row's content: random rows and weights tell two orders apart, since every number of every probe differs
with a fair chance and at least `MIN_COMPARED_NUMBERS` numbers are compared. So at the shapes and places that
`sound_shapes` returns, a row's result is one function of that row and the parameters. Nothing is promised of kernels
that compute a function by two formulas: these differ for few numbers, which no probe need find (`elementwise` has
none).
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from parley.errors import GuaranteeError, SettingError

Tensor = Any  # torch.Tensor

MIN_COMPARED_NUMBERS, PROBES = (
    1 << 12,
    32,
)  # numbers that probes compare at each place; the most probes, of small networks
STEP, MIN_SHAPE_SIZE = 8, 32  # sizes of shapes are multiples of the one, from the other on
MIXED_RECORDS_MESSAGE = (
    "network: the result for a record depends on other records in the batch; expected layers and kernels that process "
    "every record separately"
)


@dataclass(frozen=True, eq=False)
class Slots:
    """A public shape, and its places where rows may be put."""

    size: int
    places: Tensor

    def __len__(self) -> int:
        return len(self.places)


def require_device(device: str) -> str:
    """Return the device if it is a CPU or a visible NVIDIA GPU; refuse others (SettingError)."""
    kind, _, place = device.partition(":")
    if device != "cpu" and (kind != "cuda" or (place and not place.isdigit())):
        raise SettingError(f"device = {device!r}: expected cpu, cuda, or cuda with a number such as cuda:0")
    if kind == "cuda" and int(place or 0) >= torch.cuda.device_count():
        raise SettingError(
            f"device = {device!r}: expected a GPU that PyTorch finds; GPUs found: {torch.cuda.device_count()}"
        )
    return device


@contextmanager
def exact_kernels(device: str = "cpu") -> Iterator[None]:
    """Compute in true float32 with a fixed order of operations: no TF32, no bfloat16, no search for the fastest kernel.
    Kernels of a GPU without a fixed order are refused (GuaranteeError)."""
    if os.environ.get("DNNL_DEFAULT_FPMATH_MODE", "STRICT").upper() not in ("STRICT", ""):
        raise GuaranteeError("DNNL_DEFAULT_FPMATH_MODE: unset this variable; matrix products must not use bfloat16")
    cudnn, before = torch.backends.cudnn, torch.get_float32_matmul_precision()
    kept = cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark
    chance = torch.are_deterministic_algorithms_enabled()
    torch.set_float32_matmul_precision("highest")
    cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark = False, True, False
    if device != "cpu":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    try:
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            yield
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        raise GuaranteeError(
            f"network: a layer has no kernel on {device} with a fixed order of operations; use other layers, "
            "or the device 'cpu'"
        ) from None
    finally:
        torch.use_deterministic_algorithms(chance)
        torch.set_float32_matmul_precision(before)
        cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark = kept


def require_alike_threads() -> None:
    """Refuse (GuaranteeError) threads that flush denormal numbers (`torch.set_flush_denormal`): where only some do, a
    row's numbers depend on its place."""
    tiny = torch.full((torch.get_num_threads() << 16,), 2.0**-100) * 2.0**-49
    if not bool((tiny.view(torch.int32) == 1).all()):  # the tiniest number has the digit 1
        raise GuaranteeError("torch: a thread flushes denormal numbers; call torch.set_flush_denormal(False)")


Computed = Callable[[Tensor], Sequence[Tensor]]  # rows [n, ...] to what is computed of each, tensors [n, ...]


def shape_sizes(expected: float, largest: float) -> list[int]:
    """Return shape sizes for draws of `expected` rows on average, largest first: the fewest shapes of up to about
    `largest` rows that hold two deviations more, and sizes for smaller draws.

    >>> shape_sizes(256, 1e6), shape_sizes(256, 200)
    ([288, 272, 256, 240], [144, 136, 128, 120])
    """
    parts = math.ceil((expected + 2 * expected**0.5) / max(largest, MIN_SHAPE_SIZE))
    sizes = (math.ceil((expected + k * expected**0.5) / parts / STEP) * STEP for k in (-1, 0, 1, 2))
    return sorted({max(size, MIN_SHAPE_SIZE) for size in sizes}, reverse=True)


def sound_shapes(computed: Computed, row: tuple[int, ...], sizes: Sequence[int], device: str) -> list[Slots]:
    """Return the shapes of these sizes, each with the places (at least half) where a row's result does not depend on
    other rows. If the first size has none it is a `GuaranteeError`."""
    draw = torch.Generator().manual_seed(0)
    numbers = sum(each[0].numel() for each in computed(torch.zeros(sizes[-1], *row, device=device)))
    probes = torch.rand((min(max(-(-MIN_COMPARED_NUMBERS // numbers), 2), PROBES), *row), generator=draw)
    wanted: list[list[Tensor]] = []
    shapes = []
    for size in sizes:
        every = [
            [_digits(each) for each in computed(probe.repeat(size, *[1] * len(row)).to(device))] for probe in probes
        ]
        if not wanted:
            wanted = [[each[size // 2] for each in seen] for seen in every]
        same = torch.stack([_rows_with_digits(seen, row_of) for seen, row_of in zip(every, wanted, strict=True)]).all(0)
        places = torch.arange(size)[same]
        if 2 * len(places) >= size and _alone(computed, probes[0].to(device), wanted[0], size, places, draw):
            shapes.append(Slots(size, places))
    if not shapes or shapes[0].size != sizes[0]:
        raise GuaranteeError(MIXED_RECORDS_MESSAGE)
    return shapes


def _alone(computed: Computed, row: Tensor, wanted: list[Tensor], size: int, places: Tensor, draw: Any) -> bool:
    """Whether the row gives the same result among random rows and among zeros."""
    some = places[[0, len(places) // 2, len(places) - 1]]
    for company in (torch.rand((size, *row.shape), generator=draw), torch.zeros(size, *row.shape)):
        batch = company.to(row.device)
        batch[some] = row
        if not bool(_rows_with_digits([_digits(each) for each in computed(batch)], wanted)[some].all()):
            return False
    return True


def _digits(numbers: Tensor) -> Tensor:
    """Return the binary digits of each row's result as integers [n, ...]."""
    flat = numbers.detach().cpu().flatten(1) if numbers.dim() > 1 else numbers.detach().cpu()[:, None]
    return flat.contiguous().view(torch.int32)


def _rows_with_digits(seen: Sequence[Tensor], wanted: Sequence[Tensor]) -> Tensor:
    """Return which rows have these digits [n]."""
    return torch.stack([(rows == row).all(1) for rows, row in zip(seen, wanted, strict=True)]).all(0)
