"""Rounds, steps and noise for refitting public trees' leaf values, by moments alone. In each direction a way of
descending keeps a share of the leaf values' error and takes over noise and owners' sampling error instead
(`responses`)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from parley.decisions.expectation.responses import DESCENT_WAYS, response
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.planning.coordinate_search import Found, Unjudged, mechanisms_for, with_mechanism
from parley.decisions.planning.sweep import MAX_FINE_HORIZON, MORE_ROUNDS_COST_RATIO, STEP_SHARES, ClipNoise, horizons
from parley.errors import SettingError, TermsError
from parley.privacy.accounting import mechanism_norm
from parley.terms import Terms
from parley.terms.participation import fewest_rounds

MAX_REFIT_ROUNDS = 256  # more gain little: noise depends on how far the steps lead, not on their number
# of public rows whose gradients a clip leaves as they are. A clip turns a squared loss into Huber's, which leads to the
# same model where errors are even on both sides; chances would come out wrong
UNCLIPPED_SHARE, UNCLIPPED_SHARE_SQUARED_LOSS = 0.99, 0.9


@dataclass(frozen=True)
class _Candidate:
    """A candidate's keys of `[learning]`, and its expected excess cost."""

    learning: dict[str, object]
    excess: float


def refits(known: Pilot, delta: float) -> list[Found | Unjudged]:
    """Return the best way to refit the leaves, for each mechanism."""
    results: list[Found | Unjudged] = []
    trees = known.terms.model.trees
    what = "lines beside public trees" if trees is not None and trees.refitted == 0 else "leaves of public trees"
    for mechanism in mechanisms_for(delta):
        label = f"{mechanism}, {what} fitted again"
        try:
            terms = with_mechanism(known.terms, mechanism, delta)
            begun = known.under(terms.changed(learning=_plain(terms), privacy={"clip": _clip(known, terms)}))
            best = _best(begun)
            results.append(Found(label, begun.under(begun.terms.changed(learning=best.learning)), best.excess))
        except (SettingError, TermsError) as error:
            results.append(Unjudged(label, str(error)))
    return results


def _plain(terms: Terms) -> dict[str, object]:
    return {**DESCENT_WAYS[0].learning, "horizon": max(16, fewest_rounds(terms)), "start": None}


def _clip(known: Pilot, terms: Terms) -> float:
    """Return a clip that rarely binds: rows that trees were grown on have too small gradients."""
    norm = mechanism_norm(terms.privacy.mechanism)
    sizes = known.objective.record_norms(known.design, known.landscape().begin, norm)
    implied = known.objective.record_bound(known.setup.preparation, replace(known.setup.limits, clip=None), norm)
    usual = float(np.quantile(sizes, UNCLIPPED_SHARE_SQUARED_LOSS if known.objective.quadratic else UNCLIPPED_SHARE))
    return float(f"{usual if implied is None else min(usual, implied.value):.3g}")


def _best(pilot: Pilot) -> _Candidate:
    """Return the candidate of least cost; of those nearly as good, the one with the fewest rounds."""
    ranked = list(_best_by_horizon(pilot))
    if not ranked:
        raise SettingError("learning.horizon: none of the horizons tried asks every owner; use a longer horizon")
    least = min(each.excess for each in ranked)
    return next(each for each in ranked if each.excess <= least / MORE_ROUNDS_COST_RATIO)


def _best_by_horizon(pilot: Pilot) -> Iterator[_Candidate]:
    """Yield the best way and step for every number of rounds."""
    landscape, noise, grown = pilot.landscape(), ClipNoise.from_pilot(pilot), pilot.grown
    if grown is None:
        raise SettingError("model.columns: expected trees")
    ridge = pilot.objective.regularisation
    curvature, start = landscape.curvature + ridge, landscape.start**2
    sampled = grown.noise * (start > 0) / float(pilot.rows.sum())
    least = fewest_rounds(pilot.terms)
    for horizon in (each for each in horizons() if least <= each <= max(MAX_REFIT_ROUNDS, least)):
        if horizon > MAX_FINE_HORIZON and horizon & (horizon - 1):
            continue
        variance, rows = noise.variance(horizon, pilot.bound.value), list[_Candidate]()
        for way in DESCENT_WAYS:
            steps = STEP_SHARES * way.longest / float(curvature.max())
            kept, gain = response(way, horizon).at(curvature, steps)
            excess = 0.5 * (kept**2 @ (start * curvature) + (1 - kept) ** 2 @ sampled + variance * gain @ curvature)
            best = int(np.argmin(excess))
            learning = {**way.learning, "horizon": horizon, "step": float(f"{steps[best]:.4g}")}
            rows.append(_Candidate(learning, float(excess[best])))
        yield min(rows, key=lambda each: each.excess)
