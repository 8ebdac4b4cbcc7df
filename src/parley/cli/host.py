"""`parley host`: for a party that adds up owners' shares and draws noise with the other hosts."""

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from parley.cli import acceptance
from parley.network.identity.settings import load_host
from parley.numerals import counted
from parley.report.extras import extras
from parley.report.terminal import console, errors_console, print_json, progress_bar, terminal_table
from parley.report.words.ledgers import chain_line, journal_rows
from parley.terms import load_terms

host_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="""For a host (one of two or three parties that draw
shared noise): keep a journal, accept terms, and run the daemon.

    A host sees one of two shares, or two of three shares, of every answer, and learns nothing from these shares. Two
    hosts together can read all owners' exact sums.""",
)


@host_app.command("init")
def init_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New folder for the host's settings and journal.")],
    name: Annotated[str, typer.Option(help="The host's name, as in the terms.")],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address at which other parties reach the host.")
    ] = "0.0.0.0:7444",
) -> None:
    """Write a host's settings and an empty journal.

    Example:  parley host init host-a --name host-a
    """
    with extras():
        from parley.network.hosting.offer import open_host
    settings = open_host(folder, name, listen)
    acceptance.warn_if_exposed(folder)
    console.print(f"{folder / 'host.toml'}  settings: fill in the other hosts' addresses", soft_wrap=True)
    console.print(f"{settings.journal}  the journal", soft_wrap=True)
    acceptance.show_certificates_next(folder, name)


@host_app.command("accept")
def accept_command(
    terms_file: acceptance.TermsFile,
    settings_file: Annotated[Path, typer.Option("--host", metavar="HOST", help="The host's settings, host.toml.")],
    certificate: acceptance.Certificate = None,
    yes: acceptance.Yes = False,
    as_json: acceptance.AsJson = False,
) -> None:
    """Read what the terms require of a host, and accept the terms.

    Example:  parley host accept terms.toml --host host-a/host.toml --certificate learner.crt
    """
    terms = load_terms(terms_file)
    with extras():
        from parley.network.hosting.offer import consider
    offer = consider(terms, load_host(settings_file), certificate)
    acceptance.show_summary(offer, as_json)
    acceptance.accept_or_exit(offer, terms.hash, yes or typer.confirm("Accept?", err=True), as_json, inside=False)


@host_app.command("restore")
def restore_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A copy of the journal, or the rolled-back journal.")],
    settings_file: Annotated[Path, typer.Option("--host", metavar="HOST", help="The host's settings, host.toml.")],
    yes: acceptance.Yes = False,
) -> None:
    """Replace the journal with a copy. Every agreement in the copy and in the folder of acceptances ends: the host
    opens nothing more under them, and serves new agreements only. Stop the daemon before you restore the journal. The
    command keeps the replaced journal next to the new one.

    Example:  parley host restore /backup/host-a.journal --host host-a/host.toml
    """
    with extras():
        from parley.network.hosting.offer import restore
    settings = load_host(settings_file)
    if not yes and not typer.confirm(
        f"Every existing agreement of {settings.name} ends, and its unopened rounds are lost. Restore?", err=True
    ):
        errors_console.print("Nothing was restored.")
        raise typer.Exit(1)
    restored = restore(file, settings)
    console.print(
        f"{settings.journal}  {counted(restored.head.entries, 'row')}, chain unbroken, "
        f"{counted(restored.closed, 'agreement')} closed",
        soft_wrap=True,
    )
    if restored.aside is not None:
        console.print(f"{restored.aside}  the replaced journal", soft_wrap=True)


@host_app.command("serve")
def serve_command(
    settings_file: Annotated[Path, typer.Argument(metavar="HOST", help="The host's settings, host.toml.")],
) -> None:
    """Run the host's daemon until SIGTERM or Ctrl-C. The daemon logs messages, but never records, as JSON lines on
    stderr.

    Example:  parley host serve host-a/host.toml
    """
    with extras():
        from parley.network.hosting.daemon import serve
        from parley.network.serving.log import process_log
    stop = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda number, frame: stop.set())
    settings = load_host(settings_file)
    with process_log() as log:
        serve(settings, stop, log)


@host_app.command("journal")
def journal_command(
    settings_file: Annotated[Path, typer.Argument(metavar="HOST", help="The host's settings, host.toml.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show each agreement's opened, aborted and waiting rounds, and check the journal's chain. The command also works
    while the host's daemon runs.

    Example:  parley host journal host-a/host.toml
    """
    with extras():
        from parley.network.hosting.offer import statement
    with progress_bar("checking the chain"):
        content = statement(load_host(settings_file))
    if as_json:
        print_json(content, inside=False)
        return
    console.print(terminal_table(journal_rows(content), f"Journal of {content['host']}"))
    console.print(chain_line(content), style="dim")
