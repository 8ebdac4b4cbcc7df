"""The cells of a table of methods: figures, how they compare, and what is printed and kept of them."""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.stats import t as student

from common.figures import Key
from parley.validate import Floats

PLANNED, ONE_NOISE = "Parley as planned", "Parley, one noise"
PUBLIC_ALONE, OWN_ALONE, ZERO = "the public sample alone", "own rows alone, no privacy", "the zero model"
BOOSTED = "boosted public sample"
DESCENT, OBJECTIVE, STATISTICS, LIBRARY = (
    "DP gradient descent",
    "objective perturbation",
    "AdaSSP",
    "diffprivlib (pure eps)",
)
EBM, LINES = "DP-EBM, declared bounds", "Parley, straight lines"
WARM, TURNED = "DP gradient descent, public start", "the same, whitened by the Hessian"
RIVALS = (DESCENT, WARM, TURNED, OBJECTIVE, STATISTICS, EBM, LIBRARY, PUBLIC_ALONE, BOOSTED)
ROWS = (PLANNED, ONE_NOISE, LINES, *RIVALS, OWN_ALONE, ZERO)
ENOUGH, MOST = 24, 1.25  # cells of 27 not behind the best; the largest ratio to it


@dataclass(frozen=True)
class Entry:
    """A method's excess test cost on each split, NaN where it has not run, the test costs themselves, and the settings
    it ran with."""

    by_split: tuple[float, ...]
    costs: tuple[float, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        return float(np.nanmean(self.by_split))

    @property
    def error(self) -> float:
        return standard_error(self.by_split)


@dataclass(frozen=True)
class Cell:
    """All methods side by side."""

    task: str
    owners: int
    epsilon: float
    public: int  # rows of the public sample
    entries: dict[str, Entry]

    def __str__(self) -> str:
        return f"{self.task}, {self.owners} owners, eps {self.epsilon:g}, {self.public} public rows"

    @property
    def best(self) -> str:
        """The best private rival, the public sample among them."""
        return min((name for name in RIVALS if name in self.entries), key=lambda name: self.entries[name].mean)

    def ratio(self, name: str, to: str) -> float:
        """Of excess costs, at least 0; trees may cost less than the best line, and splits are random, so the best may
        lie below 0, where a ratio says nothing: then 0 or infinity."""
        mean, best = self.entries[name].mean, self.entries[to].mean
        return max(mean, 0.0) / best if best > 0 else (0.0 if mean <= best else np.inf)

    def behind(self, name: str, to: str) -> bool:
        """By more than two standard errors of the difference over splits, which both saw."""
        gaps = np.subtract(self.entries[name].by_split, self.entries[to].by_split)
        return float(np.nanmean(gaps)) > 2 * standard_error(gaps)


def standard_error(values: Any) -> float:
    """Of the mean of all values that are there."""
    seen = there(values)
    return float(np.std(seen, ddof=1) / np.sqrt(len(seen))) if len(seen) > 1 else 0.0


def there(values: Any) -> Floats:
    return np.asarray(values, dtype=float)[~np.isnan(values)]


def table(cells: list[Cell]) -> list[list[str]]:
    """One eps: methods down, cells across; then how Parley compares."""
    lines = [["owners, public rows", *(f"{cell.task} {cell.owners}, {cell.public}" for cell in cells)]]
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
    named = next((name for name in (PLANNED, ONE_NOISE) if name in cell.entries), None)
    planned = [] if named is None else cell.entries[named].settings["by_split"]
    ways = [f"{each['columns'] or 'lines'}, whitening {each['whitening'] or 'none'}" for each in planned]
    taken = "; ".join(f"{way}: {ways.count(way)}" for way in dict.fromkeys(ways))
    return f"{cell}: {figures}" + (f" (Parley took {taken})" if taken else "")


def holm(chances: list[float]) -> list[float]:
    """P-values corrected for all of them together (Holm 1979): any at most a is a mistake with probability at most a.

    >>> [round(each, 3) for each in holm([0.01, 0.5, 0.02])]
    [0.03, 0.5, 0.04]
    """
    order, found, least = np.argsort(chances), [0.0] * len(chances), 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, (len(chances) - rank) * chances[place]))
        found[place] = least
    return found


def comparisons(cells: list[Cell]) -> list[str]:
    """Paired differences over splits between Parley and every rival: mean, standard error, and how significant by
    Student's t, alone and corrected for all that are printed."""
    pairs = [
        (c, ours, r)
        for c in cells
        for ours in (PLANNED, ONE_NOISE)
        for r in (*RIVALS, LINES)
        if {ours, r} <= {*c.entries}
    ]
    gaps = [there(np.subtract(c.entries[ours].by_split, c.entries[rival].by_split)) for c, ours, rival in pairs]
    chances = [chance(gap) for gap in gaps]
    said = [f"paired differences x 1000 ± standard error over splits; p, and corrected by Holm for {len(pairs)}"]
    for (cell, ours, rival), gap, alone, together in zip(pairs, gaps, chances, holm(chances), strict=True):
        mark = "" if together > 0.05 else (" ahead" if gap.mean() < 0 else " BEHIND")
        chances_said = f"(p {alone:.2g}, corrected {together:.2g}, {len(gap)} splits){mark}"
        figures = f"{gap.mean():+.2f} ± {standard_error(gap):.2f} {chances_said}"
        said.append(f"  {cell}: {ours} less {rival}: {figures}")
    return said


def chance(gaps: Any) -> float:
    """Two-sided, of gaps whose mean is 0; 1 where there are too few to tell."""
    if len(gaps) < 2 or not standard_error(gaps) > 0:
        return 1.0
    return float(2 * student.sf(abs(np.mean(gaps)) / standard_error(gaps), len(gaps) - 1))


def verdict(cells: list[Cell]) -> list[str]:
    """How many cells are not behind the best, the worst ratio; and what one noise is worth."""
    said = []
    for name in (PLANNED, ONE_NOISE):
        there = [cell for cell in cells if name in cell.entries]
        if there:
            level = sum(not cell.behind(name, cell.best) for cell in there)
            worst = max(cell.ratio(name, cell.best) for cell in there)
            said.append(f"{name}: {level} of {len(there)} cells not behind the best; the largest ratio is {worst:.2f}")
    if not cells:
        return ["no cell has both Parley and a rival yet"]
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


def filled(figures: dict[Key, Any]) -> list[Cell]:
    """The cells of which these figures have Parley's and a rival's."""
    found = defaultdict[tuple[str, int, int, float], dict[str, dict[int, Any]]](lambda: defaultdict(dict))
    for (what, task, owners, public, run, _, _, epsilon, *_), figure in figures.items():
        for name, each in figure.items() if what in ("parley", "ebm", "rival") else ():
            found[str(task), int(owners), int(public), float(epsilon)][name][int(run)] = each
    for (what, task, owners, public, run, *_), figure in figures.items():  # for all eps, or all owners too
        whose = (task, owners, public) if what == "own" else (task, public)
        for place, methods in found.items() if what in ("own", "public") else ():
            for name, each in figure.items() if whose in (place[:3], place[:3:2]) else ():
                methods[name][int(run)] = each
    return [
        Cell(task, owners, epsilon, public, entries)
        for (task, owners, public, epsilon), methods in found.items()
        if not (entries := _entries(methods)).keys().isdisjoint(RIVALS)
    ]


def _entries(methods: dict[str, dict[int, Any]]) -> dict[str, Entry]:
    """Of methods' figures on each split that Parley has done; of DP-EBM the best setting by mean test cost."""
    runs = sorted({run for name in (PLANNED, ONE_NOISE) for run in methods.get(name, {})})
    nothing = {"excess": np.nan, "cost": np.nan}
    entries = {
        name: Entry(
            tuple(by_run.get(run, nothing)["excess"] for run in runs),
            tuple(by_run.get(run, nothing)["cost"] for run in runs),
            {"by_split": [by_run[run].get("setting") for run in runs if run in by_run]},
        )
        for name, by_run in methods.items()
        if not set(runs).isdisjoint(by_run)
    }
    tried = {name: entries.pop(name) for name in list(entries) if name.startswith(EBM)}
    if tried:
        best = min(tried, key=lambda name: tried[name].mean)
        entries[EBM] = replace(tried[best], settings={"setting": best})
    return entries


def costs(cells: list[Cell]) -> list[list[str]]:
    """Test costs of one eps: methods down, cells across."""
    lines = [["owners, public rows, splits"]]
    for cell in cells:
        splits = len(next(iter(cell.entries.values())).costs)
        lines[0].append(f"{cell.task} {cell.owners}, {cell.public}, {splits}")
    for name in ROWS:
        if any(name in cell.entries for cell in cells):
            made = [cell.entries.get(name) for cell in cells]
            lines.append([name, *("-" if e is None else f"{np.nanmean(e.costs):.4f}" for e in made)])
    return lines
