"""`parley refine`: an owner's personal model, from the joint model and its own rows."""

from pathlib import Path
from typing import Annotated

import typer

from parley.report.terminal import console, print_json, progress_bar, terminal_table
from parley.terms import load_terms


def refine_command(
    model_file: Annotated[
        Path, typer.Argument(metavar="MODEL", help="The joint model, as `parley train --save` wrote it.")
    ],
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms it was trained by.")],
    owner: Annotated[str, typer.Option(help="Whose own rows.")],
    save: Annotated[
        Path, typer.Option(metavar="FILE", help="Where the personal model goes. It must stay with the owner.")
    ],
    data: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Its table; left out: `data` in the terms.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Make the joint model your own: correct it as far as your own rows bear it out that your people differ.

    A ridge towards the joint model, then boosted trees of own rows on top of it, then trees without it;
    cross-validation on the owner's training rows says how much of each is kept. Where it shows no gain beyond a
    standard error, the joint model stays as it is. Held-out rows are not touched, so `parley score` can judge the
    outcome. Nothing is spent and nothing leaves; the personal model has no guarantee and must stay inside.

    Example:  parley refine model.json terms.toml --owner bank-a --save own.json
    """
    from parley.learning.outcome import load_model, refine
    from parley.learning.outcome.guarantee import INSIDE
    from parley.learning.owners import table_of
    from parley.owner.owner import Owner
    from parley.protocol.task import task_of
    from parley.report.words.verdict import personal_sentence, way_rows

    terms = load_terms(terms_file)
    if (own := task_of(terms).command("refine")) is not None:
        own(terms, model_file, owner, data, save, as_json)
        return
    model = load_model(model_file)
    part = terms.owner(owner)
    with progress_bar("judged by own rows, which correction is best"):
        own, how = refine(model, terms, Owner(owner, table_of(part, data)))
    own.save(save)
    if as_json:
        print_json({"owner": owner, "saved": str(save), "terms_hash": terms.hash, **how.to_json()}, inside=True)
        return
    unit = own.preparation_.target_scale**2  # so that costs are those of `parley score`
    console.print(terminal_table(way_rows(how, unit)))
    console.print(personal_sentence(owner, how, unit), soft_wrap=True)
    console.print(f"Saved: [bold]{save}[/bold]", soft_wrap=True)
    console.print(INSIDE, style="dim")
