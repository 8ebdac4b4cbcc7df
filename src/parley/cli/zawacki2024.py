"""`parley reproduce zawacki2024`: chapters 3, 4 and 8 of "Studies in Differential Privacy and Federated Learning"."""

from itertools import count
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from parley.cli.screen import console, print_json, progress_bar, terminal_table
from parley.cli.zawacki_noise import NAMES, noise_figure
from parley.errors import SettingError
from parley.numerals import number
from parley.report import figures, plant_figures
from parley.reproduce import delayed_control
from parley.reproduce.federated_inference import (
    CLAIMS,
    FIGURES,
    METHODS,
    SPREADS,
    TOTALS,
    Figure,
    Line,
    equal_totals,
    trace,
    without_privacy,
)

DELAYED = "9.1"
ALL = (*NAMES, *FIGURES, DELAYED)


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
    content = []
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        if name == DELAYED:
            content.append(_delayed(out, as_json))
            continue
        if name in NAMES:
            content.append(noise_figure(name, out, as_json))
            continue
        each = FIGURES[name]
        lines, honest, best = _measured(each, trials, splits, seed, totals)
        if out is not None:
            figures.save(
                figures.accuracy_paths([(line.method, line.iterations, line.mean) for line in lines]), out / f"figure-{name}.png"
            )
        content.append(_content(each, lines, honest, best))
        if not as_json:
            _show(each, lines, honest, best)
    if as_json:
        print_json({"figures": content, "trials": trials, "splits": splits}, inside=False)


def _delayed(out: Path | None, as_json: bool) -> dict[str, Any]:
    """Figure 9.1: a rotor whose inputs arrive late, identified and held still."""
    shown = delayed_control.runs()
    if out is not None:
        times = delayed_control.PERIOD * np.arange(len(shown[0].fractional)) / delayed_control.SUBSTEPS
        lines = {f"r = {run.delay:g} T": (run.fractional, run.truncated) for run in shown}
        figures.save(plant_figures.feedback(times, lines), out / f"figure-{DELAYED}.png")
    rows = [["delay", "identified", "published blocks off by", "|x| at the end, fractional", "truncated"]]
    found = []
    for run in shown:
        identified = float(np.asarray(run.found.delay_)) / delayed_control.PERIOD
        off = np.abs(run.blocks - np.array(delayed_control.PUBLISHED[run.delay]))
        ends = [float(np.linalg.norm(path[-1])) for path in (run.fractional, run.truncated)]
        rows.append(
            [
                f"{run.delay:g} T",
                f"{number(identified, 8)} T",
                number(float(off.max()), 2),
                *map(number, ends),
            ]
        )
        found.append(
            {
                "delay": run.delay,
                "identified": identified,
                "blocks": run.blocks.tolist(),
                "ends": ends,
            }
        )
    if not as_json:
        console.print(terminal_table(rows, "Figure 9.1: predictive feedback for the whole and for the true delay"))
        console.print("At 1.5 T one corner is printed as 1.70; its own A and B give 1.97.", style="dim")
    return {"figure": DELAYED, "runs": found}


Honest = list[tuple[str, list[Line]]]


def _measured(figure: Figure, trials: int, splits: int, seed: int, totals: bool) -> tuple[list[Line], Honest, float]:
    """The figure's lines, the same methods at equal totals, and the accuracy without privacy."""
    steps = splits * len(METHODS) + (splits * len(TOTALS) * (1 + (len(METHODS) - 1) * len(SPREADS)) if totals else 0)
    with progress_bar(f"figure {figure.number}") as progress:
        done = count(1)

        def step() -> None:
            progress(next(done), steps)

        lines = [trace(figure, method, trials, splits, seed, progress=step) for method in METHODS]
        honest = equal_totals(figure, trials, splits, seed, step) if totals else []
    return lines, honest, without_privacy(figure, splits, seed)


def _content(figure: Figure, lines: list[Line], honest: Honest, best: float) -> dict[str, Any]:
    per_update = [
        {
            "method": line.method,
            "accuracy": float(line.last.mean()),
            "standard_error": line.error,
            "above_90_after": line.first_above(90.0),
            "published": figure.published.get(line.method),
            "total_epsilon": line.epsilon,
        }
        for line in lines
    ]
    equal = [
        {
            "method": name,
            "epsilon": line.epsilon,
            "rounds": line.rounds,
            "local_steps": line.local_steps,
            "accuracy": float(line.last.mean()),
            "standard_error": line.error,
        }
        for name, found in honest
        for line in found
    ]
    said = {"figure": figure.number, "title": figure.title, "claim": CLAIMS[figure.number], "without_privacy": best}
    return {
        **said,
        "delta": figure.delta,
        "epsilon_of_an_update": figure.epsilon,
        "at_its_budgets": per_update,
        "equal_totals": equal,
    }


def _show(figure: Figure, lines: list[Line], honest: Honest, best: float) -> None:
    rows = [["", "published", "accuracy %", "above 90 % after", "total ε it cost"]]
    for line in lines:
        after = line.first_above(90.0)
        spent = "–" if figure.epsilon is None else number(line.epsilon, 3, side="above")
        rows.append(
            [
                line.method,
                number(figure.published.get(line.method)),
                _accuracy(line),
                "never" if after is None else f"{after}",
                spent,
            ]
        )
    noise = "no noise" if figure.epsilon is None else f"each update ({figure.epsilon:g}, {figure.delta:g})"
    console.print(terminal_table(rows, f"Figure {figure.number}: {figure.title}; {noise}, {figure.iterations} iterations"))
    console.print(f"Z: {CLAIMS[figure.number]}. Without privacy: {best:.1f} %.", style="dim", highlight=False)
    if honest:
        rows = [["", *(f"total ε = {total:g}" for total in TOTALS)]]
        for name, found in honest:
            rows.append([name, *(f"{_accuracy(line)} ({_way(line)})" for line in found)])
        console.print(terminal_table(rows, f"The same at equal total (ε, {figure.delta:g})"))
    console.print()


def _way(line: Line) -> str:
    return "one release" if line.rounds == 1 else f"{line.rounds} rounds of {line.local_steps}"


def _accuracy(line: Line) -> str:
    return f"{line.last.mean():.1f} ± {line.error:.1f}"
