"""What a model costs that asks nobody: the start itself, and the best fit of the public sample alone.

Whoever has public rows can fit them without any owner and at no privacy cost. A joint model that does worse is not worth a budget.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parley.data import Design
from parley.errors import SettingError
from parley.forecasting.pilot import Pilot
from parley.forecasting.sources import Sample
from parley.objectives import Objective
from parley.validate import Floats

FOLDS = 10
RIDGES = (0.0, 1e-3, 1e-2, 3e-2, 0.1)  # beside the terms' own, as shares of the mean curvature a direction
MANY = 400  # parameters from which every fit is dear: then fewer folds and ridges


@dataclass(frozen=True, eq=False)
class PublicSampleModel:
    """The best model of the public sample alone. `cost` is in prepared units, `expected_cost` in the target's own, as in a `Proposal`."""

    theta: Floats  # fitted on all public rows
    ridge: float  # beside the terms' own regularisation, by cross-validation
    cost: float  # on rows that a fit has not seen, by cross-validation
    expected_cost: float


@dataclass(frozen=True)
class Baselines:
    """Expected test costs, in the target's own units, of models for which no owner is asked."""

    zero: float  # of the parameter at which training starts
    public_sample: float | None  # None: the forecast rests on no sample, or it has no optimum

    def to_json(self) -> dict[str, float | None]:
        """The object under `baselines` in `parley forecast --json`."""
        return {"zero": self.zero, "public_sample": self.public_sample}


def baselines(pilot: Pilot) -> Baselines:
    """Both baselines for these terms. No private record is looked at."""
    here, unit = pilot.landscape(), pilot.setup.preparation.target_scale**2
    model = public_sample_model(pilot)
    return Baselines(here.start_cost * unit, None if model is None else model.expected_cost)


def public_sample_model(pilot: Pilot) -> PublicSampleModel | None:
    """The model that the public sample alone gives, its ridge chosen and its cost measured by cross-validation on rows held back by place.

    The folds' fits have a tenth fewer rows than the model itself, so the cost errs on the high side by about a tenth of its excess. None
    without a sample, or where no ridge gives an optimum.
    """
    if not isinstance(pilot.source, Sample):
        return None
    design, objective = pilot.design, pilot.objective
    many = pilot.setup.parameters > MANY
    parts = folds(len(design), 3 if many else FOLDS)
    size = objective.curvature(design) if many else float(np.trace(design.statistics[0])) / design.width * objective.largest_bend
    origin, radius = objective.start(pilot.setup.preparation), pilot.setup.limits.radius
    best: tuple[float, float] | None = None
    for share in RIDGES[::2] if many else RIDGES:
        cost = _held_back_cost(objective, design, parts, share * size, radius, origin)
        if cost is not None and (best is None or cost < best[0]):
            best = cost, share * size
    if best is None:
        return None
    cost, ridge = best
    theta = ridge_fit(objective, design, ridge, radius, origin)
    if theta is None:
        return None
    return PublicSampleModel(theta, ridge, cost, cost * pilot.setup.preparation.target_scale**2)


def folds(rows: int, count: int) -> list[NDArray[np.bool_]]:
    """For each fold, which places are held back: fixed by the number of rows alone, so that everybody holds back the same."""
    place = np.random.default_rng(0).permutation(rows) % count
    return [place == fold for fold in range(count) if (place == fold).any() and not (place == fold).all()]


def ridge_fit(objective: Objective, design: Design, ridge: float, radius: float | None, origin: Floats) -> Floats | None:
    """The minimiser with so much more regularisation; None where there is none."""
    try:
        return replace(objective, regularisation=objective.regularisation + ridge).optimum([design], radius, 1e-5, origin)
    except SettingError:
        return None  # classes that separate


def _held_back_cost(
    objective: Objective, design: Design, parts: list[NDArray[np.bool_]], ridge: float, radius: float | None, origin: Floats
) -> float | None:
    """The mean cost of rows at models fitted without them, by the terms' own objective."""
    total, near = 0.0, origin
    for held in parts:
        theta = ridge_fit(objective, design.where(~held), ridge, radius, near)
        if theta is None:
            return None
        near = theta  # folds' optima lie close together
        total += float(objective.cost(design.where(held), theta)) * float(held.sum())
    return total / len(design) if np.isfinite(total) and parts else None
