"""What a model costs that asks nobody: zero, and the best model of the public sample alone, linear or of boosted trees.

Whoever has public rows can fit them without any owner and at no privacy cost. A joint model that does worse is not
worth a budget.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from parley.decisions.knowledge.learning_curve import LearningCurve
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.knowledge.public_trees import public_trees
from parley.errors import DataError, SettingError, TermsError
from parley.learning.start import PublicFit
from parley.validate import Floats

FROM_THE_FIT = {"algorithm": "averaged-subgradient", "horizon": 100, "step": "auto", "start": "public"} | dict.fromkeys(
    ("average", "decay", "momentum", "local_steps")
)


AloneModel = Literal["linear", "boosted trees"]


@dataclass(frozen=True, eq=False)
class PublicSampleModel:
    """The best linear model of the public sample alone. `cost` is in prepared units, `expected_cost` in the target's
    own, as in a `Proposal`."""

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
        """The object under `baselines` in `parley forecast --json`."""
        return {"zero": self.zero, "public_sample": self.public_sample}


def baselines(pilot: Pilot) -> Baselines:
    """Both baselines for these terms. No private record is looked at."""
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
    """The linear model that the pilot's rows alone give, its ridge chosen and its cost measured on rows held back
    (`learning.start.public_fit`).

    None without rows, where they are invented, or where no ridge gives an optimum.
    """
    fit = pilot.own_fit
    if fit is None or pilot.source.invented:
        return None
    return PublicSampleModel(fit.theta, fit.ridge, fit.cost, fit.cost * pilot.setup.preparation.target_scale**2)


def best_cost(pilot: Pilot) -> float:
    """What the best model costs on new rows, prepared: where there is a public fit, its cost on rows held back less
    what it lies above the best, so that joint model and public sample compare; else as a forecast has it."""
    excess, there = fitted_excess(pilot)
    return pilot.landscape().test_cost if there is None else there.cost - float(excess.mean())


def trees_alone(pilot: Pilot) -> LearningCurve | None:
    """What boosted trees of an owner's own rows would cost above the best linear model, by their number, as public
    rows show it; None where nothing speaks for trees."""
    trees = public_trees(pilot)
    return None if trees is None else trees.curve.above(best_cost(pilot))


def fitted_excess(pilot: Pilot) -> tuple[Floats, PublicFit | None]:
    """(how much above the best model public fits lie, as they may come out [B], and the fit itself); None: no fit to
    compare with."""
    there = _from_the_fit(pilot)
    if there is None:
        return np.zeros(0), None
    seen = there.landscape()
    if there.grown is not None:
        return 0.5 * seen.starts**2 @ (seen.curvature + there.objective.regularisation), there.own_fit
    excess = there.objective.cost(there.design, there.starts) - seen.least_cost
    return (excess if seen.tilt is None else excess - (there.starts - seen.optimum) @ seen.tilt), there.own_fit


def fit_errors(pilot: Pilot) -> Floats | None:
    """How far public fits lie from the best model, as they may come out [B, P], in directions of the pilot's curvature;
    None: no fit."""
    there = _from_the_fit(pilot)
    return None if there is None else pilot.landscape().inward(there.starts - there.landscape().optimum)


def _from_the_fit(pilot: Pilot) -> Pilot | None:
    """The same knowledge under terms that start at the public fit; None where there is none."""
    if pilot.terms.model.public is None or pilot.apart:
        return None
    for clip in ({}, {"clip": 1e9}):  # terms of released statistics need none, and a start does not clip
        try:
            there = pilot
            if pilot.grown is None:
                there = pilot.under(pilot.terms.changed(learning=FROM_THE_FIT, privacy=clip))
            there.landscape()
            return None if there.own_fit is None else there
        except (TermsError, SettingError, DataError):
            continue
    return None
