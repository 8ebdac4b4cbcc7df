"""Would the clip or the box bind? Only where neither does are the moments exact."""

import numpy as np
from scipy.special import ndtr

from parley.decisions.expectation.error_moments import ErrorMoments
from parley.decisions.expectation.pilot_runs import pilot_models, scaled_share
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.knowledge.sources import Landscape
from parley.numerals import number
from parley.protocol.aggregation import Robust
from parley.protocol.queries import StatisticsQuestion
from parley.validate import Floats

RARELY = 1e-3  # a share of records, or a probability, too small to change the moments
NOTICEABLY = 0.02  # a share of the expected excess cost that clipping may add or take without being called binding
LARGER = "a larger privacy.clip scales down fewer, under more noise, and parley plan weighs the two"
TAILS = 3.0  # how far above its typical size a gradient is thought to reach where no sample shows it


def binding(pilot: Pilot, here: Landscape, moments: ErrorMoments | None) -> tuple[bool, tuple[str, ...]]:
    """(whether clip or box change the algorithm's path, what a reader should know)."""
    warnings = list(here.warnings)
    if pilot.has_rows and pilot.terms.model.classifies:
        fewest = int(np.unique(pilot.design.y, return_counts=True)[1].min())
        if fewest < 30:
            warnings.append(f"one class has only {fewest} records in the pilot: the forecast rests on little")
    if pilot.algorithm.drifts and len(pilot.terms.owners) > 1:
        warnings.append(
            "owners that differ drift apart in their local steps: the forecast assumes that all follow the pilot's law"
        )
    rule = pilot.setup.aggregation
    if isinstance(rule, Robust) and not rule.averages:
        warnings.append(
            f"the {rule.rule} lets through {number(rule.price(pilot.setup), 3)} times the mean's noise; of owners that "
            "differ it is not their mean: the forecast assumes that all follow the pilot's law, differ by chance "
            "alone, and that nobody lies"
        )
    if not pilot.setup.schedule.waits:
        warnings.append(_speeds_sentence(pilot))
    clip = _clip_sentence(pilot, here, moments)
    box = moments is not None and _box_binds(pilot, here, moments)
    whole = _answer_sentence(pilot, here)
    warnings += [each for each in (clip, whole) if each is not None]
    if box:
        warnings.append("the noise reaches the box: the model may be pushed against it")
    return clip is not None or box or pilot.question.answer_clip is not None, tuple(warnings)


def _speeds_sentence(pilot: Pilot) -> str:
    """How fast owners are taken to be where nobody waits for them."""
    if pilot.speeds is None:
        return (
            "answers are used as they come: the forecast assumes that all owners give their last at the same time "
            "(--speeds)"
        )
    silent = (
        f"; {', '.join(pilot.silent)} never answer{'' if len(pilot.silent) > 1 else 's'}, so this is of the others"
        if pilot.silent
        else ""
    )
    return f"answers are used as they come, from owners as fast as --speeds says{silent}"


def on_the_way(here: Landscape) -> Floats:
    """The start, half-way and the optimum [3, p]."""
    begin = here.begin
    return begin + np.array([0.0, 0.5, 1.0])[:, None] * (here.optimum - begin)


def _clip_sentence(pilot: Pilot, here: Landscape, moments: ErrorMoments | None) -> str | None:
    """A sentence about how the clip binds; None where it does not."""
    if not pilot.bound.clips:
        return None
    if not pilot.has_rows:
        return _typical_sentence(pilot, here, moments)
    whole = pilot.question.answer_clip is not None  # then records are cut elsewhere, and no plan is made
    name = f"the clip of single records, privacy.clip times {_most_rows(pilot):,} rows," if whole else "the clip"
    meant = "such a record counts for less than it says, and the model is drawn away from it, which the forecast counts"
    weighed = meant + ("" if whole else f"; {LARGER}")
    if moments is None:
        share = scaled_share(pilot, here.begin[None])
        return (
            f"{name} scales down {share:.1%} of the pilot's records: {meant}{_cuts_nothing(pilot)}"
            if share > RARELY
            else None
        )
    share = scaled_share(pilot, on_the_way(here))
    if share > RARELY:
        return f"{name} scales down {share:.1%} of the pilot's records on the way: {weighed}"
    if scaled_share(pilot, _wandering(pilot, here, moments)) > RARELY:
        return f"the noise drives the model to where {name} scales records down: {weighed}"
    if share > 0 and pilot.objective.quadratic and _clip_shifts(pilot, here, moments):
        return f"{name} scales down few records ({share:.2%}) that matter much: {weighed}"
    return None


def _answer_sentence(pilot: Pilot, here: Landscape) -> str | None:
    """How much of an owner's answer a clip of the whole leaves where training begins; None where it leaves all."""
    clip = pilot.question.answer_clip
    if clip is None or not pilot.has_rows:
        return None
    if isinstance(pilot.question, StatisticsQuestion):
        what, mean = "the pilot's second moments measure", pilot.question.moments(pilot.tables.train)
    elif pilot.question.size == pilot.question.parameters:
        what = "where training begins the pilot's mean gradient measures"
        mean = pilot.objective.mean_gradient(pilot.design, here.begin[None], pilot.bound)[0]
    else:
        return None
    size = float(np.abs(mean).sum() if pilot.question.norm == "l1" else np.linalg.norm(mean))
    if not size > clip.value:
        return None
    return f"answers are clipped as a whole: {what} {number(size, 3)}, and {clip.value / size:.1%} of it is left"


def _cuts_nothing(pilot: Pilot) -> str:
    """Which clip of second moments would cut no record of the pilot: they are the same at every parameter."""
    if pilot.terms.learning.rules.asks != "statistics":
        return ""
    largest = float(pilot.question.record_sizes(pilot.design, np.zeros(pilot.question.parameters)).max())
    if pilot.question.answer_clip is not None:
        largest /= _most_rows(pilot)
    return f"; privacy.clip = {number(largest, 3, side='above')} would cut none of them"


def _most_rows(pilot: Pilot) -> int:
    """Of the largest owner: where answers are clipped as a whole, a record is cut at so many times that clip."""
    return max(pilot.terms.train_rows(owner.name) for owner in pilot.terms.owners)


def _clip_shifts(pilot: Pilot, here: Landscape, moments: ErrorMoments) -> bool:
    """Whether the noiseless clipped run ends elsewhere than the moments say, by more than noise and bias let go
    unnoticed."""
    total = here.curvature + pilot.objective.regularisation
    expected = float(0.5 * (moments.bias[-1] ** 2 + pilot.combined_variance() * moments.gain[-1]) @ total)
    quiet = float(pilot.objective.cost(pilot.design, pilot_models(pilot, 1, 0, noiseless=True))[0]) - here.least_cost
    return not abs(quiet - float(0.5 * moments.bias[-1] ** 2 @ total)) <= NOTICEABLY * expected


def _typical_sentence(pilot: Pilot, here: Landscape, moments: ErrorMoments | None) -> str | None:
    """Without a sample: whether gradients of the size that the landscape makes typical come near the clip.

    E|g|^2 is about 4 cost E|x|^2 for a squared loss, E|x|^2 half the trace of the curvature, and an L1 norm is at most
    sqrt p times the L2 norm. For other losses the derivative is at most 1.
    """
    points = (
        on_the_way(here) if moments is None else np.concatenate([on_the_way(here), _wandering(pilot, here, moments)])
    )
    away = here.inward(points - here.optimum)
    cost = here.least_cost + 0.5 * float(np.max(away**2 @ here.curvature))
    squares = float(here.curvature.sum())
    typical = np.sqrt(2 * cost * squares) if pilot.objective.quadratic else np.sqrt(squares)
    reach = TAILS * typical * (np.sqrt(pilot.source.width) if pilot.bound.norm == "l1" else 1.0)
    if not reach > pilot.bound.value:
        return None
    return (
        f"gradients may reach {reach:.3g}, beyond the clip, and without a sample nobody can tell how often: the "
        f"forecast assumes never"
    )


def _wandering(pilot: Pilot, here: Landscape, moments: ErrorMoments) -> Floats:
    """Parameters [8, p] at which the noisiest round may ask."""
    noisiest = int(np.argmax(moments.point_gain @ (here.curvature + pilot.objective.regularisation)))
    z = np.random.default_rng(0).standard_normal((8, len(here.curvature)))
    error = moments.point_bias[noisiest] + np.sqrt(pilot.combined_variance() * moments.point_gain[noisiest]) * z
    return np.asarray(here.optimum + here.outward(error))


def _box_binds(pilot: Pilot, here: Landscape, moments: ErrorMoments) -> bool:
    """Whether in some round some coordinate lies outside the box with more than a small probability."""
    radius = pilot.terms.model.radius
    if radius is None or here.directions is None:
        return False
    centre = here.optimum + here.outward(moments.point_bias)
    deviation = np.sqrt(pilot.combined_variance() * moments.point_gain @ (here.directions**2).T)
    outside = ndtr((np.abs(centre) - radius) / np.maximum(deviation, 1e-300))
    return bool(outside.max() > RARELY) or not bool(np.abs(here.optimum).max() < radius)
