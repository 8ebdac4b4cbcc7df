"""W's surfaces: figure 3 (loans, least squares) beside the plain loop, figure 8 (cards, SVM) beside this machine's
matrix products.

Figure 3: 10 sizes x 10 budgets x 100 runs x 100 rounds x 3 owners. Floor of a batched round without clipping: R p^2
flops and 3 R p random numbers, whatever n is. Figure 8 has no such shortcut: 4 n R p flops a round are its floor.

    python benchmarks/surfaces.py [--figure 3|8] [--runs 100] [--points 10] [--jobs 2]
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import parley
from parley.data import split_consecutive
from parley.learning.study_grid import Cell, study, vary
from parley_lab.papers.options import data_folder
from parley_lab.papers.wu2019.markets import Market, card_market, loan_market


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--figure", type=int, choices=[3, 8])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--points", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for figure, make in ((3, loan_market), (8, card_market)):
            if options.figure in (None, figure):
                surface(figure, make(data_folder(), Path(scratch)), options)


def surface(figure: int, market: Market, options: argparse.Namespace) -> None:
    sizes = np.unique(
        np.geomspace(1000, min(38_000 if figure == 3 else 30_000, market.rows // 3), options.points).astype(int)
    )
    cells = vary(
        market.terms, records=[int(n) for n in sizes], epsilon=[float(e) for e in np.geomspace(0.1, 10, options.points)]
    )
    began = time.perf_counter()
    study(cells, market.table, options.runs, seed=0, jobs=options.jobs)
    seconds = time.perf_counter() - began
    real = "real" if market.real else "SYNTHETIC"
    print(
        f"figure {figure}, {market.name} ({real}): {len(cells)} cells x {options.runs} runs x 100 rounds x 3 owners: "
        f"{seconds:.1f} s"
    )
    plain = sum(plain_round(market, int(n)) for n in sizes) * options.points * options.runs * 100
    print(
        f"  plain loop over cells, runs and rounds: {plain:,.0f} s (one round timed at each size): "
        f"{plain / seconds:,.0f} x"
    )
    p = width(cells[0], market)
    flops = 4.0 * 3 * float(sizes.sum()) * options.points * options.runs * p * 100
    rate = blas_rate()
    print(
        f"  as row-by-row products: {flops / 1e12:.2f} Tflop, {flops / seconds / 1e9:.1f} Gflop/s; dgemm here: "
        f"{rate / 1e9:.1f} Gflop/s"
    )
    print(f"  so {flops / rate:.1f} s at that rate; we took {seconds / (flops / rate):.2f} times that")


def width(cell: Cell, market: Market) -> int:
    part = cell.terms.owners[0]
    return parley.Owner(part.name, market.table.iloc[: part.records]).prepare(cell.terms).setup.parameters


def plain_round(market: Market, n: int) -> float:
    """Seconds of one round of one run written plainly: three clipped mean gradients, noise, a step."""
    terms = vary(market.terms, records=[n])[0].terms
    parts = split_consecutive(market.table, [n] * 3)
    data = []
    for part, table in zip(terms.owners, parts, strict=True):
        design = parley.Owner(part.name, table).prepare(terms).tables.train
        data.append((design.X, design.y, 30.0 / np.maximum(np.abs(design.X).sum(axis=1), 1e-9)))
    rng, theta = np.random.default_rng(0), np.zeros(data[0][0].shape[1])
    squared = terms.model.kind == "linear-regression"
    rounds = max(3, 300_000 // n)
    began = time.perf_counter()
    for _ in range(rounds):
        total = np.zeros_like(theta)
        for X, y, limit in data:
            margin = X @ theta
            derivative = 2 * (margin - y) if squared else np.where(margin * y < 1, -y, 0.0)
            total += np.clip(derivative, -limit, limit) @ X / n + rng.laplace(scale=1e-3, size=theta.shape)
        theta = theta - 1e-3 * total
    return (time.perf_counter() - began) / rounds


def blas_rate() -> float:
    a = np.random.default_rng(0).normal(size=(1500, 1500))
    a @ a
    began = time.perf_counter()
    for _ in range(3):
        a @ a
    return 3 * 2 * 1500.0**3 / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
