"""An owner's answer bounded as a whole: what hides the whole table, not one person in it (Z's privacy of a client)."""

from dataclasses import dataclass, replace

import numpy as np

from parley.data.design import UNIT
from parley.privacy.mechanisms import Extent, Norm
from parley.protocol.queries.question import Question
from parley.validate import Floats


@dataclass(frozen=True)
class AnswerClip:
    """Answers scaled down to measure at most `value` in `norm`.

    Formal guarantee: whatever numbers [d] an answer has, the computed result measures at most `value`, exactly, for
    every `value` that terms can name (1e-50 to 1e50). So the answers of any two tables, of the same public size or not,
    differ by at most 2 `value`: that is the sensitivity where two consortia are neighbours if one owner's whole table
    is replaced. In the mean of all owners it counts by that owner's weight, n_l/n. Proof. With u = max |v_i| the shares
    v_i/u are at most 1, so that no power overflows, and their norm s is at least 1. The computed s is off by a relative
    (d + 8) 2^-53 at most, whatever the order of its sum; what underflows is below 2^-1000 of it. Scaled are answers
    with s > C'/u, by C'/s, C' being C less a relative (d + 16) 2^-53: more than the roundings of s, of the two
    divisions and of the product, those of results below 2^-1022 included, which are off by 2^-1075 at most. An answer
    with a number that is not finite is 0.
    """

    value: float
    norm: Norm

    @property
    def sensitivity(self) -> float:
        """How far replacing all of an owner's rows moves its answer."""
        return 2 * self.value

    @property
    def extent(self) -> Extent:
        """Where answers lie."""
        return Extent(-self.value, self.value, self.value, self.norm)

    def clipped(self, values: Floats) -> Floats:
        """The answers [..., d] scaled down; 0 for one that is not finite.

        >>> AnswerClip(5.0, "l2").clipped(np.array([[30.0, 40.0], [0.0, 1.0]])).round(9).tolist()
        [[3.0, 4.0], [0.0, 1.0]]
        """
        values = np.where(np.isfinite(values).all(axis=-1, keepdims=True), values, 0.0)
        largest = np.max(np.abs(values), axis=-1, keepdims=True, initial=0.0)
        unit = np.where(largest > 0, largest, 1.0)
        shares, most = values / unit, self.value * (1 - (values.shape[-1] + 16) * UNIT)
        total = np.abs(shares).sum(axis=-1, keepdims=True) if self.norm == "l1" else _lengths(shares)
        with np.errstate(over="ignore"):  # an answer so small that the limit is beyond all numbers stays as it is
            large = total > most / unit
        return np.where(large, shares * (most / np.maximum(total, 1.0)), values)


def of_owner(question: Question, clip: float) -> Question:
    """The same question with answers clipped as a whole: its sensitivity is that of an owner's whole table."""
    found = AnswerClip(clip, question.norm)
    return replace(question, answer_clip=found, sensitivity=found.sensitivity, extent=found.extent)


def _lengths(shares: Floats) -> Floats:
    return np.asarray(np.sqrt(np.sum(shares**2, axis=-1, keepdims=True)))
