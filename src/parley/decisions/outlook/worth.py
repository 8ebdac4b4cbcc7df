"""Is a budget worth spending? The joint model's forecast beside models that ask nobody, from public knowledge alone."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from parley.data.blocks import one_thread
from parley.decisions.expectation.expectation import Expectation, prospect
from parley.decisions.knowledge.baselines import Baselines, baselines, best_cost, fitted_excess
from parley.decisions.outlook.outlook import Outlook
from parley.errors import BelowBaselineError, DataError
from parley.terms import Terms
from parley.terms.catalogue import PREDICTION
from parley.validate import Floats

# standard errors by which a joint model may seem worse than the public sample's and still be released
ALLOWED_ERRORS = 2.0
NOBODY_GAINS = "no group of these owners gains by joining, because each owner does as well with a model of its own"
PLAN_NEEDS_WAITING = (
    "plans cover only rounds that wait for every owner: plan without learning.staleness and owners.answers"
)


@dataclass(frozen=True)
class Worth:
    """Expected test costs, in the target's own units, of the joint model and of models for which nobody is asked."""

    together: float
    baselines: Baselines
    error: float = (
        # standard error of `together` less the public sample's: of pilot runs, and of public fits as they may come out
        0.0
    )
    waits: bool = True  # whether rounds wait for everybody: plans are of such rounds
    fitness: float | None = None  # the joint model's expected relative fitness
    outlook: Outlook | None = None  # what joining means for owners, where that was asked

    @property
    def advice(self) -> str:
        """A hint where to look for better terms."""
        if self.waits:
            return "run parley plan to find better terms, or agree on more owners or a larger epsilon"
        return f"agree on more owners or a larger epsilon; {PLAN_NEEDS_WAITING}"

    def sentence(self) -> str | None:
        """Return the objection to these terms; None if there is none."""
        zero, public = self.baselines.zero, self.baselines.public_sample
        if not self.together < zero:
            return (
                f"the joint model's expected test cost, {self.together:.5g}, is no better than {zero:.5g}, the cost of "
                "the zero model, which uses nobody's data"
            )
        if public is not None and not self.together - ALLOWED_ERRORS * self.error < public:
            by = " (boosted trees)" if self.baselines.public_model == "boosted trees" else ""
            words = (
                f"the joint model's expected test cost, {self.together:.5g}, is no better than {public:.5g}, the cost "
                f"of the model{by} from the public sample alone"
            )
            return (
                f"{words} (the difference is at least {ALLOWED_ERRORS:g} standard errors of {self.error:.2g})"
                if self.error > 0
                else words
            )
        return None

    def against(self) -> str | None:
        """Return the objection to spending: nobody gains or, for a single owner, a baseline; None if there is none. If
        nobody gains, a baseline that is as good is named, too."""
        below = self.sentence()
        if self.outlook is None or len(self.outlook.names) < 2:
            return below
        if self.outlook.consortium.verdict != "stay":
            return None
        return NOBODY_GAINS if below is None else f"{NOBODY_GAINS}. Moreover, {below}"

    def to_json(self) -> dict[str, float | None]:
        """Return the object under `baselines` in `parley forecast --json` and `parley train --json`."""
        return self.baselines.to_json()


@one_thread
def worth(terms: Terms, seed: int = 0, speeds: Mapping[str, float] | None = None) -> Worth | None:
    """Value these terms' model from their own public sample; None if there is none, or it does not tell."""
    if terms.model.public is None or terms.task != PREDICTION:
        return None
    try:
        seen = prospect(terms, seed=seed, speeds=speeds)  # the forecast's own, so that both say the same of these terms
    except DataError:
        return None
    return worth_of(seen.expected, seen.fitness, seen.models)


def worth_of(expected: Expectation, fitness: float, models: Floats | None = None) -> Worth:
    """Value a finished forecast; `models` [R, P] are the draws behind its mean, if any."""
    unit = expected.pilot.setup.preparation.target_scale**2
    runs = np.zeros(0) if models is None else expected.excess_of(models)
    error = np.hypot(_standard_error(runs), _standard_error(fitted_excess(expected.pilot)[0])) * unit
    nobody, waits = baselines(expected.pilot), expected.pilot.setup.schedule.waits
    return Worth(joint_cost(expected, fitness), nobody, float(np.hypot(error, nobody.error)), waits, fitness=fitness)


def joint_cost(expected: Expectation, fitness: float) -> float:
    """Return the joint model's expected test cost at this relative fitness, in the target's own units."""
    estimation = expected.moved() * expected.here.estimation / float(expected.pilot.rows.sum())
    unit = expected.pilot.setup.preparation.target_scale**2
    return (best_cost(expected.pilot) + estimation + fitness * expected.unit) * unit


def _standard_error(draws: Floats) -> float:
    return float(draws.std(ddof=1)) / len(draws) ** 0.5 if len(draws) > 1 else 0.0


def require_worth(found: Worth | None) -> None:
    """Refuse terms whose model is forecast to lie below a baseline, or to help nobody."""
    sentence = None if found is None else found.against()
    if found is not None and sentence is not None:
        known = sentence.startswith(NOBODY_GAINS)
        advice = "parley forecast says whether other terms would change this" if known else found.advice
        raise BelowBaselineError(
            f"the model is not worth its budget: {sentence}; {advice}. --force releases the model anyway. Nothing was "
            "spent"
        )
