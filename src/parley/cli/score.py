"""`parley score`: an owner judges the joint model on its own held-out rows."""

from pathlib import Path
from typing import Annotated

import typer

from parley.durable import write_file
from parley.errors import SettingError
from parley.report.terminal import console, print_json, progress_bar, terminal_table
from parley.terms import load_terms


def score_command(
    model_file: Annotated[
        Path, typer.Argument(metavar="MODEL", help="The joint model, as `parley train --save` wrote it.")
    ],
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms it was trained by.")],
    owner: Annotated[str | None, typer.Option(help="Which owner judges.")] = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="All owners of the terms, each by its own `data` on this machine.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Its table; left out: `data` in the terms.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page about it (.html), for the owner's own eyes.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Is the joint model better for us? Scored on the owner's own held-out rows, beside the model it can train alone.

    Beside them stands the owner's personal model, as `parley refine` makes it of the joint one; the model alone is what
    the same procedure makes without it. What `parley refine` saved can be scored as MODEL, too. Owners differ, so a
    forecast for all is not a verdict for each.
    What this prints is computed from private rows: keep it inside.

    Example:  parley score model.json terms.toml --owner bank-a
    """
    from parley.learning.outcome import load_model, score
    from parley.learning.outcome.guarantee import INSIDE
    from parley.learning.owners import open_owners, table_of
    from parley.owner.owner import Owner
    from parley.protocol.task import task_of
    from parley.report.words.verdict import explained, headline, owners_rows, owners_sentence, verdict_rows

    if everyone == (owner is not None):
        raise SettingError("--owner NAME or --all: expected one of the two")
    terms = load_terms(terms_file)
    if (own := task_of(terms).command("score")) is not None:
        if report is not None:
            raise SettingError(f"--report: expected none for {terms.task}, whose figures --json has")
        own(terms, model_file, owner, data, as_json)
        return
    model = load_model(model_file)
    if owner is None:
        owners = open_owners(terms)
        verdicts = []
        with progress_bar("owners") as progress:
            for place, one in enumerate(owners):
                progress(place, len(owners))
                verdicts.append(score(terms, one, model))
        if report is not None:
            from parley.report.pages.run_page import owners_page

            write_file(report, owners_page(verdicts, terms))
        if as_json:
            print_json(
                {"owners": [verdict.row_to_json() for verdict in verdicts], "terms_hash": terms.hash}, inside=True
            )
            return
        console.print(terminal_table(owners_rows(verdicts)))
        console.print(f"\n[bold]{owners_sentence(verdicts)}[/bold]", soft_wrap=True)
        console.print(INSIDE, style="dim")
        return
    with progress_bar("alone, together and personal, on own rows"):
        verdict = score(terms, Owner(owner, table_of(terms.owner(owner), data)), model)
    if report is not None:
        from parley.report.pages.run_page import verdict_page

        write_file(report, verdict_page(verdict, terms))
    if as_json:
        print_json(verdict.to_json(), inside=True)
        return
    console.print(terminal_table(verdict_rows(verdict)))
    console.print(f"\n[bold]{headline(verdict)}[/bold]", soft_wrap=True)
    for line in explained(verdict):
        console.print(line, markup=False, soft_wrap=True)
    if verdict.target_words is not None:
        console.print(verdict.target_words, style="dim", markup=False)
    console.print(INSIDE, style="dim")
