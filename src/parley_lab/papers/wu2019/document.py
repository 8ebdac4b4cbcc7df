"""`parley reproduce wu2019`: the figures of "The Value of Collaboration in Convex Machine Learning with Differential
Privacy"."""

from pathlib import Path
from typing import Annotated, Any

import typer

from parley.errors import SettingError
from parley_lab.papers.document import Asked, Document, Exhibit
from parley_lab.papers.options import AsJson, Jobs, Kind, Listing, Recorded, data, out, which
from parley_lab.papers.runner import show
from parley_lab.papers.wu2019.printed import PRINTED

MARKET_FILES = {"loans": ("lendingclub.parquet", 2), "cards": ("creditcard.parquet", 7)}
FIGURE_KINDS = (
    ("relative fitness against rounds, for three budgets", "paths", "paths"),
    ("relative fitness over size and budget", "surface", "surface"),
    ("relative fitness against the budget, and its slope", "against_budget", "slopes"),
    ("relative fitness against the size, and its slope", "against_size", "slopes"),
    ("banks 2 and 3 small or large, shy or eager", "scenarios", "scenarios"),
)
DOCUMENT = Document(
    "wu2019",
    tuple(
        Exhibit(
            "figure", f"{number}", f"{name}: {line}", f"value_of_collaboration:{kind}", f"pictures:{drawn}", data=file
        )
        for name, (file, first) in MARKET_FILES.items()
        for number, (line, kind, drawn) in enumerate(FIGURE_KINDS, first)
    ),
    findings=("The value of collaboration", ("published", "measured", "forecast")),
    title="The value of collaboration in convex machine learning with differential privacy (Wu et al., 2019)",
    printed=PRINTED,
)


def wu2019(
    figure: Annotated[list[str] | None, which("figure", "2 to 11")] = None,
    runs: Annotated[int, typer.Option(help="Runs of each cell; W has 100.")] = 100,
    points: Annotated[int, typer.Option(help="Sizes and budgets along each side of a surface.")] = 10,
    folder: Annotated[Path, out("Where figures (PNG) and their tables (CSV) go.")] = Path("wu2019"),
    real: Annotated[Path | None, data("lendingclub.parquet and creditcard.parquet")] = None,
    as_filed: Annotated[bool, typer.Option("--as-filed", help="Keep the order of the files, as W did.")] = False,
    jobs: Jobs = 1,
    kind: Kind = "png",
    as_json: AsJson = False,
    listing: Listing = False,
    record: Recorded = False,
) -> None:
    """Figures 2 to 11 of Wu, Farokhi, Smith and Kaafar again, each with the forecast drawn through it.

    Real loan and card data where they are at hand, else synthetic markets; the output says which. All figures with 100
    runs take about twenty minutes on two cores; one surface with 20 runs a minute or two.

    Example:  parley reproduce wu2019 --figure 3 --runs 20
    """
    if not points >= 3:
        raise SettingError(f"--points {points}: expected at least 3")

    def bench(request: Asked) -> Any:
        from parley_lab.papers.wu2019.value_of_collaboration import Markets

        return Markets(request.folder, request.scratch, runs, points, jobs, as_filed)

    show(
        DOCUMENT,
        bench,
        {"figure": figure},
        data=real,
        out=folder,
        as_json=as_json,
        listing=listing,
        record=record,
        kind=kind,
    )
