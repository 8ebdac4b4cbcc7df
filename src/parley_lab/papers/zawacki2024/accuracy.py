"""Exhibits of Z's chapter 8: test accuracy as methods go on, what their budgets add up to, and the same methods at
equal totals."""

from itertools import count
from typing import Any

from parley.numerals import number
from parley_lab.papers.document import Parts, Progress, Shown, Titled
from parley_lab.papers.zawacki2024.federated_inference import (
    CLAIMS,
    FIGURES,
    METHODS,
    ROUNDS_AND_STEPS,
    TOTAL_EPSILONS,
    Figure,
    Line,
    Unit,
    equal_totals,
    trace,
    without_privacy,
)
from parley_lab.papers.zawacki2024.settings import Trials

EqualBudgetLines = list[tuple[str, list[Line]]]


def paths(bench: Trials, word: str, progress: Progress) -> Shown:
    """A figure's lines, the same methods at equal totals, and the accuracy without privacy."""
    figure, splits = FIGURES[word], bench.splits
    each = len(TOTAL_EPSILONS) * (1 + (len(METHODS) - 1) * len(ROUNDS_AND_STEPS)) if bench.totals else 0
    units: tuple[Unit, ...] = ("record",) if figure.epsilon is None else ("record", "owner")
    done, steps = count(1), splits * (len(METHODS) * len(units) + each)

    def step() -> None:
        progress(next(done), steps)

    lines, *whole = (
        [trace(figure, method, bench.trials, splits, bench.seed, progress=step, unit=unit) for method in METHODS]
        for unit in units
    )
    by_owner = whole[0] if whole else []
    honest = equal_totals(figure, bench.trials, splits, bench.seed, step) if bench.totals else []
    best = without_privacy(figure, splits, bench.seed)
    drawn = [(line.method, line.iterations, line.mean) for line in lines], heading(figure, lines), figure.published
    return bench.shown(
        word, _content(figure, lines, by_owner, honest, best), _parts(figure, lines, by_owner, honest, best), drawn
    )


def heading(figure: Figure, lines: list[Line]) -> str:
    """What a picture is of, where every method ended beside the published accuracy, and what the document says."""
    ended = [f"{line.method} {line.last.mean():.1f}{_published(figure, line.method)}" for line in lines]
    noise = "no noise" if figure.epsilon is None else f"({figure.epsilon:g}, {figure.delta:g}) an update, replace-one"
    return "\n".join(
        (
            f"Figure {figure.number}: {figure.title}; {noise}",
            f"In the end, % (published): {', '.join(ended)}",
            f"Published: {CLAIMS[figure.number]}",
        )
    )


def _published(figure: Figure, method: str) -> str:
    return f" ({figure.published[method]:g})" if method in figure.published else ""


def _content(
    figure: Figure, lines: list[Line], by_owner: list[Line], honest: EqualBudgetLines, best: float
) -> dict[str, Any]:
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
    return {
        "title": figure.title,
        "claim": CLAIMS[figure.number],
        "without_privacy": best,
        "delta": figure.delta,
        "epsilon_of_an_update": figure.epsilon,
        "at_its_budgets": per_update,
        "by_owner": [
            {"method": line.method, "accuracy": float(line.last.mean()), "standard_error": line.error}
            for line in by_owner
        ],
        "equal_totals": equal,
    }


def _parts(figure: Figure, lines: list[Line], by_owner: list[Line], honest: EqualBudgetLines, best: float) -> Parts:
    rows = [["", "published", "a record %", "a client %", "above 90 % after", "total ε it cost"]]
    for place, line in enumerate(lines):
        client = _accuracy(by_owner[place]) if by_owner else "–"
        after = line.first_above(90.0)
        spent = "–" if figure.epsilon is None else number(line.epsilon, 3, side="above")
        above = "never" if after is None else f"{after}"
        rows.append([line.method, number(figure.published.get(line.method)), _accuracy(line), client, above, spent])
    noise = "no noise" if figure.epsilon is None else f"each update ({figure.epsilon:g}, {figure.delta:g})"
    parts: Parts = [
        Titled(f"Figure {figure.number}: {figure.title}; {noise}, {figure.iterations} iterations", rows),
        f"Z: {CLAIMS[figure.number]}. Without privacy: {best:.1f} %. The unit is a record, or a "
        "client's whole answer, as in Z; above 90 % and the total are for a record.",
    ]
    if honest:
        equal = [["", *(f"total ε = {total:g}" for total in TOTAL_EPSILONS)]]
        equal += [[name, *(f"{_accuracy(line)} ({_way(line)})" for line in found)] for name, found in honest]
        parts.append(Titled(f"Figure {figure.number} at equal total (ε, {figure.delta:g})", equal))
    return parts


def _way(line: Line) -> str:
    return "one release" if line.rounds == 1 else f"{line.rounds} rounds of {line.local_steps}"


def _accuracy(line: Line) -> str:
    return f"{line.last.mean():.1f} ± {line.error:.1f}"
