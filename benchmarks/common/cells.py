"""The cells of a table of methods: figures, how they compare, and what is printed and kept of them."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

PLANNED, ONE_NOISE = "Parley as planned", "Parley, one noise"
PUBLIC_ALONE, OWN_ALONE, ZERO = "the public sample alone", "own rows alone, no privacy", "the zero model"
DESCENT, OBJECTIVE, STATISTICS, LIBRARY = (
    "DP gradient descent",
    "objective perturbation",
    "AdaSSP",
    "diffprivlib (pure eps)",
)
WARM = "DP gradient descent, public start"
ROWS = (PLANNED, ONE_NOISE, DESCENT, WARM, OBJECTIVE, STATISTICS, LIBRARY, PUBLIC_ALONE, OWN_ALONE, ZERO)
RIVALS = (DESCENT, WARM, OBJECTIVE, STATISTICS, LIBRARY, PUBLIC_ALONE)
ENOUGH, MOST = 24, 1.25  # cells of 27 not behind the best; the largest ratio to it


@dataclass(frozen=True)
class Entry:
    """A method's excess test cost on each split, and the settings it ran with."""

    by_split: tuple[float, ...]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        return float(np.mean(self.by_split))

    @property
    def error(self) -> float:
        return standard_error(self.by_split)


@dataclass(frozen=True)
class Cell:
    """All methods side by side."""

    task: str
    owners: int
    epsilon: float
    entries: dict[str, Entry]

    @property
    def best(self) -> str:
        """The best private rival, the public sample among them."""
        return min((name for name in RIVALS if name in self.entries), key=lambda name: self.entries[name].mean)

    def ratio(self, name: str, to: str) -> float:
        """Of excess costs; splits and test rows are random, so the best may lie below 0, where a ratio says nothing:
        then 0 or infinity."""
        mean, best = self.entries[name].mean, self.entries[to].mean
        return mean / best if best > 0 else (0.0 if mean <= best else np.inf)

    def behind(self, name: str, to: str) -> bool:
        """By more than two standard errors of the difference over splits, which both saw."""
        gaps = np.subtract(self.entries[name].by_split, self.entries[to].by_split)
        return float(gaps.mean()) > 2 * standard_error(gaps)


def standard_error(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def table(cells: list[Cell]) -> list[list[str]]:
    """One eps: methods down, cells across; then how Parley compares."""
    lines = [["", *(f"{cell.task} {cell.owners}" for cell in cells)]]
    for name in ROWS:
        if any(name in cell.entries for cell in cells):
            lines.append([name, *(figure(cell, name) for cell in cells)])
    for name in (PLANNED, ONE_NOISE):
        if any(name in cell.entries for cell in cells):
            lines.append(
                [
                    f"{name} / best",
                    *(f"{cell.ratio(name, cell.best):.2f}" if name in cell.entries else "" for cell in cells),
                ]
            )
            lines.append(["  behind by 2 s.e.?", *(standing(cell, name) for cell in cells)])
    return lines


def figure(cell: Cell, name: str) -> str:
    if name not in cell.entries:
        return "-"
    entry = cell.entries[name]
    return f"{entry.mean:.3g} ± {entry.error:.1g}{'*' if name == cell.best else ''}"


def standing(cell: Cell, name: str) -> str:
    if name not in cell.entries:
        return ""
    return "behind" if cell.behind(name, cell.best) else "no"


def summary(cell: Cell) -> str:
    """A line as soon as a cell is done."""
    figures = "; ".join(f"{name} {cell.entries[name].mean:.3g}" for name in ROWS if name in cell.entries)
    return f"{cell.task}, {cell.owners} owners, eps {cell.epsilon:g}: {figures}"


def verdict(cells: list[Cell]) -> list[str]:
    """How many cells are not behind the best, the worst ratio; and what one noise is worth."""
    said = []
    for name in (PLANNED, ONE_NOISE):
        there = [cell for cell in cells if name in cell.entries]
        if there:
            level = sum(not cell.behind(name, cell.best) for cell in there)
            worst = max(cell.ratio(name, cell.best) for cell in there)
            said.append(f"{name}: {level} of {len(there)} cells not behind the best; the largest ratio is {worst:.2f}")
    best = [
        min((cell.ratio(name, cell.best), name) for name in (PLANNED, ONE_NOISE) if name in cell.entries)
        for cell in cells
    ]
    level = sum(not cell.behind(name, cell.best) for cell, (_, name) in zip(cells, best, strict=True))
    said.append(
        f"the better of the two: {level} of {len(cells)} (wanted: {ENOUGH} of 27); largest ratio {max(best)[0]:.2f} "
        f"(at most {MOST:g})"
    )
    shared = [cell for cell in cells if ONE_NOISE in cell.entries]
    for words, other, of in (
        ("own rows alone at eps 1 and more", OWN_ALONE, [cell for cell in shared if cell.epsilon >= 1]),
        ("the public sample", PUBLIC_ALONE, shared),
        ("the public sample at eps 3", PUBLIC_ALONE, [cell for cell in shared if cell.epsilon == 3]),
    ):
        if of:
            ahead = sum(cell.ratio(ONE_NOISE, other) < 1 for cell in of)
            behind = sum(cell.behind(ONE_NOISE, other) for cell in of)
            said.append(f"one noise against {words}: ahead in {ahead} of {len(of)}, behind by 2 s.e. in {behind}")
    return said


def to_json(cell: Cell) -> dict[str, Any]:
    entries = {
        name: {"mean": entry.mean, "standard_error": entry.error, **asdict(entry)}
        for name, entry in cell.entries.items()
    }
    content = {"task": cell.task, "owners": cell.owners, "epsilon": cell.epsilon, "best": cell.best, "entries": entries}
    names = [name for name in (PLANNED, ONE_NOISE) if name in cell.entries]
    return content | {
        "ratios": {n: cell.ratio(n, cell.best) for n in names},
        "behind": {n: cell.behind(n, cell.best) for n in names},
    }


def kept(path: Path | None, protocol: dict[str, int]) -> dict[tuple[str, int, float], dict[str, Entry]]:
    """Other people's rows of cells that were filled before."""
    if path is None:
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    if any(content[key] != value for key, value in protocol.items()):
        raise SystemExit(f"{path}: expected a table of {protocol}")
    return {
        (cell["task"], cell["owners"], cell["epsilon"]): {
            name: Entry(tuple(entry["by_split"]), entry["settings"])
            for name, entry in cell["entries"].items()
            if name not in (PLANNED, ONE_NOISE)
        }
        for cell in content["cells"]
    }
