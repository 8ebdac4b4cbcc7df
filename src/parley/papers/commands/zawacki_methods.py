"""Chapters 8 and 9 of `parley reproduce zawacki2024`: methods compared, and a plant whose inputs arrive late."""

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from parley.numerals import number
from parley.papers import delayed_control
from parley.papers.commands.zawacki2024 import DELAYED
from parley.papers.federated_inference import (
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
from parley.report import figures
from parley.report.terminal import console, progress_bar, terminal_table
from parley.tasks.dynamics import figures as plant_figures

Honest = list[tuple[str, list[Line]]]


def compared(name: str, trials: int, splits: int, seed: int, totals: bool, out: Path | None, as_json: bool) -> dict[str, Any]:
    """One figure of chapter 8: printed, drawn into `out`, and as an object."""
    each = FIGURES[name]
    lines, honest, best = _measured(each, trials, splits, seed, totals)
    if out is not None:
        paths = [(line.method, line.iterations, line.mean) for line in lines]
        figures.save(figures.accuracy_paths(paths), out / f"figure-{name}.png")
    if not as_json:
        _show(each, lines, honest, best)
    return _content(each, lines, honest, best)


def delayed(out: Path | None, as_json: bool) -> dict[str, Any]:
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
