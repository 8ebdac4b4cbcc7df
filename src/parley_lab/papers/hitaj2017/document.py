"""`parley reproduce hitaj2017`: an owner draws likenesses of another owner's digit with a generator trained against the
joint network."""

from pathlib import Path
from typing import Annotated, Any

import typer

from parley.report.extras import extras
from parley_lab.papers.document import Asked, Document, Exhibit
from parley_lab.papers.hitaj2017.printed import PRINTED
from parley_lab.papers.options import AsJson, Kind, Listing, Recorded, data, out
from parley_lab.papers.runner import show

DOCUMENT = Document(
    "hitaj2017",
    (
        Exhibit(
            "figure",
            "digits",
            "a generator trained against the joint network, by what hides the victim",
            "exhibits:digits",
            "pictures:digits",
            data="mnist.npz",
        ),
    ),
    adjacency=None,
    title="Deep models under the GAN (Hitaj, Ateniese and Perez-Cruz, 2017)",
    printed=PRINTED,
)


def hitaj2017(
    target: Annotated[int, typer.Option(help="The victim's digit that is drawn, 0 to 4.")] = 3,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="ε of a record for the whole run; repeatable. Default: 8, 1.")
    ] = None,
    owner_epsilon: Annotated[float, typer.Option(help="ε where the unit is the owner, all its images.")] = 8.0,
    rounds: Annotated[int, typer.Option(help="Rounds of learning together.")] = 400,
    rows: Annotated[int, typer.Option(help="Images of either owner.")] = 3000,
    batch: Annotated[int, typer.Option(help="Images that a round draws on average.")] = 128,
    side: Annotated[int, typer.Option(help="Pixels of an image's side: 14, or 28 as MNIST has it.")] = 14,
    images: Annotated[int | None, typer.Option(help="Images of which all are chosen; left out: all there are.")] = None,
    runs: Annotated[int, typer.Option(help="Runs of each.")] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    folder: Annotated[Path | None, out("Where the figure (PNG) goes.")] = None,
    real: Annotated[Path | None, data("mnist.npz")] = None,
    kind: Kind = "png",
    as_json: AsJson = False,
    listing: Listing = False,
    record: Recorded = False,
) -> None:
    """Hitaj, Ateniese and Perez-Cruz (2017): two owners learn one network of digits; one draws what the other's digit
    looks like.

    Without protection, with noise that hides a record, and with noise that hides the owner; beside it a control, whose
    generator is trained against a network that never learned. About three and a half minutes of one core.

    Example:  parley reproduce hitaj2017 --epsilon 8 --rounds 200 --out digits
    """

    def bench(request: Asked) -> Any:
        from parley_lab.papers.aarhus2020.digits import load_digits

        with extras():
            from parley_lab.papers.hitaj2017.exhibits import Study
            from parley_lab.papers.hitaj2017.parties import Protection, Settings

        settings = Settings(side, rows, batch, rounds, target=target, device=device)
        records = [Protection(each) for each in epsilon or (8.0, 1.0)]
        hidden = (Protection(), *records, Protection(owner_epsilon, "owner"))
        return Study(load_digits(request.folder, images), settings, hidden, runs)

    show(DOCUMENT, bench, {}, data=real, out=folder, as_json=as_json, listing=listing, record=record, kind=kind)
