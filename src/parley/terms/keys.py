"""What keys of the terms are made of: numbers in the range that arithmetic can bear, names from the catalogue,
sections."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from parley.validate import LARGEST, SMALLEST, in_range

Facts = TypeVar("Facts")

RANGE = f"from {SMALLEST:g} to {LARGEST:g}"


def _bearable(expected: str) -> AfterValidator:
    def check(size: float) -> float:
        if not in_range(size):
            raise PydanticCustomError("magnitude", "{expected}", {"expected": expected})
        return size

    return AfterValidator(check)


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True), _bearable(f"a number {RANGE}")]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True), _bearable(f"0, or a number {RANGE}")]
Count = Annotated[int, Field(ge=1, le=10**15, strict=True)]
Share = Annotated[float, Field(gt=0, le=1, strict=True)]
Finite = Annotated[float, Field(allow_inf_nan=False, strict=True)]
Bearable = Annotated[Finite, _bearable(f"0, or a number {RANGE} in size")]
Interval = tuple[Finite, Finite]


def listed(names: Collection[str]) -> str:
    """Names to choose from, in words.

    >>> listed(["a", "b", "c"])
    "'a', 'b' or 'c'"
    """
    *others, last = (repr(each) for each in names)
    return " or ".join([", ".join(others), last]) if others else last


def one_of(known: Collection[str]) -> AfterValidator:
    """A check that a value is a name from the catalogue."""

    def check(name: str) -> str:
        if name not in known:
            raise PydanticCustomError("one_of", "{expected}", {"expected": listed(known)})
        return name

    return AfterValidator(check)


def looked_up(known: Mapping[str, Facts], name: Any) -> Facts | None:
    """What the catalogue says of a name; None for what is not one, which is refused later, in words."""
    return known.get(name) if isinstance(name, str) else None


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> NoReturn:
        """Refused: a copy would not be checked, and would keep the hash of what it was copied from."""
        raise TypeError("terms are changed with Terms.changed(...), which checks them")
