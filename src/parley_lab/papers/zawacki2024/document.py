"""`parley reproduce zawacki2024`: chapters 3, 4, 6, 8 and 9 of "Studies in Differential Privacy and Federated
Learning"."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from parley_lab.papers.document import Asked, Document, Exhibit
from parley_lab.papers.options import AsJson, Kind, Listing, Recorded, data, out, which
from parley_lab.papers.runner import show
from parley_lab.papers.zawacki2024.printed import PRINTED
from parley_lab.papers.zawacki2024.settings import NetworkTrials, Trials


def _noise(kind: str, draw: str | None, **lines: str) -> tuple[Exhibit, ...]:
    return tuple(Exhibit("figure", word, line, f"noise:{kind}", draw) for word, line in lines.items())


def _accuracy(word: str, line: str) -> Exhibit:
    line = f"FedAvg, SCAFFOLD, FedLin, FedInfer: {line}"
    return Exhibit("figure", word, line, "accuracy:paths", "pictures:accuracy_paths")


def _echo(word: str, line: str, name: str, draw: str) -> Exhibit:
    line = f"an echo-state network's series: {line}"
    return Exhibit("figure", word, line, f"echo_state:{name}", f"echo_state_pictures:{draw}")


def _networks(word: str, line: str, data: str) -> Exhibit:
    options = ("rows", "epochs", "device")
    return Exhibit("table", word, f"{line}: accuracy, ε in three readings", "network_tables:table", None, options, data)


CHART, CURVES = "pictures:chart", "parley.report.figures.curves:privacy_curves"
DOCUMENT = Document(
    "zawacki2024",
    (
        *_noise("beliefs", None, **{"2.2": "what a reader may believe afterwards, by ε"}),
        *_noise("chart", CHART, **{"3.4": "privacy loss of one coordinate, by α", "3.5": "the same, by scale"}),
        *_noise(
            "chart", CHART, **{"3.6": "ε by scale, in one coordinate and in all", "3.7": "ε of Cauchy noise, by scale"}
        ),
        *_noise("chart", CHART, **{"3.8": "E|noise| by α"}),
        *_noise("distortions", None, **{"table-3.1": "E|noise| at scale 1, published and computed"}),
        *_noise("best", CHART, **{"best-alpha": "the α of least distortion for a fixed ε"}),
        *_noise("curves", CURVES, **{"4.1": "δ by ε at scale 1"}),
        *_noise("trained", CHART, **{"4.5": "accuracy of a network by the scale of its noise, at table 4.3"}),
        *_noise("curves", CURVES, **{"4.6": "ε by scale, composed and sampled", "4.7": "ε by scale, for several δ"}),
        *_noise("curves", CURVES, **{"4.8": "ε by scale, for several compositions", "4.9": "δ by ε, once and twice"}),
        *_noise("curves", CURVES, **{"4.10": "ε by scale, for several samplings", "4.11": "δ by ε, all and sampled"}),
        *_noise("trained", CHART, **{"4.12": "accuracy of a network by ε, at table 4.3"}),
        _echo("6.3", "the series itself", "series", "series"),
        _echo("6.4", "guesses of it from what is sent, step by step", "evolution", "evolution"),
        _echo("6.5", "how near they are, step by step", "errors", "errors"),
        _echo("6.6", "as ten attackers find it without noise", "recovered", "guesses"),
        _echo("6.7", "as ten attackers find it with noise", "protected", "guesses"),
        _accuracy("8.2", "two Gaussians, no noise"),
        _accuracy("8.3", "two Gaussians"),
        _accuracy("8.5", "Iris, dealt at random"),
        _accuracy("8.6", "Iris, each client an expert"),
        _accuracy("8.7", "breast cancer, dealt at random"),
        _accuracy("8.8", "breast cancer, staggered clients"),
        Exhibit(
            "figure",
            "9.1",
            "feedback for a plant whose inputs arrive late",
            "delayed_control:shown",
            "pictures:feedback",
        ),
        _networks("4.1", "a network on MNIST with stable noise", "mnist.npz"),
        _networks("4.3", "a network on CIFAR-10 with stable noise", "cifar-10-batches-bin, or cifar10.npz"),
        _networks("4.5", "VGG-11 on chest X-rays with stable noise", "pneumoniamnist.npz"),
    ),
    title="Studies in differential privacy and federated learning (C. C. Zawacki's dissertation, 2024)",
    printed=PRINTED,
)


def zawacki2024(
    figure: Annotated[list[str] | None, which("figure", "2.2 to 9.1, as --list has them")] = None,
    table: Annotated[list[str] | None, which("table", ", ".join(DOCUMENT.words("table")))] = None,
    trials: Annotated[int | None, typer.Option(help="Trials of each method in chapter 8, or of a table's row.")] = None,
    splits: Annotated[int, typer.Option(help="Draws of the data: error bars are theirs.")] = 4,
    totals: Annotated[bool, typer.Option(help="Also at equal total budgets.")] = True,
    seed: Annotated[int, typer.Option(help="Makes it repeatable.")] = 0,
    rows: Annotated[int | None, typer.Option(help="Images that a table's networks learn from; left out: all.")] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Epochs of a table's networks; left out: as many as published.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda. Default: cuda where there is one.")] = None,
    real: Annotated[Path | None, data("the tables' images")] = None,
    folder: Annotated[Path | None, out("Where pictures (PNG) go; left out: none are drawn.")] = None,
    kind: Kind = "png",
    as_json: AsJson = False,
    listing: Listing = False,
    record: Recorded = False,
) -> None:
    """C. C. Zawacki's dissertation (2024): stable noise, what sums of an echo-state network give away, FedInfer and its
    rivals, and a plant whose inputs arrive late.

    Chapters 3 and 4: stable noise, its ε in one coordinate, as published, and in all, and the best α for a fixed ε.
    Figures 6.3 to 6.7: an owner's series from what it sends, without noise and with it. Figures 8.2 to 8.8: FedAvg,
    SCAFFOLD, FedLin and FedInfer at its (ε, δ) for each update, what that costs in total, and the same at equal total
    budgets. Tables 4.1, 4.3 and 4.5: networks at the published scales of stable noise, beside what was published.

    Two Gaussians, Fisher's irises and Wisconsin's breast cancer, from scikit-learn. One figure with 100 trials takes
    about a minute.

    Example:  parley reproduce zawacki2024 --figure 8.6

    Example:  parley reproduce zawacki2024 --table 4.1 --trials 2 --rows 3000 --epochs 3
    """
    chapters = Trials(trials if trials is not None and not table else 100, splits, totals, seed)

    def bench(request: Asked) -> Trials:
        return replace(chapters, networks=NetworkTrials(trials, rows, epochs, device, request.folder))

    given = {"rows": rows, "epochs": epochs, "device": device}
    wanted = {"figure": figure, "table": table}
    show(
        DOCUMENT,
        bench,
        wanted,
        given=given,
        data=real,
        out=folder,
        as_json=as_json,
        listing=listing,
        record=record,
        kind=kind,
    )
