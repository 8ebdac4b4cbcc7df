"""`parley reproduce wu2019-thesis`: the compensation games of Nan Wu's thesis, chapter 4, and its bound 2.3."""

from pathlib import Path
from typing import Annotated

import typer

from parley.errors import SettingError
from parley_lab.papers.document import Document, Exhibit
from parley_lab.papers.options import AsJson, Listing, Recorded
from parley_lab.papers.runner import show
from parley_lab.papers.wu2019_thesis.printed import PRINTED

DOCUMENT = Document(
    "wu2019-thesis",
    (
        Exhibit(
            "figure",
            "convergence",
            "figures 4.2 and 4.3 (b, c): where best responses lead from several starts",
            "convergence:shown",
            "pictures:convergence",
        ),
        Exhibit(
            "figure",
            "payoffs",
            "figures 4.2 and 4.3 (a): one owner's payoff over its own budget",
            "payoffs:shown",
            "pictures:payoffs",
        ),
        Exhibit(
            "figure",
            "bound",
            "equation 2.3: the chance of a right guess, beside the best mechanism's in exact fractions",
            "count_bound:shown",
            "pictures:bound",
        ),
    ),
    title="Nan Wu's thesis (2019)",
    printed=PRINTED,
)


def wu2019_thesis(
    figure: Annotated[
        list[str] | None,
        typer.Option(
            "--figure", metavar="WORD", help="convergence (4.2, 4.3 b, c), payoffs (4.2, 4.3 a) or bound (2.3)."
        ),
    ] = None,
    printed: Annotated[
        bool, typer.Option("--printed", help="Use the scale as printed instead of the mended one.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the figure.")] = None,
    as_json: AsJson = False,
    listing: Listing = False,
    record: Recorded = False,
) -> None:
    """Nan Wu, thesis (2019), chapter 4: owners' budgets converge in the leakage- and utility-compensation games.

    Example:  parley reproduce wu2019-thesis --plot convergence.png

    Example:  parley reproduce wu2019-thesis --figure payoffs --plot payoffs.png
    """
    if plot is not None and len(figure or ()) > 1:
        raise SettingError("--plot: needs one --figure, which is drawn there")
    usual = DOCUMENT.exhibits[:1]
    show(
        DOCUMENT,
        lambda request: printed,
        {"figure": figure},
        usual,
        plot=plot,
        as_json=as_json,
        listing=listing,
        record=record,
    )
