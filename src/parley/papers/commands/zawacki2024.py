"""`parley reproduce zawacki2024`: chapters 3, 4 and 8 of "Studies in Differential Privacy and Federated Learning"."""

from pathlib import Path
from typing import Annotated

import typer

from parley.errors import SettingError
from parley.report.terminal import print_json

# Said here once more, so that --help need not wait for what draws them (a test compares).
NOISE = (
    "3.4",
    "3.5",
    "3.6",
    "3.7",
    "3.8",
    "table-3.1",
    "best-alpha",
    "4.1",
    "4.5",
    "4.6",
    "4.7",
    "4.8",
    "4.9",
    "4.10",
    "4.11",
    "4.12",
)
METHODS, DELAYED = ("8.2", "8.3", "8.5", "8.6", "8.7", "8.8"), "9.1"
ALL = (*NOISE, *METHODS, DELAYED)


def zawacki2024(
    figure: Annotated[
        list[str] | None,
        typer.Option(metavar="N", help=f"Which figure: {', '.join(ALL)}; may be repeated. Left out: all."),
    ] = None,
    trials: Annotated[int, typer.Option(help="Trials of each method; Z has 100.")] = 100,
    splits: Annotated[int, typer.Option(help="Draws of the data among which trials are shared: error bars are theirs.")] = 4,
    totals: Annotated[bool, typer.Option(help="Also at equal total budgets.")] = True,
    seed: Annotated[int, typer.Option(help="Makes it repeatable.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where pictures (PNG) go; left out: none are drawn.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Figures 8.2 to 8.8 of C. C. Zawacki's dissertation (2024): FedAvg, SCAFFOLD, FedLin and FedInfer at its (ε, δ) for each update, what
    that costs in total, and the same methods at equal total budgets. Chapters 3 and 4: stable noise, its ε in one coordinate, as published,
    and in all, and the best α for a fixed ε. Figure 9.1: a plant whose inputs arrive late.

    Two Gaussians, Fisher's irises and Wisconsin's breast cancer, from scikit-learn. One figure with 100 trials takes about a minute.

    Example:  parley reproduce zawacki2024 --figure 8.6
    """
    chosen = figure or [*ALL]
    for name in chosen:
        if name not in ALL:
            raise SettingError(f"--figure {name}: expected one of {', '.join(ALL)}")
    if not (splits >= 2 and trials >= splits and trials % splits == 0):
        raise SettingError(f"--trials {trials} --splits {splits}: expected at least 2 splits, and a multiple of them as trials")
    from parley.papers.commands.zawacki_methods import compared, delayed
    from parley.papers.commands.zawacki_noise import noise_figure

    content = []
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        if name == DELAYED:
            content.append(delayed(out, as_json))
        elif name in NOISE:
            content.append(noise_figure(name, out, as_json))
        else:
            content.append(compared(name, trials, splits, seed, totals, out, as_json))
    if as_json:
        print_json({"figures": content, "trials": trials, "splits": splits}, inside=False)
