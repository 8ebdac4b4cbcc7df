"""What goes into a mechanism: a value that knows how far one person, or one owner's whole table, can move it."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from parley.errors import GuaranteeError, SettingError
from parley.privacy.events import Norm
from parley.validate import Floats, positive

LOUDEST = 1e250  # no value and no noise scale beyond this: their sum stays finite but for once in e^(10^50) releases


@dataclass(frozen=True, eq=False)
class Bounded:
    """A query's exact value [..., d] together with its sensitivity.
    Only objectives make these; no caller retypes a sensitivity.

    Formal guarantee: for any two tables of the same public size that differ in the rows
    of one person (at most `records_per_person` of them, at the same places), the computed
    values - rounding errors included - differ by at most `sensitivity` in `norm`. Where terms
    name the owner as the unit, the same holds for any two tables of the same public size.
    """

    value: Floats
    sensitivity: float
    norm: Norm


def require(bounded: Bounded, norm: Norm, sensitivity: float) -> Bounded:
    """The value, if it is finite and bounded as the mechanism was calibrated for.

    Whether a value is finite may depend on a record, so refusing it would tell something. Prepared values are made such
    that it always is (`data.design`); this is the last line, for what a person changes later.
    """
    if bounded.norm != norm:
        raise GuaranteeError(
            f"this mechanism needs a value bounded in {norm.upper()}, this one is bounded in {bounded.norm.upper()}"
        )
    if not bounded.sensitivity <= sensitivity:
        raise GuaranteeError(
            "the value's sensitivity exceeds the one this mechanism was calibrated for; calibrate it anew"
        )
    if not 0 < bounded.sensitivity < math.inf:
        raise GuaranteeError("a value's sensitivity must be a finite number above 0: without one no noise covers it")
    if not np.abs(bounded.value).max(initial=0) <= LOUDEST:
        raise GuaranteeError("the value is not finite, or too large to carry noise; nothing was released")
    return bounded


def rounded_up(scale: Fraction) -> float:
    """A noise scale as a float above the exact one, by 2^-50:
    OpenDP's own rounded-up map then still stays below epsilon."""
    try:
        return audible(float(scale * (1 + Fraction(1, 2**50))))
    except OverflowError:
        return audible(math.inf)


def audible(scale: float) -> float:
    """The noise scale, if values with such noise are finite numbers."""
    if scale > LOUDEST:
        raise SettingError(f"epsilon: too small for this sensitivity; the noise would exceed {LOUDEST:g}")
    return positive(scale, "noise scale")
