"""`parley owner`: what one organisation does with its own table - open its books, accept terms, serve, and look at what was spent."""

import json
import signal
import threading
import tomllib
from pathlib import Path
from typing import Annotated

import typer

from parley.cli.extras import extras
from parley.cli.owner_books import backup_command, close_command, ledger_command, restore_command
from parley.cli.screen import console, errors_console, print_json
from parley.durable import create, exposed, make_folder
from parley.errors import CertificateError, SettingError, TermsError
from parley.identity.settings import load_owner
from parley.ledger import Ledger
from parley.report.tables import number
from parley.serving.acceptance import Acceptance, Acceptances
from parley.terms import Terms, load_terms

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
# metrics = "127.0.0.1:9464"           # for your own Prometheus: /metrics, /ready, /healthy
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
    console.print(
        f"Next: put ca.crt, ca.crl and {name}.crt beside them; the key is made there and never copied: parley certs request {name} "
        f"--out {settings.parent}",
        soft_wrap=True,
    )


@owner_app.command("accept")
def accept_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms file that was agreed on.")],
    settings_file: Annotated[Path, typer.Option("--owner", metavar="OWNER", help="The owner's settings, owner.toml.")],
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The learner's certificate: only its key may ask, now and after renewals.")
    ] = None,
    relay: Annotated[bool, typer.Option("--relay", help="Let relays on this machine ask too (the settings' socket).")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: a person has read and agreed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object; what there is to read goes to stderr.")] = False,
) -> None:
    """Read what the terms promise and cost, and accept them. From then on the daemon answers by them, up to their budget.

    Example:  parley owner accept terms.toml --owner bank-a/owner.toml --certificate learner.crt
    """
    terms = load_terms(terms_file)  # before the libraries that the rest needs
    with extras():
        from parley.identity.certificates import fingerprint, names, read_certificate
        from parley.identity.trust import require_private, trusted_certificate
        from parley.serving.daemon import open_owner
        from parley.serving.reminders import ledger_warning
    from parley.doubts import doubts, figures
    from parley.promise import promise, require_books

    settings = load_owner(settings_file)
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
    screen = errors_console if as_json else console
    said, found = promise(owner, agreement, key, relay), doubts(owner, agreement)
    for sentence in said:
        screen.print(sentence, markup=False, soft_wrap=True)
    for doubt in found:
        errors_console.print(f"Look twice at {doubt.about}. {doubt.sentence}", style="yellow", markup=False, soft_wrap=True)
    require_books(owner).require_room(owner.reservation(terms))
    agreed = yes or typer.confirm("Accept? This reserves the budget for ever", err=True)
    if agreed:
        owner.accept(terms)
        Acceptances(settings.accepted).store(Acceptance(terms, key, relay))
        require_books(owner).remember()
        screen.print(f"Accepted: terms {terms.hash[:16]}…")
    else:
        errors_console.print("Nothing was accepted.")
    if as_json:
        about = {"terms": terms.hash, "title": terms.title, "learner": terms.learning.learner, "key": key, "relay": relay}
        content = {"promise": said, "figures": figures(agreement), "doubts": [vars(doubt) for doubt in found], "accepted": agreed}
        print_json({"owner": owner.name, **about, **content})
    if not agreed:
        raise typer.Exit(1)


@owner_app.command("serve")
def serve_command(settings_file: SettingsFile) -> None:
    """Answer learners until told to stop (SIGTERM or Ctrl-C). Logs are JSON lines on stderr, without data.

    Example:  parley owner serve bank-a/owner.toml
    """
    with extras():
        from parley.serving.daemon import serve
        from parley.serving.stderr import process_log
    stop = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda number, frame: stop.set())
    settings = load_owner(settings_file)
    with process_log() as log:
        serve(settings, stop, log)


owner_app.command("ledger")(ledger_command)
owner_app.command("backup")(backup_command)
owner_app.command("restore")(restore_command)
owner_app.command("close")(close_command)


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
