import io

from rich.console import Console

from parley.report.terminal import terminal_table


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
    screen = Console(width=80, record=True, file=io.StringIO())
    screen.print(terminal_table(rows))
    shown = screen.export_text()
    assert "…" not in shown
    first, *rest = shown.splitlines()[1:]
    assert first.split()[0] + "".join(line.strip() for line in rest) == name
