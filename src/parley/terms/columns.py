"""How the terms want columns read: how names are coded, how dates are written, what a missing cell counts as, which
numbers are transformed first.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from parley.terms.keys import Bearable, Count, Positive, Section

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
    """The pattern of dates in this format, a group for each part; None where it is no format.

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
    found = (f"(?P<{word}>{_DATE_PARTS[word]})" if place % 2 else re.escape(word) for place, word in enumerate(words))
    return re.compile("".join(found))


def _is_date_format(text: str) -> str:
    if date_pattern(text) is None:
        raise PydanticCustomError("date_format", "{expected}", {"expected": DATE_FORMAT})
    return text


DateFormat = Annotated[str, Field(max_length=40, strict=True), AfterValidator(_is_date_format)]


def folded(name: str) -> str:
    """A name whose capitals and spaces do not count.

    >>> folded(" New  York"), folded("NEW YORK")
    ('new york', 'new york')
    """
    return " ".join(name.split()).casefold()


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


class Basis(Section):
    """Features by how near a record is to some public points: exp(-|x - c|^2/(2 width^2)), in the units of scaled
    columns. With kind "random-fourier" waves cos(w.x + b) whose products have that as their mean, w and b drawn by
    the seed. With kind "polynomial" products of Chebyshev's polynomials of the columns, up to a degree together."""

    # how many are drawn, or they themselves in the features' own units
    points: Count | tuple[tuple[Bearable, ...], ...] | None = None
    width: Positive | None = None
    seed: Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)] = 0
    kind: Literal["random-fourier", "polynomial"] | None = None
    degree: Annotated[int, Field(ge=2, le=10, strict=True)] | None = None

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.kind == "polynomial":
            if self.degree is None or self.points is not None or self.width is not None or self.seed:
                raise ValueError("degree|expected beside kind = 'polynomial', and no points, width or seed")
            return self
        if self.degree is not None:
            raise ValueError("degree|expected only beside kind = 'polynomial'")
        if self.points is None or self.width is None:
            raise ValueError(f"{'points' if self.points is None else 'width'}|expected one: points, and how wide")
        if self.kind is not None and isinstance(self.points, tuple):
            raise ValueError(f"points|expected a number beside kind = {self.kind!r}: how many waves are drawn")
        if isinstance(self.points, tuple) and (not self.points or len({len(point) for point in self.points}) > 1):
            raise ValueError("points|expected a number, or points with a number for each feature")
        return self


class Reservoir(Section):
    """A ring of nodes, its weights drawn by the seed: nothing about it is learned, and everybody has the same."""

    recording: Name  # the column that tells recordings apart
    samples: Count  # of a recording that count at most
    washout: Annotated[int, Field(ge=0, strict=True)]  # samples at the beginning whose states teach nothing yet
    nodes: Annotated[int, Field(ge=1, le=200, strict=True)] = 50
    spectral_radius: Annotated[float, Field(gt=0, lt=1, strict=True)] = 0.9
    leak: Annotated[float, Field(gt=0, le=1, strict=True)] = 1.0
    input_scale: Annotated[float, Field(ge=1e-3, le=1e3, strict=True)] = 0.2
    seed: Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)] = 0

    @model_validator(mode="after")
    def _some_rows(self) -> Self:
        if not self.samples > self.washout:
            raise ValueError("washout|expected fewer samples than a recording has: none would be left to learn from")
        return self

    @property
    def rows(self) -> int:
        """How many samples of a recording teach at most."""
        return self.samples - self.washout
