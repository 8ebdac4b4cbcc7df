"""What `parley score` and `parley forecast` do by terms of an echo-state network."""

from pathlib import Path

from parley.errors import SettingError
from parley.learning.outcome.guarantee import INSIDE
from parley.numerals import number
from parley.owner.owner import Owner
from parley.report.terminal import console, print_json, progress_bar, terminal_table
from parley.terms import Terms


def score_reservoir(terms: Terms, model_file: Path, name: str | None, data: Path | None, as_json: bool) -> None:
    """How good the joint read-out is for one owner, or for all, beside the one it would solve alone without noise: on
    held-out recordings, or on the new ones of --data."""
    from parley.learning.outcome import load_model
    from parley.learning.owners import open_owners, table_of
    from parley.tasks.reservoir.measured import compared

    model = load_model(model_file)
    owners = open_owners(terms) if name is None else [Owner(name, table_of(terms.owner(name), None))]
    found = {}
    with progress_bar("alone and together, on recordings") as progress:
        for place, owner in enumerate(owners):
            progress(place, len(owners))
            found[owner.name] = compared(terms, owner, model, None if data is None else str(data))
    if as_json:
        rows = [{"name": called, "recordings": many, **metrics} for called, (many, metrics) in found.items()]
        print_json({"owners": rows, "terms_hash": terms.hash}, inside=True)
        return
    for called, (many, metrics) in found.items():
        table = [[f"{many:,} {'held-out' if data is None else 'new'} recordings, {called}", *metrics]]
        table += [[key, *(number(each[key]) for each in metrics.values())] for key in metrics["alone"]]
        console.print(terminal_table(table))
    console.print(INSIDE, style="dim")


def forecast_reservoir(terms: Terms, pilot: Path | None, as_json: bool) -> None:
    """Refuse: nothing forecasts a read-out yet."""
    raise SettingError(
        "echo-state networks: nothing forecasts a read-out yet; parley train without --ledgers simulates it"
    )
