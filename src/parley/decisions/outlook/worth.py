"""Is a budget worth spending? The joint model's forecast beside what nobody has to be asked for, and beside what other
terms would give.

From public knowledge alone, so that it can be said before anything is spent, and quickly.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.decisions.expectation.expectation import Expectation, expect
from parley.decisions.knowledge.baselines import Baselines, baselines, best_cost, fitted_excess
from parley.decisions.knowledge.one_thread import one_thread
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.outlook.outlook import outlook
from parley.decisions.planning.search import checked
from parley.errors import BelowBaselineError, DataError, SettingError, TermsError
from parley.losses.moments import moment_norms
from parley.privacy.accounting import mechanism_norm
from parley.terms import Terms
from parley.terms.catalogue import PREDICTION
from parley.terms.sections import OWNER
from parley.validate import Floats

REPLICATES = 24  # of a pilot run that only has to tell better from worse
FEW = 6  # of one that has to tell twice as good
QUICK = 3e8  # operations that a candidate's pilot run may take
TWICE = 2.0
ALLOWED = 2.0  # standard errors by which a joint model may seem worse than the public sample's and still be released
ROUNDS = (8, 32, 128)
NOBODY = "no owner is expected to gain by joining: each is as well off with a model of its own rows"
UNPLANNED = "plans are of rounds that wait for everybody, so plan without learning.staleness and owners.answers"


@dataclass(frozen=True)
class Worth:
    """Expected test costs in the target's own units: of the joint model, and of models for which nobody is asked."""

    together: float
    baselines: Baselines
    error: float = (
        # standard error of `together` less the public sample's: of pilot runs, and of public fits as they may come out
        0.0
    )
    waits: bool = True  # whether rounds wait for everybody: plans are of such rounds
    gaining: int | None = None  # owners that are expected to gain by joining; None: not asked, or nobody to join
    fitness: float | None = None  # the joint model's expected relative fitness

    @property
    def advice(self) -> str:
        """Whom to ask for better terms."""
        if self.waits:
            return "ask parley plan for better terms, or for more owners or epsilon"
        return f"ask for more owners or epsilon; {UNPLANNED}"

    def sentence(self) -> str | None:
        """What speaks against these terms; None: nothing does."""
        zero, public = self.baselines.zero, self.baselines.public_sample
        found = f"the joint model's expected test cost, {self.together:.5g},"
        if not self.together < zero:
            return (
                f"{found} is no better than {zero:.5g}, that of the model that is zero everywhere, which takes "
                f"nobody's data"
            )
        if public is not None and not self.together - ALLOWED * self.error < public:
            by = " (boosted trees)" if self.baselines.public_model == "boosted trees" else ""
            words = f"{found} is no better than {public:.5g}, that of the model{by} which the public sample alone gives"
            return (
                f"{words} (by more than {ALLOWED:g} standard errors of {self.error:.2g})" if self.error > 0 else words
            )
        return None

    def against(self) -> str | None:
        """The same, or that nobody is expected to gain, where that was asked."""
        below = self.sentence()
        return NOBODY if below is None and self.gaining == 0 else below

    def to_json(self) -> dict[str, float | None]:
        """The object under `baselines` in `parley forecast --json` and `parley train --json`."""
        return self.baselines.to_json()


@one_thread
def worth(terms: Terms, seed: int = 0, speeds: Mapping[str, float] | None = None) -> Worth | None:
    """What these terms' model is worth, from their own public sample; None where they have none, or where it does not
    tell."""
    if terms.model.public is None or terms.task != PREDICTION:
        return None
    try:
        seen = outlook(terms, seed=seed, speeds=speeds)  # the forecast's own, so that both say the same of these terms
    except DataError:
        return None
    return worth_of(seen.expected, seen.fitness, seen.models)


def worth_of(expected: Expectation, fitness: float, models: Floats | None = None) -> Worth:
    """The same of a forecast that was made already; `models` [R, P] are what it is the mean of, where it is one."""
    unit = expected.pilot.setup.preparation.target_scale**2
    runs = np.zeros(0) if models is None else expected.excess_of(models)
    error = np.hypot(_standard_error(runs), _standard_error(fitted_excess(expected.pilot)[0])) * unit
    nobody, waits = baselines(expected.pilot), expected.pilot.setup.schedule.waits
    return Worth(joint_cost(expected, fitness), nobody, float(np.hypot(error, nobody.error)), waits, fitness=fitness)


def joint_cost(expected: Expectation, fitness: float) -> float:
    """The joint model's expected test cost at this relative fitness, in the target's own units."""
    estimation = expected.moved() * expected.here.estimation / float(expected.pilot.rows.sum())
    unit = expected.pilot.setup.preparation.target_scale**2
    return (best_cost(expected.pilot) + estimation + fitness * expected.unit) * unit


def _standard_error(draws: Floats) -> float:
    """Of their mean; 0 where nothing was drawn."""
    return float(draws.std(ddof=1)) / len(draws) ** 0.5 if len(draws) > 1 else 0.0


def require_worth(found: Worth | None) -> None:
    """Refuse terms whose model is forecast to lie below a baseline, or to be of use to nobody."""
    sentence = None if found is None else found.against()
    if found is not None and sentence is not None:
        advice = "parley forecast says which terms would change that" if sentence == NOBODY else found.advice
        raise BelowBaselineError(f"not worth a budget: {sentence}; {advice}, or spend it --anyway. Nothing was spent")


@dataclass(frozen=True, eq=False)
class BetterPlan:
    """Another way to spend the same budgets, and how many times nearer to the best model it comes."""

    times: float
    pilot: Pilot


def better_plan(expected: Expectation, fitness: float, seed: int = 0) -> BetterPlan | None:
    """A plan that comes twice as near to the best model, or nearer; None if a quick look finds none.

    It looks at a few rounds, steps and clips only, and only where that is cheap; the planner finds more. What it finds
    is judged as the planner judges its choices, beside the terms as written, by the same random numbers: both say the
    same of the same choice. Where answers are used as they come, or clipped as a whole, there are no plans.
    """
    if not expected.pilot.setup.schedule.waits or expected.pilot.terms.privacy.unit == OWNER:
        return None
    values = [(value, each) for each in _candidates(expected) if (value := _quickly(expected, each, seed)) is not None]
    best, candidate = min(values, key=lambda pair: pair[0], default=(np.inf, None))
    if candidate is None or not best > 0 or TWICE * best > fitness:
        return None
    written, found = (checked(each.leaning(), seed + 1).value for each in (expected.pilot, candidate))
    if not (found > 0 and written < np.inf and TWICE * found <= written):
        return None
    return BetterPlan(written / found, candidate)


def _candidates(expected: Expectation) -> Iterator[Pilot]:
    """A handful of other ways to spend the same budgets."""
    pilot, terms = expected.pilot, expected.pilot.terms
    learning, norm = terms.learning, mechanism_norm(terms.privacy.mechanism)
    if not pilot.has_rows or not pilot.algorithm.swept or terms.privacy.clip_norm is not None:
        return
    largest = float(expected.here.curvature.max()) + pilot.objective.regularisation
    sizes = pilot.objective.record_norms(pilot.design, expected.here.optimum, norm)
    clip = float(f"{max(np.quantile(sizes, 0.99), 1e-6):.3g}")
    base = terms
    if not learning.rules.iterative:
        steps = {"algorithm": "averaged-subgradient", "step": "auto"}
        base = terms.changed(learning=steps, privacy={"clip": clip}, everyone={"trust": None})
    for rounds in ROUNDS:
        step = float(f"{base.learning.rules.step_unit(base.learning, rounds) / max(largest, 1e-12):.4g}")
        yield from _under(
            pilot, learning=base.learning.model_dump() | {"horizon": rounds, "step": step}, privacy={"clip": clip}
        )
    if terms.model.predicts == "number" and learning.rules.iterative and learning.participation is None:
        size = float(f"{max(np.quantile(moment_norms(pilot.design, norm), 0.99), 1e-6):.3g}")
        yield from _under(
            pilot, learning={"algorithm": "sufficient-statistics", "horizon": 1, "step": "auto"}, privacy={"clip": size}
        )


def _under(pilot: Pilot, learning: dict[str, Any], privacy: dict[str, Any]) -> Iterator[Pilot]:
    try:
        yield pilot.under(pilot.terms.changed(learning=learning, privacy=privacy))
    except (TermsError, SettingError, DataError):
        return


def _quickly(expected: Expectation, pilot: Pilot, seed: int) -> float | None:
    """The forecast of a candidate; None where it has none, or a run would take long."""
    passes = pilot.terms.learning.horizon * len(pilot.terms.owners)
    try:
        found = expect(pilot, expected.here)
        if found.simulated and FEW * 4.0 * len(pilot.design) * pilot.source.width * passes > QUICK:
            return None
        value = found.fitness(seed, FEW)
    except (SettingError, TermsError, DataError):
        return None
    return value if np.isfinite(value) else None
