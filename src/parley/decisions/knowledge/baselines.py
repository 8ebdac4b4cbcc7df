"""The cost of models that ask nobody: the zero model, and the public sample's best model, linear or boosted trees."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from parley.data import Design
from parley.data.blocks import Remembered, content_key
from parley.decisions.knowledge.pilot import Pilot
from parley.errors import DataError, SettingError, TermsError
from parley.learning.outcome.boosting import (
    FOLDS,
    LEAST_ROWS,
    BoostedTrees,
    TreeRows,
    boosted,
    chosen_by_others,
    folds,
    mean_saving,
    tree_losses,
    tree_row_places,
)
from parley.learning.start import PublicFit, ridge_fit
from parley.validate import Floats

CURVE_POWERS = np.array([0.5, 1.0])
MAX_EXTRAPOLATION = 8.0  # times the most rows looked at: beyond, more rows are not thought to help
INTERVAL_ERRORS = 1.645  # standard errors to an end of a 90 % interval


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """The cost of boosted trees by the number of rows: cost(n) = cost(m) + b (n^-c - m^-c), m the most rows tried. Each
    power c has the slope b that fits smaller sizes, and is weighted by its fit. Their disagreement is part of the
    error. No cost is below `floor`."""

    rows: float  # m
    cost: float  # there
    error: float  # its standard error, beside what it is compared with
    slopes: Floats  # b of every power
    slope_errors: Floats
    weights: Floats  # what every power counts for
    floor: float = -np.inf  # the least cost a loss can have, counted as `cost` is

    @classmethod
    def through(
        cls, rows: float, cost: float, error: float, sizes: ArrayLike, rises: ArrayLike, errors: ArrayLike
    ) -> "LearningCurve":
        """Fit the curve through a loss of `cost` for m rows to the `rises` at smaller `sizes` [k], up to `errors`."""
        m, rise, precision = np.asarray(sizes), np.asarray(rises), np.maximum(np.asarray(errors), 1e-300) ** -2.0
        away = m[None] ** -CURVE_POWERS[:, None] - rows ** -CURVE_POWERS[:, None]
        known = np.sum(precision * away**2, axis=1)
        slopes = np.maximum(np.sum(precision * away * rise, axis=1) / known, 0.0)
        misfit = np.sum(precision * (rise - slopes[:, None] * away) ** 2, axis=1)
        weights = np.exp(-(misfit - misfit.min()) / 2)
        return cls(rows, cost, error, slopes, known**-0.5, weights / weights.sum(), floor=min(0.0, cost))

    def at(self, records: Floats) -> tuple[Floats, Floats]:
        """Return (cost, standard error) [N] of trees of these records; infinite cost below the least number."""
        n = np.clip(records, 1.0, MAX_EXTRAPOLATION * self.rows)
        away = n ** -CURVE_POWERS[:, None] - self.rows ** -CURVE_POWERS[:, None]
        each = self.slopes[:, None] * away
        mean = self.weights @ each
        chance = self.weights @ (self.slope_errors[:, None] * away) ** 2 + self.weights @ (each - mean) ** 2
        some = records >= LEAST_ROWS
        return np.where(some, np.maximum(self.cost + mean, self.floor), np.inf), np.where(
            some, np.sqrt(self.error**2 + chance), 0.0
        )

    def ahead(self, records: Floats, linear: Floats) -> Floats:
        """Return for which owners [N] trees are expected to beat this linear cost [N] by a standard error."""
        mean, error = self.at(records)
        return np.asarray(mean + error < linear)

    def best(self, records: Floats, linear: Floats, side: int = 0) -> Floats:
        """Return the chosen model's cost [N]: trees if `ahead`, else linear; `side`: an end of trees' 90 % interval."""
        chosen = np.minimum(linear, self.towards(records, side * INTERVAL_ERRORS))
        return np.where(self.ahead(records, linear), chosen, linear)

    def towards(self, records: Floats, errors: float) -> Floats:
        """Return the cost [N] this many standard errors off the expected one, but not below the least."""
        mean, error = self.at(records)
        return np.maximum(mean + errors * error, self.floor)

    def above(self, cost: float) -> "LearningCurve":
        """Return the same curve counted from this cost."""
        return replace(self, cost=self.cost - cost, floor=self.floor - cost)

    def in_units(self, unit: float) -> "LearningCurve":
        """Return the same curve multiplied by `unit`."""
        return replace(
            self,
            cost=self.cost * unit,
            error=self.error * unit,
            slopes=self.slopes * unit,
            slope_errors=self.slope_errors * unit,
            floor=self.floor * unit,
        )


SAMPLE_PARTS = (4, 2)  # a fold's rows, of which trees for smaller sizes are made
PART_FOLDS = 2  # in which they are judged

_remembered_losses = Remembered[Floats](max_entries=128)  # losses by trees of the last few samples
PUBLIC_START_LEARNING = {
    "algorithm": "averaged-subgradient",
    "horizon": 100,
    "step": "auto",
    "start": "public",
} | dict.fromkeys(("average", "decay", "momentum", "local_steps"))


AloneModel = Literal["linear", "boosted trees"]


@dataclass(frozen=True, eq=False)
class PublicSampleModel:
    """The public sample's best linear model; `cost` in prepared units, `expected_cost` in the target's own."""

    theta: Floats  # fitted on all public rows
    ridge: float  # beside the terms' own regularisation, by cross-validation
    cost: float  # on rows that a fit has not seen, by cross-validation
    expected_cost: float


@dataclass(frozen=True)
class Baselines:
    """Expected test costs, in the target's own units, of models for which no owner is asked."""

    zero: float
    public_sample: float | None  # None: the forecast rests on no sample, or it has no optimum
    public_model: AloneModel | None = None  # whose cost that is
    error: float = 0.0  # standard error of what trees save beside the linear fit, where it is theirs

    def to_json(self) -> dict[str, float | None]:
        """Return the object under `baselines` in `parley forecast --json`."""
        return {"zero": self.zero, "public_sample": self.public_sample}


def baselines(pilot: Pilot) -> Baselines:
    """Compute both baselines for these terms. No private record is read."""
    unit, model, trees = pilot.setup.preparation.target_scale**2, public_sample_model(pilot), public_trees(pilot)
    if pilot.has_rows:
        begin = pilot.objective.start(pilot.setup.preparation)
        zero = float(pilot.objective.cost(pilot.design, begin if pilot.grown is None else np.zeros_like(begin)))
    else:
        zero = pilot.landscape().start_cost
    if model is None:
        return Baselines(zero * unit, None)
    if trees is None:
        return Baselines(zero * unit, model.expected_cost, "linear")
    return Baselines(zero * unit, (model.cost - trees.gain) * unit, "boosted trees", trees.error * unit)


def public_sample_model(pilot: Pilot) -> PublicSampleModel | None:
    """Return the pilot rows' own linear model, ridge and cost by rows held back (`learning.start.public_fit`); None
    without rows, on invented rows, or if no ridge gives an optimum."""
    fit = pilot.own_fit
    if fit is None or pilot.source.invented:
        return None
    return PublicSampleModel(fit.theta, fit.ridge, fit.cost, fit.cost * pilot.setup.preparation.target_scale**2)


def best_cost(pilot: Pilot) -> float:
    """Return the best model's cost on new rows, prepared: the public fit's cost on rows held back less its excess, so
    that the joint model and the public sample compare; without a fit, the forecast's."""
    excess, fit = fitted_excess(pilot)
    return pilot.landscape().test_cost if fit is None else fit.cost - float(excess.mean())


def trees_alone(pilot: Pilot) -> LearningCurve | None:
    """Return the cost curve of trees of an owner's own rows, above the best linear model; None if nothing favours
    trees."""
    trees = public_trees(pilot)
    return None if trees is None else trees.curve.above(best_cost(pilot))


def fitted_excess(pilot: Pilot) -> tuple[Floats, PublicFit | None]:
    """Return (possible excess costs of public fits over the best model [B], the fit); None without a fit."""
    fitted_pilot = _from_the_fit(pilot)
    if fitted_pilot is None:
        return np.zeros(0), None
    seen = fitted_pilot.landscape()
    if fitted_pilot.grown is not None:
        return 0.5 * seen.starts**2 @ (seen.curvature + fitted_pilot.objective.regularisation), fitted_pilot.own_fit
    excess = fitted_pilot.objective.cost(fitted_pilot.design, fitted_pilot.starts) - seen.least_cost
    return (
        excess if seen.tilt is None else excess - (fitted_pilot.starts - seen.optimum) @ seen.tilt
    ), fitted_pilot.own_fit


def fit_errors(pilot: Pilot) -> Floats | None:
    """Return possible errors of public fits [B, P], in directions of the pilot's curvature; None without a fit."""
    there = _from_the_fit(pilot)
    return None if there is None else pilot.landscape().inward(there.starts - there.landscape().optimum)


@dataclass(frozen=True, eq=False)
class PublicTrees:
    """Boosted trees of the public sample, for owners that ask nobody; costs in prepared units. Their saving is taken
    off the linear fit's cost on the same unseen rows, so that trees, linear fit and joint model share one level, a
    penalty included."""

    gain: float  # what they save a row
    error: float  # its standard error
    curve: LearningCurve


def public_trees(pilot: Pilot) -> PublicTrees | None:
    """Return trees of the pilot's rows, cached; None without rows, on invented or too few rows, or if trees are not
    better. Then no owner is assumed to use trees: no public row shows that more rows would favour them."""
    if pilot.source.invented or (fit := pilot.own_fit) is None:
        return None
    key = "public trees", pilot.objective, pilot.setup.limits.radius
    return pilot.design.derived(key, partial(_public_trees, pilot, fit))


def _from_the_fit(pilot: Pilot) -> Pilot | None:
    """Return the same knowledge under terms that start at the public fit; None if there is none."""
    if pilot.terms.model.public is None or pilot.apart:
        return None
    for clip in ({}, {"clip": 1e9}):  # terms of released statistics need none, and a start does not clip
        try:
            started = pilot
            if pilot.grown is None:
                started = pilot.under(pilot.terms.changed(learning=PUBLIC_START_LEARNING, privacy=clip))
            started.landscape()
            return None if started.own_fit is None else started
        except (TermsError, SettingError, DataError):
            continue
    return None


def _public_trees(pilot: Pilot, fit: PublicFit) -> PublicTrees | None:
    columns, design = pilot.source.columns, pilot.design
    if columns is None or len(design) < LEAST_ROWS:
        return None
    some = tree_row_places(len(design), columns.shape[1])
    rows = TreeRows.from_design(pilot.objective, pilot.setup.preparation, design.where(some), columns[some])
    linear: Floats | None = None
    if pilot.grown is not None and len(pilot.grown.scores) == len(design):
        linear = rows.scored(pilot.grown.scores[some])  # the terms' own trees stand in the place of the linear fit
    elif pilot.grown is None and rows.enough:
        linear = _linear_losses(pilot, fit, design.where(some), rows)
    trees = None if linear is None else boosted(rows, linear, _losses)
    if linear is None or trees is None:
        return None
    gain, error = mean_saving(linear, trees.losses)
    if pilot.grown is not None:
        gain = max(gain, 0.0)
    elif not gain > error:
        return None
    most = len(rows) * (FOLDS - 1) / FOLDS
    sizes = [int(most / part) for part in SAMPLE_PARTS]
    rises = [_rise(rows, trees, part) for part in SAMPLE_PARTS]
    means, errors = zip(*rises, strict=True)
    return PublicTrees(gain, error, LearningCurve.through(most, fit.cost - gain, error, sizes, means, errors))


def _linear_losses(pilot: Pilot, fit: PublicFit, design: Design, rows: TreeRows) -> Floats | None:
    """Return the rows' losses [n] by linear fits without them, with the public ridge; None if a fold has none."""
    fold, losses = folds(len(rows)), np.empty(len(rows))
    for k in range(FOLDS):
        theta = ridge_fit(pilot.objective, design.where(fold != k), fit.ridge, pilot.setup.limits.radius, fit.theta)
        if theta is None:
            return None
        losses[fold == k] = rows.where(fold == k).scored(pilot.objective.scores(design.X[fold == k], theta))
    return losses if np.isfinite(losses).all() else None


def _rise(rows: TreeRows, trees: BoostedTrees, part: int) -> tuple[float, float]:
    """Return by how much trees of one in `part` of a fold's rows cost more, and its standard error."""
    fold = folds(len(rows))
    order = np.concatenate([np.flatnonzero(fold == k) for k in range(PART_FOLDS)])
    ways = np.concatenate(
        [
            _losses(rows.where(np.flatnonzero(fold != k)[::part]), rows.where(fold == k), trees.leaves, trees.tried)
            for k in range(PART_FOLDS)
        ],
        axis=1,
    )
    return mean_saving(chosen_by_others(ways, fold[order]), trees.losses[order])


def _losses(rows: TreeRows, new: TreeRows, leaves: int, iterations: Sequence[int]) -> Floats:
    """Return `tree_losses` of public rows, cached."""
    key = content_key((rows.digest, new.digest, leaves, tuple(iterations)))
    return _remembered_losses.get(key, lambda: tree_losses(rows, new, leaves, iterations))
