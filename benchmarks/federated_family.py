"""The federated family at equal total privacy, between banks of one law and between banks that differ, measured by
training.

Three banks share a loan market: dealt at random, or sorted by amount so that each knows other customers, one of them
slow (a quarter of the local steps). Every method gives the same number of noisy answers under the same (eps, delta) in
total; methods that send two vectors a step make half as many steps. Without noise the same rules show what is bias and
what is noise.

    python benchmarks/federated_family.py

Real loans lie in PARLEY_DATA; without, the market is synthetic, and the table says so.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd

import parley
from parley.data import split_consecutive
from parley_lab.papers.options import data_folder
from parley_lab.papers.wu2019.markets import Market, loan_market

ANSWERS, RUNS, DELTA = 20, 20, 1e-6
RECORDS, STEPS = 4_000, 60
PULL = 2.0

RULES: dict[str, dict[str, Any]] = {
    "gradient-descent": {"algorithm": "gradient-descent", "decay": 0.0},
    "federated-averaging": {"algorithm": "federated-averaging"},
    "fedprox": {"algorithm": "fedprox", "proximal": PULL},
    "fednova": {"algorithm": "fednova"},
    "scaffold": {"algorithm": "scaffold"},
    "scaffold, gradients": {"algorithm": "scaffold", "variates": "gradients"},
    "fedlin": {"algorithm": "fedlin"},
    "fedsplit": {"algorithm": "fedsplit", "proximal": PULL},
    "sufficient-statistics": {"algorithm": "sufficient-statistics", "horizon": 1},
}


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        market = loan_market(data_folder(), Path(scratch))
        sizes = f"3 x {RECORDS:,} records, {ANSWERS} answers, {STEPS} local steps"
        print(f"{market.name} ({'real' if market.real else 'SYNTHETIC'}), {sizes}, mean psi of {RUNS} runs")
        some = market.table.iloc[: 3 * RECORDS]
        for title, table in (("one law", some), ("banks differ", some.sort_values(key_column(market)))):
            compare(market, title, table.reset_index(drop=True))


def key_column(market: Market) -> str:
    """The feature by which banks that differ were sorted."""
    names = [str(column) for column in market.table.columns]
    return next((name for name in names if "fico" in name), names[0])


def compare(market: Market, title: str, table: pd.DataFrame) -> None:
    content = market.terms.model_dump()
    content["model"]["radius"] = 20.0
    content["privacy"] |= {"mechanism": "gaussian", "delta": DELTA, "clip": 20.0}
    parts = split_consecutive(table, [RECORDS] * 3)
    budgets = (1.0, 10.0, 1e6)
    print(
        f"{title:26s}"
        + "".join(f"{'no noise' if epsilon > 1e3 else f'eps {epsilon:g}':>12s}" for epsilon in budgets)
        + "      seconds"
    )
    for rule, learning in RULES.items():
        row, began = f"  {rule:24s}", time.perf_counter()
        for epsilon in budgets:
            for place, part in enumerate(content["owners"]):
                slow = {"local_steps": STEPS // 4} if place == 0 else {}
                part |= {"records": RECORDS, "epsilon": epsilon, "local_steps": None} | slow
            local = learning["algorithm"] not in ("gradient-descent", "sufficient-statistics")
            if not local:
                content["owners"][0]["local_steps"] = None
            asked = {"horizon": ANSWERS, **({"local_steps": STEPS} if local else {}), **learning}
            terms = parley.Terms.from_dict({**content, "learning": asked})
            owners = [parley.Owner(part["name"], rows) for part, rows in zip(content["owners"], parts, strict=True)]
            runs = 1 if epsilon > 1e3 else RUNS
            row += f"{parley.train(terms, owners, replicates=runs, seed=1, whole_path=False).path.mean():12.3g}"
        print(f"{row}{time.perf_counter() - began:12.1f}", flush=True)


if __name__ == "__main__":
    main()
