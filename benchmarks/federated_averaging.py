"""What do local steps buy? Federated averaging against gradient steps at equal budgets and equally few rounds, measured
by training.

Three banks share a loan market of one law; every method has five rounds, Gaussian noise and the same (eps, delta).
Gradient methods are given their automatic step (from the public sample) and, unfairly, the best of a ladder of steps in
hindsight. Local steps are as long as the bounds allow every table (1/L), so it takes many of them to get anywhere; none
of them costs noise.

    python benchmarks/federated_averaging.py

Real loans lie in PARLEY_DATA; without, the market is synthetic, and the table says so.
"""

import argparse
import tempfile
from pathlib import Path

import parley
from parley.data import split_consecutive
from parley_lab.papers.options import data_folder
from parley_lab.papers.wu2019.markets import Market, loan_market

ROUNDS, RUNS, DELTA = 5, 100, 1e-6
RECORDS = 30_000
LADDER = (0.25, 0.5, 1.0, 1.4, 2.0, 4.0)  # times the automatic step


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        compare(loan_market(None, Path(scratch)))
        if data_folder() is not None:
            compare(loan_market(data_folder(), Path(scratch)))


def compare(market: Market) -> None:
    content = market.terms.model_dump()
    content["model"]["radius"] = 20.0
    content["privacy"] |= {"mechanism": "gaussian", "delta": DELTA, "clip": 20.0}
    parts = split_consecutive(market.table, [RECORDS] * 3)
    for epsilon in (0.5, 2.0, 10.0):
        for part in content["owners"]:
            part |= {"records": RECORDS, "epsilon": epsilon}
        owners = [parley.Owner(part["name"], table) for part, table in zip(content["owners"], parts, strict=True)]
        terms = with_learning(content, algorithm="gradient-descent")
        setup = owners[0].prepare(terms).setup
        largest, here = setup.objective.largest_curvature(setup.preparation), setup.objective.curvature(setup.public)
        print(f"{market.name} ({'real' if market.real else 'SYNTHETIC'}), 3 x {RECORDS:,} records, eps = "
              f"{epsilon:g}, T = {ROUNDS}; curvature {here:.3g} on the sample, {largest:.4g} at most")  # fmt: skip
        for algorithm in ("gradient-descent", "averaged-subgradient"):
            unit = (ROUNDS**2 if algorithm == "gradient-descent" else 1) / here
            tried = {f: psi(with_learning(content, algorithm=algorithm, step=f * unit), owners) for f in LADDER}
            best = min(tried, key=lambda f: tried[f])
            print(
                f"  {algorithm:22s} automatic step: psi {tried[1.0]:.3g}; best in hindsight ({best:g} x): "
                f"{tried[best]:.3g}"
            )
        for steps in (1, 10, 100, 1000, 4000):
            averaged = with_learning(content, algorithm="federated-averaging", local_steps=steps)
            expected = parley.forecast(averaged, resamples=1)
            print(f"  federated-averaging    {steps:4d} local steps: psi {psi(averaged, owners):.3g} (forecast "
                  f"{expected.relative_fitness.mean:.3g}, {expected.method})")  # fmt: skip


def with_learning(content: dict[str, object], **learning: object) -> parley.Terms:
    return parley.Terms.from_dict({**content, "learning": {"horizon": ROUNDS, **learning}})


def psi(terms: parley.Terms, owners: list[parley.Owner]) -> float:
    return float(parley.train(terms, owners, replicates=RUNS, seed=1, whole_path=False).path.mean())


if __name__ == "__main__":
    main()
