"""Learned items in tables, sentences and a figure."""

from typing import TYPE_CHECKING

import numpy as np

from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
from parley.numerals import number, percent
from parley.report.summaries import Summary
from parley.tasks.ratings.run import TOP_K, ItemsResult, OwnItems, Ranking
from parley.tasks.ratings.table import unlisted_words
from parley.validate import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIMULATION_NOTE = f"A simulation: nothing was released. {KEEP_INSIDE_NOTE}"
RELEASE_NOTE = (
    "Released, debited. Each owner can measure the worth of the items inside: parley score MODEL TERMS --owner NAME"
)
MIN_GAIN_SHOWN = 5e-4  # a change that is printed as 0.0%


def items_summary(result: ItemsResult) -> Summary:
    """Return what `parley train` prints, for a notebook."""
    gained = gain_line(result)
    said = [*([] if gained is None else [gained]), *unlisted_lines(result), unit_line(result)]
    return Summary(
        result.terms.title or "Items", items_rows(result), [*said, RELEASE_NOTE if result.released else SIMULATION_NOTE]
    )


def items_rows(result: ItemsResult) -> list[list[str]]:
    """Return a table of every owner's spending and, in a study, its gain."""
    own = {each.name: each for each in result.owners}
    refined = any(each.rmse_personal is not None for each in result.owners)
    rows = [
        ["owner", "users", "ε spent", *(["error alone", "together"] if own else []), *(["personal"] if refined else [])]
    ]
    for part in result.terms.owners:
        spent, worth = result.spent.get(part.name), own.get(part.name)
        errors = [] if worth is None else [_error(worth.rmse_alone), _error(worth.rmse_together)]
        errors += [_error(worth.rmse_personal)] if worth is not None and refined else []
        rows.append([part.name, f"{part.records:,}", "none" if spent is None else number(spent, side="above"), *errors])
    return rows


def worth_rows(found: OwnItems) -> list[list[str]]:
    """Return a table of a model's worth to one owner."""
    errors = [_error(found.rmse_alone), _error(found.rmse_together), _error(found.rmse_personal)]
    return [["", "alone", "together", "personal"], ["root mean square error", *errors]]


def ranking_line(ours: Ranking, usual: Ranking) -> str:
    """Compare rankings with the most popular items."""
    return (
        f"The {TOP_K} best-ranked items include {_error(ours.recall)} of the held-out favourites (recall; NDCG "
        f"{_error(ours.ndcg)}). The {TOP_K} most popular items include {_error(usual.recall)} ({_error(usual.ndcg)})."
    )


def unit_line(result: ItemsResult) -> str:
    """Say whom or what the epsilons protect."""
    if result.notes:
        return "What is hidden: " + "; ".join(map(printable, result.notes)) + "."
    delta, rows = result.terms.privacy.delta, result.terms.privacy.records_per_person
    counts = (
        f", of whom {rows:,} ratings count at most" if result.terms.privacy.person is not None else ", with all ratings"
    )
    words = "Each owner's answers together are" if result.released else "A release under these terms is"
    return (
        f"{words} ε-differentially private, δ = {delta:g}, for replacing one {result.unit} "
        f"({result.adjacency}){counts}. No user's factors left their owner."
    )


def gain_line(result: ItemsResult) -> str | None:
    """Say how learning together changes errors, in a study."""
    known = [(each.name, each.rmse_alone, each.rmse_together) for each in result.owners]
    gains = {name: 1 - together / alone for name, alone, together in known if alone and together is not None}
    if not gains:
        return None
    sentence = (
        "By learning together, the error of "
        f"{', of '.join(f'{printable(name)} {_moves(gain)}' for name, gain in gains.items())}."
    )
    if all(gain <= 0 for gain in gains.values()):
        return f"{sentence} Every owner is better off alone: do not release under these terms."
    losers = [printable(name) for name, gain in gains.items() if gain <= -MIN_GAIN_SHOWN]
    return (
        f"{sentence} Without parley refine (personal), these owners are better off alone: {', '.join(losers)}."
        if losers
        else sentence
    )


def unlisted_lines(result: ItemsResult) -> list[str]:
    """Name a study's owners whose ratings are mostly of unlisted items."""
    model = result.terms.model
    return [
        f"{printable(name)}: {words}"
        for name, share in result.unlisted.items()
        if (words := unlisted_words(share, model))
    ]


def _moves(gain: float) -> str:
    if abs(gain) < MIN_GAIN_SHOWN:
        return "stays the same"
    return f"{'falls' if gain > 0 else 'grows'} by {percent(abs(gain))}"


def _error(value: float | None) -> str:
    return "–" if value is None else number(value, 4)


def items_gains(result: ItemsResult) -> "Figure | None":
    """Draw the share of its error alone that each owner saves with personal joint items; None if unmeasured."""
    from parley.report.figures.owner_gains import OwnerGain, owner_gains

    users = {part.name: part.records for part in result.terms.owners}
    judged = [each for each in result.owners if each.rmse_alone and each.rmse_personal is not None]
    if not judged:
        return None
    saved = np.array([1 - (each.rmse_personal or 0.0) / (each.rmse_alone or 1.0) for each in judged])
    title = f"Better off together: {int((saved > 0).sum())} of {len(saved)}"
    names = [f"{each.name} ({users[each.name]:,} users)" for each in judged]
    gains = [
        OwnerGain(name, each, each, each, "join" if each > 0 else "stay")
        for name, each in zip(names, saved.tolist(), strict=True)
    ]
    return owner_gains(
        gains, title, "error that joining saves, of the error alone", "on own held-out ratings", shares=True
    )
