"""`parley reproduce wu2019-thesis`: the compensation games of Nan Wu's thesis, chapter 4."""

from pathlib import Path
from typing import Annotated

import typer

from parley.papers.document import Document, Exhibit
from parley.papers.options import AsJson, Listing
from parley.papers.runner import show
from parley.papers.wu2019_thesis.printed import PRINTED

LINE = "figures 4.2 and 4.3 (b, c): where best responses lead from several starts"
DOCUMENT = Document(
    "wu2019-thesis",
    (Exhibit("", "convergence", LINE, "convergence:shown", "pictures:convergence"),),
    title="Nan Wu's thesis (2019)",
    printed=PRINTED,
)


def wu2019_thesis(
    printed: Annotated[
        bool, typer.Option("--printed", help="Use the scale as printed instead of the mended one.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw figures 4.2 and 4.3 (b, c).")] = None,
    as_json: AsJson = False,
    listing: Listing = False,
) -> None:
    """Nan Wu, thesis (2019), chapter 4: owners' budgets converge in the leakage- and utility-compensation games.

    Example:  parley reproduce wu2019-thesis --plot convergence.png
    """
    show(DOCUMENT, lambda asked: printed, {}, plot=plot, as_json=as_json, listing=listing)
