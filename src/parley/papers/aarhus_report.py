"""Tables 3 to 6 and figures 5 to 9 of A (`collaborative_descent`), published beside ours."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import joblib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import ks_2samp

from parley.errors import SettingError
from parley.learning.algorithms.algorithm import Progress
from parley.papers.collaborative_descent import (
    BATCHES,
    CLIPS,
    DELTA,
    EPOCHS,
    EPSILONS,
    NO_NOISE,
    OWNERS,
    PUBLISHED,
    RATE,
    SOFTMAX_CLIP,
    SOFTMAX_EPOCHS,
    SOFTMAX_STEP,
    TABLES,
    WANTED,
    Cell,
    Norm,
    Who,
    apart,
    fit_clip,
    step_epsilon,
    total_epsilon,
)
from parley.papers.digits import Digits
from parley.papers.figures import digit_figures
from parley.validate import Floats, whole

CURVES: dict[int, Norm] = {5: "l1", 6: "l2"}
FIGURES = (5, 6, 7, 8, 9)
COMPARED_WHO: tuple[Who, Who] = ("alone", "one noise")
COMPARED: tuple[Norm, float] = (
    "l2",
    0.06,
)  # where the law together is held against the law alone: there three hosts draw the noise
SILENT_RUNS, LAW_RUNS = 5, 10
OWN = slice(None, None, 3)  # places where owners with their own noise stand beside
FAR = 6  # points

Outcome = tuple[Floats, Floats]  # accuracies of all runs, what the first one learned


@dataclass(frozen=True, eq=False)
class Reproduction:
    """Figures by their number in A, the tables behind them, and published beside ours."""

    figures: dict[int, Figure] = field(default_factory=dict)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    findings: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def reproduce(
    digits: Digits,
    tables: Sequence[int],
    figures: Sequence[int],
    runs: int = 3,
    epochs: int = EPOCHS,
    jobs: int = 1,
    progress: Progress = lambda done, total: None,
) -> Reproduction:
    """These tables and figures of A."""
    for kind, numbers, known in (("table", tables, tuple(TABLES)), ("figure", figures, FIGURES)):
        for number in numbers:
            if number not in known:
                raise SettingError(f"--{kind} {number}: expected one from {known[0]} to {known[-1]}")
    bench = _Bench(digits, whole(runs, "runs"), whole(epochs, "epochs"), jobs, progress)
    for number in (*tables, *(n for figure in figures for n in _behind(figure))):
        who, norm = TABLES[number]
        bench.want(norm, who)
    if set(figures) & {7, 8}:
        bench.want_pictures()
    bench.run()
    result = Reproduction(notes=bench.notes())
    for number in sorted({*tables, *(n for figure in figures for n in _behind(figure))}):
        result.tables[f"table-{number}"] = _table(bench, number)
    for figure in figures:
        result.figures[figure] = _draw(bench, figure, result.tables)
    _find(result, bench)
    return result


def _behind(figure: int) -> tuple[int, ...]:
    """The tables that a figure draws."""
    return {5: (3, 5), 6: (4, 6), 9: (5,)}.get(figure, ())


class _Bench:
    """All runs that are wanted, each made once: first those that the clips are fitted to."""

    def __init__(self, digits: Digits, runs: int, epochs: int, jobs: int, progress: Progress) -> None:
        self.digits, self.runs, self.epochs = digits, runs, epochs
        self._jobs, self._progress = whole(jobs, "jobs"), progress
        self._wanted: dict[tuple[Who, Norm, float | None], int] = {}
        self._outcomes: dict[Cell, Outcome] = {}
        self.clips: dict[Norm, float] = {}

    def want(self, norm: Norm, who: Who) -> None:
        """A table's cells: without noise, with it; softmax at the same cost, one run; several owners with their own noise, some places."""
        self._wanted[who, norm, None] = SILENT_RUNS
        for epsilon in EPSILONS[norm]:
            self._wanted |= {(who, norm, epsilon): self.runs, ("softmax", norm, epsilon): 1}
        for epsilon in EPSILONS[norm][OWN] if who == "one noise" else ():
            self._wanted["own noise", norm, epsilon] = self.runs

    def want_pictures(self) -> None:
        """Of A's figures 7 and 8."""
        self._wanted.setdefault(("one noise", "l1", None), SILENT_RUNS)
        self._wanted.setdefault(("one noise", "l1", 0.2), self.runs)

    @property
    def compares(self) -> bool:
        """Whether runs alone and runs together are both wanted where they are compared."""
        return all(self.wanted(who, COMPARED[0]) for who in COMPARED_WHO)

    def cell(self, who: Who, norm: Norm, epsilon: float | None) -> Cell:
        """The runs of one place of a table."""
        return Cell(who, norm, epsilon, self.clips[norm], self._wanted[who, norm, epsilon], epochs=self.epochs)

    def law(self, who: Who) -> list[Cell]:
        """Runs that share nothing, nor do those of different parties."""
        return apart(Cell(who, *COMPARED, self.clips[COMPARED[0]], LAW_RUNS, epochs=self.epochs))

    def run(self) -> None:
        silent = {
            norm: [Cell("alone", norm, None, clip, SILENT_RUNS, epochs=self.epochs) for clip in CLIPS[norm]]
            for norm in sorted({norm for _, norm, _ in self._wanted})
        }
        self._measure([cell for cells in silent.values() for cell in cells])
        for norm, cells in silent.items():
            self.clips[norm] = fit_clip(CLIPS[norm], np.array([self._outcomes[cell][0].mean() for cell in cells]))
        laws = [cell for who in COMPARED_WHO for cell in self.law(who)] if self.compares else []
        self._measure([*(self.cell(*key) for key in self._wanted), *laws])

    def _measure(self, cells: Iterable[Cell]) -> None:
        new = list(dict.fromkeys(cell for cell in cells if cell not in self._outcomes))
        tasks = (joblib.delayed(cell.measure)(self.digits) for cell in new)
        found = joblib.Parallel(n_jobs=self._jobs, return_as="generator")(tasks)
        for done, (cell, outcome) in enumerate(zip(new, found, strict=True), 1):
            self._outcomes[cell] = outcome
            self._progress(done, len(new))

    def accuracies(self, who: Who, norm: Norm, epsilon: float | None) -> Floats:
        return self._outcomes[self.cell(who, norm, epsilon)][0]

    def laws(self, who: Who) -> Floats:
        return np.concatenate([self._outcomes[cell][0] for cell in self.law(who)])

    def wanted(self, who: Who, norm: Norm) -> bool:
        return (who, norm, None) in self._wanted

    def weights(self, who: Who, norm: Norm, epsilon: float | None) -> Floats:
        """Of the pixels [10, 784], as the first run learned them."""
        return self._outcomes[self.cell(who, norm, epsilon)][1][:, :-1]

    def notes(self) -> list[str]:
        kind = "MNIST" if self.digits.real else "SYNTHETIC digits: mnist.npz is not at hand"
        count = len(self.digits.images)
        lines = [
            f"{kind}, {count:,} images; {self.epochs} epochs of {count // BATCHES:,} images a batch; runs a place: {self.runs}",
            f"by the letter: steps of {RATE} times the sum of gradients, from standard normal weights; pixels from 0 to 1, and a constant",
            "figures 7 to 9: weights less where they started; the report's figure 7 shows digits, so it may have begun nearer to zero",
        ]
        for norm, clip in sorted(self.clips.items()):
            how = "the nearest tried to" if clip in (CLIPS[norm][0], CLIPS[norm][-1]) else "fitted to"
            lines.append(
                f"{norm.upper()}: clip C = {clip:g} (the report prints none), {how} {WANTED:.2f} % without noise, the mean of its "
                f"{NO_NOISE['alone']} alone and {NO_NOISE['one noise']} together"
            )
        lines.append(
            f"softmax: at the same total ε and δ = {DELTA:g}, Gaussian noise, all records in each of {SOFTMAX_EPOCHS} steps, momentum, "
            f"step {SOFTMAX_STEP:g}, clip {SOFTMAX_CLIP:g}; one run"
        )
        return lines


def _table(bench: _Bench, number: int) -> pd.DataFrame:
    who, norm = TABLES[number]
    rows = []
    for place, epsilon in enumerate(EPSILONS[norm]):
        ours = bench.accuracies(who, norm, epsilon)
        row = {
            "epsilon": epsilon,
            "step": step_epsilon(norm, epsilon),
            "total": total_epsilon(norm, epsilon, bench.epochs),
            "published": PUBLISHED[number][place],
            "ours": float(ours.mean()),
            "sd": float(ours.std(ddof=1)) if len(ours) > 1 else float("nan"),
        }
        if who == "one noise":
            own = epsilon in EPSILONS[norm][OWN]
            row["own_noise"] = float(bench.accuracies("own noise", norm, epsilon).mean()) if own else float("nan")
        rows.append({**row, "softmax": float(bench.accuracies("softmax", norm, epsilon).mean())})
    return pd.DataFrame(rows)


def _draw(bench: _Bench, figure: int, tables: dict[str, pd.DataFrame]) -> Figure:
    if figure in CURVES:
        norm = CURVES[figure]
        alone, together = (tables[f"table-{number}"] for number in _behind(figure))
        silent = {str(who): float(bench.accuracies(who, norm, None).mean()) for who in COMPARED_WHO}
        return digit_figures.curves(alone, together, silent, NO_NOISE, f"Digits told apart, {norm.upper()} clip")
    if figure == 9:
        rows = [(f"ε = {e:g}", bench.weights("one noise", "l1", e)[0]) for e in EPSILONS["l1"]]
        return digit_figures.pictures(rows, "Learned of digit 0 as ε rises (weights less the start)")
    epsilon = None if figure == 7 else 0.2
    accuracy = bench.accuracies("one noise", "l1", epsilon)[0]
    how = "no noise" if epsilon is None else f"ε = {epsilon:g} a step, {total_epsilon('l1', epsilon, bench.epochs):.3g} in all"
    pictures = [(str(digit), weights) for digit, weights in enumerate(bench.weights("one noise", "l1", epsilon))]
    return digit_figures.pictures(pictures, f"Learned together (weights less the start): {how}, {accuracy:.1f} % right")


def _find(result: Reproduction, bench: _Bench) -> None:
    """What A claims, and whether it holds here."""
    for who, norm in TABLES.values():
        if bench.wanted(who, norm):
            ours = bench.accuracies(who, norm, None)
            result.findings.append([f"{norm.upper()}, {who}: no noise, %", f"{NO_NOISE[who]:.2f}", f"{ours.mean():.2f}"])
    for number in TABLES:
        table = result.tables.get(f"table-{number}")
        if table is not None:
            differ = table["ours"] - table["published"]
            what = f"table {number}: ours less published, points: from, to, mean; places over {FAR} apart"
            found = f"{differ.min():+.1f}, {differ.max():+.1f}, {differ.mean():+.1f}; {np.count_nonzero(differ.abs() > FAR)}"
            result.findings.append([what, "0", found])
            gain = (table["softmax"] - table["published"]).min()
            result.findings.append([f"table {number}: softmax at equal total ε, least gain, points", "–", f"{gain:+.1f}"])
    if bench.compares:
        alone, together = (bench.laws(who) for who in COMPARED_WHO)
        p = float(ks_2samp(alone, together).pvalue)
        result.tables["law"] = pd.DataFrame({"alone": alone, "together": together})
        result.findings.append(
            [
                f"{COMPARED[0].upper()}, ε = {COMPARED[1]:g}: alone, {OWNERS} owners together, {LAW_RUNS} runs each (KS test's p)",
                "the same law",
                f"{alone.mean():.1f} ± {alone.std(ddof=1):.1f}, {together.mean():.1f} ± {together.std(ddof=1):.1f} ({p:.2g})",
            ]
        )
