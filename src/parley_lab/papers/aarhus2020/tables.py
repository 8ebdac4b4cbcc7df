"""Tables 3 to 6 and figures 5 to 9 of A (`collaborative_descent`), published beside ours."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from parley.validate import Floats, whole
from parley_lab.papers.aarhus2020.collaborative_descent import (
    AGREED,
    BATCHES,
    BITS,
    DELTA,
    EPSILONS,
    MEAN_WITHOUT_NOISE,
    NO_NOISE,
    OWNERS,
    PUBLISHED,
    RATE,
    SOFTMAX_CLIP,
    SOFTMAX_EPOCHS,
    SOFTMAX_STEP,
    TABLES,
    TRIED_CLIPS,
    Cell,
    Norm,
    Who,
    apart,
    fit_clip,
    step_epsilon,
    total_epsilon,
)
from parley_lab.papers.aarhus2020.digits import Digits
from parley_lab.papers.document import Parts, Progress, Shown, Titled

NORM_BY_FIGURE: dict[int, Norm] = {5: "l1", 6: "l2"}
COMPARED_WHO: tuple[Who, Who] = ("alone", "one noise")
# Where the law together is held against the law alone: there three hosts draw the noise.
COMPARED_NORM_EPSILON: tuple[Norm, float] = ("l2", 0.06)
SILENT_RUNS, LAW_RUNS = 5, 10
OWN_NOISE_PLACES = slice(None, None, 3)  # places where owners with their own noise stand beside
# Deviation of one of A's numbers, in points: alone and together have one law, and A ran each once.
SCATTER_POINTS = float(
    np.sqrt(np.mean([(np.array(PUBLISHED[k]) - np.array(PUBLISHED[k + 2])) ** 2 for k in (3, 4)]) / 2)
)
MAX_DIFFERENCE_POINTS = 3 * SCATTER_POINTS

Outcome = tuple[Floats, Floats]  # accuracies of all runs, what the first one learned
TABLES_BEHIND = {
    "figure-5": (3, 5),
    "figure-6": (4, 6),
    "figure-9": (5,),
    **{f"table-{number}": (number,) for number in TABLES},
}
COLUMN_TITLES = {
    "epsilon": "ε as published",
    "step": "ε a step, replaced",
    "total": "total ε, δ = 0.001",
    "published": "published %",
    "ours": "ours %",
    "sd": "sd",
    "own_noise": "own noise %",
    "softmax": "softmax %",
}


class Runs:
    """All runs that the exhibits of these names need, each made once: first those that the clips are fitted to."""

    def __init__(
        self,
        digits: Digits,
        names: Sequence[str],
        runs: int,
        epochs: int,
        jobs: int = 1,
        progress: Progress = lambda *_: None,
    ) -> None:
        self.digits, self.runs, self.epochs = digits, whole(runs, "runs"), whole(epochs, "epochs")
        self._jobs, self._progress = whole(jobs, "jobs"), progress
        self._wanted: dict[tuple[Who, Norm, float | None], int] = {}
        self._outcomes: dict[Cell, Outcome] = {}
        self.clips: dict[Norm, float] = {}
        for name in names:
            for number in TABLES_BEHIND.get(name, ()):
                self._want(*TABLES[number])
        if {"figure-7", "figure-8"} & set(names):
            self._want_pictures()
        self._run()

    def _want(self, who: Who, norm: Norm) -> None:
        """A table's cells: without noise, with it; softmax at the same cost, one run; several owners with their own
        noise, some places."""
        self._wanted[who, norm, None] = SILENT_RUNS
        for epsilon in EPSILONS[norm]:
            self._wanted |= {(who, norm, epsilon): self.runs, ("softmax", norm, epsilon): 1}
        for epsilon in EPSILONS[norm][OWN_NOISE_PLACES] if who == "one noise" else ():
            self._wanted["own noise", norm, epsilon] = self.runs

    def _want_pictures(self) -> None:
        """The two kinds of runs whose weights A's figures 7 and 8 show."""
        self._wanted.setdefault(("one noise", "l1", None), SILENT_RUNS)
        self._wanted.setdefault(("one noise", "l1", 0.2), self.runs)

    @property
    def compares(self) -> bool:
        """Whether runs alone and runs together are both wanted where they are compared."""
        return all(self.wanted(who, COMPARED_NORM_EPSILON[0]) for who in COMPARED_WHO)

    def cell(self, who: Who, norm: Norm, epsilon: float | None) -> Cell:
        """The runs of one place of a table."""
        return Cell(who, norm, epsilon, self.clips[norm], self._wanted[who, norm, epsilon], epochs=self.epochs)

    def law(self, who: Who) -> list[Cell]:
        """Runs that share nothing, nor do those of different parties."""
        return apart(
            Cell(who, *COMPARED_NORM_EPSILON, self.clips[COMPARED_NORM_EPSILON[0]], LAW_RUNS, epochs=self.epochs)
        )

    def _run(self) -> None:
        silent = {
            norm: [Cell("alone", norm, None, clip, SILENT_RUNS, epochs=self.epochs) for clip in TRIED_CLIPS[norm]]
            for norm in sorted({norm for _, norm, _ in self._wanted})
        }
        self._measure([cell for cells in silent.values() for cell in cells])
        for norm, cells in silent.items():
            self.clips[norm] = fit_clip(TRIED_CLIPS[norm], np.array([self._outcomes[cell][0].mean() for cell in cells]))
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
            f"{kind}, {count:,} images; {self.epochs} epochs of {count // BATCHES:,} images a batch; runs a place: "
            f"{self.runs}",
            f"by the letter: steps of {RATE} times the sum of gradients, from standard normal weights; pixels from 0 "
            f"to 1, and a constant",
            "figures 7 to 9: weights less where they started; the report's figure 7 shows digits, so it may have "
            "begun nearer to zero",
        ]
        for norm, clip in sorted(self.clips.items()):
            how = "the nearest tried to" if clip in (TRIED_CLIPS[norm][0], TRIED_CLIPS[norm][-1]) else "fitted to"
            lines.append(
                f"{norm.upper()}: clip C = {clip:g} (the report prints none), {how} {MEAN_WITHOUT_NOISE:.2f} % "
                f"without noise, the mean of its {NO_NOISE['alone']} alone and {NO_NOISE['one noise']} together"
            )
        if self.wanted("one noise", "l1"):
            lines.append(
                f"L1, one noise: three hosts draw it, in agreements of at most ε = {AGREED:g} one after the other, "
                f"each at δ = {BITS:g} for their random bits"
            )
        lines.append(
            f"softmax: at the same total ε and δ = {DELTA:g}, Gaussian noise, all records in each of "
            f"{SOFTMAX_EPOCHS} steps, momentum, step {SOFTMAX_STEP:g}, clip {SOFTMAX_CLIP:g}; one run"
        )
        return lines


def table(bench: Runs, word: str, progress: Progress) -> Shown:
    """Table 3, 4, 5 or 6: accuracy by epsilon, published beside ours."""
    return _shown(bench, [int(word)])


def curves(bench: Runs, word: str, progress: Progress) -> Shown:
    """Figures 5 and 6: accuracy against epsilon, alone and together."""
    norm, behind = NORM_BY_FIGURE[int(word)], TABLES_BEHIND[f"figure-{word}"]
    shown = _shown(bench, behind)
    silent = {str(who): float(bench.accuracies(who, norm, None).mean()) for who in COMPARED_WHO}
    alone, together = (shown.files[f"table-{number}"] for number in behind)
    return replace(shown, drawn=(alone, together, silent, NO_NOISE, f"Digits told apart, {norm.upper()} clip"))


def weights(bench: Runs, word: str, progress: Progress) -> Shown:
    """Figures 7 and 8: what was learned of each digit, without noise and with it."""
    epsilon = None if word == "7" else 0.2
    accuracy = bench.accuracies("one noise", "l1", epsilon)[0]
    how = (
        "no noise"
        if epsilon is None
        else f"ε = {epsilon:g} a step, {total_epsilon('l1', epsilon, bench.epochs):.3g} in all"
    )
    learned = bench.weights("one noise", "l1", epsilon)
    pictures = [(str(digit), each) for digit, each in enumerate(learned)]
    drawn = pictures, f"Learned together (weights less the start): {how}, {accuracy:.1f} % right"
    findings = [*_legible_findings(bench, epsilon), _without_noise(bench, "one noise", "l1")]
    shown = _shown(bench, [], drawn, findings)
    return replace(shown, content={**shown.content, "legible": [_legible(bench, epsilon)]})


def zeros(bench: Runs, word: str, progress: Progress) -> Shown:
    """Figure 9: what was learned of digit 0 as epsilon rises."""
    rows = [(f"ε = {e:g}", bench.weights("one noise", "l1", e)[0]) for e in EPSILONS["l1"]]
    shown = _shown(bench, TABLES_BEHIND["figure-9"], (rows, "Learned of digit 0 as ε rises (weights less the start)"))
    legible = [_legible(bench, epsilon) for epsilon in EPSILONS["l1"]]
    findings = [*shown.findings, *_legible_findings(bench, EPSILONS["l1"][-1])]
    return replace(shown, findings=findings, content={**shown.content, "legible": legible})


def legible(weights: Floats, images: Floats, labels: NDArray[np.uint8]) -> Floats:
    """How well pictures [10, pixels] of weights show the ten digits: each one's correlation [10] with its own digit's
    mean image less that of all."""
    own = np.array([images[labels == digit].mean(axis=0) for digit in range(len(weights))]) - images.mean(axis=0)
    rows = [each - each.mean(axis=1, keepdims=True) for each in (weights, own)]
    a, b = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in rows)
    return np.asarray((a * b).sum(axis=1))


def _legible(bench: Runs, epsilon: float | None) -> dict[str, Any]:
    """How legible the weights are as they are, and less their start, at this epsilon of a step."""
    learned = bench.weights("one noise", "l1", epsilon)
    start = bench.cell("one noise", "l1", epsilon).starts[0].reshape(len(learned), -1)[:, :-1]
    test = bench.digits.test_images, bench.digits.test_labels
    shows = {"weights": legible(learned + start, *test).tolist(), "less_start": legible(learned, *test).tolist()}
    return {"epsilon": epsilon, **shows}


def _legible_findings(bench: Runs, epsilon: float | None) -> list[list[str]]:
    found = _legible(bench, epsilon)
    names = {"weights": "the weights", "less_start": "the weights less their start"}
    noise, shows = ("no noise", "digits show") if epsilon is None else (f"ε = {epsilon:g} a step", "–")
    return [
        [f"{noise}: correlation of {name} with their digit, mean of ten", shows, f"{np.mean(found[key]):.2f}"]
        for key, name in names.items()
    ]


def _shown(
    bench: Runs, numbers: Sequence[int], drawn: tuple[Any, ...] = (), findings: Sequence[Sequence[str]] = ()
) -> Shown:
    """These tables with what A claims of them, and whether it holds here."""
    tables = {f"table-{number}": _table(bench, number) for number in numbers}
    parts: Parts = [Titled(_title(number), _rows(tables[f"table-{number}"])) for number in numbers]
    found = [*findings, *(row for number in numbers for row in _findings(bench, number, tables[f"table-{number}"]))]
    if bench.compares:
        tables["law"], compared = _laws(bench)
        found.append(compared)
    rows = {
        name: each.round(6).astype(object).where(each.notna(), None).to_dict("records") for name, each in tables.items()
    }
    silent = {
        f"{norm.upper()}, {who}": {"published": NO_NOISE[who], "ours": float(bench.accuracies(who, norm, None).mean())}
        for who, norm in (TABLES[number] for number in numbers)
    }
    content = {"tables": rows, "without_noise": silent}
    return Shown(content, parts, drawn, tables, bench.notes(), found, bench.digits.real)


def _table(bench: Runs, number: int) -> pd.DataFrame:
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
            own = epsilon in EPSILONS[norm][OWN_NOISE_PLACES]
            row["own_noise"] = float(bench.accuracies("own noise", norm, epsilon).mean()) if own else float("nan")
        rows.append({**row, "softmax": float(bench.accuracies("softmax", norm, epsilon).mean())})
    return pd.DataFrame(rows)


def _title(number: int) -> str:
    who, norm = TABLES[number]
    return f"Table {number}: {who}, {norm.upper()}"


def _rows(table: pd.DataFrame) -> list[list[str]]:
    columns = [column for column in COLUMN_TITLES if column in table.columns]
    body = [
        [
            f"{row[c]:.3g}" if c in ("epsilon", "step", "total") else "" if pd.isna(row[c]) else f"{row[c]:.1f}"
            for c in columns
        ]
        for _, row in table.iterrows()
    ]
    return [[COLUMN_TITLES[column] for column in columns], *body]


def _without_noise(bench: Runs, who: Who, norm: Norm) -> list[str]:
    ours = bench.accuracies(who, norm, None)
    return [f"{norm.upper()}, {who}: no noise (fitted by the clip), %", f"{NO_NOISE[who]:.2f}", f"{ours.mean():.2f}"]


def _findings(bench: Runs, number: int, table: pd.DataFrame) -> list[list[str]]:
    differ = table["ours"] - table["published"]
    what = f"table {number}: ours less published, points: from, to, mean; places over {MAX_DIFFERENCE_POINTS:.1f} apart"
    far = np.count_nonzero(differ.abs() > MAX_DIFFERENCE_POINTS)
    found = f"{differ.min():+.1f}, {differ.max():+.1f}, {differ.mean():+.1f}; {far}"
    gain = (table["softmax"] - table["published"]).min()
    least = [f"table {number}: softmax at equal total ε, least gain, points", "–", f"{gain:+.1f}"]
    return [_without_noise(bench, *TABLES[number]), [what, "0", found], least]


def _laws(bench: Runs) -> tuple[pd.DataFrame, list[str]]:
    """Accuracies alone and together, and what a test of their laws says."""
    alone, together = (bench.laws(who) for who in COMPARED_WHO)
    p = float(ks_2samp(alone, together).pvalue)
    what = (
        f"{COMPARED_NORM_EPSILON[0].upper()}, ε = {COMPARED_NORM_EPSILON[1]:g}: alone, {OWNERS} owners together, "
        f"{LAW_RUNS} runs each (KS test's p)"
    )
    each = (f"{law.mean():.1f} ± {law.std(ddof=1):.1f}" for law in (alone, together))
    return pd.DataFrame({"alone": alone, "together": together}), [what, "the same law", f"{', '.join(each)} ({p:.2g})"]
