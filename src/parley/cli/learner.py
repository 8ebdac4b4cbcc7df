"""`parley learner`: train one joint model with owners that are elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live
from rich.table import Table

from parley.cli.extras import extras
from parley.cli.screen import console, errors_console, print_json, terminal_table
from parley.durable import require_folder
from parley.errors import SettingError
from parley.numerals import number
from parley.terms import Terms, load_terms
from parley.terms.arrivals import all_answers
from parley.validate import positive

if TYPE_CHECKING:
    from parley.exchange.federation import Federation, PeerStatus
    from parley.exchange.remote import Peer
    from parley.exchange.remote_host import RemoteHost
    from parley.learning.algorithm import State
    from parley.learning.checkpoint import Checkpoint
    from parley.learning.deployed import DeployedRun
    from parley.outcome import Result
    from parley.owner import Agreement

learner_app = typer.Typer(no_args_is_help=True, help="For the analyst who trains: run the rounds with owners that are elsewhere.")


@learner_app.command("run")
def run_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms that every owner accepted.")],
    owners: Annotated[Path, typer.Option(metavar="ADDRESSES", help="Where the owners are, addresses.toml.")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was interrupted.")] = False,
    deadline: Annotated[float, typer.Option(metavar="SECONDS", help="When an owner counts as late in a round.")] = 60.0,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the run is kept; left out: beside TERMS, named after it.")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the model as JSON.")] = None,
    save_own: Annotated[
        Path | None, typer.Option(metavar="FILE", help="An owner that learns: write its own refinement, which must never leave it.")
    ] = None,
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway",
            help="Spend budgets even on what is forecast to be worse than the zero model or the public sample's own (items of ratings: "
            "than what owners learn alone).",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train one joint model by the terms: the same rounds as `parley train`, with each owner behind its own daemon.

    A line that breaks, an owner that restarts or this command being killed costs no budget: questions are asked again and get the
    stored answers. Late owners are waited for, skipped or end the run as the terms say (quorum, straggler).

    Example:  parley learner run terms.toml --owners addresses.toml --save model.json
    """
    terms = load_terms(terms_file)  # before the libraries that the rest needs
    terms.require_shared_sample()
    for file in (save, save_own, checkpoint):
        require_folder(file)
    from parley.learning.deployed import learn, prepare_run

    kept = checkpoint if checkpoint is not None else terms_file.with_suffix(".checkpoint")
    if terms.learning.facts.factorizes:
        from parley.cli.ratings import run_ratings

        run_ratings(terms, kept, owners, resume, deadline, save, save_own, anyway, as_json)
        return
    run = prepare_run(terms, kept, save)
    begin = run.begin(resume)
    if not (resume or anyway):
        from parley.forecasting import require_worth, worth

        require_worth(worth(terms))
    federation, own = open_federation(run, begin, owners, deadline)
    if save_own is not None and own is None:
        federation.close()
        raise SettingError(f"--save-own: expected an owner as the learner, with its own table in {owners}")
    try:
        if not run.finished(begin):  # a finished run needs nobody
            federation.fetch_statements()
        with watched(terms, federation) as progress:
            result, unheard = learn(run, federation, begin, own, progress)
    finally:
        federation.close()
    if save_own is not None and result.own_model is not None:
        result.own_model.save(save_own)
    if as_json:
        print_json(
            result.to_json()
            | {"latency": {name: status.mean_seconds for name, status in federation.status.items()}, "unheard": unheard},
            inside=False,
        )
    else:
        show(result, federation, unheard)


@learner_app.command("flower")
def flower_command(folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the app is written.")]) -> None:
    """Write the app that runs the same terms over a Flower federation: `flwr run DIR`. Every party needs parley[flower].

    The owners' nodes are started with the path of their daemon's socket: --node-config 'socket="/run/parley/bank-a.sock"'.

    Example:  parley learner flower relay && flwr run relay here --run-config 'terms="terms.toml" save="model.json"'
    """
    with extras():
        from parley.learning.over_flower import write_app
    if folder.exists():
        raise SettingError(f"{folder}: exists already; nothing was overwritten")
    write_app(folder)
    console.print(
        f"{folder}  the app; its settings (terms, save, report, checkpoint, deadline) are in pyproject.toml", soft_wrap=True
    )


def open_federation(
    run: "DeployedRun", begin: "Checkpoint", owners: Path, deadline: float
) -> tuple["Federation", "Agreement | None"]:
    """Lines to everybody that a run asks, and the learner's own agreement if it is an owner with its table here."""
    with extras():
        from parley.exchange.federation import Federation
    terms = run.setup.terms
    peers, own = find_owners(terms, owners)
    patience = positive(deadline, "--deadline")
    if terms.asynchronous:
        from parley.exchange.arriving import Arriving

        return Arriving(run.setup, peers, patience, warn, begin.heads, begin.answers), own
    if not terms.shared:
        return Federation(run.setup, peers, patience, warn, begin.heads, begin.answers), own
    with extras():
        from parley.hosting.federation import SharedFederation
    return SharedFederation(run.setup, peers, find_hosts(terms, owners), patience, warn, begin.heads, begin.answers), own


def find_owners(terms: Terms, addresses: Path) -> tuple[list["Peer"], "Agreement | None"]:
    """Everybody to ask, and the learner's own agreement if it is an owner with its table here."""
    from parley.exchange.remote import LocalOwner, RemoteOwner
    from parley.identity.revocation_list import revoked_serials
    from parley.identity.settings import Pinned, load_addresses, load_owner
    from parley.identity.trust import check_identity
    from parley.serving.acceptance import Acceptances
    from parley.serving.daemon import open_delivery, open_owner
    from parley.serving.reminders import identity_reminders
    from parley.serving.service import open_agreement

    known = load_addresses(addresses)
    revoked = frozenset[int]()
    if known.identity is not None:
        check_identity(known.identity, terms.learning.learner)
        revoked = revoked_serials(known.identity)
        for sentence in identity_reminders(known.identity)():
            warn(sentence)
    peers: list[Peer] = []
    agreement = None
    for name, address in known.owners.items():
        if isinstance(address, str):
            peers.append(RemoteOwner(name, address, known.identity, revoked=revoked))
            continue
        if isinstance(address, Pinned):
            peers.append(RemoteOwner(name, address.address, known.identity, address.fingerprint, revoked))
            continue
        settings = load_owner(address.own)
        if not name == settings.name == terms.learning.learner:
            raise SettingError(
                f"{addresses}: owners.{name}: only the learner's own table ({terms.learning.learner!r}) can be in process"
            )
        owner = open_owner(settings)
        agreement = open_agreement(owner, Acceptances(settings.accepted), terms.hash)
        peers.append(LocalOwner(owner, open_delivery(settings)))
    return peers, agreement


def find_hosts(terms: Terms, addresses: Path) -> list["RemoteHost"]:
    """The hosts that the terms name, in their order."""
    from parley.exchange.host_lines import HostLines
    from parley.identity.settings import load_addresses

    known = load_addresses(addresses)
    names = [host.name for host in terms.hosts]
    if sorted(known.hosts) != sorted(names) or known.identity is None:
        raise SettingError(f"{addresses}: hosts: expected the addresses of {names}, found {sorted(known.hosts)}")
    group = HostLines(known.hosts, known.identity, f"{addresses}: hosts").group(terms.hosts)
    return [group.lines[host.name] for host in terms.hosts]


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
            rows.append([part.name, str(status.round or "–"), latency, number(float(status.statement.left), side="below")])
    every = f"answer {done} of {all_answers(terms)}" if terms.asynchronous else f"round {done} of {terms.learning.horizon}"
    return terminal_table(rows, every)


def show(result: "Result", federation: "Federation", unheard: list[str]) -> None:
    """The report of a deployed run."""
    from parley.cli.train import show_intervals, show_scores, show_target
    from parley.outcome.guarantee import guarantee, kind_of_run
    from parley.report.training import apart_line, remote_owner_rows, void_line

    console.print(kind_of_run(result), style="italic")
    console.print()
    latency = {name: status.mean_seconds for name, status in federation.status.items()}
    rows = remote_owner_rows(result, latency, unheard)
    console.print(terminal_table(rows, result.terms.title or "Owners"))
    console.print()
    show_intervals(result)
    show_scores(result)
    if (void := void_line(result)) is not None:
        console.print(void, style="yellow")
    if (apart := apart_line(result)) is not None:
        console.print(apart)
    show_target(result)
    console.print(guarantee(result), style="dim")
    if result.terms.model.holdout > 0:
        sentence = "What the model is worth to it each owner finds out inside: parley score MODEL TERMS --owner NAME --data TABLE"
        console.print(sentence, style="dim")
    console.print(f"terms {result.terms_hash[:16]}…   {result.seconds:.1f} s", style="dim")


def warn(sentence: str) -> None:
    """A remark on stderr."""
    errors_console.print(sentence, style="yellow", markup=False, soft_wrap=True)
