import io
import re
import threading
import time
from unittest import mock

import pytest
from rich.console import Console

from parley.report import terminal
from parley.report.terminal import column_widths, terminal_table


def printed(rows, width):
    """The lines of a table on a screen of this width."""
    screen = Console(width=width, record=True, file=io.StringIO())
    with mock.patch.object(terminal, "console", screen):
        screen.print(terminal_table(rows))
    return screen.export_text().splitlines()


def test_a_table_shows_cells_as_they_are_written():
    """A title or a name is somebody's text, not markup: brackets in it neither vanish nor end the program."""
    table = terminal_table([["owner", "ε"], ["a [b]", "[/bold] 1"]], "[/red] [b]", bold=0)
    screen = Console(width=80, record=True, file=io.StringIO())
    screen.print(table)
    shown = screen.export_text()
    for text in ("[/red] [b]", "a [b]", "[/bold] 1"):
        assert text in shown


def test_names_are_never_cut():
    """On a narrow screen a long name takes two lines rather than an ellipsis: whoever reads it must know who is
    meant."""
    name = "the-second-regional-hospital-of-the-northern-counties-cardiology"
    rows = [["owner", "gain", "payment", "payoff"], [name, *("1,234,567.89" for _ in range(3))]]
    _, first, *rest = printed(rows, 80)
    assert "…" not in "".join([first, *rest])
    assert first.split()[0] + "".join(line.strip() for line in rest) == name


FORECAST = [
    ["owner", "alone", "together", "personal", "gain", "from … to", "verdict", "worth it from ε"],
    ["The Cooperative of Agricultural Credit Unions", *["0.01234"] * 3, "+3.1 %", "-1.2 % to +7.9 %", "join", "0.25"],
    ["north", "0.1", "0.02", "0.02", "+12 %", "+3 % to +20 %", "stay", "never"],
]


@pytest.mark.parametrize("width", [80, 100])
def test_on_a_screen_of_usual_width_no_word_is_broken(width):
    lines = printed(FORECAST, width)
    assert max(map(len, lines)) <= width
    for word in ["Cooperative", "Agricultural", "Unions", "personal", "together", "verdict", "0.01234"]:
        assert any(word in line for line in lines), word
    assert any("+3.1 %" in line for line in lines)


def test_others_give_way_before_names_and_a_very_long_one_before_heads():
    rows = [["owner", "held out", "interval"], ["Credit Union of the North", "1,200", "0.0012 to 0.0214 at 90 %"]]
    assert column_widths(rows, 80) == [25, 8, 24]
    assert column_widths(rows, 42) == [25, 5, 8]
    assert column_widths(rows, 33) == [16, 5, 8]
    assert column_widths([["owner", "together"], ["Universitätsklinikum-Nord-Ost-Heide", "1"]], 40) == [30, 8]


@pytest.mark.parametrize("width", [12, 20, 79])
def test_nothing_of_a_table_is_lost_on_a_narrow_screen(width):
    rows = [["owner", "ε"], ["Krankenhaus", "0.125"], ["東京病院 東京病院 東京病院", ""]]
    shown = "".join("".join(printed(rows, width)).split())
    assert sorted(shown) == sorted("".join("".join(row) for row in rows).replace(" ", ""))
    assert sum(column_widths(rows, width)) + 2 <= width


def test_work_that_says_nothing_shows_a_line_now_and_then_without_a_terminal(monkeypatch):
    """A line comes by itself: owners that take minutes each do not leave a log empty."""
    told = threading.Event()

    class Log(io.StringIO):
        def write(self, text):
            if "judging 3/40" in text:
                told.set()
            return super().write(text)

    log = Log()
    monkeypatch.setattr(terminal, "errors_console", Console(file=log))
    monkeypatch.setattr(terminal, "SECONDS_BETWEEN_LINES", 0.01)
    with terminal.progress_bar("reading") as progress:
        progress.says("judging")
        progress(3, 40)
        assert told.wait(60)
    ended = log.getvalue()
    assert re.search(r"^judging 3/40, \d+ s so far$", ended, re.MULTILINE)
    with terminal.progress_bar("quick"):
        pass
    assert log.getvalue() == ended


def test_a_watcher_is_told_instead_of_lines(monkeypatch):
    seen, log = [], io.StringIO()
    monkeypatch.setattr(terminal, "_watchers", [lambda *about: seen.append(about)])
    monkeypatch.setattr(terminal, "errors_console", Console(file=log))
    monkeypatch.setattr(terminal, "SECONDS_BETWEEN_LINES", 0.001)
    with terminal.progress_bar("reading"):
        time.sleep(0.05)
    assert (seen, log.getvalue()) == ([("reading", 0, 1)], "")
