"""Is stable noise worth anything? Studies at one sound (eps, delta), Gaussian noise beside stable noise by alpha.

Three owners, rows dealt at random, a public sample of 1,000 that scales columns; gradient descent (mean of the last
half of the rounds), names in columns of their own: incomes (adult, logistic regression), loans (least squares). Every
law learns with the clip and the rounds that are best for it in a first look at 24 other runs, so none is favoured. The
eps of stable noise holds in every direction (Renyi divergences, `high`); "Gaussian, the same rule" is Gaussian noise
accounted for as loosely as that, which tells the price of the rule from that of the tails. Figures are quantiles of
relative fitness over the runs: stable noise has no variance. A second table has the other algorithms, all laws with the
same clip and rounds; local steps, which are short where columns are many, from three columns.

    python benchmarks/stable_noise.py [--epsilon 1] [--rows 5000] [--replicates 200] [--table 1] [--out laws.png]

Needs lendingclub.parquet and adult.parquet in PARLEY_DATA (default ../shared/data).
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from common import books

import parley
from parley.learning.outcome import Result
from parley.privacy.accounting import multiplier_for
from parley.privacy.events import GaussianEvent
from parley.privacy.mechanisms.gaussian import gaussian_epsilon
from parley.report.figures.picture import save
from parley.validate import Floats
from parley_lab.noise_laws import QUANTILE_LEVELS, quantiles_by_law

DELTA, PUBLIC, OWNERS, HELD_OUT = 1e-6, 1000, 3, 0.25
ALPHAS = (1.999, 1.9, 1.5)
CLIPS, ROUNDS = (2.0, 4.0, 8.0), (30, 60)
LOOK = 24  # runs of the first look
SAME_RULE = "Gaussian, the same rule"
LAWS = ("Gaussian", SAME_RULE, *(f"α = {alpha:g}" for alpha in ALPHAS))
Panels = dict[str, list[tuple[str, Floats]]]
OTHERS = {
    "private-sgd, batches of a fifth": {"algorithm": "private-sgd", "batches": 5, "epochs": 10},
    "private-sgd, drawn in secret": {"algorithm": "private-sgd", "batches": 5, "epochs": 4, "sampling": "poisson"},
    "federated-averaging": {"algorithm": "federated-averaging", "horizon": 10, "local_steps": 20},
    "scaffold": {"algorithm": "scaffold", "horizon": 10, "local_steps": 20},
    "fedinfer": {"algorithm": "fedinfer"},
}
FEW = {"adult": ["age", "education_num", "hours_per_week"], "loans": ["term", "revol_util", "inq_last_6mths"]}


class Bench:
    """One table, dealt to owners: studies of it by any law of noise."""

    def __init__(self, book: books.Book, rows: int, folder: Path) -> None:
        table = book.shuffled(0, PUBLIC + OWNERS * rows).one_hot(PUBLIC)
        public = folder / f"{book.name}.parquet"
        table[:PUBLIC].to_parquet(public)
        self.owners = [
            parley.Owner(f"o{place}", table[start : start + rows].reset_index(drop=True))
            for place, start in enumerate(range(PUBLIC, PUBLIC + OWNERS * rows, rows))
        ]
        model = {"kind": book.kind, "target": book.target, "public": str(public), "holdout": HELD_OUT}
        self.name, self.squared = book.name, not book.classes
        self.content = {
            "model": model | {"intercept": True, "radius": 10.0},
            "owners": [{"name": owner.name, "records": rows, "epsilon": 1.0} for owner in self.owners],
        }

    def study(self, law: str, epsilon: float, learning: dict[str, object], clip: float, runs: int, seed: int) -> Result:
        """A study with this noise, so many runs at once."""
        learning = {"step": "auto", **learning} if learning["algorithm"] != "fedinfer" else learning
        noise: dict[str, object] = {"mechanism": "gaussian"}
        if law.startswith("α"):
            noise = {"mechanism": "stable", "alpha": float(law.removeprefix("α = "))}
        content = {**self.content, "learning": learning, "privacy": {"delta": DELTA, "clip": clip, **noise}}
        terms = parley.Terms.from_dict(content)
        if "local_steps" in learning:
            terms = terms.changed(model={"features": FEW[self.name]})
        if law == SAME_RULE:
            epsilon = as_loose(epsilon, terms.learning.horizon)
        terms = terms.changed(everyone={"epsilon": epsilon})
        return parley.train(terms, self.owners, replicates=runs, seed=seed, whole_path=False)

    def best(self, law: str, epsilon: float, runs: int) -> tuple[Result, str]:
        """Gradient descent with the clip and the rounds that a first look likes best for this law."""
        tried = {}
        for clip in CLIPS:
            for rounds in ROUNDS:
                learning = {"algorithm": "gradient-descent", "horizon": rounds, "decay": 0.0, "average": "tail"}
                found = self.study(law, epsilon, learning, clip, LOOK, 1)
                tried[float(np.median(fitness(found)))] = learning, clip
        learning, clip = tried[min(tried)]
        return self.study(law, epsilon, learning, clip, runs, 2), f"{learning['horizon']} rounds, clip {clip:g}"


def as_loose(epsilon: float, count: int) -> float:
    """The exact eps of Gaussian noise of which Renyi divergences say that it costs `epsilon`."""
    multiplier = multiplier_for(lambda m: GaussianEvent(m, count=count), epsilon, DELTA, "rdp")
    return gaussian_epsilon(multiplier / count**0.5, DELTA)


def fitness(result: Result) -> Floats:
    """Relative fitness of every run [R]."""
    if result.path is None:
        raise ValueError("relative fitness is not defined")
    return np.asarray(result.path[-1])


def line(name: str, law: str, result: Result, picked: str) -> str:
    """A row of the first table."""
    low, q25, median, q75, high = np.quantile(fitness(result), QUANTILE_LEVELS)
    metric = "r2" if "r2" in result.metrics else "auc"
    costs = "exact"
    if result.stable_bounds is not None:
        bound = next(iter(result.stable_bounds.values()))
        costs = f"{bound.low:.2f} to {bound.high:.2f}; one coordinate {bound.one_dimensional:.2f}"
    spread = f"{median:.4f} | {q25:.4f} to {q75:.4f} | {low:.4f} to {high:.4f}"
    return f"| {name} | {law} | {spread} | {metric} {result.metrics[metric]:.4f} | {picked} | {costs} |"


def descents(benches: Sequence[Bench], epsilon: float, replicates: int) -> Panels:
    """The first table, printed: gradient descent, each law at its best; relative fitness of all its runs."""
    panels: Panels = {}
    print("| table | noise | ψ, median | quartiles | 5 to 95 % | held out | picked | ε |\n|" + "---|" * 8)
    for bench in benches:
        panels[bench.name] = []
        for law in LAWS:
            result, picked = bench.best(law, epsilon, replicates)
            print(line(bench.name, law, result, picked), flush=True)
            panels[bench.name].append((law.replace(", the same rule", ",\nsame rule"), fitness(result)))
    return panels


def others(benches: Sequence[Bench], epsilon: float, replicates: int) -> None:
    """The second table, printed: the other algorithms, median and quartiles of relative fitness."""
    laws = [law for law in LAWS if law != SAME_RULE]
    print(f"\n| table | algorithm | {' | '.join(laws)} |\n|" + "---|" * (len(laws) + 2))
    for bench in benches:
        for name, learning in OTHERS.items():
            if learning["algorithm"] == "fedinfer" and not bench.squared:
                continue
            clip = 20.0 if learning["algorithm"] == "fedinfer" else 2.0
            found = [bench.study(law, epsilon, learning, clip, replicates, 3) for law in laws]
            cells = [np.quantile(fitness(each), (0.5, 0.25, 0.75)) for each in found]
            said = " | ".join(f"{m:.3g} ({a:.3g} to {b:.3g})" for m, a, b in cells)
            print(f"| {bench.name} | {name} | {said} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--table", type=int, choices=(1, 2))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        benches = [Bench(book, asked.rows, Path(scratch)) for book in (books.adult(), books.loans())]
        print(f"{OWNERS} owners x {asked.rows:,} rows, eps = {asked.epsilon:g}, delta = {DELTA:g}, replace-one\n")
        if asked.table != 2:
            panels = descents(benches, asked.epsilon, asked.replicates)
            if asked.out is not None:
                title = f"Noise at the same sound ε = {asked.epsilon:g} (replace-one), {asked.replicates} runs each"
                save(quantiles_by_law(panels, title, "relative fitness ψ (0 = optimum)"), asked.out)
        if asked.table != 1:
            others(benches, asked.epsilon, asked.replicates)


if __name__ == "__main__":
    main()
