"""Clipped least squares of a studied table: sums of sorted records kept twice the number of columns apart, beside every
128 rows.

    python benchmarks/clipped_least_squares.py [--rows 20000] [--columns 100 600 1000] [--replicates 96] [--rounds 20]

A run of so many rounds from zero towards the best fit, with noise around it; the clip is reached by one record in
twenty at the best fit. Processor seconds of all gradients, what had to be sorted and summed for them included, and how
many bytes the sums take, beside the table's own. "row by row" is the plain way of an owner that serves.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from parley.data import Design
from parley.losses import RecordBound
from parley.losses.loss import derivative_limit
from parley.losses.objectives.linear_regression import MIN_PREFIX_ROWS, ClippedLeastSquares, LinearRegression, best_fit
from parley.validate import Floats


def table(rows: int, columns: int) -> Design:
    """Gaussian columns, and errors with some far out."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, columns))
    return Design(
        X, X @ rng.normal(size=columns) / columns**0.5 + rng.standard_t(3, size=rows), np.ones(rows), study=True
    )


def path(best: Floats, replicates: int, rounds: int) -> list[Floats]:
    """The parameters of every round [replicates, p]: half of what is left each time, and noise."""
    rng = np.random.default_rng(2)
    noise = 0.1 * rng.normal(size=(rounds, replicates, len(best))) / len(best) ** 0.5
    return [(1 - 0.5**k) * best + noise[k] for k in range(rounds)]


def timed(work: Callable[[], Floats]) -> tuple[Floats, float]:
    began = time.process_time()
    found = work()
    return found, time.process_time() - began


def measure(rows: int, columns: int, replicates: int, rounds: int) -> None:
    design, objective = table(rows, columns), LinearRegression()
    best = best_fit(design)[0]
    bound = RecordBound(float(np.quantile(objective.record_norms(design, best, "l2"), 0.95)), "l2", clips=True)
    limit, thetas = derivative_limit(design, bound), path(best, replicates, rounds)
    plain = Design(design.X, design.y, design.weight)
    expected, slow = timed(lambda: np.array([objective.mean_gradient(plain, theta, bound) for theta in thetas]))
    seconds, kept = {}, {}
    for name, apart in (("every 128 rows", MIN_PREFIX_ROWS), ("2 p apart", None)):

        def run(apart: int | None = apart) -> Floats:
            nonlocal sorted_table
            sorted_table = ClippedLeastSquares(design, limit, best, apart)
            if apart is not None:
                sorted_table.prefix(len(sorted_table._blocks))  # all at once, whether they are needed or not
            return np.array([sorted_table.mean_gradient(theta) for theta in thetas])

        sorted_table: ClippedLeastSquares
        found, seconds[name] = timed(run)
        kept[name] = sum(A.nbytes + b.nbytes for A, b in sorted_table._sums)
        apart_by = np.abs(found - expected).max() / np.abs(expected).max()
        print(
            f"{rows:,} x {columns:<5} {name:>15}: {seconds[name]:7.2f} s of sums {kept[name] / 1e6:8.1f} MB "
            f"({kept[name] / design.X.nbytes:.2f} tables), {slow / seconds[name]:.1f} x as fast as row by row, apart "
            f"by {apart_by:.0e}"
        )
    (old, new), (before, after) = seconds.values(), kept.values()
    print(f"{'':10} ratio: {old / new:.2f} in time, {before / after:.1f} in memory", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, nargs="*", default=[10, 100, 600, 1000])
    parser.add_argument("--replicates", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    for columns in given.columns:
        measure(given.rows, columns, given.replicates, given.rounds)


if __name__ == "__main__":
    main()
