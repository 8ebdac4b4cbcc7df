import io

from rich.console import Console

from parley.cli.screen import terminal_table


def test_a_table_shows_cells_as_they_are_written():
    """A title or a name is somebody's text, not markup: brackets in it neither vanish nor end the program."""
    table = terminal_table([["owner", "ε"], ["a [b]", "[/bold] 1"]], "[/red] [b]", bold=0)
    screen = Console(width=80, record=True, file=io.StringIO())
    screen.print(table)
    shown = screen.export_text()
    for text in ("[/red] [b]", "a [b]", "[/bold] 1"):
        assert text in shown
