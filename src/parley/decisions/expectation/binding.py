"""Whether the clip or the box binds (moments are exact only if neither does), and the cost under a clip."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from parley.data import Design
from parley.decisions.expectation.error_moments import ErrorMoments
from parley.decisions.expectation.pilot_runs import pilot_models, scaled_share
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.knowledge.sources import Landscape
from parley.losses import EmpiricalRisk, RecordBound
from parley.numerals import number
from parley.protocol.aggregation import Robust
from parley.protocol.queries import StatisticsQuestion
from parley.validate import Floats

NEGLIGIBLE_SHARE = 1e-3  # a share of records, or a probability, too small to change the moments
# a share of the expected excess cost that clipping may add or take without being called binding
NOTICEABLE_SHARE = 0.02
LARGER_CLIP_ADVICE = "A larger privacy.clip clips fewer records but needs more noise; parley plan weighs the two"
TAIL_FACTOR = 3.0  # how far above its typical size a gradient is thought to reach where no sample shows it


def binding(pilot: Pilot, here: Landscape, moments: ErrorMoments | None) -> tuple[bool, tuple[str, ...]]:
    """Return (whether clip or box change the algorithm's path, warnings for the reader)."""
    warnings = list(here.warnings)
    if pilot.has_rows and pilot.terms.model.classifies:
        fewest = int(np.unique(pilot.design.y, return_counts=True)[1].min())
        if fewest < 30:
            warnings.append(f"one class has only {fewest} records in the pilot, too few for a reliable forecast")
    if pilot.algorithm.drifts and len(pilot.terms.owners) > 1:
        warnings.append(
            "the models of owners with different data drift apart during local steps, but the forecast assumes that "
            "all owners resemble the pilot"
        )
    rule = pilot.setup.aggregation
    if isinstance(rule, Robust) and not rule.averages:
        warnings.append(
            f"the {rule.rule} has {number(rule.price(pilot.setup), 3)} times the noise of the mean. The forecast "
            "assumes that owners differ only at random and that no owner lies"
        )
    if not pilot.setup.schedule.waits:
        warnings.append(_speeds_sentence(pilot))
    clip = _clip_sentence(pilot, here, moments)
    box = moments is not None and _box_binds(pilot, here, moments)
    whole = _answer_sentence(pilot, here)
    warnings += [each for each in (clip, whole) if each is not None]
    if box:
        warnings.append("the noise is so large that it may push the model to the limit of model.radius")
    return clip is not None or box or pilot.question.answer_clip is not None, tuple(warnings)


def _speeds_sentence(pilot: Pilot) -> str:
    if pilot.speeds is None:
        return (
            "answers are used as they arrive. The forecast assumes that all owners finish at the same time; --speeds "
            "changes this"
        )
    silent = (
        f"; {', '.join(pilot.silent)} never answer{'' if len(pilot.silent) > 1 else 's'}, and the forecast leaves "
        "them out"
        if pilot.silent
        else ""
    )
    return f"answers are used as they arrive, from owners with the speeds in --speeds{silent}"


def on_the_way(here: Landscape) -> Floats:
    """Return the start, the midpoint and the optimum [3, p]."""
    begin = here.begin
    return begin + np.array([0.0, 0.5, 1.0])[:, None] * (here.optimum - begin)


def _clip_sentence(pilot: Pilot, here: Landscape, moments: ErrorMoments | None) -> str | None:
    """Describe how the clip binds; None if it does not."""
    if not pilot.bound.clips:
        return None
    if not pilot.has_rows:
        return _typical_sentence(pilot, here, moments)
    whole = pilot.question.answer_clip is not None  # then records are cut elsewhere, and no plan is made
    name = f"the clip of single records, privacy.clip times {_most_rows(pilot):,} rows," if whole else "the clip"
    meant = "These records count for less, which biases the model, and the forecast includes this bias"
    weighed = meant + ("" if whole else f". {LARGER_CLIP_ADVICE}")
    if moments is None:
        share = scaled_share(pilot, here.begin[None])
        return (
            f"{name} scales down {share:.1%} of the pilot's records. {meant}{_harmless_clip_words(pilot)}"
            if share > NEGLIGIBLE_SHARE
            else None
        )
    share = scaled_share(pilot, on_the_way(here))
    if share > NEGLIGIBLE_SHARE:
        return f"{name} scales down {share:.1%} of the pilot's records during training. {weighed}"
    if scaled_share(pilot, _wandering(pilot, here, moments)) > NEGLIGIBLE_SHARE:
        return f"the noise moves the model to where {name} scales down records. {weighed}"
    if share > 0 and pilot.objective.quadratic and _clip_shifts(pilot, here, moments):
        return f"{name} scales down a few influential records ({share:.2%}). {weighed}"
    return None


def _answer_sentence(pilot: Pilot, here: Landscape) -> str | None:
    """Say what share of an owner's first answer a clip of the whole leaves; None if all."""
    clip = pilot.question.answer_clip
    if clip is None or not pilot.has_rows:
        return None
    if isinstance(pilot.question, StatisticsQuestion):
        what, mean = "the norm of the pilot's second moments is", pilot.question.moments(pilot.tables.train)
    elif pilot.question.size == pilot.question.parameters:
        what = "where training begins, the norm of the pilot's mean gradient is"
        mean = pilot.objective.mean_gradient(pilot.design, here.begin[None], pilot.bound)[0]
    else:
        return None
    size = float(np.abs(mean).sum() if pilot.question.norm == "l1" else np.linalg.norm(mean))
    if not size > clip.value:
        return None
    return (
        f"answers are clipped as a whole: {what} {number(size, 3)}, and the clip leaves {clip.value / size:.1%} of it"
    )


def _harmless_clip_words(pilot: Pilot) -> str:
    """State the clip of second moments that would cut no pilot record; moments do not depend on parameters."""
    if pilot.terms.learning.rules.asks != "statistics":
        return ""
    largest = float(pilot.question.record_sizes(pilot.design, np.zeros(pilot.question.parameters)).max())
    if pilot.question.answer_clip is not None:
        largest /= _most_rows(pilot)
    return f". With privacy.clip = {number(largest, 3, side='above')}, no record would be clipped"


def _most_rows(pilot: Pilot) -> int:
    """Return the largest owner's rows: with answers clipped as a whole, records are cut at this many times the clip."""
    return max(pilot.terms.train_rows(owner.name) for owner in pilot.terms.owners)


def _clip_shifts(pilot: Pilot, here: Landscape, moments: ErrorMoments) -> bool:
    """Return whether the noiseless clipped run ends noticeably elsewhere than the moments say."""
    total = here.curvature + pilot.objective.regularisation
    expected = float(0.5 * (moments.bias[-1] ** 2 + pilot.combined_variance() * moments.gain[-1]) @ total)
    quiet = float(pilot.objective.cost(pilot.design, pilot_models(pilot, 1, 0, noiseless=True))[0]) - here.least_cost
    return not abs(quiet - float(0.5 * moments.bias[-1] ** 2 @ total)) <= NOTICEABLE_SHARE * expected


def _typical_sentence(pilot: Pilot, here: Landscape, moments: ErrorMoments | None) -> str | None:
    """Warn, without a sample, if gradients of typical size come near the clip. E|g|^2 is about 4 cost E|x|^2 for a
    squared loss, E|x|^2 half the trace of the curvature; |g|_1 <= sqrt p |g|_2. Other losses' derivative is at most 1.
    """
    points = (
        on_the_way(here) if moments is None else np.concatenate([on_the_way(here), _wandering(pilot, here, moments)])
    )
    away = here.inward(points - here.optimum)
    cost = here.least_cost + 0.5 * float(np.max(away**2 @ here.curvature))
    squares = float(here.curvature.sum())
    typical = np.sqrt(2 * cost * squares) if pilot.objective.quadratic else np.sqrt(squares)
    reach = TAIL_FACTOR * typical * (np.sqrt(pilot.source.width) if pilot.bound.norm == "l1" else 1.0)
    if not reach > pilot.bound.value:
        return None
    return (
        f"gradients may reach {reach:.3g}, beyond the clip. Without a public sample nobody can tell how often, so "
        "the forecast assumes that no record is clipped"
    )


def _wandering(pilot: Pilot, here: Landscape, moments: ErrorMoments) -> Floats:
    """Draw parameters [8, p] that the noisiest round may ask at."""
    noisiest = int(np.argmax(moments.point_gain @ (here.curvature + pilot.objective.regularisation)))
    z = np.random.default_rng(0).standard_normal((8, len(here.curvature)))
    error = moments.point_bias[noisiest] + np.sqrt(pilot.combined_variance() * moments.point_gain[noisiest]) * z
    return np.asarray(here.optimum + here.outward(error))


def _box_binds(pilot: Pilot, here: Landscape, moments: ErrorMoments) -> bool:
    radius = pilot.terms.model.radius
    if radius is None or here.directions is None:
        return False
    centre = here.optimum + here.outward(moments.point_bias)
    deviation = np.sqrt(pilot.combined_variance() * moments.point_gain @ (here.directions**2).T)
    outside = ndtr((np.abs(centre) - radius) / np.maximum(deviation, 1e-300))
    return bool(outside.max() > NEGLIGIBLE_SHARE) or not bool(np.abs(here.optimum).max() < radius)


MAX_STEPS = 6
DIFFERENCE_WIDTH = 0.02  # of theta's size: how far apart gradients are compared for the curvature


@dataclass(frozen=True, eq=False)
class ClippedLandscape:
    """The `goal` [p] of clipped gradients, curvatures (with penalty) and directions there, the true cost's `metric` [p,
    p] in them, and its excess. For costs of the margin, scaled-down records follow another convex cost (a Huber-like
    one), whose minimum describes a clip near the goal; only a run shows the way there."""

    bound: RecordBound
    share: float  # of the records that are scaled down at the goal
    goal: Floats
    curvature: Floats
    directions: Floats
    metric: Floats
    shift: Floats  # goal - theta* in these directions
    bias: float


def clipped_landscape(
    objective: EmpiricalRisk, design: Design, here: Landscape, bound: RecordBound
) -> ClippedLandscape | None:
    """Find the landscape under a clip; None if no goal is found."""
    if here.directions is None:
        return None
    r = objective.regularisation
    true = (here.directions * (here.curvature + r)) @ here.directions.T
    share = _share(objective, design, here.optimum, bound)
    if share == 0:
        return _as_clipped_landscape(here, bound, true, here.optimum, true, 0.0)
    theta = here.optimum
    for _ in range(MAX_STEPS):
        gradient, hessian = _field(objective, design, theta, bound, here.tilt)
        try:
            step = -np.linalg.solve(hessian + 1e-9 * np.trace(hessian) / len(hessian) * np.eye(len(hessian)), gradient)
        except np.linalg.LinAlgError:
            return None
        reach = 1.0 + float(np.abs(here.optimum).max())
        theta = theta + step * min(1.0, reach / max(float(np.abs(step).max()), 1e-300))
        if float(np.abs(gradient @ step)) < 1e-8 * here.least_cost:
            break
    if not np.isfinite(theta).all():
        return None
    hessian = _field(objective, design, theta, bound, here.tilt)[1]
    return _as_clipped_landscape(here, bound, true, theta, hessian, _share(objective, design, theta, bound))


def _share(objective: EmpiricalRisk, design: Design, theta: Floats, bound: RecordBound) -> float:
    return float(np.mean(objective.record_norms(design, theta, bound.norm) > bound.value)) if bound.clips else 0.0


def _field(
    objective: EmpiricalRisk, design: Design, theta: Floats, bound: RecordBound, tilt: Floats | None
) -> tuple[Floats, Floats]:
    """Return the clipped mean gradient with the penalty's, and its derivative by finite differences [p, p]."""
    p, width = len(theta), DIFFERENCE_WIDTH * max(float(np.abs(theta).max()), 0.1)
    points = np.concatenate([theta[None], theta + width * np.eye(p), theta - width * np.eye(p)])
    gradients = objective.mean_gradient(design, points, bound) + objective.penalty_gradient(points)
    hessian = (gradients[1 : p + 1] - gradients[p + 1 :]) / (2 * width)
    return gradients[0] if tilt is None else gradients[0] - tilt, (hessian + hessian.T) / 2


def _as_clipped_landscape(
    here: Landscape, bound: RecordBound, true: Floats, goal: Floats, hessian: Floats, share: float
) -> ClippedLandscape:
    curvature, directions = np.linalg.eigh(hessian)
    away = goal - here.optimum
    metric, bias = directions.T @ true @ directions, 0.5 * float(away @ true @ away)
    return ClippedLandscape(bound, share, goal, np.maximum(curvature, 0.0), directions, metric, away @ directions, bias)
