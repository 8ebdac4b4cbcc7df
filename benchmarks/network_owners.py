"""What three owners of digits reach together, at equal eps for each: noise of each owner, and one noise for all.

Beside them an owner that stays alone with its third, and one that would hold everything. Chase's small network,
Gaussian noise, records drawn in secret; eps is for the whole run and replace-one. Models are judged on MNIST's test
images. Each run is a line of JSON in `--out`; runs that are there already are not made again.

    python benchmarks/network_owners.py [--rows 1000] [--runs 3] [--epsilon 1 3 8] [--device cpu|cuda]
        [--out network_owners.jsonl] [--plot docs/images/network-owners.png]

`--rows` are those of each owner. Needs mnist.npz in PARLEY_DATA (default ../shared/data), else synthetic digits are
used.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, PercentFormatter

import parley
from parley.report.figures.colours import ALONE, INK, LIMIT, TOGETHER
from parley.report.figures.curves import EPSILON
from parley.report.figures.picture import decorate, save
from parley_lab.papers.aarhus2020.digits import CLASSES, PIXELS, Digits, load_digits

DATA = Path(os.environ.get("PARLEY_DATA", Path(__file__).parents[2] / "shared" / "data"))
OWNERS, DELTA = 3, 1e-5
LEARNING = {"batches": 20, "epochs": 15, "step": 0.5}
CASES = {  # by its words: owners that learn, whose rows they hold (thirds), and the noise
    "one owner of all": ([(0, 3)], "each-owner", INK),
    "three owners, one noise": ([(0, 1), (1, 2), (2, 3)], "shared", TOGETHER),
    "three owners, noise of each": ([(0, 1), (1, 2), (2, 3)], "each-owner", LIMIT),
    "an owner alone": ([(0, 1)], "each-owner", ALONE),
}
Found = dict[tuple[str, float, int], float]  # accuracies by case, eps and seed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 3.0, 8.0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("network_owners.jsonl"))
    parser.add_argument("--plot", type=Path)
    asked = parser.parse_args()
    os.environ["PARLEY_DEVICE"] = asked.device
    digits = load_digits(DATA, OWNERS * asked.rows)
    print(f"{'MNIST' if digits.real else 'SYNTHETIC digits'}, {OWNERS} x {asked.rows:,} rows, delta {DELTA:g}")
    found = written(asked.out, asked.rows)
    for epsilon in asked.epsilon:
        for words in CASES:
            for seed in range(asked.runs):
                if (words, epsilon, seed) not in found:
                    found[words, epsilon, seed] = right = accuracy(words, digits, asked.rows, epsilon, seed)
                    run = {"case": words, "epsilon": epsilon, "seed": seed, "rows": asked.rows, "accuracy": right}
                    with asked.out.open("a") as file:
                        print(json.dumps(run), file=file)
            right_ones = [found[words, epsilon, seed] for seed in range(asked.runs)]
            print(f"eps {epsilon:g}, {words}: {np.mean(right_ones):.3f} +- {np.std(right_ones):.3f}", flush=True)
    if asked.plot is not None:
        save(picture(found, asked.epsilon, asked.rows), asked.plot)


def written(out: Path, rows: int) -> Found:
    """The runs with so many rows an owner that a file holds."""
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    return {(run["case"], run["epsilon"], run["seed"]): run["accuracy"] for run in lines if run["rows"] == rows}


def accuracy(words: str, digits: Digits, rows: int, epsilon: float, seed: int) -> float:
    """The share of test images that a run tells right."""
    thirds, noise, _ = CASES[words]
    tables = [table(digits, slice(begin * rows, end * rows)) for begin, end in thirds]
    owners = [parley.Owner(f"o{place}", each) for place, each in enumerate(tables)]
    terms = digit_terms([len(each) for each in tables], epsilon, noise)
    model = parley.train(terms, owners, seed=seed, measure=False).model
    fresh = pd.DataFrame(digits.test_images, columns=list(PIXELS))
    return float(np.mean(model.predict(fresh) == digits.test_labels.astype(str)))


def table(digits: Digits, some: slice) -> pd.DataFrame:
    """These digits as an owner holds them."""
    frame = pd.DataFrame(digits.images[some], columns=list(PIXELS))
    return frame.assign(digit=digits.labels[some].astype(str))


def digit_terms(sizes: list[int], epsilon: float, noise: str) -> parley.Terms:
    """Terms by which owners of digits learn Chase's small network."""
    content: dict[str, Any] = {
        "model": {
            "kind": "network-classification",
            "architecture": "chase-small",
            "target": "digit",
            "features": list(PIXELS),
            "bounds": {pixel: [0.0, 1.0] for pixel in PIXELS},
            "categories": {"digit": list(CLASSES)},
        },
        "learning": LEARNING,
        "privacy": {"mechanism": "gaussian", "delta": DELTA, "clip": 0.5, "noise": noise},
        "owners": [{"name": f"o{k}", "records": rows, "epsilon": epsilon} for k, rows in enumerate(sizes)],
    }
    if noise == "shared":
        content["hosts"] = [{"name": f"host-{place}"} for place in range(3)]
    return parley.Terms.from_dict(content)


def by_budget(found: Found, words: str, budgets: list[float]) -> list[list[float]]:
    """The accuracies of a case's runs, for each eps."""
    return [[right for (case, eps, _), right in found.items() if (case, eps) == (words, e)] for e in budgets]


def picture(found: Found, budgets: list[float], rows: int) -> Figure:
    """Accuracy by eps: a line for the mean of each case, a dot for each run."""
    figure = Figure(figsize=(7.2, 4.4), layout="constrained", facecolor="white")
    axes, last = decorate(figure.add_subplot()), max(budgets)
    lines = [(words, colour, by_budget(found, words, budgets)) for words, (_, _, colour) in CASES.items()]
    lines.sort(key=lambda line: -np.mean(line[2][-1]))
    above = 1.0
    for words, colour, runs in lines:
        means, bold = [float(np.mean(each)) for each in runs], words == "three owners, one noise"
        style = {"linewidth": 2.4, "zorder": 3} if bold else {"linewidth": 1.5, "zorder": 4}
        axes.plot(budgets, means, color=colour, linestyle=(0, (4, 3)) if colour == INK else "-", **style)
        for epsilon, each in zip(budgets, runs, strict=True):
            axes.scatter([epsilon] * len(each), each, s=13, color=colour, linewidths=0, alpha=0.8, zorder=5)
        above = min(means[-1] + 0.012, above - 0.04)
        weight = "bold" if bold else "normal"
        axes.text(last * 1.06, above, words, color=colour, fontsize=9, fontweight=weight, va="center")
    axes.set_xscale("log")
    axes.set_xlim(min(budgets) * 0.9, last * 2.6)
    axes.set_xticks(budgets, [f"{e:g}" for e in budgets])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(which="minor", length=0)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel(f"{EPSILON} of each owner, for the whole run")
    axes.set_ylabel("digits told right")
    title = f"Three owners of {rows:,} digits each: one noise for all, or noise of each"
    axes.set_title(title, loc="left", color=INK, fontweight="bold", fontsize=11)
    return figure


if __name__ == "__main__":
    main()
