"""The numbers that terms and public knowledge fix before anything is asked, equal for all parties up to rounding.

Machines round differently. If a public sample spreads equally in several directions, they even choose unrelated
directions, and answers about such columns must never be added up. So parties compare the numbers themselves before
anything is spent; hashes of rounded numbers would refuse honest parties at a rounding edge. Terms may pin the numbers
in a file, by its SHA-256: its author finds them once, and everybody uses them after checking that they fit the public
sample.

Formal guarantee: what a file can change is within `TOLERANCE` of what the public sample gives. Directions are any
orthonormal ones in which it spreads most, among those that equal spreads leave open. Trees are any at all; a row
reaches one leaf of each (`forest`), or their sum lies beside lines that the public sample gives (`forest`). Bounds,
scales and every sensitivity are derived from the numbers that are used, and clipping enforces these (`preparation`). So
a hostile file changes which features are learned from, and no guarantee.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from parley.data.forest import LINES_ARRAY
from parley.data.preparation import Preparation
from parley.errors import DataError, StalePinsError
from parley.terms import Model
from parley.validate import LARGEST, Floats

FORMAT = "parley-preparation-1"
MAX_FILE_BYTES = 1 << 28  # bytes
PIN_AGAIN = "ask the author of the terms to pin the numbers again (parley pin TERMS --write TERMS2)"

Pins = Mapping[str, Floats]
TOLERANCE = 1e-6  # of a number's own unit (`_units`): what is borne between parties, far below what any noise hides
# of a step that is rounded to six digits: at an edge two machines take neighbouring ones; of what is calibrated
STEP_TOLERANCE = 2e-5
SEARCH_TOLERANCE = 1e-3  # of what a search ends at
FLOAT_TOLERANCE = 1e-12  # of a number itself: what rounding does to one that is large beside its unit

TOLERANCES = {"step": STEP_TOLERANCE, "grid": STEP_TOLERANCE, "score grid": STEP_TOLERANCE, "start": SEARCH_TOLERANCE}
COLUMN_ARRAYS = ("low", "high", "centre", "scale")  # one number for each column that features become
MATRIX_ARRAYS = ("rotation", "basis", "start")  # entries are measured by the largest one


@dataclass(frozen=True)
class Difference:
    """The entry of an array that differs most, in units of the tolerance."""

    where: str
    here: float
    there: float
    off: float

    def __str__(self) -> str:
        return (
            f"{self.where} is {self.there:.6g} there and {self.here:.6g} here, {self.off:.2g} times the "
            "tolerance for rounding"
        )


@dataclass(frozen=True, eq=False)
class PublicNumbers:
    """Named arrays of numbers and SHA-256 hashes of lists of names, without any private record."""

    arrays: Mapping[str, Floats]
    names: Mapping[str, str]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: array.shape for name, array in self.arrays.items()}

    @cached_property
    def data(self) -> Floats:
        """All numbers, one array after the other."""
        return np.concatenate([np.empty(0), *(array.ravel() for array in self.arrays.values())])

    def with_data(self, data: Floats) -> "PublicNumbers":
        """Return other numbers in arrays of the same shapes."""
        ends = np.cumsum([array.size for array in self.arrays.values()])
        pieces = np.split(data, ends[:-1]) if len(ends) else []
        arrays = {
            name: piece.reshape(array.shape) for (name, array), piece in zip(self.arrays.items(), pieces, strict=True)
        }
        return PublicNumbers(arrays, self.names)

    def misfit(self, names: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> str | None:
        """Say which names or shapes of another party differ; None: none."""
        if dict(names) != dict(self.names):
            other = [key for key in self.names if names.get(key) != self.names[key]]
            return f"the names of {other[0] if other else 'something else'} are not the same"
        if dict(shapes) != self.shapes:
            own_shapes = ", ".join(
                f"{key} {list(shape)}" for key, shape in self.shapes.items() if shapes.get(key) != shape
            )
            return f"there are other arrays of numbers there; here {own_shapes or 'fewer'}"
        return None

    def difference(self, other: "PublicNumbers") -> str | None:
        """Say which number of another party differs by more than rounding; None: none.

        Formal guarantee: None means that the names are these and every number is within `TOLERANCE` of its unit
        (`STEP_TOLERANCE` of a step, `SEARCH_TOLERANCE` of a start).
        """
        misfit = self.misfit(other.names, other.shapes)
        if misfit is not None:
            return misfit
        units = _units(self.arrays)
        offs = (_largest_difference(name, own, other.arrays[name], units[name]) for name, own in self.arrays.items())
        worst = max(offs, key=lambda difference: difference.off, default=None)
        return None if worst is None or worst.off <= 1 else str(worst)


def preparation_numbers(preparation: Preparation) -> dict[str, Floats]:
    """Return the numbers by which raw columns become features."""
    p = preparation
    arrays: dict[str, Floats] = {name: getattr(p, name) for name in COLUMN_ARRAYS}
    arrays |= {"target_bounds": np.array(p.target_bounds), "target_centre": np.array([p.target_centre])}
    arrays |= {
        "target_scale": np.array([p.target_scale]),
        "fills": np.array([p.fills[column] for column in sorted(p.fills)]),
    }
    turned = {
        "rotation": p.rotation,
        "component_low": p.component_low,
        "component_high": p.component_high,
        "basis": p.basis,
    }
    arrays |= {name: array for name, array in turned.items() if array is not None}
    return arrays if p.forest is None else arrays | p.forest.arrays


def preparation_names(preparation: Preparation) -> dict[str, str]:
    """Return hashes of the lists of columns and of classes."""
    lists = {"columns": preparation.labels, "classes": preparation.categories.get(preparation.model.target, ())}
    return {key: hashlib.sha256(json.dumps(names).encode()).hexdigest() for key, names in lists.items()}


def pinned_text(preparation: Preparation) -> str:
    """Return the file's text: the finite numbers, in digits that read back to the same bits."""
    arrays = {
        name: array.tolist() for name, array in preparation_numbers(preparation).items() if np.isfinite(array).all()
    }
    return (
        json.dumps({"format": FORMAT, "names": preparation_names(preparation), "arrays": arrays}, allow_nan=False)
        + "\n"
    )


def depends_on_machine(model: Model) -> bool:
    """Whether machines may find other numbers for these terms, beyond rounding: directions, and points along them."""
    return any(key is not None for key in (model.components, model.whitening, model.basis, model.trees))


def read_pins(model: Model) -> Pins | None:
    """Return the numbers that the terms pin; None if they pin none."""
    if model.preparation is None and model.preparation_sha256 is None:
        return None
    if model.preparation is None:
        raise DataError(
            "model.preparation: the key is missing, but these terms pin public numbers in a file; set the key to the "
            "file that came with the terms"
        )
    path = Path(model.preparation)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise DataError(
                f"{path}: the file is larger than {MAX_FILE_BYTES:,} bytes, so it cannot contain public numbers; check "
                "the name"
            )
        content = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror or error}); check the name and the permissions of the file"
        ) from None
    if model.preparation_sha256 not in (None, hashlib.sha256(content).hexdigest()):
        raise DataError(
            f"{path}: the file's SHA-256 differs from model.preparation_sha256; use the file that all parties agreed on"
        )
    try:
        return _arrays(json.loads(content))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataError(
            f"{path}: expected a file of public numbers that parley init or parley pin wrote; check the name"
        ) from None


def apply_pins(fitted: Preparation, pins: Pins) -> Preparation:
    """Return the preparation with the pinned numbers, which must equal those computed here up to rounding."""
    own = {name: array for name, array in preparation_numbers(fitted).items() if np.isfinite(array).all()}
    difference = PublicNumbers(own, {}).difference(PublicNumbers(pins, {}))
    if difference is not None:
        raise StalePinsError(
            "model.preparation: the pinned numbers in the file differ from the numbers that this machine computes from "
            f"the terms and the public sample ('there' is the file, 'here' this machine). {difference}; {PIN_AGAIN}"
        )
    _require_ordered(pins)
    known = {each.name for each in fields(Preparation)}
    changed: dict[str, Any] = {
        name: array for name, array in pins.items() if name in known and isinstance(getattr(fitted, name), np.ndarray)
    }
    if "target_bounds" in pins:
        changed["target_bounds"] = tuple(pins["target_bounds"].tolist())
    changed |= {name: float(pins[name][0]) for name in ("target_centre", "target_scale")}
    changed["fills"] = dict(zip(sorted(fitted.fills), pins["fills"].tolist(), strict=True))
    return replace(fitted, **changed)


def require_principal(rotation: Floats | None, standard: Floats, components: int) -> Floats:
    """Return pinned directions [features, components] if they are principal components of the sample, in order; for
    equal spreads any such directions will do."""
    shape = standard.shape[1], components
    if rotation is None or rotation.shape != shape:
        raise StalePinsError(
            f"model.preparation: model.components needs a rotation of {shape[0]} x {shape[1]} numbers, which the file "
            f"lacks; {PIN_AGAIN}"
        )
    moments = np.atleast_2d(np.cov(standard, rowvar=False, bias=True))
    spreads = np.linalg.eigvalsh(moments)[::-1][:components]
    skew = float(np.abs(rotation.T @ rotation - np.eye(components)).max())
    off = float(np.abs(moments @ rotation - rotation * spreads).max())
    if not (skew <= TOLERANCE and off <= TOLERANCE * float(spreads[0])):
        raise StalePinsError(
            f"model.preparation: the pinned directions are not principal components of the public sample; {PIN_AGAIN}"
        )
    return rotation


def _units(arrays: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return each entry's unit: the scale of its column, the largest entry of its matrix, or its own size."""
    units = {}
    for name, array in arrays.items():
        size = np.abs(np.where(np.isfinite(array), array, 0.0))
        if name in MATRIX_ARRAYS:
            size = np.full(array.shape, size.max(initial=0.0))
        elif name in COLUMN_ARRAYS and array.shape == arrays["scale"].shape:
            size = np.abs(arrays["scale"])
        elif name == LINES_ARRAY and array.shape[:1] == (3,):
            size = np.stack([size[1], size[1], np.maximum(size[2], 1.0)])
        elif name in ("target_bounds", "target_centre"):
            size = np.full(array.shape, abs(float(arrays["target_scale"][0])))
        elif name in ("component_low", "component_high"):
            size = np.maximum(np.abs(arrays["component_low"]), np.abs(arrays["component_high"]))
            # one in which the sample does not spread at all is rounding alone
            size = size + TOLERANCE * size.max(initial=0.0)
        units[name] = size
    return units


def _largest_difference(name: str, here: Floats, there: Floats, unit: Floats) -> Difference:
    """Return the entry that differs most; NaN differs infinitely."""
    if not here.size:
        return Difference(name, 0.0, 0.0, 0.0)
    tolerance = TOLERANCES.get(name, TOLERANCE) * unit + FLOAT_TOLERANCE * np.abs(
        np.where(np.isfinite(here), here, 0.0)
    )
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        off = np.where(here == there, 0.0, np.abs(there - here) / tolerance)
    off = np.where(np.isnan(off), np.inf, off)
    place = np.unravel_index(int(off.argmax()), off.shape)
    where = name if here.size == 1 else f"{name}[{', '.join(str(int(i) + 1) for i in place)}]"
    return Difference(where, float(here[place]), float(there[place]), float(off[place]))


def _arrays(content: Any) -> Pins:
    if content["format"] != FORMAT:
        raise ValueError("another format")
    arrays = {str(name): np.array(values, dtype=np.float64) for name, values in content["arrays"].items()}
    for array in arrays.values():
        if not (np.abs(array) <= LARGEST).all():
            raise ValueError("the file contains numbers that are too large")
    return arrays


def _require_ordered(pins: Pins) -> None:
    """Refuse ends in the wrong order and scales that are not positive: rounding makes neither."""
    for low, high in (("low", "high"), ("component_low", "component_high")):
        if low in pins and high in pins and not (pins[low] <= pins[high]).all():
            raise DataError(
                f"model.preparation: a value of {low} is above the matching value of {high}; pin the numbers again"
            )
    if not (pins["scale"] > 0).all() or not (pins["target_scale"] > 0).all():
        raise DataError("model.preparation: every scale must be above 0; pin the numbers again")
