"""Tables on the terminal, and numbers as people read them."""

from collections.abc import Sequence

from rich.table import Table


def terminal_table(rows: Sequence[Sequence[str]], title: str = "") -> Table:
    """A table whose first row is its head; the first column holds names, the others numbers."""
    head, *body = rows
    table = Table(title=title or None, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False)
    for place, name in enumerate(head):
        table.add_column(name, justify="left" if place == 0 else "right")
    for row in body:
        table.add_row(*row)
    return table


def number(value: float | None, digits: int = 4) -> str:
    """Four significant digits, no false precision; a dash for what is not known.

    >>> number(0.0123456), number(None), number(250000.0)
    ('0.01235', '–', '250,000')
    """
    if value is None:
        return "–"
    if abs(value) >= 10**digits:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def percent(share: float | None) -> str:
    """A share as a percentage; a dash for what is not known."""
    return "–" if share is None else f"{share:.1%}"
