"""The section `[model.reservoir]`: a fixed network whose states a read-out learns from."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from parley.terms.columns import Name
from parley.terms.keys import Count, Section


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
