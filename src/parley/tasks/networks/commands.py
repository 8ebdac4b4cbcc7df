"""What `parley score` does by terms of networks."""

from pathlib import Path

from parley.learning.outcome.guarantee import INSIDE
from parley.numerals import number
from parley.owner.owner import Owner
from parley.report.extras import extras
from parley.report.terminal import console, print_json, terminal_table
from parley.terms import Terms


def score_network(terms: Terms, model_file: Path, name: str | None, data: Path | None, as_json: bool) -> None:
    """How good the joint network is for one owner, or for all, on rows that it was not learned from."""
    from parley.learning.outcome import load_model
    from parley.learning.owners import open_owners, table_of

    with extras():
        from parley.tasks.networks.measured import own_metrics

        model = load_model(model_file)
    owners = open_owners(terms) if name is None else [Owner(name, table_of(terms.owner(name), data))]
    found = {owner.name: own_metrics(terms, owner, model) for owner in owners}
    if as_json:
        rows = [{"name": called, "rows": held, "together": metrics} for called, (held, metrics) in found.items()]
        print_json({"owners": rows, "terms_hash": terms.hash}, inside=True)
        return
    for called, (held, metrics) in found.items():
        table = [[f"{held:,} held-out rows of {called}", "together"]]
        console.print(terminal_table(table + [[key.replace("_", " "), number(each)] for key, each in metrics.items()]))
    console.print(INSIDE, style="dim")
