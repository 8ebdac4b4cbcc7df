"""What `parley score` does by terms of boosted trees."""

from pathlib import Path

from parley.learning.outcome.guarantee import INSIDE
from parley.numerals import number
from parley.owner.owner import Owner
from parley.report.terminal import console, print_json, progress_bar, terminal_table
from parley.terms import Terms


def score_trees(terms: Terms, model_file: Path, name: str | None, data: Path | None, as_json: bool) -> None:
    """How good the joint trees are for one owner, or for all, beside those it would learn alone without noise."""
    from parley.learning.outcome import load_model
    from parley.learning.owners import open_owners, table_of
    from parley.tasks.trees.measured import compared

    model = load_model(model_file)
    owners = open_owners(terms) if name is None else [Owner(name, table_of(terms.owner(name), data))]
    found = {}
    with progress_bar("alone and together, on own rows") as progress:
        for place, owner in enumerate(owners):
            progress(place, len(owners))
            found[owner.name] = compared(terms, owner, model)
    if as_json:
        rows = [{"name": called, "rows": held, **metrics} for called, (held, metrics) in found.items()]
        print_json({"owners": rows, "terms_hash": terms.hash}, inside=True)
        return
    for called, (held, metrics) in found.items():
        table = [[f"{held:,} held-out rows of {called}", *metrics]]
        table += [
            [key.replace("_", " "), *(number(each[key]) for each in metrics.values())] for key in metrics["alone"]
        ]
        console.print(terminal_table(table))
    console.print(INSIDE, style="dim")
