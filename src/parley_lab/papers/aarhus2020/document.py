"""`parley reproduce aarhus2020`: the tables and figures of the Aarhus report on private collaborative machine
learning."""

from pathlib import Path
from typing import Annotated, Any

import typer

from parley_lab.papers.aarhus2020.printed import PRINTED
from parley_lab.papers.document import Asked, Document, Exhibit
from parley_lab.papers.options import AsJson, Kind, Listing, Recorded, data, out, which
from parley_lab.papers.runner import show

TABLE_TITLES = ("alone, L1 clip and Laplace noise", "alone, L2 clip and Gaussian noise", "together, L1", "together, L2")


def _exhibit(option: str, word: int, line: str, compute: str, draw: str | None = None) -> Exhibit:
    return Exhibit(option, str(word), line, f"tables:{compute}", draw and f"pictures:{draw}", data="mnist.npz")


DOCUMENT = Document(
    "aarhus2020",
    (
        *(_exhibit("table", place, f"accuracy by ε: {line}", "table") for place, line in enumerate(TABLE_TITLES, 3)),
        Exhibit(
            "figure",
            "4",
            "the laws of one answer where the truth is 100 or 101; two coins",
            "output_laws:shown",
            "output_law_pictures:laws",
        ),
        _exhibit("figure", 5, "tables 3 and 5: accuracy against ε, L1", "curves", "curves"),
        _exhibit("figure", 6, "tables 4 and 6: accuracy against ε, L2", "curves", "curves"),
        _exhibit("figure", 7, "weights of every digit, no noise", "weights", "pictures"),
        _exhibit("figure", 8, "weights of every digit at ε = 0.2 a step", "weights", "pictures"),
        _exhibit("figure", 9, "weights of digit 0 as ε rises", "zeros", "pictures"),
    ),
    findings=("What it says", ("published", "ours")),
    adjacency=None,
    title="Privacy preserving machine learning (Aarhus, course project, 2020)",
    printed=PRINTED,
)


def aarhus2020(
    table: Annotated[list[str] | None, which("table", "3 to 6")] = None,
    figure: Annotated[list[str] | None, which("figure", "4 to 9")] = None,
    runs: Annotated[int, typer.Option(help="Runs of each place of a table; the report has one.")] = 3,
    epochs: Annotated[int, typer.Option(help="Epochs of a run; the report has 50.")] = 50,
    images: Annotated[int | None, typer.Option(help="Images to learn from; left out: all.")] = None,
    folder: Annotated[Path, out("Where figures (PNG) and tables (CSV) go.")] = Path("aarhus2020"),
    real: Annotated[Path | None, data("mnist.npz")] = None,
    jobs: Annotated[int, typer.Option(help="Parallel processes, about 2 GB each.")] = 1,
    kind: Kind = "png",
    as_json: AsJson = False,
    listing: Listing = False,
    record: Recorded = False,
) -> None:
    """Tables 3 to 6 and figures 4 to 9 of the Aarhus report (2020): private gradient descent on MNIST, alone and
    together.

    Its epsilon is that of one step; beside it stands what all epochs cost a person whose record is replaced. Without
    --table and --figure all are made: 14 minutes of one core with --runs 1, 20 with 3. Alone and together are compared
    by ten runs each, whatever --runs says.

    Example:  parley reproduce aarhus2020 --table 4 --runs 1
    """

    def bench(request: Asked) -> Any:
        if request.names == ("figure-4",):  # it needs no digits
            return None
        from parley_lab.papers.aarhus2020.digits import load_digits
        from parley_lab.papers.aarhus2020.tables import Runs

        return Runs(load_digits(request.folder, images), request.names, runs, epochs, jobs, request.progress)

    wanted = {"table": table, "figure": figure}
    show(DOCUMENT, bench, wanted, data=real, out=folder, as_json=as_json, listing=listing, record=record, kind=kind)
