"""Released column statistics as tables and sentences."""

from collections.abc import Mapping, Sequence

from parley.numerals import number, percent
from parley.tasks.asking_options import cost_sentence
from parley.tasks.column_statistics.release import ReleasedColumn
from parley.tasks.column_statistics.run import ColumnStatisticsResult
from parley.terms import Terms
from parley.validate import printable

MANY = 6  # names that are listed


def summary(result: ColumnStatisticsResult) -> str:
    """Whether it was a release, what that costs, and what everything below follows from."""
    said = cost_sentence(result.asked, result.released)
    return f"{said} Everything below follows from noisy counts." if result.released else said


def noise_words(asked: Terms, bin_from: float, name_from: Mapping[str, float]) -> str:
    """What can be seen through the noise."""
    said = f"A bin is read from {percent(bin_from)} of all rows on"
    if not name_from:
        return f"{said}; names are not asked for: these terms have no delta for them, or one noise for all."
    name, least = min(name_from.items(), key=lambda each: each[1])
    if not least < 1:
        return f"{said}; no table is large enough for a name to leave it."
    rows = least * asked.owner(name).records
    return f"{said}, a name from {rows:,.0f} rows of one owner ({printable(name)}: {percent(least)} of its rows)."


def column_rows(columns: Sequence[ReleasedColumn]) -> list[list[str]]:
    """Every column with what was found of it."""
    rows = [["column", "values", "missing"]]
    return rows + [[printable(column.column), _values(column), percent(column.missing)] for column in columns]


def _values(column: ReleasedColumn) -> str:
    if column.kind == "unclear":
        return "unclear"
    if column.low is not None and column.high is not None:
        return f"{number(column.low)} to {number(column.high)}"
    names = [printable(name, 30) for name, _ in column.names]
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return ", ".join(names[:MANY]) + more if names else "names, none released"


def release_note(result: ColumnStatisticsResult) -> tuple[str, ...]:
    """What a reader of the terms that follow should know, as lines of a comment."""
    kind = (
        "released by the owners with noise, debited in their ledgers"
        if result.released
        else "SIMULATED: from tables, with seeded noise"
    )
    return (
        f"Bounds, categories, centres and scales were {kind},",
        f"under the terms {result.asked.hash[:16]}..., for epsilon = {result.asked.owners[0].epsilon:g} and delta = "
        f"{result.asked.privacy.delta:g} of every owner. The budgets below are what that left.",
        *(f"Look at this: {printable(note, 400)}" for note in result.ready.notes),
    )
