"""The numbers that terms and public knowledge fix before anything is asked: the same at every party, but for rounding.

Machines round differently (other BLAS kernels, other processors), so equal to the last bit they are not; and where a
public sample spreads equally in several directions, any turn among these is as good as another: machines then choose
directions that have nothing to do with each other, and answers about such columns must never be added up. So parties
compare the numbers themselves, before anything is spent. Not hashes of rounded numbers: honest parties on two sides of
a rounding edge would be refused.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from parley.data.preparation import Preparation
from parley.data.public_margin import LINES
from parley.validate import Floats

TOLERANCE = 1e-6  # of a number's own unit (`_units`): what is borne between parties, far below what any noise hides
# of a step that is rounded to six digits: at an edge two machines take neighbouring ones; of what is calibrated
ROUNDED = 2e-5
SEARCHED = 1e-3  # of what a search ends at
FLOATS = 1e-12  # of a number itself: what rounding does to one that is large beside its unit

BORNE = {"step": ROUNDED, "grid": ROUNDED, "score grid": ROUNDED, "start": SEARCHED}
COLUMNS = ("low", "high", "centre", "scale")  # one number for each column that features become
WHOLE = ("rotation", "basis", "start")  # entries are measured by the largest one


@dataclass(frozen=True)
class Difference:
    """The entry of an array that lies furthest off, in units of what is borne."""

    where: str
    here: float
    there: float
    off: float

    def __str__(self) -> str:
        return (
            f"{self.where} is {self.there:.6g} there and {self.here:.6g} here, {self.off:.2g} times what rounding "
            f"explains"
        )


@dataclass(frozen=True, eq=False)
class PublicNumbers:
    """Arrays of numbers, and SHA-256 hashes of lists of names, by what they are. No private record is in them."""

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
        """Other numbers in arrays of the same shapes."""
        ends = np.cumsum([array.size for array in self.arrays.values()])
        pieces = np.split(data, ends[:-1]) if len(ends) else []
        arrays = {
            name: piece.reshape(array.shape) for (name, array), piece in zip(self.arrays.items(), pieces, strict=True)
        }
        return PublicNumbers(arrays, self.names)

    def misfit(self, names: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> str | None:
        """Which names or shapes another party's are not these, in words; None: all are."""
        if dict(names) != dict(self.names):
            other = [key for key in self.names if names.get(key) != self.names[key]]
            return f"the names of {other[0] if other else 'something else'} are not the same"
        if dict(shapes) != self.shapes:
            here = ", ".join(f"{key} {list(shape)}" for key, shape in self.shapes.items() if shapes.get(key) != shape)
            return f"there are other arrays of numbers there; here {here or 'fewer'}"
        return None

    def difference(self, other: "PublicNumbers") -> str | None:
        """What of another party's lies further off than rounding explains, in words; None: nothing does.

        Formal guarantee: None means that the names are these and every number is within `TOLERANCE` of its unit
        (`ROUNDED` of a step, `SEARCHED` of a start).
        """
        found = self.misfit(other.names, other.shapes)
        if found is not None:
            return found
        units = _units(self.arrays)
        offs = (_furthest(name, here, other.arrays[name], units[name]) for name, here in self.arrays.items())
        worst = max(offs, key=lambda difference: difference.off, default=None)
        return None if worst is None or worst.off <= 1 else str(worst)


def preparation_numbers(preparation: Preparation) -> dict[str, Floats]:
    """The numbers by which raw columns become features."""
    p = preparation
    found: dict[str, Floats] = {name: getattr(p, name) for name in COLUMNS}
    found |= {"target_bounds": np.array(p.target_bounds), "target_centre": np.array([p.target_centre])}
    found |= {
        "target_scale": np.array([p.target_scale]),
        "fills": np.array([p.fills[column] for column in sorted(p.fills)]),
    }
    turned = {
        "rotation": p.rotation,
        "component_low": p.component_low,
        "component_high": p.component_high,
        "basis": p.basis,
    }
    found |= {name: array for name, array in turned.items() if array is not None}
    return found if p.forest is None else found | p.forest.arrays


def preparation_names(preparation: Preparation) -> dict[str, str]:
    """Hashes of the names that are told apart: of columns, and of classes."""
    lists = {"columns": preparation.labels, "classes": preparation.categories.get(preparation.model.target, ())}
    return {key: hashlib.sha256(json.dumps(names).encode()).hexdigest() for key, names in lists.items()}


def _units(arrays: Mapping[str, Floats]) -> dict[str, Floats]:
    """In which unit each entry is measured: a column's numbers in its scale, those of a matrix in its largest entry,
    others in their own size."""
    found = {}
    for name, array in arrays.items():
        size = np.abs(np.where(np.isfinite(array), array, 0.0))
        if name in WHOLE:
            size = np.full(array.shape, size.max(initial=0.0))
        elif name in COLUMNS and array.shape == arrays["scale"].shape:
            size = np.abs(arrays["scale"])
        elif name == LINES and array.shape[:1] == (3,):
            size = np.stack([size[1], size[1], np.maximum(size[2], 1.0)])
        elif name in ("target_bounds", "target_centre"):
            size = np.full(array.shape, abs(float(arrays["target_scale"][0])))
        elif name in ("component_low", "component_high"):
            size = np.maximum(np.abs(arrays["component_low"]), np.abs(arrays["component_high"]))
            # one in which the sample does not spread at all is rounding alone
            size = size + TOLERANCE * size.max(initial=0.0)
        found[name] = size
    return found


def _furthest(name: str, here: Floats, there: Floats, unit: Floats) -> Difference:
    """The entry that lies furthest off; what is not a number lies infinitely far."""
    if not here.size:
        return Difference(name, 0.0, 0.0, 0.0)
    borne = BORNE.get(name, TOLERANCE) * unit + FLOATS * np.abs(np.where(np.isfinite(here), here, 0.0))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        off = np.where(here == there, 0.0, np.abs(there - here) / borne)
    off = np.where(np.isnan(off), np.inf, off)
    place = np.unravel_index(int(off.argmax()), off.shape)
    where = name if here.size == 1 else f"{name}[{', '.join(str(int(i) + 1) for i in place)}]"
    return Difference(where, float(here[place]), float(there[place]), float(off[place]))
