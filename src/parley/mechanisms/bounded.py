"""A value that knows how far one person can move it."""

from dataclasses import dataclass
from typing import Literal

from parley.validate import Floats

Norm = Literal["l1", "l2"]

REPLACE_ONE = "replace-one"


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
    adjacency: str = REPLACE_ONE
