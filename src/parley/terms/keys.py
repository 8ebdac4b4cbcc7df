"""Building blocks of the keys: numbers in a safe range, catalogue names, sections, and how columns are read."""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Annotated, Any, Literal, NoReturn, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from parley.validate import LARGEST, SMALLEST, in_range

Facts = TypeVar("Facts")

NUMBER_RANGE_TEXT = f"from {SMALLEST:g} to {LARGEST:g}"


def _in_safe_range(expected: str) -> AfterValidator:
    def check(size: float) -> float:
        if not in_range(size):
            raise PydanticCustomError("magnitude", "{expected}", {"expected": expected})
        return size

    return AfterValidator(check)


Positive = Annotated[
    float, Field(gt=0, allow_inf_nan=False, strict=True), _in_safe_range(f"a number {NUMBER_RANGE_TEXT}")
]
NonNegative = Annotated[
    float, Field(ge=0, allow_inf_nan=False, strict=True), _in_safe_range(f"0, or a number {NUMBER_RANGE_TEXT}")
]
Count = Annotated[int, Field(ge=1, le=10**15, strict=True)]
Share = Annotated[float, Field(gt=0, le=1, strict=True)]
Finite = Annotated[float, Field(allow_inf_nan=False, strict=True)]
SafeNumber = Annotated[Finite, _in_safe_range(f"0, or a number {NUMBER_RANGE_TEXT} in size")]
Interval = tuple[Finite, Finite]


def quoted_choices(names: Collection[str]) -> str:
    """List names to choose from, in words.

    >>> quoted_choices(["a", "b", "c"])
    "'a', 'b' or 'c'"
    """
    *others, last = (repr(each) for each in names)
    return " or ".join([", ".join(others), last]) if others else last


def one_of(known: Collection[str]) -> AfterValidator:
    """Return a check that a value is a name from the catalogue."""

    def check(name: str) -> str:
        if name not in known:
            raise PydanticCustomError("one_of", "{expected}", {"expected": quoted_choices(known)})
        return name

    return AfterValidator(check)


def find_by_name(known: Mapping[str, Facts], name: Any) -> Facts | None:
    """Return the catalogue's entry for a name; None for an unknown one, which is refused later, in words."""
    return known.get(name) if isinstance(name, str) else None


def import_by_name(name: str) -> Any:
    """Import the object that the catalogue names as module:class."""
    home, _, inside = name.partition(":")
    return getattr(import_module(home), inside)


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> NoReturn:
        """Refuse: a copy would be unchecked and keep the old hash."""
        raise TypeError("terms cannot be changed in place; use Terms.changed(...), which checks the new terms")


Name = Annotated[str, Field(min_length=1, max_length=200, strict=True)]
Coding = Literal["integer", "one-hot"]
Policy = Literal["refuse", "fill"]  # of missing cells
Transform = Literal["log", "log1p", "sqrt", "signed-log1p"]

TRANSFORM_DOMAINS: dict[Transform, tuple[float, bool]] = {
    "log": (0.0, False),
    "log1p": (-1.0, False),
    "sqrt": (0.0, True),
}
"""(the least value that a transform takes, whether that value itself is one); every other one takes all numbers."""


def _filled(value: Any) -> Any:
    """Drop columns with the default policy, so that equal meanings have one hash."""
    if not isinstance(value, Mapping):
        return value
    return {column: policy for column, policy in value.items() if policy != "refuse"} or "refuse"


Missing = Annotated[Policy | dict[Name, Policy], BeforeValidator(_filled)]


# What a date's format is made of. Months have English names whatever a machine's language is, so that every party reads
# the same day.
_DATE_PARTS = {
    "Y": "[0-9]{4}",
    "y": "[0-9]{2}",
    "m": "[0-9]{1,2}",
    "b": "[A-Za-z]{3,9}",  # in full, too
    "B": "[A-Za-z]{3,9}",
    "d": "[0-9]{1,2}",
    "H": "[0-9]{1,2}",
    "M": "[0-9]{2}",
    "S": "[0-9]{2}",
    "f": "[0-9]{1,9}",
}
DATE_FORMAT = (
    "a date's format, such as %Y-%m-%d: a year (%Y, %y), a month (%m, %b, %B), a day (%d), a time (%H, %M, %S, %f), "
    "at most once each"
)


@lru_cache(maxsize=256)
def date_pattern(text: str) -> re.Pattern[str] | None:
    """Return the pattern of dates in this format, a group for each part; None for an invalid format.

    >>> date_pattern("%d.%m.%Y").fullmatch("24.12.2019").groupdict()
    {'d': '24', 'm': '12', 'Y': '2019'}
    >>> date_pattern("%d.%m"), date_pattern("%Y-%m-%q")
    (None, None)
    """
    words = re.split("%(.)", text)
    parts = words[1::2]
    years, months = sum(map(parts.count, "Yy")), sum(map(parts.count, "mbB"))
    if years != 1 or months != 1 or len({*parts}) < len(parts) or not {*parts} <= _DATE_PARTS.keys():
        return None
    pieces = (f"(?P<{word}>{_DATE_PARTS[word]})" if place % 2 else re.escape(word) for place, word in enumerate(words))
    return re.compile("".join(pieces))


def _is_date_format(text: str) -> str:
    if date_pattern(text) is None:
        raise PydanticCustomError("date_format", "{expected}", {"expected": DATE_FORMAT})
    return text


DateFormat = Annotated[str, Field(max_length=40, strict=True), AfterValidator(_is_date_format)]


def fold_name(name: str) -> str:
    """Return a name without differences in capitals and spaces.

    >>> fold_name(" New  York"), fold_name("NEW YORK")
    ('new york', 'new york')
    """
    return " ".join(name.split()).casefold()


def is_defined(transform: Transform, low: float) -> bool:
    """Whether a transform takes every number from `low` up.

    >>> is_defined("log", 0.0), is_defined("sqrt", 0.0), is_defined("signed-log1p", -5.0)
    (False, True, True)
    """
    lowest, included = TRANSFORM_DOMAINS.get(transform, (float("-inf"), True))
    return low > lowest or (included and low == lowest)


def domain(transform: Transform) -> str:
    """Describe the numbers that a transform takes."""
    least, included = TRANSFORM_DOMAINS[transform]
    return f"{'of at least' if included else 'above'} {least:g}"


class Basis(Section):
    """Features by nearness to public points, exp(-|x - c|^2/(2 width^2)), in units of scaled columns; "random-fourier"
    waves cos(w.x + b), drawn by the seed, whose products have that mean; or "polynomial" Chebyshev products up to a
    total degree."""

    # how many are drawn, or they themselves in the features' own units
    points: Count | tuple[tuple[SafeNumber, ...], ...] | None = None
    width: Positive | None = None
    seed: Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)] = 0
    kind: Literal["random-fourier", "polynomial"] | None = None
    degree: Annotated[int, Field(ge=2, le=10, strict=True)] | None = None

    @model_validator(mode="after")
    def _check_kind_keys(self) -> Self:
        if self.kind == "polynomial":
            if self.degree is None or self.points is not None or self.width is not None or self.seed:
                raise ValueError("degree|required for kind = 'polynomial', which allows no points, width or seed")
            return self
        if self.degree is not None:
            raise ValueError("degree|allowed only with kind = 'polynomial'")
        if self.points is None or self.width is None:
            raise ValueError(
                f"{'points' if self.points is None else 'width'}|required, because a basis needs points and a width"
            )
        if self.kind is not None and isinstance(self.points, tuple):
            raise ValueError(f"points|expected the number of waves to draw, because kind = {self.kind!r}")
        if isinstance(self.points, tuple) and (not self.points or len({len(point) for point in self.points}) > 1):
            raise ValueError("points|expected a number, or a list of points with one number for each feature")
        return self


MAX_FOREST_NODES = 200_000  # of the trees in a file


class Trees(Section):
    """Boosted trees grown on the public sample; each leaf is a column of 0 and 1."""

    count: Annotated[int, Field(ge=1, le=1000, strict=True)] = 100
    leaves: Annotated[int, Field(ge=2, le=64, strict=True)] = 8  # of a tree, at most
    smallest: Count = 10  # rows of the public sample in a leaf, at least
    rate: Annotated[float, Field(gt=0, le=1, strict=True)] = 0.05  # what share of its own best each tree adds
    rows: Annotated[float, Field(gt=0, le=1, strict=True)] = 0.5  # share of the public sample that each tree looks at
    seed: Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)] = 0
    # trees, the first, whose leaves are columns; what the others say is a margin. 0: all do, beside straight lines
    refitted: Annotated[int, Field(ge=0, strict=True)] | None = None

    @model_validator(mode="after")
    def _some_refitted(self) -> Self:
        if self.refitted is not None and not self.refitted < self.count:
            raise ValueError("refitted|expected fewer trees than count; remove the key to refit all trees")
        return self

    @property
    def parts(self) -> tuple[int, ...]:
        """The number of trees that become columns (a constant counts as one), then of those added up, if any."""
        return (self.count,) if self.refitted is None else (max(self.refitted, 1), self.count - self.refitted)

    def too_many(self, outcomes: int) -> str | None:
        """Return why a file of so many trees would be refused; None if it would not."""
        nodes = self.count * outcomes * (2 * self.leaves - 1)
        if nodes <= MAX_FOREST_NODES:
            return None
        each = f" for each of {outcomes} classes" if outcomes > 1 else ""
        return (
            f"expected fewer or smaller trees: {self.count} of {self.leaves} leaves{each} have up to {nodes:,} nodes, "
            f"but a file may hold at most {MAX_FOREST_NODES:,} nodes"
        )
