"""Would other terms spend the same budgets twice as well? A quick look at a few of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.decisions.expectation.expectation import Expectation, expect
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.planning.search import checked
from parley.errors import DataError, SettingError, TermsError
from parley.losses.moments import moment_norms
from parley.privacy.accounting import mechanism_norm
from parley.terms.sections import OWNER

REPLICATES = 24  # of a pilot run that only has to tell better from worse
FEW = 6  # of one that has to tell twice as good
QUICK = 3e8  # operations that a candidate's pilot run may take
TWICE = 2.0
ROUNDS = (8, 32, 128)


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
