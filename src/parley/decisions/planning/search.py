"""A closer look at candidates: the forecast judges them, and a climb changes one setting at a time while it improves.
Pilot runs use at most `SEARCH_ROWS` rows, long ones fewer replicates (`SEARCH_WORK`), and candidates share random
numbers."""

import math
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from parley.data import Design
from parley.data.split import folds
from parley.decisions.expectation.binding import NEGLIGIBLE_SHARE, on_the_way
from parley.decisions.expectation.expectation import ByRuns, Expectation, expect
from parley.decisions.expectation.pilot_runs import pilot_models, scaled_share
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.knowledge.sources import Sample
from parley.decisions.planning.sweep import MORE_ROUNDS_COST_RATIO, horizons
from parley.errors import DataError, SettingError, TermsError
from parley.losses.moments import moment_norms
from parley.privacy.accounting import mechanism_norm
from parley.terms import Terms
from parley.validate import Floats

NEIGHBOUR_FACTOR = math.sqrt(2)  # between neighbouring steps and clips
SEARCH_ROWS = 1500  # of the pilot, that a run of the search takes
# rounds x rows x replicates of one pilot run: in the search, and when its choices are checked
SEARCH_WORK, CHECK_WORK = 3e6, 2.5e7
MIN_REPLICATES, SEARCH_REPLICATES, CHECK_REPLICATES = 4, 12, 48
MAX_CLIPPED_SHARE, MAX_CLIPPED_SHARE_SQUARED_LOSS = (
    0.05,
    0.2,
)  # of rows on which trees were grown: a clip that binds there is not judged (`refits`)
DIVERGES_REASON = "its runs on the pilot diverge"


@dataclass(frozen=True)
class Judged:
    """A candidate's expected excess cost; infinite, with a reason, if unknown."""

    value: float
    why: str | None = None


@dataclass
class Search:
    """A search that judges every candidate once."""

    seed: int
    most: float = math.inf  # steps that a candidate may take
    only_rarely: bool = False  # whether a clip is lowered only while it rarely binds
    seen: dict[str, Judged] = field(default_factory=dict)
    rounds: int = 0  # of all candidates that were run on the pilot so far

    def judge(self, pilot: Pilot) -> float:
        """Return the expected excess cost; infinite if unknown."""
        return self.judged(pilot).value

    def judged(self, pilot: Pilot) -> Judged:
        """Return the expected excess cost, or why it is unknown."""
        if _steps(pilot.terms) > self.most:
            return Judged(math.inf, f"it takes more than {self.most:g} steps")
        key = pilot.terms.hash
        if key not in self.seen:
            self.rounds += 0 if judged_by_moments(pilot) else _steps(pilot.terms)
            self.seen[key] = excess(pilot, self.seed, SEARCH_WORK, SEARCH_REPLICATES, only_exact=not pilot.has_rows)
        return self.seen[key]

    def climb(self, at: Pilot, knobs: tuple[str, ...], most: float = math.inf) -> Pilot:
        """Climb from here, one knob at a time, within `most` rounds of all candidates; more rounds must gain 3 %."""
        begun, improved = self.rounds, True
        while improved:
            improved = False
            for knob, direction in product(knobs, (1, -1)):
                worth = MORE_ROUNDS_COST_RATIO if (knob, direction) == ("horizon", 1) else 1.0
                while (
                    self.rounds < begun + most
                    and (neighbour := self.neighbour(at, knob, direction)) is not None
                    and self.judge(neighbour) < worth * self.judge(at)
                ):
                    at, improved = neighbour, True
        return at

    def neighbour(self, pilot: Pilot, knob: str, direction: int) -> Pilot | None:
        """Return the next candidate along a knob, or None at its end."""
        learning, factor, step = pilot.terms.learning, NEIGHBOUR_FACTOR**direction, pilot.algorithm.step_length
        if knob not in pilot.algorithm.knobs:
            return None
        if knob == "horizon" and step is not None:
            rounds = next_horizon(learning.horizon, direction)
            same_length = learning.rules.step_unit(learning, rounds) / learning.rules.step_unit(
                learning, learning.horizon
            )
            return None if not rounds else attempt(pilot, learning={"horizon": rounds, "step": step * same_length})
        if knob in ("epochs", "batches", "local_steps"):
            many = getattr(learning, knob)
            many = many * 2 if direction > 0 else many // 2
            return attempt(pilot, learning={knob: many}) if many else None
        if knob == "step" and step is not None:
            return attempt(pilot, learning={"step": float(f"{step * factor:.4g}")})
        if knob == "clip" and pilot.bound.clips and pilot.has_rows:  # else nobody can tell how often it binds
            clipped = attempt(pilot, privacy={"clip": float(f"{pilot.bound.value * factor:.4g}")})
            if clipped is None or direction > 0 or not self.only_rarely or not learning.rules.iterative:
                return clipped
            return clipped if scaled_share(clipped, on_the_way(clipped.landscape())) <= NEGLIGIBLE_SHARE else None
        return None


def next_horizon(rounds: int, direction: int) -> int:
    """Return the next number of rounds to try; 0 below one.

    >>> next_horizon(8, 1), next_horizon(100, -1), next_horizon(1, -1)
    (12, 96, 0)
    """
    if direction > 0:
        return next((each for each in horizons() if each > rounds), 0)
    return max((each for each in horizons() if each < rounds), default=0)


def attempt(
    pilot: Pilot, learning: dict[str, Any] | None = None, privacy: dict[str, Any] | None = None
) -> Pilot | None:
    """Return the pilot under terms with these keys changed; None if the keys conflict."""
    try:
        return pilot.under(pilot.terms.changed(learning=learning, privacy=privacy))
    except (TermsError, SettingError, DataError):
        return None


def excess(pilot: Pilot, seed: int, work: float, replicates: int, only_exact: bool = False) -> Judged:
    """Return the expected excess cost; infinite if runs diverge or, with `only_exact`, if clip or box may bind."""
    try:
        expected = expect_quickly(pilot)
        value = expected.fitness(seed, affordable(pilot, work, replicates)) * expected.unit
    # it diverges, its noise cannot be drawn, rows have no optimum
    except (SettingError, TermsError, DataError) as error:
        return Judged(math.inf, str(error))
    if only_exact and expected.method != "exact-moments":
        return Judged(
            math.inf, "its clip or its box may bind, and without a public sample nothing tells what that costs"
        )
    return Judged(value) if math.isfinite(value) else Judged(math.inf, DIVERGES_REASON)


def checked(pilot: Pilot, seed: int) -> Judged:
    """Return the expected excess cost, plus what a clip hides from the rows that were learned from."""
    try:
        often = MAX_CLIPPED_SHARE_SQUARED_LOSS if pilot.objective.quadratic else MAX_CLIPPED_SHARE
        if pilot.grown is not None and scaled_share(pilot, pilot.starts) > often:
            raise SettingError(
                "the clip scales down too many gradients, and the public rows on which the trees were grown cannot "
                "show the cost"
            )
        expected = expect_quickly(pilot)
        value = expected.fitness(seed, affordable(pilot, CHECK_WORK, CHECK_REPLICATES)) * expected.unit
        value += hidden_bias(expected) if math.isfinite(value) else 0.0
    # it diverges, its noise cannot be drawn, rows have no optimum
    except (SettingError, TermsError, DataError) as error:
        return Judged(math.inf, str(error))
    return Judged(value) if math.isfinite(value) else Judged(math.inf, DIVERGES_REASON)


def expect_quickly(pilot: Pilot) -> Expectation:
    """Return the expectation; without moments if a pilot run is needed anyway."""
    here = pilot.landscape()
    return expect(pilot, here) if judged_by_moments(pilot) else ByRuns(pilot, here, ())


def judged_by_moments(pilot: Pilot) -> bool:
    """Return whether moments suffice: no rows, public trees, or a squared loss whose clip does not bind."""
    if not pilot.has_rows or pilot.grown is not None:
        return True
    binds = pilot.bound.clips and scaled_share(pilot, on_the_way(pilot.landscape())) > NEGLIGIBLE_SHARE
    return pilot.objective.quadratic and not binds


def affordable(pilot: Pilot, work: float, most: int) -> int:
    """Return how many replicates of a pilot run this work allows."""
    if not pilot.has_rows:
        return most
    return int(np.clip(work / (_steps(pilot.terms) * len(pilot.design)), MIN_REPLICATES, most))


def hidden_bias(expected: Expectation) -> float:
    """Return by how much a clip's bias is larger on new rows than on rows learned from; at least 0. Each half of the
    public sample learns without noise, with the clip and without, and the other half judges."""
    pilot = expected.pilot
    if not pilot.has_rows or not pilot.bound.clips or not expected.simulated or len(pilot.design) < 4:
        return 0.0
    if pilot.grown is not None:  # training begins where public rows end: halves of them would begin somewhere else
        return 0.0
    free = attempt(pilot, privacy={"clip": 1e6 * pilot.bound.value})
    if free is None:
        return 0.0
    gaps, cost = [], pilot.objective.cost
    for half, judges in pilot.design.derived("halves", partial(_halves, pilot.design)):
        learns, begin = half.design, _begin(pilot, half)
        halves = [replace(each, source=half, algorithm=each.algorithm.without_noise()) for each in (pilot, free)]
        ends = [pilot_models(half, 1, 0, noiseless=True, begin=begin) for half in halves]
        gaps.append(
            float(cost(judges, ends[0])[0] - cost(judges, ends[1])[0])
            - float(cost(learns, ends[0])[0] - cost(learns, ends[1])[0])
        )
    return max(0.0, float(np.mean(gaps)))


def _halves(design: Design) -> list[tuple[Sample, Design]]:
    return [(Sample(design.where(~held)), design.where(held)) for held in folds(len(design), 2)]


def _begin(pilot: Pilot, half: Sample) -> Floats:
    """Return theta[1] [1, P] if half of the pilot's rows learn."""
    start = pilot.starts[:1]
    try:
        optimum = half.landscape(pilot.objective, pilot.setup.limits.radius).optimum
    except (SettingError, DataError):  # a run of so many steps ends somewhere all the same
        return start
    return start - pilot.landscape().optimum + optimum


def fewer_rows(pilot: Pilot) -> Pilot:
    """Return the pilot on some of its rows, with the same optimum and starts as far from it, for quick runs."""
    towards = pilot.source.towards
    if towards is None or len(pilot.design) <= SEARCH_ROWS:
        return pilot
    places = np.sort(np.random.default_rng(0).permutation(len(pilot.design))[:SEARCH_ROWS])
    away = pilot.starts - towards
    return replace(pilot, source=Sample(pilot.design.where(places), towards), drawn=away)


def same_clip(known: Pilot, terms: Terms) -> float | None:
    """Convert the terms' clip to the norm of another mechanism by the pilot's own gradients."""
    clip, new = terms.privacy.clip, terms.learning.rules.clip_norm(mechanism_norm(terms.privacy.mechanism))
    if terms.privacy.clip_norm is not None or known.terms.privacy.clip_norm is not None:
        return clip  # in a norm that the terms name, whatever the mechanism
    if not known.has_rows:
        return clip  # an L2 norm is never above the L1 norm, so the clip only binds less
    optimum = known.landscape().optimum
    sizes = {norm: known.objective.record_norms(known.design, optimum, norm) for norm in ("l1", "l2")}
    usual = {norm: float(np.quantile(size, 0.99)) for norm, size in sizes.items()}
    if not known.terms.learning.rules.iterative:
        return float(f"{3 * usual[new]:.3g}") if usual[new] > 0 else clip
    old = known.bound.noise_norm
    if clip is None or new == old or not usual[old] > 0:
        return clip
    return float(f"{clip * usual[new] / usual[old]:.3g}")


def statistics_clips(known: Pilot, terms: Terms) -> list[float]:
    """Return first bounds of one record's second moments, or of its gradient: common sizes in the pilot."""
    if not known.has_rows:
        return []
    if terms.learning.rules.clips_gradients:
        question = known.under(terms).question
        sizes = question.record_sizes(known.design, np.zeros(question.parameters))
    else:
        sizes = moment_norms(known.design, mechanism_norm(terms.privacy.mechanism))
    return [float(f"{q:.3g}") for q in np.quantile(sizes, [0.5, 0.9, 0.99, 1.0]) if q > 0]


def _steps(terms: Terms) -> int:
    return terms.learning.horizon * (terms.learning.local_steps or 1)
