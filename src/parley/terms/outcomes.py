"""The `[model]` sections of counts and of times until an event, whose outcomes take several columns."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, ClassVar

from pydantic import Field

from parley.terms.keys import Name, Positive
from parley.terms.model import Model


class CountModel(Model):
    """A count of events, optionally per unit of exposure."""

    exposure: Name | None = None  # how much, or how long, was counted in

    @property
    def outcome_columns(self) -> tuple[str, ...]:
        return (self.target,) if self.exposure is None else (self.target, self.exposure)

    def check(self) -> None:
        if not self.bounds.get(self.target, (-1.0, 0.0))[0] >= 0:
            raise ValueError(f"bounds.{self.target}|expected [low, high] with low >= 0, to clip the counts")
        if self.exposure is not None and not self.bounds.get(self.exposure, (0.0, 0.0))[0] > 0:
            raise ValueError(
                f"bounds.{self.exposure}|expected [low, high] above 0, to clip the exposures; rates are counts per "
                "unit of exposure"
            )
        if self.target in self.categories:
            raise ValueError(f"categories.{self.target}|not allowed for a count")
        if self.target in self.scales:
            raise ValueError(
                f"scales.{self.target}|not allowed for a count; set the usual rate in centres.{self.target}"
            )
        if self.target in self.centres and not self.centres[self.target] > 0:
            raise ValueError(f"centres.{self.target}|expected a rate above 0, the usual count per unit of exposure")


class SurvivalModel(Model):
    """The time until an event, in periods; a row may end before."""

    event: Name  # the column that says whether it happened: 1, or 0 where it had not by then
    periods: Annotated[tuple[Positive, ...], Field(min_length=1, max_length=100)]  # by their ends

    expected: ClassVar[Mapping[str, str]] = {
        "event": "the column that says whether the event happened (1) or had not happened yet (0)",
        "periods": "the ends of the periods in increasing order, such as [30, 90, 365]",
    }

    @property
    def outcome_columns(self) -> tuple[str, ...]:
        return self.target, self.event

    def check(self) -> None:
        if any(not before < after for before, after in pairwise(self.periods)):
            raise ValueError(f"periods|expected {self.expected['periods']}")
        if self.intercept:
            raise ValueError("intercept|not allowed with kind = 'survival', because every period has its own baseline")
        for key in ("bounds", "categories", "centres", "scales"):
            for column in self.outcome_columns:
                if column in getattr(self, key):
                    raise ValueError(
                        f"{key}.{column}|not allowed for survival, because the periods define the times, and an "
                        "event is 1 or 0"
                    )
