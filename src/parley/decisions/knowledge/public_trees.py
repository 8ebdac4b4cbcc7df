"""What boosted trees cost those who ask nobody, from public rows alone: at the sample's own size, and at any owner's.

Trees and the linear fit are judged on the same rows, none of which either was made of. What trees save there is taken
off the linear fit's cost, so that they, the linear fit and the joint model are counted from one level, a penalty of the
terms included. Plans, forecasts and verdicts in one process ask for the same trees of the same sample: they are grown
once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from parley.data import Design
from parley.data.remembered import Remembered, named_by
from parley.decisions.knowledge.learning_curve import LearningCurve
from parley.decisions.knowledge.pilot import Pilot
from parley.learning.outcome.boosting import (
    FOLDS,
    LEAST_ROWS,
    BoostedTrees,
    TreeRows,
    boosted,
    chosen_by_others,
    folds,
    lead,
    looked_at,
    tree_losses,
)
from parley.learning.start import PublicFit, ridge_fit
from parley.validate import Floats

PARTS = (4, 2)  # a fold's rows, of which trees for smaller sizes are made
FEW_FOLDS = 2  # in which they are judged

_known = Remembered[Floats](most=128)  # losses by trees of the last few samples


@dataclass(frozen=True, eq=False)
class PublicTrees:
    """Boosted trees of the public sample, where they are better than the linear fit by a standard error or more; costs
    in prepared units."""

    gain: float  # what they save a row
    error: float  # its standard error
    curve: LearningCurve


def public_trees(pilot: Pilot) -> PublicTrees | None:
    """Trees of the pilot's rows, found once for them; None without rows, where those are invented or too few, or where
    trees are not better. Then nobody is thought to use any: that more rows would turn it, no public row shows."""
    if pilot.source.invented or (fit := pilot.own_fit) is None:
        return None
    key = "public trees", pilot.objective, pilot.setup.limits.radius
    return pilot.design.derived(key, partial(_public_trees, pilot, fit))


def _public_trees(pilot: Pilot, fit: PublicFit) -> PublicTrees | None:
    columns, design = pilot.source.columns, pilot.design
    if columns is None or len(design) < LEAST_ROWS:
        return None
    some = looked_at(len(design), columns.shape[1])
    rows = TreeRows.of(pilot.objective, pilot.setup.preparation, design.where(some), columns[some])
    linear: Floats | None = None
    if pilot.grown is not None and len(pilot.grown.scores) == len(design):
        linear = rows.scored(pilot.grown.scores[some])  # the terms' own trees stand in the place of the linear fit
    elif pilot.grown is None and rows.enough:
        linear = _linear_losses(pilot, fit, design.where(some), rows)
    trees = None if linear is None else boosted(rows, linear, _losses)
    if linear is None or trees is None:
        return None
    gain, error = lead(linear, trees.losses)
    if pilot.grown is not None:
        gain = max(gain, 0.0)
    elif not gain > error:
        return None
    most = len(rows) * (FOLDS - 1) / FOLDS
    sizes = [int(most / part) for part in PARTS]
    rises = [_rise(rows, trees, part) for part in PARTS]
    means, errors = zip(*rises, strict=True)
    return PublicTrees(gain, error, LearningCurve.through(most, fit.cost - gain, error, sizes, means, errors))


def _linear_losses(pilot: Pilot, fit: PublicFit, design: Design, rows: TreeRows) -> Floats | None:
    """The losses of these rows [n] by linear fits that they are not in, with the public fit's ridge; None where some
    fold has no fit."""
    fold, losses = folds(len(rows)), np.empty(len(rows))
    for k in range(FOLDS):
        theta = ridge_fit(pilot.objective, design.where(fold != k), fit.ridge, pilot.setup.limits.radius, fit.theta)
        if theta is None:
            return None
        losses[fold == k] = rows.where(fold == k).scored(pilot.objective.scores(design.X[fold == k], theta))
    return losses if np.isfinite(losses).all() else None


def _rise(rows: TreeRows, trees: BoostedTrees, part: int) -> tuple[float, float]:
    """(by how much more trees cost that are made of one in `part` of a fold's rows, its standard error)."""
    fold = folds(len(rows))
    order = np.concatenate([np.flatnonzero(fold == k) for k in range(FEW_FOLDS)])
    ways = np.concatenate(
        [
            _losses(rows.where(np.flatnonzero(fold != k)[::part]), rows.where(fold == k), trees.leaves, trees.tried)
            for k in range(FEW_FOLDS)
        ],
        axis=1,
    )
    return lead(chosen_by_others(ways, fold[order]), trees.losses[order])


def _losses(rows: TreeRows, new: TreeRows, leaves: int, iterations: Sequence[int]) -> Floats:
    """`tree_losses` of public rows, grown once for the same ones."""
    key = named_by((rows.digest, new.digest, leaves, tuple(iterations)))
    return _known.of(key, lambda: tree_losses(rows, new, leaves, iterations))
