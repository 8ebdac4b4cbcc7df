"""`parley audit`: attack what a terms file promises."""

from pathlib import Path
from typing import Annotated

import typer

from parley.durable import require_folder
from parley.report.terminal import console, print_json, progress_bar, terminal_table
from parley.terms import load_terms


def audit_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms file (TOML); no table is read.")],
    runs: Annotated[
        int, typer.Option(help="Runs by either of two tables: more of them prove more, in proportion to their time.")
    ] = 100_000,
    seed: Annotated[int | None, typer.Option(help="Makes an audit repeatable.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the attack beside the claim (.png, .svg, .pdf).")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page for a privacy officer (.html).")
    ] = None,
    tries: Annotated[
        int, typer.Option(min=0, help="Pairs of tables and questions that a search tries; 0: none.")
    ] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Attack what terms promise: how much of epsilon can be shown to leak, and which faults that would notice.

    Tables are made up that differ in one person; nobody's data are read. Exit code 1 if an owner's answers are shown to
    tell more than is claimed.

    Example:  parley audit parley-demo/terms.toml --report audit.html
    """
    from parley.audit import audit_terms
    from parley.report import audit as words
    from parley.report import figures

    terms = load_terms(terms_file)
    for file in (plot, report):
        require_folder(file)
    if plot is not None:
        figures.require_figure_name(plot)
    with progress_bar("looking for a canary") as progress:
        audit = audit_terms(terms, runs, seed, progress=progress, says=progress.says, tries=tries)
    if plot is not None:
        figures.save(words.audit_figure(audit.verdicts[0]), plot)
    if report is not None:
        report.write_text(words.audit_page(audit, terms), encoding="utf-8")
    if as_json:
        print_json(audit.to_json(), inside=False)
    else:
        console.print(terminal_table(words.owner_rows(audit), terms.title or "Owners"))
        if audit.exact:
            console.print()
            console.print(terminal_table(words.exact_rows(audit)))
        for found, rows in ((audit.search, words.search_rows(audit)), (audit.hosts, words.host_rows(audit))):
            if found:
                console.print()
                console.print(terminal_table(rows))
        console.print()
        for sentence in (*words.learned(audit), words.promised(audit.verdicts[0])):
            console.print(sentence, markup=False, soft_wrap=True)
        console.print(f"{words.MADE_UP} {words.NOT_TRIED}", style="dim", markup=False, soft_wrap=True)
        console.print(f"terms {terms.hash[:16]}…   {audit.seconds:.1f} s", style="dim")
    if not audit.holds:
        raise typer.Exit(1)
