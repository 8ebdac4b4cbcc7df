"""How much one record can do to a mean gradient: what terms limit, the bound that follows, and the clip that enforces
it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from parley.data import Design, Preparation
from parley.data.design import UNIT
from parley.errors import GuaranteeError
from parley.privacy.mechanisms import Extent, Norm
from parley.terms import Terms
from parley.terms.sections import OWNER
from parley.validate import SMALLEST, Floats

MOST = 1e60  # no record's clip is larger

ClipNorm = Literal["l1", "l2", "linf"]  # in which a record's gradient can be clipped


@dataclass(frozen=True)
class Limits:
    """What the terms allow one record and every parameter: its gradient's clip (None: what the bounds imply), the
    weight of its loss, and the box |theta| <= radius."""

    clip: float | None
    largest_weight: float
    radius: float | None

    @classmethod
    def of(cls, terms: Terms, preparation: Preparation) -> "Limits":
        """Those of terms whose columns are prepared so.

        Where an owner is the unit, `privacy.clip` is that of its answer; a record is cut only where it alone would make
        the largest owner's answer as large, so that every answer is a finite number.
        """
        clip = terms.privacy.clip
        if terms.privacy.unit == OWNER and clip is not None:
            clip = min(clip * max(terms.train_rows(part.name) for part in terms.owners), MOST)
        return cls(clip, preparation.largest_weight, terms.model.radius)


@dataclass(frozen=True)
class RecordBound:
    """The most that one record's gradient can measure in `norm` (Xi), and whether clipping enforces it or the bounds
    do."""

    value: float
    norm: ClipNorm
    clips: bool

    def within(self, norm: Norm, coordinates: int) -> float:
        """The most that a record's gradient of so many coordinates can measure in another norm, rounded up.

        Formal guarantee: |v|_2 <= |v|_1 <= sqrt d |v|_2, and for d coordinates |v|_1 <= d |v|_inf, |v|_2 <= sqrt d
        |v|_inf.

        >>> 50.0 < RecordBound(0.5, "linf", clips=True).within("l1", 100) < 50.0000001
        True
        """
        if self.norm == norm or (self.norm, norm) == ("l1", "l2"):
            return self.value
        if (self.norm, norm) == ("linf", "l1"):
            return self.value * coordinates * (1 + 4 * UNIT)
        return self.value * float(np.sqrt(coordinates)) * (1 + 4 * UNIT)

    def sensitivity(self, records: int, slack: float, records_per_person: int = 1) -> float:
        """How far one person can move the computed mean gradient of `records` rows.

        Formal guarantee: replacing up to k rows changes the exact mean by at most 2 k Xi/n. Each of the two computed
        means is off by at most `slack` Xi (`data.design.summation_slack`), which adds 2 slack Xi. A row that counts 0,
        because it has no target or is about somebody held out, is a row whose gradient measures 0: replacing it, or by
        it, moves the sum by Xi at most.
        """
        return 2 * self.value * (records_per_person / records + slack)

    def extent(self, slack: float, most: float = 1.0) -> Extent:
        """Where the computed mean over any table lies: a mean of what measures at most Xi does too, but for its
        rounding, `slack` Xi; `most`: rows over what their sum is divided by."""
        largest = self.value * (most + slack)
        return Extent(-largest, largest, largest, self.noise_norm)

    @property
    def noise_norm(self) -> Norm:
        """The norm, where it is one that noise is calibrated in."""
        if self.norm == "linf":
            raise GuaranteeError("no noise is calibrated in LINF: take the bound in the mechanism's norm (`within`)")
        return self.norm


def tightest(clip: float | None, implied: float, norm: ClipNorm) -> RecordBound | None:
    """The smaller of the terms' clip and what the bounds imply; None if neither limits a record."""
    if clip is not None and clip < implied:
        return RecordBound(clip, norm, clips=True)
    return RecordBound(implied, norm, clips=False) if np.isfinite(implied) else None


def derivative_limit(design: Design, bound: RecordBound) -> Floats:
    """How large the derivative of each record's loss may be, a hair below Xi/|x| so that rounding cannot lift the
    product above Xi. Found once for a table.

    A row that measures less than SMALLEST is taken to measure that: its limit is below Xi/|x|, and finite.
    """

    def found() -> Floats:
        limit = bound.value / np.maximum(design.row_norms(bound.norm), SMALLEST)
        return np.asarray(limit * (1 - (design.width + 8) * UNIT))

    return design.derived(("derivative limit", bound), found)


def clip(derivative: Floats, limit: Floats) -> None:
    """Cut derivatives [..., n] to at most `limit` [n] in size, in place: the same as by `np.clip`, in half the time."""
    np.minimum(derivative, limit, out=derivative)
    np.maximum(derivative, -limit, out=derivative)


def bound_norm(features: Floats, norm: ClipNorm) -> float:
    """How much a row within these bounds measures at most."""
    if norm == "linf":
        return float(features.max(initial=0.0))
    return float(features.sum()) if norm == "l1" else float(np.sqrt(np.sum(features**2)))
