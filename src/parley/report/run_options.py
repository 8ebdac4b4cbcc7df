"""Options and helpers shared by the commands that ask owners for something other than a model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.errors import SettingError
from parley.numerals import number
from parley.privacy.events import Adjacency
from parley.report.extras import extras
from parley.report.sheet import Line, lines
from parley.report.terminal import console, errors_console, warn
from parley.terms import Terms, write_terms
from parley.validate import printable

if TYPE_CHECKING:
    from parley.learning.deployed import Asked, DeployedRun
    from parley.owner.owner import Owner


@dataclass(frozen=True)
class RunOptions:
    """The options of `parley train` and `parley learner run`, for tasks with their own version of these commands."""

    ledgers: Path | None = None
    lifetime: float | None = None
    lifetime_delta: float | None = None
    addresses: Path | None = None  # of owners elsewhere
    resume: bool = False
    deadline: float = 60.0
    seed: int | None = None
    replicates: int = 1
    checkpoint: Path = Path()
    save: Path | None = None
    save_own: Path | None = None
    anyway: bool = False
    other_books: str | None = None  # why tables may have another ledger


Agreement = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Only write the agreement, for owners on other machines to accept.")
]
Ledgers = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Release the result and debit each DIR/NAME.ledger. Default: only simulate.",
    ),
]
Lifetime = Annotated[
    float | None,
    typer.Option(metavar="EPS", help="With --ledgers: permanent lifetime epsilon of new ledgers."),
]
LifetimeDelta = Annotated[
    float | None, typer.Option(metavar="DELTA", help="With --lifetime: the delta of the lifetime budget (default: 0).")
]
OtherBooks = Annotated[
    str | None,
    typer.Option(metavar="REASON", help="With --ledgers: the stored reason why tables may have another ledger."),
]
Addresses = Annotated[
    Path | None,
    typer.Option(metavar="ADDRESSES", help="Ask accepting owners at the addresses in this file (addresses.toml)."),
]
Expect = Annotated[
    str | None, typer.Option(metavar="HASH", help="Stop unless the terms' hash begins with HASH (at least 8 digits).")
]
Resume = Annotated[bool, typer.Option("--resume", help="With --owners: resume an interrupted run.")]
Deadline = Annotated[
    float, typer.Option(metavar="SECONDS", help="With --owners: time after which an owner counts as late.")
]
Seed = Annotated[int | None, typer.Option(help="Seed of a simulation's noise.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def require_one_way(options: RunOptions) -> None:
    """Refuse a combination of release, simulation and owners elsewhere."""
    if options.addresses is not None and (options.ledgers is not None or options.seed is not None):
        raise SettingError(
            "--owners: not allowed with --ledgers or --seed, because owners on other machines use their own ledgers "
            "and unseeded noise; remove --ledgers and --seed"
        )
    if options.ledgers is not None and options.seed is not None:
        raise SettingError(
            "--seed: not allowed with --ledgers, because a release needs unseeded noise; remove --seed, or remove "
            "--ledgers to simulate"
        )


def only_agreement(agreed: Terms, file: Path | None) -> bool:
    """Write the agreement and say what it is for, if a file was named; then nobody is asked."""
    if file is not None:
        write_terms(agreed, file)
        console.print(
            f"{file}  Next, every owner accepts the file: parley owner accept {file} --owner OWNER", soft_wrap=True
        )
    return file is not None


def announce_release(terms: Terms, ledgers: Path, lifetime: float | None, lifetime_delta: float | None) -> None:
    """Say before a release whom the terms may not protect, and which ledgers it creates."""
    from parley.learning.owners import unnamed_people

    warning = unnamed_people(terms)
    if warning is not None:
        warn(warning.line)
    announce_ledgers(terms, ledgers, lifetime, lifetime_delta)


def announce_ledgers(terms: Terms, ledgers: Path, lifetime: float | None, lifetime_delta: float | None) -> None:
    """Say before a release which ledgers it creates; they are permanent."""
    from parley.learning.owners import missing_ledgers
    from parley.report.words.ledgers import made_words

    missing = missing_ledgers(terms, ledgers)
    if missing and lifetime is not None:
        errors_console.print(
            made_words(missing, str(ledgers), lifetime, lifetime_delta or 0.0), markup=False, soft_wrap=True
        )


def owners_here(terms: Terms, options: RunOptions) -> "list[Owner]":
    """Return the owners on this machine, for a simulation or with the ledgers that a release debits."""
    from parley.learning.owners import accepting_owners, open_owners

    if options.ledgers is None:
        return open_owners(terms)
    books = options.ledgers, options.lifetime, options.lifetime_delta
    return accepting_owners(terms, *books, lambda: announce_ledgers(terms, *books), options.other_books, options.anyway)


def ask_owners_elsewhere(prepare: "Callable[[], DeployedRun]", terms: Terms, options: RunOptions) -> "Asked":
    """Run a prepared run with the owners at these options' addresses, and return their answers."""
    from parley.learning.deployed import ask_elsewhere, open_federation
    from parley.report.terminal import watched

    if options.addresses is None:
        raise SettingError("--owners: missing; give the file with the owners' addresses (--owners addresses.toml)")
    run = prepare()
    begin = run.begin(options.resume)
    with extras():
        federation, _ = open_federation(run, begin, options.addresses, options.deadline, warn)
    try:
        if not run.finished(begin):
            federation.fetch_statements()
        with watched(terms, federation) as progress:
            return ask_elsewhere(run, federation, begin, progress)
    finally:
        federation.close()


def unheard_lines(names: Sequence[str]) -> list[Line]:
    """Say which remote owners did not report their final spending."""
    said = (
        f"{name} did not report how much budget it spent. Only the ledger of {name} shows the spent budget."
        for name in names
    )
    return lines(said, "yellow", folded=True)


def cost_sentence(agreed: Terms, released: bool) -> str:
    """Say whether this agreement released something, and what that costs every owner."""
    from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE

    promised = {owner.name: number(agreed.promised_epsilon(owner.name), side="above") for owner in agreed.owners}
    same, delta = len({*promised.values()}) == 1, number(agreed.privacy.delta, side="above")
    each = ", ".join(f"{epsilon} for {printable(name)}" for name, epsilon in promised.items())
    cost = (
        f"ε = {next(iter(promised.values())) if same else each}, δ = {delta} for every owner ({Adjacency.REPLACE_ONE})"
    )
    if not released:
        return (
            "Simulation, not a release: the noise was seeded and no ledger was debited. A release under these terms "
            f"costs {cost}. {KEEP_INSIDE_NOTE}"
        )
    return f"Released: {cost}. Each owner debited each answer in its ledger before sending the answer."


def left_sentence(ready: Terms) -> str:
    """Say how much of the budgets is left for learning."""
    budgets = ", ".join(f"{owner.name} {number(owner.epsilon, side='below')}" for owner in ready.owners)
    return f"Remaining ε: {budgets}. Remaining δ: {number(ready.privacy.delta, side='below')}."
