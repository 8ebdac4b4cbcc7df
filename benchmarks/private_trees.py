"""Trees without a public sample at the same eps: Parley's boosted trees beside DP-EBM (interpret).

One owner of 24,000 rows, 12,000 to test on; incomes of the 1994 census and defaults of SBA loans (log loss, AUC),
interest rates of Lending Club (root mean square error over the deviation of the rates). eps 0.5, 1 and 4, delta = 1e-6,
replace-one. Nobody has a public sample: columns have declared bounds, logarithms and names (`BOUNDS`), the same for
both. Splits are the same for both, too, so that ratios are paired; their significance is by Student's t, corrected for
all of them together by Holm's rule.

DP-EBM has the noise that replace-one asks for (`common/declared.py`). Its number of rounds and learning rate are chosen
from `TRIED`, for each table and eps, by the mean *test* cost, which favours it.
Parley's settings are those of terms that say nothing, the same everywhere. Which they are (48 steps, 100 trees, the
priors of leaf values) was looked at on these three tables at eps 1, in other splits of them: of 24 to 64 steps and 50
to 100 trees the costs differ by 2 % or less, but for SBA, where fewer than 48 steps cost 6 % more.

    python benchmarks/private_trees.py [--task adult] [--epsilon 1] [--runs 10] [--depth 2] [--interpret DIR]
                                       [--jobs 2] [--json F] [--tabulate]

Needs lendingclub.parquet, adult.parquet and sba_loans.parquet in PARLEY_DATA (default ../shared/data); DIR: where
interpret-core was installed (pip install --target DIR --no-deps interpret-core), if not beside Parley.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from common import books
from common.cells import chance, holm
from common.declared import TRIED, Declared, found_interpret
from common.figures import Key, Work, made, once, written

import parley
from parley.validate import Floats

ROWS, TESTED = 24_000, 12_000
OURS, RIVAL = "Parley", "DP-EBM"
BOOKS = {"adult": books.adult, "SBA": books.sba, "loans": lambda: books.loans(all_years=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=list(BOOKS), action="append")
    parser.add_argument("--epsilon", type=float, action="append")
    parser.add_argument("--runs", type=int, default=5, help="independent splits, at least 2")
    parser.add_argument("--depth", type=int, default=1, choices=(1, 2))
    parser.add_argument("--interpret", type=Path, metavar="DIR", help="where interpret-core was installed")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--json", type=Path, metavar="F", help="a line for all that is done; what it holds is kept")
    parser.add_argument("--tabulate", action="store_true", help="only print what the file holds")
    asked = parser.parse_args()
    cells = [(task, eps) for task in asked.task or BOOKS for eps in asked.epsilon or (0.5, 1.0, 4.0)]
    figures = written(asked.json)
    if not asked.tabulate:
        compared = found_interpret(asked.interpret)
        if not compared:
            print("interpret is not there: Parley's figures alone (--interpret DIR)")
        figures |= made(work(cells, asked, compared), asked.jobs, asked.json)
    print("log loss and AUC, or error over deviation; by splits that both have done")
    ratios = [ratio for cell in cells for ratio in tabulated(cell, asked.depth, figures)]
    for (name, ratio), together in zip(ratios, holm([chance(ratio - 1) for _, ratio in ratios]), strict=True):
        error = ratio.std(ddof=1) / len(ratio) ** 0.5
        print(f"{name}, cost, Parley's over DP-EBM's: {ratio.mean():.3f} ± {error:.3f}, corrected p {together:.2g}")


def work(cells: list[tuple[str, float]], asked: argparse.Namespace, compared: bool) -> dict[Key, Work]:
    """All that is to be done, split by split."""
    found = dict[Key, Work]()
    for run in range(asked.runs):
        for task, epsilon in cells:
            found[OURS, task, epsilon, run, asked.depth] = ours, (task, epsilon, run, asked.depth)
            for setting in TRIED if compared else []:
                found[RIVAL, task, epsilon, run, *setting] = rival, (task, epsilon, run, setting, asked.interpret)
    return found


def declared(name: str) -> Declared:
    return once(("declared", name), lambda: Declared(BOOKS[name]().shuffled(0, 130_000)))


def places(task: Declared, run: int) -> tuple[Floats, Floats]:
    """(training, test) rows."""
    order = np.random.default_rng([2, run]).permutation(len(task.frame))
    return order[TESTED : TESTED + ROWS], order[:TESTED]


def ours(name: str, epsilon: float, run: int, depth: int) -> tuple[float, ...]:
    task = declared(name)
    train, test = places(task, run)
    owner = parley.Owner("owner", task.frame.iloc[train].reset_index(drop=True))
    model = parley.train(task.terms(epsilon, depth, ROWS), [owner], seed=run, measure=False).model
    return task.measured(model, task.frame.iloc[test])


def rival(name: str, epsilon: float, run: int, setting: tuple[int, float], folder: Path | None) -> tuple[float, ...]:
    found_interpret(folder)
    task = declared(name)
    return task.measured(*task.rival_fitted(epsilon, setting, *places(task, run), run))


def tabulated(cell: tuple[str, float], depth: int, figures: dict[Key, Any]) -> list[tuple[str, Floats]]:
    """Prints a cell; (its name, ratios of costs [runs]) if both are there."""
    own = {key[3]: figure for key, figure in figures.items() if key[:3] == (OURS, *cell) and key[4] == depth}
    every = {
        setting: {key[3]: figure for key, figure in figures.items() if key[:3] == (RIVAL, *cell) and key[4:] == setting}
        for setting in TRIED
    }
    both = sorted(set(own).intersection(*every.values()))
    name = f"{cell[0]}, eps {cell[1]:g}"
    print(f"{name}\n{line(OURS, [own[run] for run in both or sorted(own)])}")
    if len(both) < 2:
        return []
    best = min(TRIED, key=lambda setting: float(np.mean([every[setting][run][0] for run in both])))
    print(f"{line(RIVAL, [every[best][run] for run in both])}   rounds {best[0]}, rate {best[1]:g}")
    return [(name, np.array([own[run][0] / every[best][run][0] for run in both]))]


def line(name: str, found: list[tuple[float, ...]]) -> str:
    if len(found) < 2:
        return f"  {name:8} too few splits"
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / len(found) ** 0.5
    return f"  {name:8} " + "   ".join(f"{m:.4f} ± {e:.4f}" for m, e in zip(mean, error, strict=True))


if __name__ == "__main__":
    main()
