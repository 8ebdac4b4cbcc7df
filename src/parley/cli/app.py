"""`parley`: one command, its parts in files of their own. A user's mistake is one sentence and exit code 2, never a traceback."""

import sys
from typing import Annotated

import typer

from parley.cli import demo, forecast, negotiate, score, train
from parley.cli.budget import budget_app
from parley.cli.certs import certs_app
from parley.cli.learner import learner_app
from parley.cli.owner import owner_app
from parley.cli.reproduce import reproduce_app
from parley.cli.screen import errors_console
from parley.errors import ParleyError
from parley.version import __version__

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="""Should we learn together, on what privacy terms, and what came out of it?

    Organisations that hold private tables train one joint model. Owners never hand over data: they answer queries with
    differentially private noise, within a budget that their own ledger enforces.

    Start with [bold]parley demo[/bold]; it writes three tables and a terms file to play with.""",
)
app.command("demo")(demo.demo)
app.command("forecast")(forecast.forecast_command)
app.command("negotiate")(negotiate.negotiate_command)
app.command("train")(train.train_command)
app.command("score")(score.score_command)
app.add_typer(budget_app, name="budget")
app.add_typer(reproduce_app, name="reproduce")
app.add_typer(owner_app, name="owner")
app.add_typer(learner_app, name="learner")
app.add_typer(certs_app, name="certs")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"parley {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)] = False,
) -> None:
    pass


def main() -> None:
    """Entry point of the `parley` command."""
    try:
        app()
    except ParleyError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def fail(sentence: str) -> None:
    """One sentence on stderr, exit code 2."""
    errors_console.print("[bold red]parley:[/bold red] ", end="")
    errors_console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    sys.exit(2)
