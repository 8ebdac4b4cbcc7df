"""A pilot without a public sample: rows drawn from released scales or declared ranges, with an invented target
relation. Scales do not show correlations, and a range does not show which part of it is filled, so both are drawn, like
the strength of the relation. The interval is the hull of all of them."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from parley.data import Design, Preparation
from parley.data.targets import weight_ends
from parley.decisions.knowledge.sources import Landscape, Sample, Source
from parley.errors import DataError
from parley.losses import EmpiricalRisk
from parley.protocol.setup import Setup
from parley.terms import Model
from parley.terms.outcomes import SurvivalModel
from parley.validate import Floats

STRENGTHS = (0.02, 0.1, 0.3, 0.6, 0.9)  # shares of the target's variance that the columns may explain
USUAL_STRENGTH = 0.3
SPREADS = (0.1, 1.0)  # of columns of which the range alone is known, in quarters of that range
USUAL_SPREAD = 0.5
HALF_RANGE = 2.0  # in the same unit
MAX_CORRELATION = 0.9  # largest correlation between columns of numbers
LEAST_ROWS, ROWS_PER_COLUMN, MAX_ROWS = 2000, 60, 20_000
MISSING_SHARE = 0.05  # share of missing cells, where they are filled: released with noise, and not in the terms
MAX_LOG_SPREAD, MAX_COUNT = 1.5, 1e15  # of logarithms of rates; of expected counts, as far as they can be drawn
CENSORED_SHARE = 0.1  # share of subjects that are not watched to the end
LOGISTIC_DEVIATION = np.pi / np.sqrt(3)  # standard deviation of the noise whose sign is a logistic class

INVENTED_LAWS_WARNING = (
    "there is no public sample: columns are drawn from the {drawn}, and their relation to the target is "
    f"invented. Correlations go up to {MAX_CORRELATION:g}, and relations explain {STRENGTHS[0]:.0%} to "
    f"{STRENGTHS[-1]:.0%} of the variance. The interval covers all of them; the forecast is the middle one"
)
RANGES_WARNING = (
    "only the declared range of {columns} is known. Invented values fill all of it, a tenth, or something between. A "
    "range far wider than its values makes the model worse: declare usual values, simulate (parley train), or ask for "
    "scales (parley column-stats)"
)
MAX_COLUMNS_NAMED = 3


class ConstantError(DataError):
    """No column of invented rows varies."""


@dataclass(frozen=True, eq=False)
class AssumedSample(Sample):
    """Rows of drawn columns with a relation of some strength to the target."""

    preparation: Preparation = field(kw_only=True)
    coverage: ClassVar[str] = "any relation to the target"
    invented: ClassVar[bool] = True

    @classmethod
    def from_setup(cls, setup: Setup) -> "AssumedSample":
        """Draw the rows that the terms' own scales suggest."""
        return cls(_draw(setup.preparation, USUAL_STRENGTH, 0).for_studies(), preparation=setup.preparation)

    def interval(self, forecast: float, as_if_true: float, others: Floats, records: float) -> tuple[float, float]:
        return min(forecast, float(others.min())), max(forecast, float(others.max()))

    def landscape(self, objective: EmpiricalRisk, radius: float | None, origin: Floats | None = None) -> Landscape:
        here = super().landscape(objective, radius, origin)
        return replace(here, warnings=(*self._rests_on(), *here.warnings))

    def _rests_on(self) -> list[str]:
        model = self.preparation.model
        columns = [each for each in model.scales if range_alone(model, each)]
        scales = [] if model.scales and len(columns) == len(model.scales) else ["scales that the terms give"]
        drawn = " and the ".join([*scales, *(["declared ranges"] if columns else [])])
        more = f" and {len(columns) - MAX_COLUMNS_NAMED} more columns" if len(columns) > MAX_COLUMNS_NAMED else ""
        lines = [RANGES_WARNING.format(columns=", ".join(columns[:MAX_COLUMNS_NAMED]) + more)] if columns else []
        return [INVENTED_LAWS_WARNING.format(drawn=drawn), *lines]

    def others(self, rng: np.random.Generator, count: int) -> list[Source]:
        """Draw every strength, with columns at the worst end, the best end, and in between, in balance."""
        low, high = SPREADS
        ends = [(low, MAX_CORRELATION), (high, 0.0), (None, 0.0), (None, MAX_CORRELATION)]
        few = max(1, min(count // len(STRENGTHS), len(ends)))
        seeds = rng.integers(2**31, size=len(ends)).tolist()
        turns = [(strength, (k + j) % len(ends)) for k, strength in enumerate(STRENGTHS) for j in range(few)]
        samples: list[Source] = []
        for strength, turn in turns:
            try:
                design = _draw(self.preparation, strength, seeds[turn], *ends[turn])
            except ConstantError:  # in so small a part of the ranges no column varies: that law says nothing
                continue
            samples.append(AssumedSample(design.for_studies(), preparation=self.preparation))
        return samples


def range_alone(model: Model, column: str) -> bool:
    """Return whether a column's scale only repeats its bounds: a quarter of their range, around the middle."""
    if column not in model.scales or column not in model.bounds:
        return False
    low, high = model.bounds[column]
    of_range = (low + high) / 2, (high - low) / 4
    return bool(np.allclose((model.centres.get(column, 0.0), model.scales[column]), of_range, rtol=1e-5))


def _spread(model: Model, column: str, spread: float | None, rng: np.random.Generator) -> tuple[float, float]:
    """Return (centre, deviation) of a scaled column in units of its scale; drawn by column without a common spread."""
    if not range_alone(model, column):
        return 0.0, 1.0
    if spread is None:
        spread = float(np.exp(rng.uniform(*np.log(SPREADS))))
    return float(rng.uniform(-1, 1)) * HALF_RANGE * (1 - spread), spread


def _draw(
    preparation: Preparation, strength: float, seed: int, spread: float | None = USUAL_SPREAD, correlated: float = 0.0
) -> Design:
    """Draw prepared rows: numbers by their scales or somewhere in their range, names with equal frequency."""
    rng = np.random.default_rng([seed, round(100 * strength)])
    rows = min(max(LEAST_ROWS, ROWS_PER_COLUMN * preparation.width), MAX_ROWS)
    X = _features(preparation, rows, spread, correlated, rng)
    away = X - X.mean(axis=0)
    deviations = away.std(axis=0)
    varies = deviations > 0
    standard = away[:, varies] / deviations[varies]
    if not standard.size:
        raise ConstantError("a forecast without a public sample needs a column that varies within its bounds")
    explained, rest = np.sqrt(strength), np.sqrt(1 - strength)

    def relation() -> Floats:
        along = standard @ rng.standard_normal(standard.shape[1])
        return np.asarray(along / along.std())

    model = preparation.model
    if model.predicts == "number":
        low, high = preparation.target_interval
        centre, scale = (low + high) / 2, (high - low) / 4
        if model.target in model.scales:
            centre, scale = _spread(model, model.target, spread, rng)
        y = np.clip(centre + scale * (explained * relation() + rest * rng.standard_normal(rows)), low, high)
    elif model.predicts == "count":
        return _counts(preparation, X, relation(), strength, rng)
    elif model.predicts == "survival":
        y = _lifetimes(
            len(SurvivalModel.expect(model).periods), explained / rest * LOGISTIC_DEVIATION * relation(), rng
        )
    elif model.predicts == "two classes":
        y = np.where(explained / rest * LOGISTIC_DEVIATION * relation() + rng.logistic(size=rows) > 0, 1.0, -1.0)
    else:
        scores = [
            explained / rest * LOGISTIC_DEVIATION * relation() + rng.gumbel(size=rows) for _ in preparation.classes
        ]
        y = np.argmax(scores, axis=0).astype(float)
    return Design(X, y, preparation.weights(y))


def _counts(preparation: Preparation, X: Floats, relation: Floats, strength: float, rng: np.random.Generator) -> Design:
    """Draw counts whose rates explain `strength` of their variance at the typical rate, else an eighth of the top."""
    low, high = preparation.target_bounds
    weight = rng.uniform(*weight_ends(preparation.model, preparation.target_centre), len(X))
    usual = float(weight.mean()) if preparation.target_centre > 0 else high / 8
    spread = min(np.sqrt(np.log1p(strength / (1 - strength) / usual)), MAX_LOG_SPREAD)
    expected = usual / weight.mean() * weight * np.exp(spread * relation - spread**2 / 2)
    counted = np.clip(rng.poisson(np.minimum(expected, MAX_COUNT)), low, high)
    return Design(X, counted / weight, weight)


def _lifetimes(periods: int, relation: Floats, rng: np.random.Generator) -> Floats:
    """Draw lifetimes with hazards by a relation: half survive all periods if nobody is lost; a tenth is lost."""
    usual = np.log(np.expm1(np.log(2) / periods))
    happens = usual + relation + rng.logistic(size=(periods, len(relation))) > 0
    first = np.where(happens.any(axis=0), happens.argmax(axis=0), periods)
    lost = np.where(rng.random(len(relation)) < CENSORED_SHARE, rng.integers(0, periods + 1, len(relation)), periods)
    return np.where(first < lost, 2.0 * first + 1, 2.0 * np.minimum(first, lost))


def _features(
    preparation: Preparation, rows: int, spread: float | None, correlated: float, rng: np.random.Generator
) -> Floats:
    columns: list[Floats] = []
    low, high = preparation.prepared_bounds
    common = rng.standard_normal(rows)
    for encoding in preparation.encodings:
        gaps = rng.random(rows) < (MISSING_SHARE if encoding.fills else 0.0)
        drawn = encoding.drawn(gaps, rng)
        if drawn is not None:
            columns += encoding.columns(drawn)
            continue
        scaled = encoding.column in preparation.model.scales
        place = len(columns)
        ends = low[place], high[place]
        if not scaled and not np.isfinite([preparation.low[place], preparation.high[place]]).all():
            raise DataError(
                f"model.scales.{encoding.column}: without a public sample a forecast needs every column's scale "
                f"(parley column-stats) or a pilot"
            )
        if scaled:
            centre, deviation = _spread(preparation.model, encoding.column, spread, rng)
            alike = rng.choice([-1.0, 1.0]) * np.sqrt(correlated) * common
            numbers = centre + deviation * (alike + np.sqrt(1 - correlated) * rng.standard_normal(rows))
        else:
            numbers = rng.uniform(*ends, rows)
        columns.append(np.clip(np.where(gaps, 0.0, numbers), *ends))
        columns += [gaps.astype(float)] * (len(encoding.labels) - 1)
    if preparation.forest is not None:
        coded = np.array(columns) * preparation.scale[:, None] + preparation.centre[:, None]
        return np.ascontiguousarray(preparation.leaf_columns(preparation.clipped(coded)).T)
    made = np.column_stack([*preparation.near(np.array(columns)), np.ones(rows)])
    return np.ascontiguousarray(made[:, : preparation.width])
