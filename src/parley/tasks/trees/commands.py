"""What `parley score` does by terms of boosted trees."""

from collections.abc import Mapping
from pathlib import Path

from parley.learning.outcome.guarantee import INSIDE
from parley.learning.outcome.metrics import Metrics
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
        if (said := _better(called, metrics)) is not None:
            console.print(said, style="bold", markup=False, soft_wrap=True)
    console.print(INSIDE, style="dim")


def _better(owner: str, metrics: Mapping[str, Metrics]) -> str | None:
    """Which trees serve this owner's own rows better, in one sentence."""
    key = "r2" if "r2" in metrics["alone"] else "auc"
    together, alone = metrics["together"][key], metrics["alone"][key]
    if together is None or alone is None:
        return None
    best = "together" if together > alone else "alone"
    said = f"Better for {owner}'s own rows: {best} ({key} {number(together)} together, {number(alone)} alone)."
    return (
        f"{said} The joint trees are worse than always predicting the mean." if key == "r2" and together < 0 else said
    )
