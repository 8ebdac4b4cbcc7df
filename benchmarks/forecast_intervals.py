"""Do the forecast's 90 % intervals cover where thirty owners train with a clip that binds?

Real loans: their interest rates by least squares, or which are dear by logistic regression. Every run draws a public
sample and thirty owners' tables anew, forecasts, trains, and looks whether the mean relative fitness of the owners'
runs lies in the interval. Wanted: 84 to 96 % of 200.

    python benchmarks/forecast_intervals.py [--runs 200] [--first 0] [--kind linear-regression] [--start public]
    [--public 1000]
        [--share 0.2]

Real data lie in PARLEY_DATA; without, the market is synthetic, and it says so.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import parley
from parley.decisions.knowledge.pilot import open_pilot
from parley.report.terminal import console, progress_bar
from parley_lab.papers.options import data_folder
from parley_lab.papers.wu2019.markets import loan_market

OWNERS, ROWS, ROUNDS = 30, 300, 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument(
        "--first", type=int, default=0, help="seed of the first run: pieces of a long measurement add up"
    )
    parser.add_argument("--kind", choices=["linear-regression", "logistic-regression"], default="linear-regression")
    parser.add_argument("--start", choices=["zero", "public"], default="zero")
    parser.add_argument("--public", type=int, default=1000, help="rows of the public sample")
    parser.add_argument(
        "--share", type=float, default=0.2, help="of the records that the clip scales down at the optimum"
    )
    parser.add_argument("--epsilon", type=float, default=1.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        market = loan_market(data_folder(), Path(scratch))
        table, target = market.table, market.terms.model.target
        if asked.kind == "logistic-regression":
            table = table.assign(**{target: (table[target] > table[target].median()).astype(int)})
        console.print(
            f"loans ({'real' if market.real else 'SYNTHETIC'}), {asked.kind}, {OWNERS} owners x {ROWS}", markup=False
        )
        inside, below, widths = 0, 0, []
        with progress_bar("runs") as report:
            for run in range(asked.runs):
                low, high, truth = one(table, target, asked, asked.first + run, Path(scratch) / "public.parquet")
                inside += low <= truth <= high
                below += truth < low
                widths.append(high / low)
                report(run + 1, asked.runs)
    console.print(
        f"inside: {inside} of {asked.runs} ({inside / asked.runs:.1%}); below {below}, above "
        f"{asked.runs - inside - below}; median high/low {np.median(widths):.2f}",
        markup=False,
    )


def one(
    table: pd.DataFrame, target: str, asked: argparse.Namespace, run: int, path: Path
) -> tuple[float, float, float]:
    """(low, high, truth) of one run."""
    rng = np.random.default_rng(run)
    order = rng.permutation(len(table))[: asked.public + OWNERS * ROWS]
    table.iloc[order[: asked.public]].reset_index(drop=True).to_parquet(path)
    content = {
        "model": {"kind": asked.kind, "target": target, "public": str(path), "intercept": True},
        "learning": {
            "algorithm": "gradient-descent",
            "decay": 0.0,
            "average": "tail",
            "horizon": ROUNDS,
            "start": asked.start,
        },
        "privacy": {"mechanism": "gaussian", "delta": 1e-6, "clip": 1e3},
        "owners": [{"name": f"o{i}", "records": ROWS, "epsilon": asked.epsilon} for i in range(OWNERS)],
    }
    known = open_pilot(parley.Terms.from_dict(content))
    sizes = known.objective.record_norms(known.design, known.landscape().optimum, "l2")
    content["privacy"]["clip"] = float(f"{np.quantile(sizes, 1 - asked.share):.3g}")
    terms = parley.Terms.from_dict(content)
    interval = parley.forecast(terms, seed=run).relative_fitness
    owned = order[asked.public :].reshape(OWNERS, ROWS)
    owners = [parley.Owner(f"o{i}", table.iloc[places].reset_index(drop=True)) for i, places in enumerate(owned)]
    truth = parley.train(terms, owners, replicates=32, seed=run, whole_path=False).relative_fitness["mean"]
    return interval.low, interval.high, truth


if __name__ == "__main__":
    main()
