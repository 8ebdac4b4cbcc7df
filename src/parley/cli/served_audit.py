"""`parley audit TERMS --served DIR`: attack an owner's daemon over its own interface, on tables made for that."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from parley.durable import require_folder, write_file
from parley.errors import SettingError
from parley.report.extras import extras
from parley.report.terminal import console, print_json, progress_bar, terminal_table
from parley.terms import Terms

if TYPE_CHECKING:
    from parley.audit.served.noise_law import ServedVerdict


@dataclass(frozen=True)
class ServedOptions:
    """What is audited, and how it is started."""

    folder: Path | None
    owner: str | None = None
    tables: int | None = None
    program: str | None = None
    address: str | None = None

    def check(self, plot: Path | None) -> None:
        """Refuse options that do nothing."""
        if self.folder is not None and plot is not None:
            raise SettingError("--plot: there is nothing to draw of a served owner; --report writes a page")
        if self.folder is None and self != ServedOptions(None):
            raise SettingError("--owner, --tables, --program and --at are for --served DIR")
        if self.address is not None and (self.tables, self.program) != (None, None):
            raise SettingError("--at: expected without --tables and --program: somebody else starts that daemon")


def audit_a_daemon(
    terms: Terms, options: ServedOptions, folder: Path, seed: int | None, report: Path | None, as_json: bool
) -> None:
    """Make the tables, start the daemon or reach the one that runs, and print the verdict; exit code 1 if it is
    broken."""
    require_folder(report)
    name = terms.owners[0].name if options.owner is None else terms.owner(options.owner).name
    with extras():
        from parley.audit.served import attack as served
        from parley.audit.served.table import PROGRAM
    if options.address is not None and not folder.exists():
        _prepare(terms, name, folder, options.address, seed)
        return
    with progress_bar(f"asking {name}") as progress:
        if options.address is not None:
            verdict = served.audit_address(terms, name, folder, options.address, progress=progress)
        else:
            program = PROGRAM if options.program is None else shlex.split(options.program)
            tables = served.FEWEST if options.tables is None else options.tables
            verdict = served.audit_served(terms, name, folder, tables, program, seed, progress=progress)
    _show(terms, verdict, report, as_json)
    if not verdict.holds:
        raise typer.Exit(1)


def _prepare(terms: Terms, name: str, folder: Path, address: str, seed: int | None) -> None:
    """An audit table for a daemon that somebody else starts."""
    from parley.audit.served.attack import prepare

    table = prepare(terms, name, folder, address, seed)
    console.print(f"{table.settings_file.parent}  the audit table, its ledger and its certificates", soft_wrap=True)
    console.print(
        f"Next: serve it as production is served (parley owner serve {table.settings_file}), then type the same "
        "command again.",
        soft_wrap=True,
    )


def _show(terms: Terms, verdict: "ServedVerdict", report: Path | None, as_json: bool) -> None:
    from parley.report.pages.audit_page import served_page
    from parley.report.words import audit as words

    if report is not None:
        write_file(report, served_page(verdict, terms))
    if as_json:
        found = {"title": terms.title, "terms_hash": terms.hash, "holds": verdict.holds, "seconds": verdict.seconds}
        print_json({**found, "owners": [verdict.to_json()]}, inside=False)
        return
    console.print(terminal_table(words.served_rows(verdict), f"{verdict.owner}, served"))
    console.print()
    for sentence in words.served_sentences(verdict):
        console.print(sentence, markup=False, soft_wrap=True)
    console.print(f"{words.TABLES} {words.LIMITS}", style="dim", markup=False, soft_wrap=True)
    console.print(f"terms {terms.hash[:16]}…   {verdict.seconds:.1f} s", style="dim")
