"""`parley owner`: what one organisation does with its own table - open its books, accept terms, serve, and look at what was spent."""

import json
import signal
import threading
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.extras import extras
from parley.cli.owner_books import backup_command, close_command, ledger_command, restore_command
from parley.cli.screen import console, errors_console
from parley.durable import create, exposed, make_folder
from parley.errors import CertificateError, SettingError, TermsError, UnknownTerms
from parley.exchange.acceptance import Acceptance, Acceptances
from parley.exchange.settings import load_owner
from parley.ledger import Ledger
from parley.report.tables import number, percent
from parley.terms import Terms, load_terms
from parley.validate import printable

if TYPE_CHECKING:
    from parley.owner import Agreement, Owner

owner_app = typer.Typer(
    no_args_is_help=True,
    help="""For an organisation that holds a private table: open its books, accept terms, serve, and look at what was spent.

    The table, the ledger and the noise stay with the owner's daemon. Learners bring it questions; it executes nothing it is sent.""",
)

SETTINGS = """\
# An owner's things. Paths are relative to this file.
name = {quoted}               # as in the terms
table = {table}
ledger = "{name}.ledger"      # what was promised and released: parley owner backup copies it, restore puts a copy back
accepted = "accepted"         # the terms that a person here accepted
listen = {listen}           # for learners with certificates; leave it out to stay off the network, [identity] is then not read
# socket = "/run/parley/{name}.sock"   # for relays on this machine (its owner and group may ask by terms accepted with --relay)
# cluster = "tls://10.0.0.7:8786"      # your own Dask scheduler: its workers read the pieces of a table that is a folder

[identity]                    # parley certs
authority = "ca.crt"
certificate = "{name}.crt"
key = "{name}.key"
revoked = "ca.crl"            # what the authority took back: put every new list of its in this place
"""

SettingsFile = Annotated[Path, typer.Argument(metavar="OWNER", help="The owner's settings, owner.toml.")]


@owner_app.command("init")
def init_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the owner's things will lie.")],
    name: Annotated[str, typer.Option(help="The owner's name, as in the terms.")],
    table: Annotated[Path, typer.Option(metavar="FILE", help="Its private table (.csv, .parquet, or a folder of .parquet files).")],
    lifetime: Annotated[float, typer.Option(metavar="EPS", help="The most that all agreements together may ever cost. For ever.")],
    lifetime_delta: Annotated[float, typer.Option(metavar="DELTA", help="The delta of that budget.")] = 0.0,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where learners reach it.")] = "0.0.0.0:7443",
) -> None:
    """Open the books of one table: settings and a ledger with its lifetime budget.

    Example:  parley owner init bank-a --name bank-a --table bank_a.parquet --lifetime 3
    """
    settings = folder / "owner.toml"
    if settings.exists():
        raise SettingError(f"{settings}: exists already; a table has one set of books")
    if not table.exists():
        raise SettingError(f"{table}: no such table")
    require_sole_books(folder, name, table)
    make_folder(folder)
    if exposed(folder):
        errors_console.print(
            f"{folder}: other accounts may look into this folder; chmod 700 {folder}", style="yellow", soft_wrap=True
        )
    quoted, where, address = (json.dumps(text) for text in (name, str(table.resolve()), listen))
    create(settings, SETTINGS.format(quoted=quoted, name=name, table=where, listen=address).encode())
    try:
        ledger = Ledger(load_owner(settings).ledger, lifetime, lifetime_delta)
    except BaseException:
        settings.unlink()
        raise
    ledger.close()
    console.print(f"{settings}  settings: look through them", soft_wrap=True)
    console.print(
        f"{ledger.path}  the ledger: lifetime budget ε = {number(lifetime)}, δ = {number(lifetime_delta)}", soft_wrap=True
    )
    console.print(f"Next: put ca.crt, ca.crl, {name}.crt and {name}.key beside them (parley certs request {name}).")


@owner_app.command("accept")
def accept_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms file that was agreed on.")],
    settings_file: Annotated[Path, typer.Option("--owner", metavar="OWNER", help="The owner's settings, owner.toml.")],
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The learner's certificate: only its key may ask, now and after renewals.")
    ] = None,
    relay: Annotated[bool, typer.Option("--relay", help="Let relays on this machine ask too (the settings' socket).")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: a person has read and agreed.")] = False,
) -> None:
    """Read what the terms promise and cost, and accept them. From then on the daemon answers by them, up to their budget.

    Example:  parley owner accept terms.toml --owner bank-a/owner.toml --certificate learner.crt
    """
    with extras():
        from parley.exchange.certificates import fingerprint, names, read_certificate, require_private, trusted_certificate
        from parley.exchange.daemon import open_owner
        from parley.exchange.reminders import ledger_warning
    settings, terms = load_owner(settings_file), load_terms(terms_file)
    if settings.identity is not None and settings.identity.key.exists():
        require_private(settings.identity.key)
    require_shared_sample(terms)
    learner, key = terms.learning.learner, None
    if certificate is not None:
        identity = settings.identity
        learner_certificate = read_certificate(certificate) if identity is None else trusted_certificate(certificate, identity)
        if learner not in names(learner_certificate):
            raise CertificateError(f"{certificate}: it is for {names(learner_certificate)}; the terms name {learner!r} as learner")
        key = fingerprint(learner_certificate)
    owner = open_owner(settings, accepting=terms.hash)
    warning = ledger_warning(settings.ledger)
    if warning is not None:
        errors_console.print(warning, style="yellow", markup=False, soft_wrap=True)
    agreement = owner.prepare(terms)
    for sentence in promise(owner, agreement, key, relay):
        console.print(sentence, markup=False, soft_wrap=True)
    require_books(owner).require_room(owner.reservation(terms))
    if not yes and not typer.confirm("Accept? This reserves the budget for ever", err=True):
        errors_console.print("Nothing was accepted.")
        raise typer.Exit(1)
    owner.accept(terms)
    Acceptances(settings.accepted).store(Acceptance(terms, key, relay))
    require_books(owner).remember()
    console.print(f"Accepted: terms {terms.hash[:16]}…")


@owner_app.command("serve")
def serve_command(settings_file: SettingsFile) -> None:
    """Answer learners until told to stop (SIGTERM or Ctrl-C). Logs are JSON lines on stderr, without data.

    Example:  parley owner serve bank-a/owner.toml
    """
    with extras():
        from parley.exchange.daemon import serve
        from parley.exchange.log import Log
    stop = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda number, frame: stop.set())
    with Log() as log:
        serve(load_owner(settings_file), stop, log)


owner_app.command("ledger")(ledger_command)
owner_app.command("backup")(backup_command)
owner_app.command("restore")(restore_command)
owner_app.command("close")(close_command)


def promise(owner: "Owner", agreement: "Agreement", key: str | None, relay: bool) -> list[str]:
    """What accepting means, in words."""
    from parley.accounting.meaning import approximate_posterior, posterior_bounds
    from parley.objectives.score import score_size

    terms, reservation = agreement.terms, owner.reservation(agreement.terms)
    model, learner = terms.model, printable(terms.learning.learner)
    lifetime, reserved = require_books(owner).lifetime, require_books(owner).reserved
    if terms.privacy.delta > 0:
        low, high, failure = approximate_posterior(float(reservation.epsilon), terms.privacy.delta, 0.5)
        unless = f", except with probability {number(failure)}"
    else:
        (low, high), unless = posterior_bounds(float(reservation.epsilon), 0.5), ""
    scored = ""
    if terms.privacy.score_epsilon is not None:
        scored = (
            f", and one score of the finished model: {score_size(model)} means over {len(agreement.held_out):,} held-out records, with "
            f"laplace noise for ε = {_eps(terms.score_epsilon)}, which training goes without"
        )
    callers = f"certificate of {learner!r}" + (f" with the key {key[:16]}…" if key else ", any key that the authority signed")
    columns = ", ".join(printable(column) for column in (*agreement.preparation.features, model.target))
    return [
        f"{printable(terms.title) or 'Untitled terms'}  (terms {terms.hash[:16]}…)",
        f"Learner: {learner}. Who may ask: the {callers}{'; relays on this machine' if relay else ''}.",
        f"Model: {model.kind} from the columns {columns}.",
        f"What leaves: {terms.learning.horizon} answers, each {_what_leaves(agreement)}, with {terms.privacy.mechanism} noise"
        f"{scored}. Nothing else.",
        f"What it promises every person in the table: ε = {number(float(reservation.epsilon))}, δ = {number(terms.privacy.delta)}. "
        f"Who believed something about a person with 50.0% ends between {percent(low)} and {percent(high)}{unless}.",
        f"What it costs: of the lifetime budget ε = {_eps(lifetime[0])}, {_eps(reserved[0])} is reserved already and "
        f"{'nothing more' if accepted(owner, terms) else _eps(reservation.epsilon)} would be now"
        f"{' (these terms are accepted)' if accepted(owner, terms) else ''}. It never comes back, whether asked for or not.",
    ]


def _what_leaves(agreement: "Agreement") -> str:
    """One answer in words."""
    learning, rows, numbers = agreement.terms.learning, f"{len(agreement.train):,} records", f"{agreement.train.width} numbers"
    if learning.asks_statistics:
        return f"a mean over {rows} as second moments"
    if learning.asks_updates:
        return f"the mean direction of {learning.local_steps} local steps, in which {rows} have their say, as vectors of {numbers}"
    return f"a mean over {rows} as vectors of {numbers}"


def accepted(owner: "Owner", terms: Terms) -> bool:
    """Whether the books hold these terms: accepting again changes only who may ask."""
    try:
        owner.ledger.account(terms.hash)
    except UnknownTerms:
        return False
    return True


def require_sole_books(folder: Path, name: str, table: Path) -> None:
    """Refuse to open a second set of books for one table, as far as it can be seen from here: in this folder and in its neighbours.

    Books elsewhere, or of a copy of the table, cannot be seen.
    """
    folder = folder.resolve()
    ledger = next((known for known in folder.glob("*.ledger") if known.name != f"{name}.ledger"), None)
    if ledger is not None:
        raise SettingError(f"{ledger}: the folder holds other books already; every table has its own folder")
    for known in (*folder.glob("*.toml"), *folder.parent.glob("owner.toml"), *folder.parent.glob("*/owner.toml")):
        try:
            content = tomllib.loads(known.read_text(encoding="utf-8"))
            same = "ledger" in content and (known.parent / str(content["table"])).samefile(table)
        except (OSError, ValueError, KeyError):
            continue  # not an owner's settings, or of a table that is gone
        if same:
            raise SettingError(
                f"{known}: opened the books of {table} already; a table has one lifetime budget, so go on with those"
            )


def require_shared_sample(terms: Terms) -> None:
    """Between organisations everybody must hold the same public sample, so the terms must say which one it is."""
    if terms.model.public is not None and terms.model.public_sha256 is None:
        raise TermsError(
            "model.public_sha256: missing; between organisations the terms must say which public sample all parties hold "
            "(sha256sum FILE)"
        )


def require_books(owner: "Owner") -> Ledger:
    """The durable ledger of an owner that serves."""
    if not isinstance(owner.ledger, Ledger):
        raise SettingError(f"{owner.name}: expected an owner with a durable ledger")
    return owner.ledger


def _eps(value: Fraction) -> str:
    return number(float(value))
