"""What a learner may know before training: a public sample, a DP release of second moments, or stated assumptions."""

import json
import math
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.data import Design
from parley.errors import DataError, SettingError
from parley.losses import EmpiricalRisk
from parley.validate import Floats, finite


@dataclass(frozen=True, eq=False)
class Landscape:
    """The cost around its optimum, as a source sees it."""

    starts: Floats  # theta[1] - theta* in the coordinates of `directions`, as they may come out [B, p]
    least_cost: float
    start_cost: float  # at theta[1], on average
    curvature: Floats  # eigenvalues of the data part's Hessian [p]; without directions, an upper bound on them
    directions: Floats | None  # their eigenvectors as columns [p, p]; None: too many to be known, and start is as it is
    estimation: float  # c: an optimum found on n records costs about c/n more on new ones
    # on which theta* was found; None: on none, the costs are meant for whatever records there will be
    records: int | None
    warnings: tuple[str, ...] = ()
    best: Floats | None = None  # theta* [p]; None: what lies opposite to a start at zero
    tilt: Floats | None = None  # by how much the rows' own gradient at theta* is off [p]; None: not at all
    scatter: Floats | None = None  # the variance of record gradients at theta* in each direction [p]; None: not known

    @property
    def start(self) -> Floats:
        """theta[1] - theta* per direction [p]; the root mean square if there are several starts."""
        return np.asarray(self.starts[0] if len(self.starts) == 1 else np.sqrt(np.mean(self.starts**2, axis=0)))

    @property
    def record_scatter(self) -> Floats:
        """The variance of record gradients [p]; where it is not known, as for least squares: in proportion to the
        curvature, so that an optimum's estimation error is c/n."""
        if self.scatter is not None:
            return self.scatter
        return np.asarray(2 * self.estimation / len(self.curvature) * self.curvature)

    @property
    def test_cost(self) -> float:
        """The best model's expected cost on new rows; an optimum fits its own records a little too well."""
        return self.least_cost if self.records is None else self.least_cost + self.estimation / self.records

    def least_at(self, records: float) -> float:
        """Return the expected cost, on these records, of the optimum found on them: the unit of relative fitness."""
        least = self.least_cost
        if self.records is not None:
            least = max(self.test_cost - self.estimation / records, 0.5 * least)
        if not least > 0:
            raise DataError(
                "the model fits the public rows without error (a single class, or a column that reveals the target); "
                "give other public rows, or no public rows"
            )
        return least

    @property
    def bent(self) -> NDArray[np.bool_]:
        """The directions in which the cost is curved [p]; the others change no prediction, so no model errs there."""
        return bent(self.curvature)

    @property
    def optimum(self) -> Floats:
        """The parameter of least cost, theta* [P]."""
        return -self.outward(self.starts[0]) if self.best is None else self.best

    @property
    def begin(self) -> Floats:
        """theta[1], the first of the possible starts."""
        return self.optimum + self.outward(self.starts[0])

    def inward(self, away: Floats) -> Floats:
        """Express differences of parameters [..., p] in the directions' coordinates."""
        return away if self.directions is None else np.asarray(away @ self.directions)

    def outward(self, error: Floats) -> Floats:
        """Turn an error in the directions' coordinates back into parameters."""
        return error if self.directions is None else np.asarray(error @ self.directions.T)


def bent(curvature: Floats) -> NDArray[np.bool_]:
    """Mark the curvatures [p] that exceed rounding."""
    size = np.abs(curvature)
    return np.asarray(size > 2.0**-52 * len(size) * size.max())


class Source(ABC):
    """Public knowledge of the records' law; only some sources have rows on which an algorithm can run."""

    coverage: ClassVar[str]  # what the interval covers, in words
    invented: ClassVar[bool] = False  # whether the relation of its rows to the target is made up

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of parameters it describes."""

    @property
    def rows(self) -> Design | None:
        """Prepared rows in place of the owners', if it has any."""
        return None

    @property
    def columns(self) -> Floats | None:
        """The rows' columns [n, columns] before any rotation or basis, as trees take them; None if it has none."""
        return None

    @property
    def towards(self) -> Floats | None:
        """The theta* [p] to which the rows' cost is tilted; None if it is not tilted."""
        return None

    def leaning(self, theta: Floats | None) -> "Source":
        """Tilt the rows' cost so that its minimum lies at theta [p]; None removes the tilt."""
        return self

    def tilt(self, objective: EmpiricalRisk) -> Floats | None:
        """Return the gradient of the rows' own cost at `towards` [p]; None without a tilt."""
        return None

    @abstractmethod
    def interval(self, forecast: float, as_if_true: float, others: Floats, records: float) -> tuple[float, float]:
        """Return (low, high) around a forecast, from those of `others`, which scatter around `as_if_true`."""

    @abstractmethod
    def landscape(self, objective: EmpiricalRisk, radius: float | None, origin: Floats | None = None) -> Landscape:
        """Return the cost around its optimum, seen from the start `origin` [p], or from possible starts [B, p]."""

    @abstractmethod
    def others(self, rng: np.random.Generator, count: int) -> "list[Source]":
        """Return about `count` versions of itself as it might have come out."""


@dataclass(frozen=True, eq=False)
class Sample(Source):
    """A public table of the same population, prepared like the owners' tables."""

    design: Design
    towards: Floats | None = None  # where the rows' own optimum is thought to lie too far out
    unturned: Callable[[], Floats] | None = None  # its columns before a rotation or a basis, where it has one
    coverage: ClassVar[str] = "90%"

    @property
    def width(self) -> int:
        return self.design.width

    @property
    def rows(self) -> Design:
        return self.design

    @property
    def columns(self) -> Floats:
        return self.design.X if self.unturned is None else self.design.derived("unturned", self.unturned)

    def leaning(self, theta: Floats | None) -> "Sample":
        return replace(self, towards=theta)

    def tilt(self, objective: EmpiricalRisk) -> Floats | None:
        if self.towards is None:
            return None
        return self.design.derived(("tilt", objective), partial(_gradient, objective, self.design, self.towards))

    def interval(self, forecast: float, as_if_true: float, others: Floats, records: float) -> tuple[float, float]:
        # The owners' own records scatter too, as a sample of their size does.
        return bootstrap_interval(forecast, as_if_true, others, math.sqrt(1 + len(self.design) / records))

    def landscape(self, objective: EmpiricalRisk, radius: float | None, origin: Floats | None = None) -> Landscape:
        """Return optimum, curvature and estimation error. For records of one law, c = tr(H^-1 G)/2, G the covariance of
        record gradients; for least squares with noise of variance s^2 that is s^2 p."""
        design = self.design
        begin = None if origin is None else np.atleast_2d(origin)
        key = "landscape", objective, radius, self.towards is None
        landscape = design.derived(key, partial(self._around, objective, radius, begin))
        if begin is None:
            return landscape
        away, first = begin - landscape.optimum, float(np.mean(objective.cost(design, begin)))
        if landscape.tilt is not None:
            first -= float(np.mean(away @ landscape.tilt))
        return replace(landscape, starts=landscape.inward(away), start_cost=first)

    def _around(self, objective: EmpiricalRisk, radius: float | None, starts: Floats | None) -> Landscape:
        """Return the landscape from a start at zero, searched from the first of `starts`."""
        design, theta = self.design, self.towards
        if theta is None:
            theta = objective.optimum([design], radius, precision=1e-5, start=None if starts is None else starts[0])
        if theta is None:
            raise DataError(
                "no best fit without privacy was found, so there is no relative fitness to forecast; set model.radius "
                "or model.regularisation"
            )
        least, first = float(objective.cost(design, theta)), float(objective.cost(design, np.zeros_like(theta)))
        bent, few = objective.principal_curvatures(design, theta), _few_rows(len(design), len(theta))
        if bent is None:
            # As for least squares, s^2 p: for other losses the same order of magnitude.
            few = (*few, "too many parameters for a curvature: the estimation error is a guess")
            largest = np.full(len(theta), objective.curvature(design) - objective.regularisation)
            return Landscape(-theta[None], least, first, largest, None, least * len(theta), len(design), few, theta)
        curvature, directions = bent
        spread = np.var(objective.record_gradients(design, theta) @ directions, axis=0)
        return Landscape(
            starts=-theta[None] @ directions,
            least_cost=least,
            start_cost=first,
            curvature=np.maximum(curvature, 0.0),
            directions=directions,
            estimation=self._estimation(spread, curvature, objective.regularisation),
            records=len(design),
            warnings=few,
            best=theta,
            tilt=self.tilt(objective),
            scatter=spread,
        )

    def _estimation(self, spread: Floats, curvature: Floats, penalty: float) -> float:
        """Return c = tr(H^-1 G)/2 from G (`spread`) and H's data part in each direction of the latter [p]."""
        total = curvature + penalty
        curved = bent(total)
        return float((spread[curved] / total[curved]).sum()) / 2

    def others(self, rng: np.random.Generator, count: int) -> list[Source]:
        """Draw other samples of as many rows, with replacement."""
        drawn = [rng.integers(len(self.design), size=len(self.design)) for _ in range(count)]
        return [replace(self, design=self.design.where(rows), towards=None) for rows in drawn]


@dataclass(frozen=True, eq=False)
class ReleasedMoments(Source):
    """Second moments of z = [x, y], released under DP and debited (`algorithm = "sufficient-statistics"`)."""

    matrix: Floats  # [p + 1, p + 1]
    records: int
    deviation: float  # of the noise in each entry, at most
    coverage: ClassVar[str] = "90%"

    @classmethod
    def load(cls, path: str | Path) -> "ReleasedMoments":
        """Read the JSON that `parley train --json` printed for terms whose algorithm is "sufficient-statistics"."""
        try:
            content: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))["moments"]
            matrix = finite(content["matrix"], "matrix")
            if (
                matrix.ndim != 2
                or matrix.shape[0] != matrix.shape[1]
                or not content["records"] > 0
                or not content["deviation"] >= 0
            ):
                raise ValueError
            return cls(matrix, int(content["records"]), float(content["deviation"]))
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError, SettingError):
            raise DataError(
                f"{path}: expected the JSON that `parley train --json` printed for terms with algorithm = "
                "'sufficient-statistics'"
            ) from None

    @property
    def width(self) -> int:
        return len(self.matrix) - 1

    def interval(self, forecast: float, as_if_true: float, others: Floats, records: float) -> tuple[float, float]:
        return bootstrap_interval(forecast, as_if_true, others)

    def landscape(self, objective: EmpiricalRisk, radius: float | None, origin: Floats | None = None) -> Landscape:
        """Return the landscape by the released matrix; directions below its noise count as noise high."""
        if not objective.quadratic:
            raise SettingError(
                "second moments are enough only for linear-regression; for other kinds, give a public sample"
            )
        p = self.width
        values, directions = np.linalg.eigh(self.matrix[:p, :p])
        floor = 2 * self.deviation * math.sqrt(p)
        drowned = int(np.sum(values < floor))
        values = np.maximum(values, max(floor, 1e-12 * float(values[-1])))
        best = directions.T @ self.matrix[:p, p] / (values + objective.regularisation / 2)
        spread = float(self.matrix[p, p])
        fit = spread - float(values @ best**2) - objective.regularisation * float(best @ best)
        residual = max(fit, self.deviation, 1e-9 * abs(spread))
        least = residual + objective.regularisation / 2 * float(best @ best)
        notes = (
            []
            if not drowned
            else [f"the release's noise hides {drowned} of {p} directions, for which the forecast is a guess"]
        )
        if fit < 4 * self.deviation:
            notes.append(
                "the release's noise hides the best model's cost, the unit of relative fitness, so the forecast is a "
                "guess"
            )
        return Landscape(-best[None], least, spread, 2 * values, directions, residual * p, self.records, tuple(notes))

    def others(self, rng: np.random.Generator, count: int) -> list[Source]:
        """Draw the release's noise again."""
        noise = np.triu(rng.normal(scale=self.deviation, size=(count, *self.matrix.shape)))
        symmetric = noise + np.triu(noise, 1).transpose(0, 2, 1)
        return [replace(self, matrix=self.matrix + drawn) for drawn in symmetric]


@dataclass(frozen=True, eq=False)
class Stated(Source):
    """Assumptions in place of data: the Hessian's eigenvalues, the least cost, and the optimum's distance from the
    start. A bare `distance` is spread evenly over the directions, and the interval covers every way to spread it.

    >>> from parley.losses import LinearRegression
    >>> Stated(np.array([2.0, 1.0]), 0.5, start=np.array([1.0, 0.0])).landscape(LinearRegression(), None).start_cost
    1.5
    """

    curvature: Floats
    least_cost: float
    distance: float | None = None
    start: Floats | None = None  # theta[1] - theta* per direction
    coverage: ClassVar[str] = "every direction of the start"

    def __post_init__(self) -> None:
        if self.curvature.ndim != 1 or not self.curvature.size or not (self.curvature >= 0).all():
            raise SettingError("curvature: expected the Hessian's eigenvalues, a list of numbers of at least 0")
        if not self.least_cost > 0:
            raise SettingError("least_cost: expected a number > 0, the best model's cost")
        if (self.distance is None) == (self.start is None):
            raise SettingError(
                "expected either `distance`, the norm of theta[1] - theta*, or `start`, the coordinates of theta[1] "
                "- theta*"
            )
        if self.distance is not None and not self.distance >= 0:
            raise SettingError("distance: expected a number of at least 0")
        if self.start is not None and self.start.shape != self.curvature.shape:
            raise SettingError("start: expected the same number of entries as `curvature`")

    @classmethod
    def load(cls, path: str | Path) -> "Stated":
        """Read a TOML file with `curvature`, `least_cost` and `distance` or `start`."""
        try:
            content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: not valid TOML: {error}") from None
        unknown = set(content) - {"curvature", "least_cost", "distance", "start"}
        if unknown or not {"curvature", "least_cost"} <= set(content):
            raise DataError(f"{path}: expected the keys curvature, least_cost and either distance or start")
        try:
            numbers = {key: finite(value, key) for key, value in content.items()}
            for key in ("least_cost", "distance"):
                if key in numbers and numbers[key].ndim:
                    raise SettingError(f"{key}: expected one number")
            distance = float(numbers["distance"]) if "distance" in numbers else None
            return cls(numbers["curvature"], float(numbers["least_cost"]), distance, numbers.get("start"))
        except SettingError as error:
            raise DataError(f"{path}: {error}") from None

    @property
    def width(self) -> int:
        return len(self.curvature)

    def landscape(self, objective: EmpiricalRisk, radius: float | None, origin: Floats | None = None) -> Landscape:
        start = self.start
        if start is None:
            start = np.full(self.width, (self.distance or 0.0) / math.sqrt(self.width))
        rise = 0.5 * float((self.curvature + objective.regularisation) @ start**2)
        # For least squares s^2 p; for other losses the same order of magnitude.
        estimation = self.least_cost * self.width
        return Landscape(
            start[None], self.least_cost, self.least_cost + rise, self.curvature, np.eye(self.width), estimation, None
        )

    def interval(self, forecast: float, as_if_true: float, others: Floats, records: float) -> tuple[float, float]:
        return min(forecast, float(others.min())), max(forecast, float(others.max()))

    def others(self, rng: np.random.Generator, count: int) -> list[Source]:
        """Put the whole distance into each direction: the extremes, as the forecast is linear in the squares."""
        if self.distance is None:
            return [self]
        return [replace(self, distance=None, start=self.distance * unit) for unit in np.eye(self.width)]


def _gradient(objective: EmpiricalRisk, design: Design, theta: Floats) -> Floats:
    return objective.mean_gradient(design, theta) + objective.penalty_gradient(theta)


ROWS_PER_PARAMETER = 50  # of a sample, below which its interval is known to be too narrow


def _few_rows(rows: int, width: int) -> tuple[str, ...]:
    if rows >= ROWS_PER_PARAMETER * width:
        return ()
    return (f"the pilot has {rows} rows for {width} parameters: the true uncertainty is larger than the interval",)


def bootstrap_interval(forecast: float, as_if_true: float, others: Floats, wider: float = 1.0) -> tuple[float, float]:
    """Return the hull of two 90 % bootstrap intervals in ratios, percentile and reversed; neither alone always covers.

    As `others` scatter around the source, the source scatters around the truth. `wider` stretches on the log scale. If
    some are not positive, differences replace ratios.

    >>> low, high = bootstrap_interval(2.0, 1.0, np.linspace(0.5, 2.0, 1001))
    >>> round(low, 2), round(high, 2)
    (1.04, 3.85)
    >>> low, high = bootstrap_interval(2.0, 1.0, np.linspace(-0.5, 2.0, 1001), 1.5)
    >>> round(low, 2), round(high, 2)
    (-0.06, 4.06)
    """
    ends = np.quantile(others, [0.05, 0.95])
    if not min(as_if_true, float(ends[0])) > 0:
        below, above = (float(end) for end in (ends - as_if_true) * wider)
        return forecast + min(0.0, below, -above), forecast + max(0.0, above, -below)
    low, high = (float(q) for q in np.quantile(others / as_if_true, [0.05, 0.95]) ** wider)
    return forecast * min(1.0, low, 1 / high), forecast * max(1.0, high, 1 / low)
