"""How the terms want columns read: how names are coded, what a missing cell counts as, which numbers are transformed
first."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

Name = Annotated[str, Field(min_length=1, max_length=200, strict=True)]
Coding = Literal["integer", "one-hot"]
Policy = Literal["refuse", "fill"]  # of missing cells
Transform = Literal["log", "log1p", "sqrt", "signed-log1p"]

DOMAINS: dict[Transform, tuple[float, bool]] = {"log": (0.0, False), "log1p": (-1.0, False), "sqrt": (0.0, True)}
"""(the least value that a transform takes, whether that value itself is one); every other one takes all numbers."""


def _filled(value: Any) -> Any:
    """Columns that are refused need not be said, so that what means the same has one form, and one hash."""
    if not isinstance(value, Mapping):
        return value
    return {column: policy for column, policy in value.items() if policy != "refuse"} or "refuse"


Missing = Annotated[Policy | dict[Name, Policy], BeforeValidator(_filled)]


def is_defined(transform: Transform, low: float) -> bool:
    """Whether a transform takes every number from `low` on.

    >>> is_defined("log", 0.0), is_defined("sqrt", 0.0), is_defined("signed-log1p", -5.0)
    (False, True, True)
    """
    least, included = DOMAINS.get(transform, (float("-inf"), True))
    return low > least or (included and low == least)


def domain(transform: Transform) -> str:
    """The numbers that a transform takes, in words."""
    least, included = DOMAINS[transform]
    return f"{'of at least' if included else 'above'} {least:g}"
