"""Learned items in tables and sentences."""

from parley.learning.items import ItemsResult, OwnItems
from parley.learning.ranking import BEST, Ranking
from parley.numerals import number, percent
from parley.validate import printable

SIMULATION = "A simulation: nothing was released. What it prints of quality was computed from private ratings: keep it inside."
RELEASED = "Released, debited. What the items are worth each owner finds out inside: parley score MODEL TERMS --owner NAME"
INSIDE = "Computed from private ratings: keep it inside."


def items_rows(result: ItemsResult) -> list[list[str]]:
    """Every owner: what it spent and, in a study, what it gained."""
    own = {each.name: each for each in result.owners}
    refined = any(each.rmse_personal is not None for each in result.owners)
    rows = [["owner", "users", "ε spent", *(["error alone", "together"] if own else []), *(["personal"] if refined else [])]]
    for part in result.terms.owners:
        spent, worth = result.spent.get(part.name), own.get(part.name)
        errors = [] if worth is None else [_error(worth.rmse_alone), _error(worth.rmse_together)]
        errors += [_error(worth.rmse_personal)] if worth is not None and refined else []
        rows.append([part.name, f"{part.records:,}", "none" if spent is None else number(spent, side="above"), *errors])
    return rows


def worth_rows(found: OwnItems) -> list[list[str]]:
    """What a model is worth to one owner."""
    errors = [_error(found.rmse_alone), _error(found.rmse_together), _error(found.rmse_personal)]
    return [["", "alone", "together", "personal"], ["root mean square error", *errors]]


def ranking_line(ours: Ranking, usual: Ranking) -> str:
    """Rankings, beside the most popular items."""
    return (
        f"Of held-out favourites the best {BEST} hold {_error(ours.recall)} (recall; NDCG {_error(ours.ndcg)}), the {BEST} most popular "
        f"{_error(usual.recall)} ({_error(usual.ndcg)})."
    )


def unit_line(result: ItemsResult) -> str:
    """Whom or what the epsilons are about."""
    if result.notes:
        return "What is hidden: " + "; ".join(map(printable, result.notes)) + "."
    delta, rows = result.terms.privacy.delta, result.terms.privacy.records_per_person
    counts = f", of whom {rows:,} ratings count at most" if result.terms.privacy.person is not None else ", with all ratings"
    words = "Each owner's answers together are" if result.released else "A release by these terms is"
    return f"{words} ε-differentially private, δ = {delta:g}, for replacing one {result.unit}{counts}. No user's factors left their owner."


def gain_line(result: ItemsResult) -> str | None:
    """By how much errors fall by learning together, in a study."""
    gains = [
        f"{each.name} {percent(1 - each.rmse_together / each.rmse_alone)}"
        for each in result.owners
        if each.rmse_alone and each.rmse_together is not None
    ]
    return "By how much the error falls by learning together: " + ", ".join(gains) + "." if gains else None


def _error(value: float | None) -> str:
    return "–" if value is None else number(value, 4)
