"""Released scales as tables and sentences."""

from collections.abc import Sequence

from parley.learning.outcome.guarantee import INSIDE
from parley.numerals import number, percent
from parley.privacy.adjacency import Adjacency
from parley.tasks.column_statistics.release import ColumnScale
from parley.tasks.column_statistics.run import ScalesResult
from parley.validate import printable

MANY = 6  # names that are listed


def summary(result: ScalesResult) -> str:
    """What the run was."""
    privacy = result.asked.privacy
    epsilon, delta = number(result.asked.owners[0].epsilon, side="above"), number(privacy.delta, side="above")
    cost = f"ε = {epsilon}, δ = {delta} of every owner ({Adjacency.REPLACE_ONE})"
    if not result.released:
        return f"Simulation, not a release: seeded noise, no ledger was debited. A release by these terms costs {cost}. {INSIDE}"
    return f"Released: {cost}, debited in its ledger before anything left. Everything below follows from noisy counts."


def noise_words(result: ScalesResult) -> str:
    """What could be seen through the noise."""
    said = f"A bin is read from {percent(result.bin_from)} of all rows on"
    if not result.name_from:
        return f"{said}; names were not asked, for these terms have no delta for them or one noise for all."
    name, least = min(result.name_from.items(), key=lambda each: each[1])
    if not least < 1:
        return f"{said}; no table is large enough for a name to leave it."
    rows = least * result.asked.owner(name).records
    return f"{said}, a name from {rows:,.0f} rows of one owner ({printable(name)}: {percent(least)} of its rows)."


def column_rows(columns: Sequence[ColumnScale]) -> list[list[str]]:
    """Every column with what was found of it."""
    rows = [["column", "values", "missing"]]
    return rows + [[printable(column.column), _values(column), percent(column.missing)] for column in columns]


def _values(column: ColumnScale) -> str:
    if column.kind == "unclear":
        return "unclear"
    if column.low is not None and column.high is not None:
        return f"{number(column.low)} to {number(column.high)}"
    names = [printable(name, 30) for name, _ in column.names]
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return ", ".join(names[:MANY]) + more if names else "names, none released"


def release_note(result: ScalesResult) -> tuple[str, ...]:
    """What a reader of the terms that follow should know, as lines of a comment."""
    kind = (
        "released by the owners with noise, debited in their ledgers"
        if result.released
        else "SIMULATED: from tables, with seeded noise"
    )
    return (
        f"Bounds, categories, centres and scales were {kind},",
        f"under the terms {result.asked.hash[:16]}..., for epsilon = {result.asked.owners[0].epsilon:g} and "
        f"delta = {result.asked.privacy.delta:g} of every owner. The budgets below are what that left.",
        *(f"Look at this: {printable(note, 400)}" for note in result.ready.notes),
    )
