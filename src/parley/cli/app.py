"""The `parley` command, which loads each part when it is typed. A user's mistake is one sentence and exit code 2, never
a traceback."""

import difflib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from parley.durable import disk_error, disk_is_full, require_file, require_folder
from parley.errors import ParleyError
from parley.version import __version__
from parley.workflows.person import Declined

# by what help shows for them
INPUT_METAVARS = {
    "ADDRESSES",
    "CERTIFICATE",
    "FILES...",
    "FOLDER|TERMS",
    "HOST",
    "JSON",
    "MODEL",
    "OWNER",
    "OWNER|LEDGER",
    "REQUEST",
    "ROWS",
    "TABLE",
    "TERMS",
    "TERMS|MODEL",
    "TOML",
}
# by their names, which say more than FILE
INPUT_PARAMETERS = {"certificate", "points", "preparation", "public", "query_file", "table"}
OUTPUT_PARAMETERS = {
    "agreement",
    "checkpoint",
    "out",
    "plot",
    "plot_owners",
    "report",
    "save",
    "save_own",
    "shapes",
    "write",
}
# Typer's own names alone: newer versions bring a click of their own, which `import click` is not
Command = TyperCommand | TyperGroup


@dataclass(frozen=True)
class Part:
    """Where a command lives, and its line in `parley --help`."""

    module: str
    name: str  # of the function, or of the Typer app of a group
    line: str
    reads_terms: bool = False

    def load(self) -> Command:
        """Import and return the command."""
        found = getattr(import_module(f"parley.{self.module}"), self.name)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="rich", add_completion=False)
            alone.command()(found)
            found = alone
        return _with_path_checks(cast(Command, typer.main.get_command(found)))


def _with_path_checks(command: Command) -> Command:
    """Make the command check its paths before it runs, and hide environment variables in its messages."""
    for option in command.params:
        if isinstance(option, TyperOption):
            option.show_envvar = False
    if isinstance(command, TyperGroup):
        for part in command.commands.values():
            _with_path_checks(cast(Command, part))
    else:
        run = command.invoke

        def look_and_run(ctx: Any) -> Any:
            require_paths(ctx)
            try:
                return run(ctx)
            except Declined as answer:
                typer.echo(str(answer), err=True)
                raise typer.Exit(1) from None

        setattr(command, "invoke", look_and_run)  # noqa: B010 - of this one alone
    return command


PART_BY_COMMAND = {
    "demo": Part(
        "cli.demo",
        "demo",
        "Show how forty credit unions decide whether to train together: who gains, who must be paid, and the result.",
    ),
    "init": Part(
        "cli.init",
        "init_command",
        "Write terms for existing tables, and plan how to spend the owners' privacy budgets. The command reads column "
        "names, kinds and row counts from private tables.",
    ),
    "plan": Part(
        "cli.plan",
        "plan_command",
        "Choose the algorithm, rounds, step, clip and noise that are expected to give the best model for the terms' "
        "budgets. The command does not read private records.",
        reads_terms=True,
    ),
    "pin": Part(
        "cli.plan",
        "pin_command",
        "Freeze the preprocessing constants in a file next to the new terms, so that all machines use the same "
        "constants.",
        reads_terms=True,
    ),
    "forecast": Part(
        "cli.forecast",
        "forecast_command",
        "Forecast the joint model's worth to each owner from public knowledge, such as the terms and a public sample. "
        "Without --inside, the command does not read private records.",
        reads_terms=True,
    ),
    "negotiate": Part(
        "cli.negotiate",
        "negotiate_command",
        "Find the budgets that rational owners would choose, from public knowledge such as the terms and a public "
        "sample.",
        reads_terms=True,
    ),
    "column-stats": Part(
        "tasks.statistics.column_statistics.commands",
        "column_statistics_command",
        "Ask the owners how their columns are distributed, for terms without a public sample. Each answer is noisy and "
        "is debited in the ledger of the owner that gave it.",
        reads_terms=True,
    ),
    "heterogeneity": Part(
        "tasks.statistics.heterogeneity.commands",
        "heterogeneity_command",
        "Ask the owners how much they differ from each other, for a better forecast. Each answer is noisy and is "
        "debited in the ledger of the owner that gave it.",
        reads_terms=True,
    ),
    "count": Part(
        "tasks.statistics.counts.commands",
        "count_command",
        "Ask the owners how many records of each kind they have. Each answer consists of noisy whole numbers and is "
        "debited in the ledger of the owner that gave it.",
        reads_terms=True,
    ),
    "answers": Part(
        "tasks.statistics.counts.answer_commands",
        "answers_app",
        "Randomise answers on the devices of people who trust no other party, and estimate counts from the answers.",
    ),
    "train": Part(
        "cli.train", "train_command", "Train one joint model under the terms, on this machine.", reads_terms=True
    ),
    "predict": Part(
        "cli.predict",
        "predict_command",
        "Add a trained model's predictions to a copy of a table.",
    ),
    "recommend": Part(
        "tasks.ratings.commands",
        "recommend_command",
        "For one of the owner's users, recommend the unrated items with the highest expected ratings.",
        reads_terms=True,
    ),
    "score": Part(
        "cli.score",
        "score_command",
        "Use an owner's held-out rows to compare the joint model with the model that the owner can train alone.",
        reads_terms=True,
    ),
    "refine": Part(
        "cli.refine",
        "refine_command",
        "Personalise the joint model with your own rows.",
        reads_terms=True,
    ),
    "identify": Part(
        "tasks.dynamics.commands",
        "identify_command",
        "Estimate the matrices and the delay of the system x' = A x + B u(t - r) from samples of states and inputs.",
    ),
    "budget": Part(
        "cli.budget",
        "budget_app",
        "Explain what an epsilon means, add up the privacy costs of releases, and find the noise that a budget "
        "requires.",
    ),
    "audit": Part(
        "cli.audit",
        "audit_command",
        "Attack the terms' guarantee to show how much an attacker learns, and which faults the audit would notice.",
        reads_terms=True,
    ),
    "reproduce": Part(
        "cli.laboratory",
        "reproduce_app",
        "Recompute the figures and tables of a paper or thesis, and compare the results with the published values.",
    ),
    "owner": Part(
        "cli.owner",
        "owner_app",
        "For an organisation with a private table: create a ledger, accept terms, answer learners, and see how much "
        "budget was spent.",
    ),
    "host": Part(
        "cli.host",
        "host_app",
        "For a host (one of two or three parties that draw shared noise): keep a journal, accept terms, and run the "
        "daemon.",
    ),
    "learner": Part(
        "cli.learner",
        "learner_app",
        "For the analyst: propose terms to owners on other machines, and train a joint model with these owners.",
    ),
    "peer": Part(
        "cli.peer",
        "peer_app",
        "For an owner under gossip terms, which need no central learner: get noisy gradients from the owner's daemon, "
        "and mix parameters with neighbouring peers.",
    ),
    "studio": Part(
        "studio.command",
        "studio_command",
        "Open a web page on this machine to try terms, train models, read ledgers and audit guarantees. The web page "
        "contacts no other machine.",
    ),
    "certs": Part("cli.certs", "certs_app", "Make certificates that identify organisations to each other."),
    "man": Part(
        "cli.man",
        "man_command",
        "Write manual pages for all commands, to read with `man parley`, `man parley-train` and so on.",
    ),
}


OLD_NAMES = {"scales": "column-stats", "differences": "heterogeneity"}  # of commands; they are accepted


class _LazyCommand(TyperCommand):
    """A command that is loaded when somebody types it."""

    def __init__(self, name: str, part: Part) -> None:
        super().__init__(name, help=part.line)
        self._part = part

    def _refuse_bad_terms(self, args: list[str]) -> None:
        """Report a bad terms file before the command's libraries are loaded."""
        files = [word for word in args if word.endswith(".toml")]
        if self._part.reads_terms and len(files) == 1:  # with several, the command itself finds out which is which
            from parley.terms import load_terms

            load_terms(files[0])

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        if not extra.get("resilient_parsing"):  # words that a shell wants completed are no mistakes
            self._refuse_bad_terms(args)
        return self._part.load().make_context(info_name, args, parent, **extra)


class _LazyGroup(TyperGroup):
    """All commands, not yet loaded."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(PART_BY_COMMAND)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        near = difflib.get_close_matches(args[0], PART_BY_COMMAND, n=1)
        if args[0] not in (*PART_BY_COMMAND, *OLD_NAMES) and near:
            ctx.fail(f"No such command {args[0]!r}; did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        cmd_name = OLD_NAMES.get(cmd_name, cmd_name)
        return _LazyCommand(cmd_name, PART_BY_COMMAND[cmd_name]) if cmd_name in PART_BY_COMMAND else None


app = typer.Typer(
    cls=_LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="""Should we train together, on what privacy terms, and with what result?

    With Parley, organisations that own private tables train one joint model. Owners keep their data and only answer
    queries. Noise makes the answers differentially private, and each owner's ledger enforces the owner's budget.

    Start with [bold]parley demo[/bold], which writes example tables and terms. For your own files, start with
    [bold]parley init[/bold].""",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"parley {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def app_command() -> Command:
    """Return the `parley` command with all its subcommands."""
    return _with_path_checks(cast(Command, typer.main.get_command(app)))


def main() -> None:
    """Run the `parley` command."""
    try:
        app()
    except ParleyError as error:
        fail(str(error))
    except OSError as error:
        if disk_is_full(error):
            fail(str(disk_error(Path(error.filename or "a file"), error)))
        fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def fail(sentence: str) -> None:
    """Print one sentence on stderr and exit with code 2."""
    from parley.report.terminal import errors_console

    errors_console.print("[bold red]parley:[/bold red] ", end="")
    errors_console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    sys.exit(2)


# The others: DIR and FOLDER are made where they are missing, TERMS|HASH may be a hash, and the FILE of `owner backup`
# must not exist; `owner restore`, `host restore` and `certs show` look at theirs first.


def path_check(name: str, shown: str) -> Callable[[Path], None] | None:
    """Return the check for a path parameter of this name and metavar, or None. Inputs must exist and outputs need a
    place before libraries are loaded."""
    if name in OUTPUT_PARAMETERS and shown not in ("DIR", "FOLDER"):
        return require_folder
    if name in INPUT_PARAMETERS or shown in INPUT_METAVARS:
        return require_file
    return None


def require_paths(ctx: Any) -> None:
    """Check every path parameter; if Typer does not mark paths, the command itself finds missing files."""
    for param in ctx.command.params:
        kind = getattr(getattr(param, "type", None), "name", None)
        check = path_check(param.name, param.metavar or "") if kind in ("path", "file", "directory") else None
        value = ctx.params.get(param.name)
        for path in value if isinstance(value, tuple | list) else (value,):
            if check is not None and path is not None:
                check(Path(path))
