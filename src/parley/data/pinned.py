"""Public numbers that terms pin in a file, by its SHA-256: how columns become features, with the same bits at every
party.

No rule makes directions of equal spread stable: which of them linear algebra finds hangs on the processor. So whoever
writes the terms finds them once, and everybody takes them from the file instead, having checked that they are some that
the public sample has.

Formal guarantee: what a file can change is within `public_numbers.TOLERANCE` of what the public sample gives;
directions are any orthonormal ones in which it spreads most, and of those equal spreads leave open which; trees are any
at all, of which a row reaches one leaf each (`forest`), or whose sum lies beside lines that the public sample gives
(`public_margin`). Bounds, scales and every sensitivity are derived from the
numbers that are used, and clipping enforces these (`preparation`); so a hostile file changes which features are learned
from, and no guarantee.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from parley.data.preparation import Preparation
from parley.data.public_numbers import TOLERANCE, PublicNumbers, preparation_names, preparation_numbers
from parley.errors import DataError, StalePinsError
from parley.terms import Model
from parley.validate import LARGEST, Floats

FORMAT = "parley-preparation-1"
LARGEST_FILE = 1 << 28  # bytes
PIN_AGAIN = "Whoever wrote the terms plans and pins them again with parley plan TERMS --write TERMS2"

Pins = Mapping[str, Floats]


def pinned_text(preparation: Preparation) -> str:
    """The file: what is finite of the numbers, in digits that are read back to the same bits."""
    arrays = {
        name: array.tolist() for name, array in preparation_numbers(preparation).items() if np.isfinite(array).all()
    }
    return (
        json.dumps({"format": FORMAT, "names": preparation_names(preparation), "arrays": arrays}, allow_nan=False)
        + "\n"
    )


def hangs_on_machine(model: Model) -> bool:
    """Whether machines may find different numbers for these terms, and not by rounding alone: directions, and points
    seen along them."""
    return any(key is not None for key in (model.components, model.whitening, model.basis, model.trees))


def read_pins(model: Model) -> Pins | None:
    """The numbers that the terms pin; None where they pin none."""
    if model.preparation is None and model.preparation_sha256 is None:
        return None
    if model.preparation is None:
        raise DataError("model.preparation: missing; these terms pin public numbers in a file, which came with them")
    path = Path(model.preparation)
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise DataError(f"{path}: expected at most {LARGEST_FILE} bytes")
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    if model.preparation_sha256 not in (None, hashlib.sha256(content).hexdigest()):
        raise DataError(
            f"{path}: its SHA-256 differs from model.preparation_sha256; expected the numbers that all parties agreed "
            f"on"
        )
    try:
        return _arrays(json.loads(content))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataError(f"{path}: not a file of public numbers that parley init or parley pin wrote") from None


def pinned(fitted: Preparation, pins: Pins) -> Preparation:
    """The preparation with the pinned numbers in the place of those that this machine computed, which they must be but
    for rounding."""
    own = {name: array for name, array in preparation_numbers(fitted).items() if np.isfinite(array).all()}
    found = PublicNumbers(own, {}).difference(PublicNumbers(pins, {}))
    if found is not None:
        raise StalePinsError(
            f"model.preparation: the pinned numbers are not what the terms and the public sample give: {found} "
            f"(there: the file). {PIN_AGAIN}"
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
    """Pinned directions [features, components], if they are orthonormal and the sample's rows spread most along the
    first, most of what is left along the second, and so on; where spreads are equal, any such will do."""
    shape = standard.shape[1], components
    if rotation is None or rotation.shape != shape:
        raise StalePinsError(
            f"model.preparation: expected a rotation of {shape[0]} x {shape[1]} numbers beside model.components. "
            f"{PIN_AGAIN}"
        )
    moments = np.atleast_2d(np.cov(standard, rowvar=False, bias=True))
    spreads = np.linalg.eigvalsh(moments)[::-1][:components]
    skew = float(np.abs(rotation.T @ rotation - np.eye(components)).max())
    off = float(np.abs(moments @ rotation - rotation * spreads).max())
    if not (skew <= TOLERANCE and off <= TOLERANCE * float(spreads[0])):
        raise StalePinsError(
            "model.preparation: the pinned directions are not principal components of the public sample: expected "
            f"orthonormal ones along which it spreads most. {PIN_AGAIN}"
        )
    return rotation


def _arrays(content: Any) -> Pins:
    if content["format"] != FORMAT:
        raise ValueError("another format")
    arrays = {str(name): np.array(values, dtype=np.float64) for name, values in content["arrays"].items()}
    for array in arrays.values():
        if not (np.abs(array) <= LARGEST).all():
            raise ValueError("numbers beyond what arithmetic bears")
    return arrays


def _require_ordered(pins: Pins) -> None:
    """Refuse ends that lie the wrong way round, and scales that divide by nothing: rounding makes neither."""
    for low, high in (("low", "high"), ("component_low", "component_high")):
        if low in pins and high in pins and not (pins[low] <= pins[high]).all():
            raise DataError(f"model.preparation: {low}: expected no number above that of {high}")
    if not (pins["scale"] > 0).all() or not (pins["target_scale"] > 0).all():
        raise DataError("model.preparation: scale: expected numbers above 0")
