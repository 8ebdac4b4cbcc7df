"""A survey of every candidate by moments alone: ways of descending, rounds, steps, clips and starts. Near its goal any
cost is quadratic, under a binding clip another one (`binding`); the effect of rounds and steps is looked up
(`responses`). The survey only finds candidates; the forecast decides."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parley.decisions.expectation.binding import NEGLIGIBLE_SHARE, ClippedLandscape, clipped_landscape, on_the_way
from parley.decisions.expectation.responses import DESCENT_WAYS, DescentWay, response
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.knowledge.sources import Landscape
from parley.terms import Terms
from parley.terms.participation import fewest_rounds
from parley.validate import Floats

# of the records' gradient norms: clips to look at, beside some that hardly bind
CLIP_QUANTILES = (0.3, 0.5, 0.7, 0.85, 0.95)
STEP_SHARES = 2.0 ** -np.arange(0, 13, 0.5)  # as shares of the longest that a way of descending bears
MAX_SURVEY_PARAMETERS = 200  # above, curvatures under clips are dear
MORE_ROUNDS_COST_RATIO = 0.97  # what counts as a gain by more rounds
# times the best horizon, and up to here the search goes on without: weak directions come late
HORIZON_PATIENCE_FACTOR, MAX_PLATEAU_HORIZON = 2, 256
MAX_FINE_HORIZON = 64  # horizons beyond which only powers of two are looked at: the climb goes between them
MAX_ROUNDS = 4096  # tables of longer runs take seconds, and each round is a message to every owner


@dataclass(frozen=True)
class Candidate:
    """Terms worth a closer look, their excess cost by moments, and whether the clip binds."""

    terms: Terms
    excess: float
    binds: bool


def horizons() -> Iterator[int]:
    """Yield 1, 2, 3, 4, 6, 8, 12, ... up to the largest horizon."""
    yield 1
    power = 2
    while power <= MAX_ROUNDS:
        yield power
        yield power + power // 2
        power *= 2


def survey(pilot: Pilot) -> list[Candidate]:
    """Return the best candidate without a binding clip, then those with one; empty for too many parameters."""
    if pilot.setup.parameters > MAX_SURVEY_PARAMETERS:
        return []
    here = pilot.landscape()
    if here.directions is None:
        return []
    seen = [clipped_landscape(pilot.objective, pilot.design, here, bound) for bound in _bounds(pilot, here)]
    known = [each for each in seen if each is not None]
    noise, sizes = (
        ClipNoise.from_pilot(pilot),
        [pilot.objective.record_norms(pilot.design, t, pilot.bound.norm) for t in on_the_way(here)],
    )
    # at the goal, or before
    binds = [max(float(np.mean(size > each.bound.value)) for size in sizes) > NEGLIGIBLE_SHARE for each in known]
    free = [each for each, does in zip(known, binds, strict=True) if not (does and each.bound.clips)]
    binding = [
        _best([each], here, pilot, noise) for each, does in zip(known, binds, strict=True) if does and each.bound.clips
    ]
    best = _best(free, here, pilot, noise)
    ranked = sorted((each for each in binding if each is not None), key=lambda each: each.excess)
    return ([] if best is None else [best]) + [replace(each, binds=True) for each in ranked]


@dataclass(frozen=True)
class ClipNoise:
    """v(T, clip) = at * T^power * clip^2: exact for each owner's noise, nearly so for one noise for all."""

    at: float
    power: float

    @classmethod
    def from_pilot(cls, pilot: Pilot) -> "ClipNoise":
        least = max(16, fewest_rounds(pilot.terms))
        few, many = (
            pilot.under(pilot.terms.changed(learning={**DESCENT_WAYS[0].learning, "horizon": T}))
            for T in (least, 4 * least)
        )
        power = float(np.log(many.combined_variance() / few.combined_variance()) / np.log(4))
        return cls(few.combined_variance() / few.bound.value**2 / least**power, power)

    def variance(self, horizon: int, clip: float) -> float:
        return float(self.at * horizon**self.power * clip**2)


def _bounds(pilot: Pilot, here: Landscape) -> list[Any]:
    """List clips to look at: common gradient sizes at the optimum, the largest on the way, and the terms' own."""
    norm, implied = (
        pilot.bound.norm,
        pilot.objective.record_bound(pilot.setup.preparation, replace(pilot.setup.limits, clip=None), pilot.bound.norm),
    )
    at_goal = pilot.objective.record_norms(pilot.design, here.optimum, norm)
    largest = max(
        float(np.quantile(pilot.objective.record_norms(pilot.design, t, norm), 1 - NEGLIGIBLE_SHARE / 2))
        for t in on_the_way(here)
    )
    sizes = [*np.quantile(at_goal, CLIP_QUANTILES), largest, float(at_goal.max())]
    clips = sorted({float(f"{size:.3g}") for size in sizes if size > 0} | {pilot.bound.value})
    return [replace(pilot.bound, value=c, clips=True) for c in clips if implied is None or c < implied.value] + (
        [] if implied is None else [implied]
    )


def _best(seen: list[ClippedLandscape], here: Landscape, pilot: Pilot, noise: ClipNoise) -> Candidate | None:
    """Raise horizons until nothing gains by it; of those nearly as good as the best, take the fewest rounds."""
    if not seen:
        return None
    places = [
        _ClippedStart.from_landscape(each, (here.optimum + here.outward(here.starts) - each.goal) @ each.directions)
        for each in seen
    ]
    rows: list[tuple[float, int, DescentWay, float, ClippedLandscape]] = []
    best, since, least = np.inf, 1, fewest_rounds(pilot.terms)
    for horizon in (
        each for each in horizons() if least <= each and (each <= MAX_FINE_HORIZON or each & (each - 1) == 0)
    ):
        at = min(
            (_best_step(place, way, horizon, noise) for place in places for way in DESCENT_WAYS), key=lambda row: row[0]
        )
        rows.append(at)
        since = horizon if at[0] < MORE_ROUNDS_COST_RATIO * best else since
        best = min(best, at[0])
        if horizon >= max(HORIZON_PATIENCE_FACTOR * since, min(16 * since, MAX_PLATEAU_HORIZON)):
            break
    if not rows:  # a stride longer than any run that is looked at
        return None
    excess, horizon, way, step, each = next(row for row in rows if row[0] <= best / MORE_ROUNDS_COST_RATIO)
    learning = {**way.learning, "horizon": horizon, "step": float(f"{step:.4g}")}
    clip = each.bound.value if each.bound.clips else pilot.terms.privacy.clip
    return Candidate(pilot.terms.changed(learning=learning, privacy={"clip": clip}), excess, binds=False)


@dataclass(frozen=True, eq=False)
class _ClippedStart:
    """A clip's landscape seen from the start. A mean error that keeps a share k [p] of the start's has excess cost bias
    + k.linear + k.quadratic k/2."""

    under: ClippedLandscape
    linear: Floats
    quadratic: Floats
    weight: Floats

    @classmethod
    def from_landscape(cls, under: ClippedLandscape, starts: Floats) -> "_ClippedStart":
        linear, quadratic = (
            (under.metric @ under.shift) * starts.mean(axis=0),
            under.metric * (starts.T @ starts / len(starts)),
        )
        return cls(under, linear, quadratic, np.diag(under.metric))


def _best_step(
    place: _ClippedStart, way: DescentWay, horizon: int, noise: ClipNoise
) -> tuple[float, int, DescentWay, float, ClippedLandscape]:
    """Return the best step of a way of descending for this horizon under one clip."""
    each = place.under
    steps = STEP_SHARES * way.longest / max(float(each.curvature.max()), 1e-300)
    kept, gain = response(way, horizon).at(each.curvature, steps)
    mean = each.bias + kept @ place.linear + 0.5 * np.einsum("si,si->s", kept @ place.quadratic, kept)
    excess = mean + 0.5 * noise.variance(horizon, each.bound.value) * gain @ place.weight
    best = int(np.argmin(excess))
    return float(excess[best]), horizon, way, float(steps[best]), each
