"""The sections `[model.basis]` and `[model.reservoir]`: features made of the scaled columns, or of a fixed network."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from parley.terms.columns import Name
from parley.terms.keys import Bearable, Count, Positive, Section


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
