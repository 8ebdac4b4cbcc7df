"""What goes into a mechanism and what comes out beside the noise: a value that knows how far one person can move it, and the
fact that the release was."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from parley.errors import GuaranteeError, SettingError
from parley.validate import Floats, positive, whole

Norm = Literal["l1", "l2"]

REPLACE_ONE = "replace-one"

LOUDEST = 1e250  # no value and no noise scale beyond this: their sum stays finite but for once in e^(10^50) releases


@dataclass(frozen=True, eq=False)
class Bounded:
    """A query's exact value [..., d] together with its sensitivity. Only objectives make these; no caller retypes a sensitivity.

    Formal guarantee: for any two tables of the same public size that differ in the rows of one person (at most
    `records_per_person` of them, at the same places), the computed values - rounding errors included - differ by at most
    `sensitivity` in `norm`.
    """

    value: Floats
    sensitivity: float
    norm: Norm


def require(bounded: Bounded, norm: Norm, sensitivity: float) -> Bounded:
    """The value, if it is finite and bounded as the mechanism was calibrated for.

    Whether a value is finite may depend on a record, so refusing it would tell something. Prepared values are made such that it always
    is (`data.design`); this is the last line, for what a person changes later.
    """
    if bounded.norm != norm:
        raise GuaranteeError(
            f"this mechanism needs a value bounded in {norm.upper()}, this one is bounded in {bounded.norm.upper()}"
        )
    if not bounded.sensitivity <= sensitivity:
        raise GuaranteeError("the value's sensitivity exceeds the one this mechanism was calibrated for; calibrate it anew")
    if not 0 < bounded.sensitivity < math.inf:
        raise GuaranteeError("a value's sensitivity must be a finite number above 0: without one no noise covers it")
    if not np.abs(bounded.value).max(initial=0) <= LOUDEST:
        raise GuaranteeError("the value is not finite, or too large to carry noise; nothing was released")
    return bounded


@dataclass(frozen=True)
class Event:
    """One kind of release as a fact: which noise, how large relative to the sensitivity, how often, on which share of the records.

    `multiplier` is scale/sensitivity (sigma/sensitivity for the Gaussian, 1/eps for "pure": any pure-DP release), the sensitivity
    being how far replacing one record moves the value. With `sampling` below 1 a record that is not drawn must leave the value
    midway: with or without it, the value moves by at most half the sensitivity (as in sums of clipped records, where that half is
    the clip). Accountants interpret events; nothing here is an opinion about eps.
    """

    mechanism: Literal["laplace", "gaussian", "geometric", "stable", "pure"]
    multiplier: float
    norm: Norm
    alpha: float | None = None
    sampling: float = 1.0
    count: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.multiplier, int | float) or not 1e-9 <= self.multiplier <= 1e15:
            raise SettingError(f"multiplier = {self.multiplier!r}: expected a number from 1e-9 to 1e15")
        if not isinstance(self.sampling, int | float) or not 0 < self.sampling <= 1:
            raise SettingError(f"sampling = {self.sampling!r}: expected a rate above 0 and at most 1")
        if whole(self.count, "count") > 10**18:
            raise SettingError("count: more than 1e18 releases have no budget; expected fewer")
        norms = {"gaussian": ("l2",), "stable": ("l1", "l2")}.get(self.mechanism, ("l1",))
        if self.norm not in norms:
            raise SettingError(
                f"norm = {self.norm!r}: {self.mechanism} noise needs a value bounded in {' or '.join(norms).upper()}"
            )
        if self.mechanism == "stable" and (self.alpha is None or not 1 <= self.alpha <= 2):
            raise SettingError(f"alpha = {self.alpha!r}: expected a number from 1 (Cauchy) to 2 (Gaussian)")

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for a ledger."""
        return dict(vars(self))


def rounded_up(scale: Fraction) -> float:
    """A noise scale as a float above the exact one, by 2^-50: OpenDP's own rounded-up map then still stays below epsilon."""
    try:
        return audible(float(scale * (1 + Fraction(1, 2**50))))
    except OverflowError:
        return audible(math.inf)


def audible(scale: float) -> float:
    """The noise scale, if values with such noise are finite numbers."""
    if scale > LOUDEST:
        raise SettingError(f"epsilon: too small for this sensitivity; the noise would exceed {LOUDEST:g}")
    return positive(scale, "noise scale")
