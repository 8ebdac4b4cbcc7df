"""`parley host`: for a party that adds up owners' shares and draws noise with two others."""

import json
import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from parley.cli.extras import extras
from parley.cli.screen import console, errors_console
from parley.durable import create, exposed, make_folder
from parley.errors import CertificateError, LedgerError, SettingError
from parley.identity.settings import load_host
from parley.terms import Terms, load_terms

host_app = typer.Typer(
    no_args_is_help=True,
    help="""For one of three parties that draw one noise for everybody: keep a journal, accept terms, serve.

    A host sees two of the three shares of every answer, and so nothing; two hosts together see everything.""",
)

SETTINGS = """# Settings of a host. Paths are relative to this file.
name = {quoted}              # as in the terms ([[hosts]]) and on the certificate
journal = "{name}.journal"    # what was opened, for ever; keep it: two hosts that lose theirs could open a question twice
accepted = "accepted"         # terms that a person here accepted
listen = {listen}           # for owners, the learner and the other hosts, with certificates
# metrics = "127.0.0.1:9465"           # for your own Prometheus: /metrics, /ready, /healthy

[peers]                       # where the two other hosts are
# host-b = "host-b.example:7444"
# host-c = "host-c.example:7444"

[identity]                    # parley certs
authority = "ca.crt"
certificate = "{name}.crt"
key = "{name}.key"
revoked = "ca.crl"            # what the authority took back: put every new list of its in this place
"""


@host_app.command("init")
def init_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the host's things will lie.")],
    name: Annotated[str, typer.Option(help="The host's name, as in the terms.")],
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the others reach it.")] = "0.0.0.0:7444",
) -> None:
    """Write the settings and an empty journal.

    Example:  parley host init host-a --name host-a
    """
    from parley.hosting.journal import Journal

    settings = folder / "host.toml"
    if settings.exists():
        raise SettingError(f"{settings}: exists already; a host has one journal")
    make_folder(folder)
    if exposed(folder):
        errors_console.print(
            f"{folder}: other accounts may look into this folder; chmod 700 {folder}", style="yellow", soft_wrap=True
        )
    create(settings, SETTINGS.format(quoted=json.dumps(name), name=name, listen=json.dumps(listen)).encode())
    try:
        journal = Journal(load_host(settings).journal)
    except BaseException:
        settings.unlink()
        raise
    journal.close()
    console.print(f"{settings}  settings: fill in where the other hosts are", soft_wrap=True)
    console.print(f"{journal.path}  the journal", soft_wrap=True)
    console.print(
        f"Next: put ca.crt, ca.crl and {name}.crt beside them; the key is made there and never copied: parley certs request {name} "
        f"--out {settings.parent}",
        soft_wrap=True,
    )


@host_app.command("accept")
def accept_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms file that was agreed on.")],
    settings_file: Annotated[Path, typer.Option("--host", metavar="HOST", help="The host's settings, host.toml.")],
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The learner's certificate: only its key may ask, now and after renewals.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: a person has read and agreed.")] = False,
) -> None:
    """Read what the terms ask of a host, and accept them.

    Example:  parley host accept terms.toml --host host-a/host.toml --certificate learner.crt
    """
    terms = load_terms(terms_file)
    with extras():
        from parley.hosting.journal import Journal
        from parley.identity.certificates import fingerprint, names
        from parley.identity.trust import trusted_certificate
        from parley.serving.acceptance import Acceptance, Acceptances
    settings = load_host(settings_file)
    terms.require_shared_sample()
    learner, key = terms.learning.learner, None
    if certificate is not None:
        shown = trusted_certificate(certificate, settings.identity)
        if learner not in names(shown):
            raise CertificateError(f"{certificate}: it is for {names(shown)}; the terms name {learner!r} as learner")
        key = fingerprint(shown)
    for sentence in promise(terms, settings.name):
        console.print(sentence, markup=False, soft_wrap=True)
    acceptances, journal = Acceptances(settings.accepted), Journal(settings.journal)
    if terms.hash in acceptances.hashes() and not journal.begun(terms.hash):
        raise LedgerError(f"{settings.journal}: these terms were accepted with another journal; put that one back")
    if not (yes or typer.confirm("Accept?", err=True)):
        errors_console.print("Nothing was accepted.")
        raise typer.Exit(1)
    journal.begin(terms.hash)
    journal.close()
    acceptances.store(Acceptance(terms, key))
    console.print(f"Accepted: terms {terms.hash[:16]}…")


@host_app.command("serve")
def serve_command(settings_file: Annotated[Path, typer.Argument(metavar="HOST", help="The host's settings, host.toml.")]) -> None:
    """Serve until told to stop (SIGTERM or Ctrl-C). Logs are JSON lines on stderr, without data.

    Example:  parley host serve host-a/host.toml
    """
    with extras():
        from parley.hosting.daemon import serve
        from parley.serving.stderr import process_log
    stop = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda number, frame: stop.set())
    settings = load_host(settings_file)
    with process_log() as log:
        serve(settings, stop, log)


def promise(terms: Terms, name: str) -> list[str]:
    """What accepting means for a host, in words; refused if the terms do not name it."""
    from parley.hosting.duty import duty_of
    from parley.setup import resolve

    duty = duty_of(resolve(terms))
    index = duty.index(name)
    shapes = " and ".join(f"{shape.law} noise for {shape.size:,} numbers" for shape in duty.ahead)
    others = " and ".join(host for place, host in enumerate(duty.hosts) if place != index)
    return [
        f"You are host {index} of {len(duty.hosts)} for {len(terms.owners)} owners; the others are {others}.",
        f"In each of {duty.rounds} rounds you add up the owners' shares, draw {shapes} with the others, and send your part of the noisy "
        f"sum to {terms.learning.learner}: one sum a round, for ever.",
        "You see two of three shares of every answer, which tell nothing. Whoever sees what two hosts see, sees every answer: keep your "
        "machine, key and journal to yourself.",
    ]
