"""Z section 9.5: a rotor whose inputs arrive 1, 1.25 and 1.5 periods late, identified from samples and then held still
by feedback."""

from dataclasses import dataclass

import numpy as np

from parley.numerals import number
from parley.tasks.dynamics import DelayedDMD, Plant, PredictiveFeedback, closed_loop, linear_quadratic
from parley.validate import Floats
from parley_lab.papers.document import Parts, Progress, Shown, Titled
from parley_lab.papers.zawacki2024.settings import Trials

PERIOD = 2.0
DELAY_PERIODS = (1.0, 1.25, 1.5)  # in periods
START = (1.0, 1.0)  # the state that feedback is to bring to 0
SUBSTEPS = 16  # moments drawn in each period
ROTOR = Plant.of([[0, 1.1], [-1.1, 0]], [[1, -1], [-1, 2]], 0.0, PERIOD)  # Z eq. 9.76
# Z eq. 9.79-9.81. The upper right corner of the last is printed as 1.70; e^(A T) and the integrals of (9.62, 9.63) give
# 1.97.
PUBLISHED = {
    1.0: ((-0.71, 2.15, 0.00, 0.00), (-2.18, 2.91, 0.00, 0.00)),
    1.25: ((-0.08, 1.06, -0.63, 1.10), (-1.89, 2.79, -0.29, 0.12)),
    1.5: ((0.31, 0.18, -1.02, 1.70), (-1.31, 2.12, -0.87, 0.80)),
}


@dataclass(frozen=True, eq=False)
class Run:
    """One delay: what was identified from samples, and the state under both controllers."""

    delay: float  # in periods
    found: DelayedDMD
    fractional: Floats
    truncated: Floats

    @property
    def blocks(self) -> Floats:
        """B^(1) and B^(2) side by side, as Z prints them."""
        return np.hstack(list(self.found.input_blocks_[1:3]))


def runs(samples: int = 200, horizon: int = 30, substeps: int = SUBSTEPS, seed: int = 1) -> list[Run]:
    """Identify each rotor from `samples` under random inputs, design feedback for what was found, and let it hold the
    true rotor."""
    result = []
    for delay in DELAY_PERIODS:
        rotor = ROTOR.delayed(delay * PERIOD)
        inputs = np.random.default_rng(seed).normal(size=(samples, 2))
        found = DelayedDMD(max_delay=3).fit(rotor.simulate([0, 0], inputs)[:-1], inputs, PERIOD)
        gain = linear_quadratic(*found.plant_.at_once())
        cut = found.plant_.delayed(PERIOD * np.floor(delay))  # Z's predictive feedback for the whole part of the delay
        controlled = [
            closed_loop(rotor, PredictiveFeedback(model, gain), START, horizon, substeps)[0]
            for model in (found.plant_, cut)
        ]
        result.append(Run(delay, found, *controlled))
    return result


def shown(bench: Trials, word: str, progress: Progress) -> Shown:
    """Figure 9.1: what was identified of each rotor, and where feedback leaves it."""
    rows = [["delay", "identified", "published blocks off by", "|x| at the end, fractional", "truncated"]]
    found, by_delay = runs(), []
    for run in found:
        identified = float(np.asarray(run.found.delay_)) / PERIOD
        off = float(np.abs(run.blocks - np.array(PUBLISHED[run.delay])).max())
        ends = [float(np.linalg.norm(path[-1])) for path in (run.fractional, run.truncated)]
        rows.append([f"{run.delay:g} T", f"{number(identified, 8)} T", number(off, 2), *map(number, ends)])
        by_delay.append({"delay": run.delay, "identified": identified, "blocks": run.blocks.tolist(), "ends": ends})
    parts: Parts = [
        Titled("Figure 9.1: predictive feedback for the whole and for the true delay", rows),
        "At 1.5 T one corner is printed as 1.70; its own A and B give 1.97.",
    ]
    times = PERIOD * np.arange(len(found[0].fractional)) / SUBSTEPS
    drawn = times, {f"r = {run.delay:g} T": (run.fractional, run.truncated) for run in found}
    return bench.shown(word, {"runs": by_delay}, parts, drawn)
