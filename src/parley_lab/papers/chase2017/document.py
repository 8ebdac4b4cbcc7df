"""`parley reproduce chase2017`: the two tables of Chase et al. (2017) that A section 2.1 prints."""

from pathlib import Path
from typing import Annotated, Any

import typer

from parley.report.extras import extras
from parley_lab.papers.chase2017.printed import PRINTED
from parley_lab.papers.document import Asked, Document, Exhibit
from parley_lab.papers.options import AsJson, Listing, Recorded, data, out, which
from parley_lab.papers.runner import show

DOCUMENT = Document(
    "chase2017",
    (
        Exhibit("table", "1", "accuracy by ε: the small network", "tables:table", data="mnist.npz"),
        Exhibit("table", "2", "accuracy by ε: the large network", "tables:table", data="mnist.npz"),
    ),
    findings=("What it says", ("published", "ours")),
    title="Private collaborative neural network learning (Chase et al., 2017), as A quotes it",
    printed=PRINTED,
)


def chase2017(
    table: Annotated[list[str] | None, which("table", "1 or 2")] = None,
    runs: Annotated[int, typer.Option(help="Runs of each place of a table.")] = 3,
    epochs: Annotated[int, typer.Option(help="Epochs of a run; the paper has 50.")] = 50,
    images: Annotated[int | None, typer.Option(help="Images to learn from; left out: all.")] = None,
    batch: Annotated[int, typer.Option(help="Images that a step draws on average.")] = 2500,
    clip: Annotated[float, typer.Option(help="Largest L2 norm of an image's gradient; sets all norms' clips.")] = 0.1,
    step: Annotated[float, typer.Option(help="First step's length in L2; steps shrink along half a cosine.")] = 8.0,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; left out: cuda where there is one.")] = None,
    folder: Annotated[Path, out("Where tables (CSV) go.")] = Path("chase2017"),
    real: Annotated[Path | None, data("mnist.npz")] = None,
    as_json: AsJson = False,
    listing: Listing = False,
    record: Recorded = False,
) -> None:
    """Tables 1 and 2 of Chase et al. (2017), private networks on MNIST: accuracy at ε = 0.5, 2, 8 for the whole run,
    δ = 10⁻³.

    Gradients are clipped in Linf, L1 or L2, with the same Gaussian noise. Beside them stand a pure ε by L1 and Laplace
    noise, and A's reading: ε of one step. The published δ lies above 1/n: with that much, a mechanism that gives a few
    persons away would pass. The paper prints neither widths, rates nor clips: these are our own.

    Example:  parley reproduce chase2017 --table 1 --images 2000 --epochs 10 --batch 200 --runs 1
    """

    def bench(request: Asked) -> Any:
        from parley_lab.papers.aarhus2020.digits import load_digits

        with extras():
            from parley_lab.papers.chase2017.tables import Runs, Settings

        settings = Settings(runs, epochs, batch, clip, step, device)
        return Runs(load_digits(request.folder, images), settings)

    show(DOCUMENT, bench, {"table": table}, data=real, out=folder, as_json=as_json, listing=listing, record=record)
