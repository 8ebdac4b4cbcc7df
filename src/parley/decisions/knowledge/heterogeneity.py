"""Heterogeneity: the variance between owners' best parameters, in units of the variance of the median owner's estimate.
So 0 is one law for all; at 1 two owners' best parameters are as far apart as two estimates of one parameter are by
chance."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from parley.errors import DataError, SettingError
from parley.numerals import number

Origin = Literal["assumed", "stated", "measured"]

ONE_LAW_SHARE, RATIO_RANGE = 0.3, (1e-4, 3e-2)
MAX_FREE_DIRECTIONS = 20  # up to which each may differ so much


@dataclass(frozen=True)
class Heterogeneity:
    """Between-owner variance as a multiple of the within-owner one: the most likely value, and its range."""

    mean: float
    low: float
    high: float
    origin: Origin

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.mean <= self.high < float("inf"):
            raise SettingError(
                "differences: expected finite multiples of the within-owner variance, 0 <= low <= mean <= high"
            )

    @classmethod
    def stated(cls, multiple: float) -> "Heterogeneity":
        """Heterogeneity that the user states."""
        return cls(multiple, multiple, multiple, "stated")

    @classmethod
    def load(cls, path: str | Path) -> "Heterogeneity":
        """Read the object that `parley heterogeneity --json` printed, or --save kept."""
        try:
            printed: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
            content = printed["differences"]
            loaded = cls(float(content["mean"]), float(content["low"]), float(content["high"]), "measured")
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError, SettingError):
            raise DataError(f"{path}: expected the JSON that `parley heterogeneity --save` wrote") from None
        if printed.get("inside"):
            raise DataError(
                f"{path}: a simulation computed this file from private rows, so the file must stay inside the "
                "organisation. To write a file that may leave the organisation, run: parley heterogeneity TERMS "
                "--ledgers FOLDER --save FILE"
            )
        return loaded

    def at(self, position: float) -> float:
        """Return the multiple at a position from 0 to 1: a twentieth lies below `low`, half below `mean`."""
        if self.origin == "assumed":
            return self.high * assumed_ratio(position) / assumed_ratio(0.95)
        if position >= 0.5:
            return self.mean + (self.high - self.mean) * (position - 0.5) / 0.45
        return max(0.0, self.mean - (self.mean - self.low) * (0.5 - position) / 0.45)

    def words(self, rows: float) -> str:
        """Describe the assumption for owners whose median has this number of rows."""
        unit = f"the variance of an owner's own estimate from {round(rows):,} rows"
        if self.origin == "assumed":
            return (
                f"How much owners differ is not known. Assumed: their heterogeneity is {number(self.low)} to "
                f"{number(self.high, 2)} times {unit} (parley heterogeneity asks the owners)"
            )
        if self.origin == "measured":
            return (
                f"By what owners released, their heterogeneity is {number(self.mean)} times {unit} (90% interval: "
                f"{number(self.low)} to {number(self.high)})"
            )
        return (
            "All owners are assumed to follow one law"
            if not self.mean
            else f"Stated: their heterogeneity is {number(self.mean)} times {unit}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the object under `differences` in `parley forecast --json`."""
        return {"mean": self.mean, "low": self.low, "high": self.high, "origin": self.origin}


def assumed_heterogeneity(rows: float, directions: int) -> Heterogeneity:
    """Return the heterogeneity assumed if nothing is known, for the median owner's rows and a model's directions:
    populations differ by as much however many rows are drawn or columns describe them."""
    scale = rows * min(1.0, MAX_FREE_DIRECTIONS / max(directions, 1))
    low, mean, high = (scale * assumed_ratio(position) for position in (0.05, 0.5, 0.95))
    return Heterogeneity(mean, low, high, "assumed")


def assumed_ratio(position: float) -> float:
    """Return the assumed variance between owners over that of an estimate from one row: 0 for `ONE_LAW_SHARE` of all
    consortia, else log-uniform over `RATIO_RANGE`."""
    beyond = max(position - ONE_LAW_SHARE, 0.0) / (1 - ONE_LAW_SHARE)
    return 0.0 if position <= ONE_LAW_SHARE else RATIO_RANGE[0] * (RATIO_RANGE[1] / RATIO_RANGE[0]) ** beyond
