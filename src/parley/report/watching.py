"""Rounds with owners elsewhere, while they go on: who answered last, how fast, and what is left of its budget."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table

from parley.numerals import number
from parley.report.terminal import errors_console, terminal_table
from parley.terms import Terms
from parley.terms.participation import steps_of

if TYPE_CHECKING:
    from parley.learning.algorithms.algorithm import State
    from parley.network.exchange.federation import Federation, PeerStatus


@contextmanager
def watched(terms: Terms, federation: "Federation") -> Iterator["Callable[[State], None]"]:
    """A table on stderr while the rounds go on, where somebody watches."""
    with Live(console=errors_console, transient=True, auto_refresh=False) as live:
        shown = 0.0

        def progress(state: "State") -> None:
            nonlocal shown
            now = time.monotonic()
            if live.console.is_terminal and now - shown > 0.2:
                live.update(status_table(terms, federation.status, state.round - 1), refresh=True)
                shown = now

        yield progress


def status_table(terms: Terms, known: "dict[str, PeerStatus]", done: int) -> Table:
    """Every owner's latency and what is left of its budget."""
    rows = [["owner", "last round", "latency", "ε left"]]
    for part in terms.owners:
        status = known.get(part.name)
        if status is None:
            rows.append([part.name, "–", "–", "–"])
        else:
            latency = f"{1e3 * status.seconds:.0f} ms" if status.answers else "–"
            rows.append(
                [part.name, str(status.round or "–"), latency, number(float(status.statement.left), side="below")]
            )
    every = f"{'round' if terms.learning.waits else 'answer'} {done} of {steps_of(terms)}"
    return terminal_table(rows, every)
