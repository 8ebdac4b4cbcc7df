"""`parley reproduce aarhus2020`: the tables and figures of the Aarhus report on private collaborative machine learning."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.report.terminal import console, print_json, progress_bar, terminal_table

if TYPE_CHECKING:
    import pandas as pd

    from parley.papers.aarhus_report import Reproduction

HEAD = {
    "epsilon": "ε as published",
    "step": "ε a step, replaced",
    "total": "total ε, δ = 0.001",
    "published": "published %",
    "ours": "ours %",
    "sd": "sd",
    "own_noise": "own noise %",
    "softmax": "softmax %",
}


def aarhus2020(
    table: Annotated[list[int] | None, typer.Option(metavar="N", help="Which table, 3 to 6; may be repeated.")] = None,
    figure: Annotated[list[int] | None, typer.Option(metavar="N", help="Which figure, 5 to 9; may be repeated.")] = None,
    runs: Annotated[int, typer.Option(help="Runs of each place of a table; the report has one.")] = 3,
    epochs: Annotated[int | None, typer.Option(help="Epochs of a run; left out: 50, as in the report.")] = None,
    images: Annotated[int | None, typer.Option(help="Images to learn from; left out: all.")] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where figures (PNG) and tables (CSV) go.")] = Path("aarhus2020"),
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder with mnist.npz; left out: PARLEY_DATA.")] = None,
    jobs: Annotated[int, typer.Option(help="Parallel processes, about 2 GB each.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Tables 3 to 6 and figures 5 to 9 of the Aarhus report (2020): private gradient descent on MNIST, alone and together.

    Its epsilon is that of one step; beside it stands what all epochs cost a person whose record is replaced. Without --table and --figure
    all are made: 14 minutes of one core with --runs 1, 20 with 3. Alone and together are compared by ten runs each, whatever --runs says.

    Example:  parley reproduce aarhus2020 --table 4 --runs 1
    """
    from parley.papers import digits
    from parley.papers.aarhus_report import FIGURES, reproduce
    from parley.papers.collaborative_descent import EPOCHS, TABLES
    from parley.papers.markets import data_folder
    from parley.report import figures

    everything = not table and not figure
    tables, numbers = (list(TABLES), list(FIGURES)) if everything else (table or [], figure or [])
    with progress_bar("cells") as progress:
        result = reproduce(
            digits.load_digits(data_folder(data), images),
            tables,
            numbers,
            runs,
            EPOCHS if epochs is None else epochs,
            jobs,
            progress,
        )
    out.mkdir(parents=True, exist_ok=True)
    for number, drawing in result.figures.items():
        figures.save(drawing, out / f"figure-{number}.png")
    for name, content in result.tables.items():
        content.to_csv(out / f"{name}.csv", index=False)
    if as_json:
        found = [dict(zip(("what", "published", "ours"), row, strict=True)) for row in result.findings]
        rows = {
            name: content.round(6).astype(object).where(content.notna(), None).to_dict("records")
            for name, content in result.tables.items()
        }
        print_json({"tables": rows, "findings": found, "notes": result.notes, "folder": str(out)}, inside=False)
        return
    _print(result, out)


def _print(result: "Reproduction", out: Path) -> None:
    from parley.papers.collaborative_descent import TABLES

    for note in result.notes:
        console.print(note, style="dim", soft_wrap=True)
    for name, content in result.tables.items():
        if name.startswith("table-"):
            number = int(name.removeprefix("table-"))
            who, norm = TABLES[number]
            console.print()
            console.print(terminal_table(_rows(content), f"Table {number}: {who}, {norm.upper()}"))
    if result.findings:
        console.print()
        console.print(terminal_table([["", "published", "ours"], *result.findings], "What it says"))
    console.print(f"\nFigures and tables: [bold]{out}[/bold]", soft_wrap=True)


def _rows(table: "pd.DataFrame") -> list[list[str]]:
    import pandas as pd

    columns = [column for column in HEAD if column in table.columns]
    body = [
        [f"{row[c]:.3g}" if c in ("epsilon", "step", "total") else "" if pd.isna(row[c]) else f"{row[c]:.1f}" for c in columns]
        for _, row in table.iterrows()
    ]
    return [[HEAD[column] for column in columns], *body]
