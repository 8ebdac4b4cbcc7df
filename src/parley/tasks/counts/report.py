"""Released counts as tables and sentences."""

from parley.numerals import number, percent
from parley.tasks.asking_options import cost_sentence
from parley.tasks.counts.run import CountsResult
from parley.validate import printable


def count_rows(result: CountsResult) -> list[list[str]]:
    """Every cell with what was released of it, and what follows."""
    rows = [[printable(result.asked.model.target), "released", "within", "best guess", "share"]]
    for cell in result.cells:
        within = f"{_count(cell.low)} to {_count(cell.high)}"
        share = percent(cell.guess / result.records)
        rows.append([printable(cell.cell, 40), _count(cell.noisy), within, _count(cell.guess), share])
    return rows


def _count(value: float) -> str:
    return f"{value:,.0f}"


def summary(result: CountsResult) -> str:
    """Whether it was a release, and what that costs every owner."""
    return cost_sentence(result.asked, result.released)


def noise_words(result: CountsResult) -> str:
    """How much noise there is, and by what the guesses were made."""
    believed = (
        "every count was as likely as any other"
        if result.rate is None
        else f"a record lies in each cell with a chance of {percent(result.rate)}, the same for every cell"
    )
    steps = (
        " A step has its lower end and not its upper one; the last has both."
        if result.asked.model.kind == "histogram" and result.asked.model.target in result.asked.model.bounds
        else ""
    )
    return (
        f"The noise has a deviation of {number(result.deviation, 3)} records in every cell; 'within' holds in 95 of "
        f"100 cases, each cell by itself. The best guess is the median of what is possible if beforehand {believed}: "
        f"it follows from what was released, and costs nothing more.{steps}"
    )
