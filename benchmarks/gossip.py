"""No centre at equal total privacy: nine banks on a ring, a grid, a star and a complete graph, beside gradient descent
with a centre.

Every bank gives the same number of noisy gradients under the same (eps, delta) in total; only where they are asked
differs. Banks are dealt at random, or sorted by the first column so that each knows other customers. All take the step
that is automatic on the ring. Beside the mean psi of the mean point with its standard error: how far the farthest
bank's own point is from it, over how far the model is from its start.

    python benchmarks/gossip.py

Real loans lie in PARLEY_DATA; without, the market is synthetic, and the table says so.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import parley
from parley.data import split_consecutive
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.algorithms.gossip import metropolis, spectral_gap
from parley.terms.topology import edges
from parley_lab.papers.options import data_folder
from parley_lab.papers.wu2019.markets import Market, loan_market

BANKS = tuple(f"bank-{place}" for place in range(1, 10))
RECORDS, ANSWERS, RUNS, DELTA = 2_000, 40, 40, 1e-6
BUDGETS = (1.0, 10.0, 1e6)  # the last is as good as none
GRAPHS = ("ring", "grid", "star", "complete")


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        market = loan_market(data_folder(), Path(scratch))
        sizes = f"{len(BANKS)} x {RECORDS:,} records, {ANSWERS} answers"
        print(
            f"{market.name} ({'real' if market.real else 'SYNTHETIC'}), {sizes}, mean psi of {RUNS} runs ± standard "
            f"error, [apart]"
        )
        some = market.table.iloc[: len(BANKS) * RECORDS]
        key = str(some.columns[0])
        for title, table in (("one law", some), ("banks differ", some.sort_values(key))):
            compare(market, title, table.reset_index(drop=True))


def compare(market: Market, title: str, table: pd.DataFrame) -> None:
    parts = split_consecutive(table, [RECORDS] * len(BANKS))
    owners = [parley.Owner(name, rows) for name, rows in zip(BANKS, parts, strict=True)]
    heads = ("no noise" if epsilon > 1e3 else f"eps {epsilon:g}" for epsilon in BUDGETS)
    print(f"{title:18s}{'gap':>6s}" + "".join(f"{head:>32s}" for head in heads) + "   seconds")
    rules: dict[str, dict[str, Any]] = {"gradient-descent": {"algorithm": "gradient-descent", "decay": 0.0}}
    step = make_algorithm(
        owners[0].prepare(terms_of(market, {"algorithm": "gossip", "topology": "ring"}, 1.0)).setup
    ).step
    rules |= {graph: {"algorithm": "gossip", "topology": graph} for graph in GRAPHS}
    for rule, learning in rules.items():
        began = time.perf_counter()
        gap = "" if rule not in GRAPHS else f"{spectral_gap(metropolis(BANKS, edges(rule, BANKS))):.2f}"
        cells = "".join(f"{cell(market, owners, {**learning, 'step': step}, epsilon):>32s}" for epsilon in BUDGETS)
        print(f"  {rule:16s}{gap:>6s}{cells}{time.perf_counter() - began:10.1f}", flush=True)


def cell(market: Market, owners: list[parley.Owner], learning: dict[str, Any], epsilon: float) -> str:
    result = parley.train(
        terms_of(market, learning, epsilon), owners, replicates=1 if epsilon > 1e3 else RUNS, seed=1, whole_path=False
    )
    last = np.asarray(result.path)[-1]
    error = f" ± {last.std(ddof=1) / len(last) ** 0.5:.2g}" if len(last) > 1 else ""
    far = (
        ""
        if result.consensus_error is None
        else f" [{result.consensus_error / np.linalg.norm(result.theta, axis=1).mean():.2g}]"
    )
    return f"{last.mean():.3g}{error}{far}"


def terms_of(market: Market, learning: dict[str, Any], epsilon: float) -> parley.Terms:
    content = market.terms.model_dump()
    content["model"]["radius"] = 20.0
    content["privacy"] |= {"mechanism": "gaussian", "delta": DELTA, "clip": 20.0}
    parts = [{"name": name, "records": RECORDS, "epsilon": epsilon} for name in BANKS]
    return parley.Terms.from_dict({**content, "learning": {"horizon": ANSWERS, **learning}, "owners": parts})


if __name__ == "__main__":
    main()
