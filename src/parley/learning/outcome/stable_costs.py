"""What answers with stable noise cost in a study, beside what was published of such noise."""

from dataclasses import replace

from parley.privacy.accounting import StableBound, stable_epsilon
from parley.privacy.accounting.stable_bounds import stable_ratio
from parley.protocol.schedule import make_schedule, uses
from parley.terms import Terms


def stable_bounds(terms: Terms) -> dict[str, StableBound]:
    """What each owner's training answers cost together, by name, with the noise that these terms calibrate.

    Formal guarantee: `high` is at most what the terms promise of training, in every direction, replace-one adjacency,
    for exactly sampled noise. `one_dimensional` holds for differences in a single number, and only for those. Draws in
    secret count for nothing (`series.StableSeries`).
    """
    schedule = make_schedule(terms)
    return {
        owner.name: _bound(terms, owner.name, uses(terms.learning, schedule.rounds_of(owner.name)))
        for owner in terms.owners
    }


def _bound(terms: Terms, name: str, count: int) -> StableBound:
    """Of one owner's `count` answers; where several owners may hold a record, all copies together."""
    privacy, copies = terms.privacy, terms.privacy.shared_records
    alpha, delta = privacy.alpha or 2.0, privacy.delta / copies
    ratio = stable_ratio(alpha, float(terms.training_epsilon(name) / copies), delta, count)
    once = stable_epsilon(alpha, ratio, delta, compositions=count)
    figures = {key: copies * getattr(once, key) for key in ("low", "high", "one_dimensional")}
    return replace(once, **figures, delta=privacy.delta)
