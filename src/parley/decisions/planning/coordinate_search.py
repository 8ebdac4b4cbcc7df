"""Climbs for terms that moments cannot survey: several starts per kind, then one setting at a time."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.planning.search import DIVERGES_REASON, Search, same_clip, statistics_clips
from parley.errors import TermsError
from parley.learning.algorithms.algorithm import Progress
from parley.learning.algorithms.catalogue import algorithm_of
from parley.terms import Terms
from parley.terms.catalogue import MECHANISMS
from parley.terms.participation import fewest_rounds

DEFAULT_DESCENT_KEYS = {"average": None, "decay": None, "momentum": None, "local_steps": None, "step": "auto"}
ROUNDS_LEARNING = {"algorithm": "averaged-subgradient", "horizon": 100, **DEFAULT_DESCENT_KEYS}
ONE_RELEASE_LEARNING = {"algorithm": "sufficient-statistics", "horizon": 1, "start": None, **DEFAULT_DESCENT_KEYS}
REPEATED_RELEASE_LEARNING = {"algorithm": "fedinfer", "start": None, **DEFAULT_DESCENT_KEYS}
PERTURBED_MINIMUM_LEARNING = {
    "algorithm": "objective-perturbation",
    "horizon": 1,
    "start": None,
    **DEFAULT_DESCENT_KEYS,
}


@dataclass(frozen=True, eq=False)
class Found:
    """A candidate that is worth a closer check."""

    label: str
    pilot: Pilot
    value: float  # expected excess cost, as the search sees it


@dataclass(frozen=True)
class Unjudged:
    """A way to spend the budgets that cannot be judged, and why; it is never chosen."""

    label: str
    why: str


def climbed(known: Pilot, delta: float, seed: int, progress: Progress) -> list[Found | Unjudged]:
    """Climb from several starts for every kind."""
    kinds, candidates = list(_kinds(known.terms, delta)), list[Found | Unjudged]()
    for place, (label, begin) in enumerate(kinds):
        progress(place, len(kinds))
        candidates.append(top_of(label, known, begin, seed))
    return candidates


def top_of(label: str, known: Pilot, begin: Terms, seed: int) -> Found | Unjudged:
    """Climb from the best of several starts, if any of them can be judged."""
    algorithm, written = algorithm_of(begin.learning), begin.learning.horizon * (begin.learning.local_steps or 1)
    search = Search(seed, max(algorithm.most_steps, written), only_rarely=True)
    starts = [known.under(candidate) for candidate in _starts(known, begin)]
    at = min(starts, key=search.judge, default=None)
    if at is None:
        return Unjudged(label, "without rows of a public sample nothing says where to begin")
    if not math.isfinite(search.judge(at)):
        return Unjudged(label, search.judged(at).why or DIVERGES_REASON)
    top = search.climb(at, algorithm.knobs)
    return Found(label, top, search.judge(top))


def _kinds(terms: Terms, delta: float) -> Iterator[tuple[str, Terms]]:
    """Yield the kinds that climbs compare: a label, and terms of that kind."""
    own = algorithm_of(terms.learning)
    for mechanism in mechanisms_for(delta):
        noisy = with_mechanism(free_to_step(terms), mechanism, delta)
        if not own.alone and not asks_gradients(terms):
            rounds = {**ROUNDS_LEARNING, "horizon": max(100, fewest_rounds(terms))}
            yield f"{mechanism}, gradients in rounds", noisy.changed(learning=rounds)
        for words, learning in own.varieties(terms.learning):
            yield f"{mechanism}, {words}", noisy.changed(learning=learning)
        if own.alone:
            continue
        if terms.model.predicts == "number" and (once := one_release(noisy)) is not None:
            yield f"{mechanism}, one release of statistics", once
        if (minimum := perturbed_minimum(noisy)) is not None:
            yield "one release of a perturbed minimum", minimum


def _starts(known: Pilot, terms: Terms) -> Iterator[Terms]:
    """Yield the starts of a climb: the terms themselves, few rounds and many, a step of 1/curvature, a fitting clip."""
    if not terms.learning.rules.iterative:
        for size in statistics_clips(known, terms):
            yield terms.changed(privacy={"clip": size})
        return
    clip, landscape = same_clip(known, terms), known.landscape()
    yield terms
    length = 1 / max(float(landscape.curvature.max()) + known.objective.regularisation, 1e-12)
    for learning in algorithm_of(terms.learning).first_tries(terms.learning, length):
        yield terms.changed(learning=learning, privacy={"clip": clip})


def one_release(terms: Terms) -> Terms | None:
    """Return terms for second moments in as few rounds as these owners can give them; None if the terms allow none. The
    first round asks everybody, strides or not, so one is enough unless rounds ask some owners only or skip stragglers.
    """
    some = terms.learning.participation is not None or terms.learning.straggler == "skip"
    horizon = fewest_rounds(terms) if terms.learning.rules.iterative else terms.learning.horizon
    try:
        return terms.changed(
            learning={**REPEATED_RELEASE_LEARNING, "horizon": horizon} if some else ONE_RELEASE_LEARNING,
            everyone={"stride": None} if any(owner.stride for owner in terms.owners) else {},
        )
    except TermsError:
        return None


def mechanisms_for(delta: float) -> list[str]:
    return [name for name, facts in MECHANISMS.items() if (delta > 0 or not facts.approximate) and not facts.grid]


def with_mechanism(terms: Terms, mechanism: str, delta: float) -> Terms:
    least = terms.privacy.delta if terms.noise.approximate else 0.0  # hosts need some for their random bits
    return terms.changed(
        privacy={"mechanism": mechanism, "delta": delta if MECHANISMS[mechanism].approximate else least}
    )


def free_to_step(terms: Terms) -> Terms:
    """Return the terms with what gradient algorithms need: a clip of gradients, to be chosen later, and no trust."""
    if terms.learning.rules.clips_gradients:
        return terms
    clip, trusts = terms.privacy.clip, any(owner.trust is not None for owner in terms.owners)
    return terms.changed(privacy={"clip": 1.0 if clip is None else clip}, everyone={"trust": None} if trusts else {})


def perturbed_minimum(terms: Terms) -> Terms | None:
    """Return the terms with objective perturbation; None if its rules refuse them."""
    try:
        return terms.changed(learning=PERTURBED_MINIMUM_LEARNING)
    except TermsError:
        return None


def asks_gradients(terms: Terms) -> bool:
    """Return whether the learner steps along gradients of all records."""
    return terms.learning.rules.asks == "gradient"
