"""Where training starts: at zero, or at the best fit of the public sample, with a ridge chosen by cross-validation. No
private record is used."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from parley.data import Design
from parley.data.split import HeldBack, folds
from parley.errors import DataError, SettingError
from parley.losses import EmpiricalRisk
from parley.protocol.setup import Setup
from parley.validate import Floats

FOLDS = 10
RIDGE_SHARES = (
    1e-4,
    1e-3,
    1e-2,
    3e-2,
    0.1,
)  # beside the terms' own, as shares of the mean curvature; none is 0: a rare name may separate classes
MANY_PARAMETERS = 400  # parameters from which every fit is dear: then fewer folds and ridges


@dataclass(frozen=True, eq=False)
class PublicFit:
    """The best model of some public rows; `held_back` has each fold's cost under a fit without it."""

    theta: Floats
    ridge: float
    held_back: HeldBack

    @property
    def cost(self) -> float:
        """The cost on rows that the fit has not seen."""
        return self.held_back.cost


def starting_point(setup: Setup) -> Floats:
    """Return theta[1] [P] under these terms. Only the learner needs it, and its checkpoint keeps it."""
    origin = setup.objective.start(setup.preparation)
    if setup.terms.learning.start != "public":
        return origin
    fit = None if setup.public is None else public_fit(setup.risk, setup.public, setup.limits.radius, origin)
    if fit is None:
        raise DataError(
            "learning.start: the public sample has no best fit (its classes may be separable); remove learning.start"
        )
    return fit.theta


def public_fit(objective: EmpiricalRisk, design: Design, radius: float | None, origin: Floats) -> PublicFit | None:
    """Return the best fit of public rows, with ridge and cost by cross-validation; None if no ridge gives an optimum.
    The folds' fits have a tenth fewer rows (a third beyond `MANY_PARAMETERS`), so the cost is too high by about that
    share of its excess."""
    return design.derived(("public fit", objective, radius), partial(_public_fit, objective, design, radius, origin))


def _public_fit(objective: EmpiricalRisk, design: Design, radius: float | None, origin: Floats) -> PublicFit | None:
    many = len(origin) > MANY_PARAMETERS
    parts = folds(len(design), 3 if many else FOLDS)
    size = objective.loss.largest_curvature * float(np.trace(design.statistics[0])) / design.width
    best: tuple[HeldBack, float] | None = None
    for share in RIDGE_SHARES[::2] if many else RIDGE_SHARES:
        costs = _held_back_costs(objective, design, parts, share * size, radius, origin)
        if costs is None:
            continue
        if best is None or costs.cost < best[0].cost:
            best = costs, share * size
    if best is None:
        return None
    theta = ridge_fit(objective, design, best[1], radius, origin)
    return None if theta is None else PublicFit(theta, best[1], best[0])


def ridge_fit(
    objective: EmpiricalRisk, design: Design, ridge: float, radius: float | None, near: Floats
) -> Floats | None:
    """Minimise with this much more regularisation, searching from `near`; None if there is no minimum."""
    try:
        return replace(objective, regularisation=objective.regularisation + ridge).optimum([design], radius, 1e-5, near)
    except SettingError:
        return None  # classes that separate


def _held_back_costs(
    objective: EmpiricalRisk,
    design: Design,
    parts: list[NDArray[np.bool_]],
    ridge: float,
    radius: float | None,
    origin: Floats,
) -> HeldBack | None:
    """Return each fold's cost under a model fitted without it."""
    costs, near = [], origin
    for held in parts:
        theta = ridge_fit(objective, design.where(~held), ridge, radius, near)
        if theta is None:
            return None
        near = theta  # folds' optima lie close together
        costs.append(float(objective.cost(design.where(held), theta)))
    return HeldBack(np.array(costs)) if len(costs) > 1 and np.isfinite(costs).all() else None
