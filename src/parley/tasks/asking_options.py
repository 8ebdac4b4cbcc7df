"""What the commands share that ask owners for something else than a model: options, and owners that are elsewhere."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.errors import SettingError
from parley.report.extras import extras
from parley.report.terminal import console
from parley.terms import Terms, write_terms

if TYPE_CHECKING:
    from parley.learning.asking import Asked
    from parley.learning.deployed import DeployedRun

Agreement = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Only write the agreement by which this is asked, for owners elsewhere to accept; ask nobody."
    ),
]
Ledgers = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Release: debit every owner's ledger, DIR/NAME.ledger. Without, this is a simulation."),
]
Lifetime = Annotated[
    float | None,
    typer.Option(metavar="EPS", help="With --ledgers: make the ledgers that are missing, with this lifetime budget, for ever."),
]
LifetimeDelta = Annotated[
    float | None, typer.Option(metavar="DELTA", help="With --lifetime: the delta of that budget; left out: 0.")
]
Addresses = Annotated[
    Path | None,
    typer.Option(metavar="ADDRESSES", help="Ask owners that are elsewhere, addresses.toml; they accepted the agreement."),
]
Resume = Annotated[bool, typer.Option("--resume", help="With --owners: go on with a run that was interrupted.")]
Deadline = Annotated[float, typer.Option(metavar="SECONDS", help="With --owners: when one counts as late in a round.")]
Seed = Annotated[int | None, typer.Option(help="Of a simulation's noise.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def require_one_way(ledgers: Path | None, addresses: Path | None, seed: int | None) -> None:
    """Refuse a release, a simulation and owners elsewhere at once."""
    if addresses is not None and (ledgers is not None or seed is not None):
        raise SettingError("--owners: expected neither --ledgers nor --seed beside it: owners elsewhere have ledgers of their own")
    if ledgers is not None and seed is not None:
        raise SettingError("--seed belongs to simulations; leave it out, or leave out --ledgers")


def only_agreement(asked: Terms, file: Path | None) -> bool:
    """Write the agreement and say what it is for, where a file was named; nobody is asked then."""
    if file is not None:
        write_terms(asked, file)
        console.print(f"{file}  every owner accepts it: parley owner accept {file} --owner OWNER", soft_wrap=True)
    return file is not None


def elsewhere(prepare: "Callable[[], DeployedRun]", terms: Terms, addresses: Path, resume: bool, deadline: float) -> "Asked":
    """Ask the owners at these addresses by a prepared run."""
    from parley.learning.asking import ask_elsewhere
    from parley.learning.connections import open_federation
    from parley.report.watching import warn, watched

    run = prepare()
    begin = run.begin(resume)
    with extras():
        federation, _ = open_federation(run, begin, addresses, deadline, warn)
    try:
        if not run.finished(begin):
            federation.fetch_statements()
        with watched(terms, federation) as progress:
            return ask_elsewhere(run, federation, begin, progress)
    finally:
        federation.close()
