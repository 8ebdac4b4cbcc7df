"""`parley reproduce`: figures and tables of the source documents again, published beside recomputed."""

from collections.abc import Callable

import typer

from parley.errors import SettingError
from parley.report.terminal import console, print_json, terminal_table
from parley_lab.papers.aarhus2020 import document as aarhus2020
from parley_lab.papers.chase2017 import document as chase2017
from parley_lab.papers.document import Document
from parley_lab.papers.hitaj2017 import document as hitaj2017
from parley_lab.papers.listing import show_printed
from parley_lab.papers.options import AsJson, Listing
from parley_lab.papers.pejo2018 import document as pejo2018
from parley_lab.papers.wu2019 import document as wu2019
from parley_lab.papers.wu2019_thesis import document as wu2019_thesis
from parley_lab.papers.zawacki2024 import document as zawacki2024

COMMAND_BY_DOCUMENT: dict[Document, Callable[..., None]] = {
    wu2019.DOCUMENT: wu2019.wu2019,
    wu2019_thesis.DOCUMENT: wu2019_thesis.wu2019_thesis,
    aarhus2020.DOCUMENT: aarhus2020.aarhus2020,
    chase2017.DOCUMENT: chase2017.chase2017,
    hitaj2017.DOCUMENT: hitaj2017.hitaj2017,
    pejo2018.DOCUMENT: pejo2018.pejo2018,
    zawacki2024.DOCUMENT: zawacki2024.zawacki2024,
}
reproduce_app = typer.Typer(add_completion=False)
for document, command in COMMAND_BY_DOCUMENT.items():
    reproduce_app.command(document.name)(command)


@reproduce_app.callback(invoke_without_command=True)
def _reproduce(context: typer.Context, listing: Listing = False, as_json: AsJson = False) -> None:
    """Recompute the figures and tables of a paper or thesis, and compare the results with the published values.

    Without a document: every figure and table of all of them, whether it comes out here, and what to type for it.
    """
    if context.invoked_subcommand is None:
        show_printed(list(COMMAND_BY_DOCUMENT), as_json)
    elif listing or as_json:
        raise SettingError("--list, --json: expected after the document's name, or without one")


@reproduce_app.command("equations")
def equations_command(as_json: AsJson = False) -> None:
    """Printed equations that do not hold: each as printed, as mended, and what it should give."""
    from parley.numerals import number
    from parley_lab.papers.equations import equations

    found = equations()
    if as_json:
        print_json({"equations": [{**vars(each), "holds": each.holds} for each in found]}, inside=False)
        return
    rows = [["equation", "as printed", "mended", "truth"]]
    rows += [[f"{each.document} {each.where}", *map(number, (each.printed, each.mended, each.truth))] for each in found]
    console.print(terminal_table(rows, "Printed equations that do not hold"))
    console.print()
    for each in found:
        console.print(f"{each.document} {each.where}: {each.fault}. Case: {each.case}.", soft_wrap=True, markup=False)
