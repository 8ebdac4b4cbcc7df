"""The kinds of terms that a planner surveys, each on its own: mechanism, start, and the coordinates of the columns.
Whitening is a public linear map; it is not tried with a penalty or a binding box, whose meaning it would change."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from parley.decisions.expectation.responses import DESCENT_WAYS
from parley.decisions.knowledge.pilot import Pilot
from parley.decisions.knowledge.sources import Sample
from parley.decisions.planning.coordinate_search import free_to_step, mechanisms_for, with_mechanism
from parley.decisions.planning.search import same_clip
from parley.errors import DataError, SettingError, TermsError
from parley.protocol.setup import Setup, resolve
from parley.terms import Terms
from parley.terms.participation import fewest_rounds

MOMENTS, CURVATURE = "public", "public-curvature"  # by what columns are whitened
WHITENING_LABELS: Mapping[str | None, tuple[str, ...]] = {
    None: (),
    MOMENTS: ("whitened",),
    CURVATURE: ("curvature-whitened",),
}


def varieties(known: Pilot, delta: float) -> Iterator[tuple[str, Pilot | str]]:
    """Yield every kind to survey: a label, and the pilot under terms of that kind, or why there is none."""
    for mechanism in mechanisms_for(delta):
        base = with_mechanism(free_to_step(known.terms), mechanism, delta).changed(
            learning={**DESCENT_WAYS[0].learning, "horizon": max(16, fewest_rounds(known.terms)), "start": None}
        )
        base = base.changed(privacy={"clip": same_clip(known, base)})
        for start, whitening in _coordinates(known):
            label = ", ".join((mechanism, *WHITENING_LABELS[whitening], *(["public start"] * (start == "public"))))
            variety = base.changed(learning={"start": start}, model={"whitening": whitening} if whitening else None)
            try:
                pilot = known.under(variety) if whitening is None else whitened(known, variety, 0)
                if whitening is not None:
                    _require_room(known, pilot)
                yield label, pilot.leaning()
            except (SettingError, TermsError, DataError) as error:
                yield label, str(error)


def _coordinates(known: Pilot) -> Sequence[tuple[str, str | None]]:
    """Return pairs (start, whitening): by moments if coordinates are free, by curvature for public starts."""
    model = known.terms.model
    chosen = any(each is not None for each in (model.components, model.whitening, model.columns))
    free: list[str | None] = [None] if model.public is None or chosen or model.penalty > 0 else [None, MOMENTS]
    pairs = [("zero", whitening) for whitening in free]
    if model.public is None or known.own_fit is None:
        return pairs
    bends = len(free) > 1 and model.smooth and not known.objective.quadratic
    return [*pairs, *(("public", whitening) for whitening in (*free, *([CURVATURE] * bends)))]


def whitened(known: Pilot, terms: Terms, redraw: int) -> Pilot:
    """Return the pilot under possible whitening, fitted to other rows than those that judge it."""
    if known.apart:
        raise SettingError("model.whitening: available only if the pilot is the public sample")
    key = terms.model.whitening, redraw
    setup: Setup = known.design.derived(("whitened", *key), partial(resolve, terms, redraw=redraw))
    if setup.public is None:
        raise DataError("model.whitening: needs a public sample; set model.public")
    design = known.design.derived(("whitened rows", *key), setup.public.for_studies)
    return replace(known, setup=setup.under(terms), source=Sample(design), drawn=None).under(terms)


def _require_room(*pilots: Pilot) -> None:
    radius = pilots[0].terms.model.radius
    if radius is None:
        return
    fits = [pilot.own_fit for pilot in pilots]
    if not all(fit is not None and np.abs(fit.theta).max() < radius for fit in fits):
        raise SettingError(
            "model.radius: the best fit on the public sample reaches this limit, and whitening would change what the "
            "limit means"
        )
