"""Output: results to stdout, progress and remarks to stderr."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from parley.errors import SettingError
from parley.numerals import number
from parley.report.sheet import Grid, Line, Part, Report

if TYPE_CHECKING:
    from parley.learning.algorithms.algorithm import State
    from parley.network.exchange.federation import Federation, PeerStatus
    from parley.terms import Terms


Answer = TypeVar("Answer", str, int, float)
console = Console(highlight=False)
errors_console = Console(stderr=True, highlight=False)

SECONDS_BETWEEN_LINES = 10.0  # about work in progress, where stderr is no terminal
COLUMN_GAP = 2  # columns of the screen between two of a table
MIN_COLUMN_WIDTH = 4  # that one becomes
LONG_NAME_CHARACTERS = 20  # beyond which a name's words are broken before those of heads


def warn(sentence: str) -> None:
    """Print a warning on stderr."""
    errors_console.print(sentence, style="yellow", markup=False, soft_wrap=True)


Watcher = Callable[[str, int, int], None]  # is told what is worked at, how much of it is done, and of how much
_watchers: list[Watcher] = []


def watch_progress(watcher: Watcher) -> None:
    """Report the progress of all bars to this watcher too, until the process ends."""
    _watchers.append(watcher)


class Bar:
    """The current work and its progress."""

    def __init__(self, bar: Progress, label: str) -> None:
        self._bar, self._task, self._label = bar, bar.add_task(label, total=1), label
        self._began = time.monotonic()
        self._tell(0, 1)

    def __call__(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)
        self._tell(done, total)

    def says(self, label: str) -> None:
        """Start a new stage with this label."""
        self._bar.update(self._task, description=label, completed=0, total=1)
        self._label = label
        self._tell(0, 1)

    def line(self) -> str:
        """Return the progress in one line, with the seconds since the work began."""
        counted = f" {self._done}/{self._total}" if self._total > 1 else ""
        return f"{self._label}{counted}, {time.monotonic() - self._began:.0f} s so far"

    def _tell(self, done: int, total: int) -> None:
        self._done, self._total = done, total
        for watcher in _watchers:
            watcher(self._label, done, total)


@contextmanager
def progress_bar(label: str) -> Iterator[Bar]:
    """Show a temporary bar on stderr; without a terminal, print a line every ten seconds unless a watcher gets
    progress."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=errors_console, transient=True, disable=not errors_console.is_terminal) as shown:
        bar = Bar(shown, label)
        if errors_console.is_terminal or _watchers:
            yield bar
        else:
            with _lines(bar):
                yield bar


@contextmanager
def _explain_missing_answer() -> Iterator[None]:
    """Explain what to do if standard input ends without an answer and nobody is at the keyboard."""
    try:
        yield
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        raise SettingError(
            "standard input ended before all questions were answered; run the command at a terminal, or give --yes or "
            "the options that answer the questions"
        ) from None


class Terminal:
    """The person at this terminal (`workflows.person.Person`): remarks and questions on stderr."""

    @property
    def present(self) -> bool:
        return sys.stdin.isatty() and sys.stderr.isatty()

    def say(self, sentence: str) -> None:
        errors_console.print(sentence, markup=False, soft_wrap=True)

    def warn(self, sentence: str) -> None:
        warn(sentence)

    def ask(self, question: str, usual: Answer) -> Answer:
        with _explain_missing_answer():
            return cast(Answer, typer.prompt(question, usual, type=type(usual), err=True))

    def require(self, question: str) -> str:
        with _explain_missing_answer():
            return str(typer.prompt(question, err=True))

    def confirm(self, question: str, usual: bool = False) -> bool:
        return typer.confirm(question, default=usual, err=True)

    def progress(self, label: str) -> AbstractContextManager[Bar]:
        return progress_bar(label)


@contextmanager
def _lines(bar: Bar) -> Iterator[None]:
    """Print a line about the work every few seconds."""
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(SECONDS_BETWEEN_LINES):
            errors_console.print(bar.line(), markup=False, soft_wrap=True)

    thread = threading.Thread(target=tell, daemon=True, name="progress")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def print_json(content: Mapping[str, Any], *, inside: bool) -> None:
    """Print one JSON object with `inside`: whether anything in it was computed from private rows without safe noise. It
    has no default, so that every command states whether the object may be passed on."""
    typer.echo(json.dumps({**content, "inside": inside}, indent=2, allow_nan=False))


def show(report: Report, as_json: bool = False) -> None:
    """Print a report: one JSON object, or its tables and sentences."""
    if as_json:
        print_json(report.to_json(), inside=report.inside)
    else:
        show_parts(report.parts())
    report.require_done()


def show_parts(parts: Iterable[Part]) -> None:
    """Print tables and sentences as they become available."""
    for part in parts:
        if isinstance(part, Grid):
            console.print(terminal_table(part.rows, part.title, part.bold))
        elif isinstance(part, Line):
            out = errors_console if part.aside else console
            out.print(part.text, style=part.style, markup=False, soft_wrap=not part.folded)


def terminal_table(rows: Sequence[Sequence[str]], title: str = "", bold: int | None = None) -> Table:
    """Return a table whose first row is its head: names on the left, then numbers, and the row `bold` highlighted.
    Cells are plain text, without markup. On a narrow screen names are broken last."""
    head, *body = rows
    table = Table(
        title=Text(title) if title else None,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=None,
        pad_edge=False,
    )
    for place, (name, width) in enumerate(zip(head, column_widths(rows, console.width), strict=True)):
        # nothing is cut off
        table.add_column(Text(name), justify="left" if place == 0 else "right", overflow="fold", width=width)
    for place, row in enumerate(body):
        table.add_row(*map(Text, row), style="bold" if place == bold else None)
    return table


def column_widths(rows: Sequence[Sequence[str]], screen: int) -> list[int]:
    """Return the widths of a table's columns on a screen of this width.

    If cells do not fit, the widest shrink: first heads between words, then other cells, then names (the first column).
    After that words are broken: very long names, then other cells, then names.

    >>> column_widths([["owner", "interval"], ["Credit Union of the North", "0.01 to 0.02"]], 35)
    [25, 8]
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    words = [max(cell_len(word) for cell in column for word in _words(cell)) for column in columns]
    names, others, excess = [0], range(1, len(columns)), sum(widths) + COLUMN_GAP * (len(columns) - 1) - screen
    lines = [max(map(cell_len, (*column[1:], *_words(column[0])))) for column in columns]
    broken = (names, [LONG_NAME_CHARACTERS]), (others, [MIN_COLUMN_WIDTH] * len(words)), (names, [1])
    turns = (others, lines), (others, words), (names, words), *broken
    for places, least in turns:
        while excess > 0 and (wide := [place for place in places if widths[place] > least[place]]):
            widths[max(wide, key=lambda place: widths[place])] -= 1
            excess -= 1
    return widths


def _words(cell: str) -> list[str]:
    """Split a cell into parts that stay on one line: words, and numbers with units."""
    return cell.replace(" %", "_%").split() or [""]


@contextmanager
def watched(terms: "Terms", federation: "Federation") -> Iterator["Callable[[State], None]"]:
    """Show a table on stderr between rounds, if stderr is a terminal."""
    with Live(console=errors_console, transient=True, auto_refresh=False) as live:
        shown = 0.0

        def progress(state: "State") -> None:
            nonlocal shown
            now = time.monotonic()
            if live.console.is_terminal and now - shown > 0.2:
                live.update(status_table(terms, federation.status, state.round - 1), refresh=True)
                shown = now

        yield progress


def status_table(terms: "Terms", known: "dict[str, PeerStatus]", done: int) -> Table:
    """Return a table of every owner's latency and remaining budget."""
    from parley.terms.participation import steps_of

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
