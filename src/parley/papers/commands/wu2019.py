"""`parley reproduce wu2019`: the figures of "The Value of Collaboration in Convex Machine Learning with Differential Privacy"."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from parley.errors import SettingError
from parley.report.terminal import console, print_json, progress_bar, terminal_table


def wu2019(
    figure: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Which figure, 2 to 11; may be repeated. Left out: all.")
    ] = None,
    runs: Annotated[int, typer.Option(help="Runs of each cell; W has 100.")] = 100,
    points: Annotated[int, typer.Option(help="Sizes and budgets along each side of a surface.")] = 10,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where figures (PNG) and their tables (CSV) go.")] = Path("wu2019"),
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder with lendingclub.parquet and creditcard.parquet; left out: PARLEY_DATA."),
    ] = None,
    as_filed: Annotated[
        bool, typer.Option("--as-filed", help="Keep the order of the files, as W did: owners then differ from the pilot.")
    ] = False,
    jobs: Annotated[int, typer.Option(help="Parallel processes.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Figures 2 to 11 of Wu, Farokhi, Smith and Kaafar again, each with the forecast drawn through it.

    Real loan and card data where they are at hand, else synthetic markets; the output says which. All figures with 100 runs take about
    twenty minutes on two cores; one surface with 20 runs a minute or two.

    Example:  parley reproduce wu2019 --figure 3 --runs 20
    """
    from parley.papers.markets import data_folder
    from parley.papers.value_of_collaboration import FIGURES, reproduce
    from parley.report import figures

    if not points >= 3:
        raise SettingError(f"--points {points}: expected at least 3")
    folder = data_folder(data)
    with tempfile.TemporaryDirectory() as scratch, progress_bar("runs") as progress:
        result = reproduce(figure or list(FIGURES), folder, Path(scratch), runs, points, jobs, as_filed, progress)
    out.mkdir(parents=True, exist_ok=True)
    for number, drawing in result.figures.items():
        figures.save(drawing, out / f"figure-{number}.png")
    for name, table in result.tables.items():
        table.to_csv(out / f"{name}.csv", index=False)
    if as_json:
        keys = ("what", "published", "measured", "forecast")
        found = [dict(zip(keys, row, strict=True)) for row in result.findings]
        print_json({"findings": found, "notes": result.notes, "folder": str(out)}, inside=False)
        return
    for note in result.notes:
        console.print(note, style="dim", soft_wrap=True)
    if result.findings:
        console.print(terminal_table([["", "published", "measured", "forecast"], *result.findings], "The value of collaboration"))
    console.print(f"\nFigures and tables: [bold]{out}[/bold]", soft_wrap=True)
