"""A public prior of a private concern: which ratios C/B a player may have, and how likely each is."""

from dataclasses import dataclass

import numpy as np

from parley.errors import SettingError
from parley.validate import Floats, non_negative, positive


@dataclass(frozen=True)
class Prior:
    """Concerns in rising order, each with its probability; they add up to 1."""

    concerns: tuple[float, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.concerns or len(self.concerns) != len(self.weights):
            raise SettingError("prior: expected as many weights as concerns, one or more")
        concerns = [non_negative(c, "prior: concern") for c in self.concerns]
        weights = np.array([positive(w, "prior: weight") for w in self.weights])
        if len(set(concerns)) < len(concerns):
            raise SettingError("prior: expected different concerns")
        order, total = np.argsort(concerns), float(weights.sum())
        if not total < np.inf:
            raise SettingError("prior: expected weights with a finite sum")
        object.__setattr__(self, "concerns", tuple(float(concerns[k]) for k in order))
        object.__setattr__(self, "weights", tuple(float(weights[k] / total) for k in order))

    @classmethod
    def point(cls, concern: float) -> "Prior":
        """A concern that everybody knows."""
        return cls((concern,), (1.0,))

    @classmethod
    def read(cls, text: str) -> "Prior":
        """From "0.2, 1, 5" (equally likely) or "0.2:3, 5:1" (three to one).

        >>> Prior.read("5:1, 0.2:3")
        Prior(concerns=(0.2, 5.0), weights=(0.75, 0.25))
        """
        try:
            cells = [[float(number) for number in cell.split(":")] for cell in text.split(",")]
        except ValueError:
            cells = [[]]
        if any(len(cell) not in (1, 2) for cell in cells):
            raise SettingError(f"prior {text!r}: expected concerns such as 0.2,1,5, or with weights such as 0.2:3,5:1")
        return cls(tuple(cell[0] for cell in cells), tuple(cell[1] if len(cell) == 2 else 1.0 for cell in cells))

    @property
    def mean(self) -> float:
        """The concern C/B to be expected under the prior."""
        return self.expected(np.array(self.concerns))

    def expected(self, values: Floats) -> float:
        """The mean of one number for each concern."""
        return float(np.dot(self.weights, values))
