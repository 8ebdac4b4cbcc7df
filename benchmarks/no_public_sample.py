"""Adult from raw columns without a public sample: scales asked of five owners, a plan by what they released, a model;
epsilon 1 in all.

    python benchmarks/no_public_sample.py [SHARE ...]

prints for each share of epsilon that goes to the scales the AUC on held-out rows, beside that of the model without
privacy, prepared alike. PARLEY_DATA is the folder with adult.parquet.
"""

import argparse
import os
from pathlib import Path

import pandas as pd

import parley
from parley.decisions.forecasting import plan
from parley.tasks.column_statistics.run import ask_column_statistics

OWNERS, EPSILON, DELTA, RUNS = 5, 1.0, 1e-6, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shares", nargs="*", type=float, default=[0.1, 0.2, 0.3])
    shares = parser.parse_args().shares
    folder = Path(os.environ.get("PARLEY_DATA", "shared/data"))
    people = pd.read_parquet(folder / "adult.parquet").drop(columns="split").sample(frac=1, random_state=1)
    rows = len(people) // OWNERS
    owners = [parley.Owner(f"o{k}", people.iloc[k * rows : (k + 1) * rows].astype(object)) for k in range(OWNERS)]
    print("share  names  bounds  AUC  without privacy")
    for share in shares:
        terms = parley.Terms.from_dict(
            {
                "model": {
                    "kind": "logistic-regression",
                    "target": "income",
                    "coding": "one-hot",
                    "missing": "fill",
                    "holdout": 0.2,
                    "features": [column for column in people if column != "income"],
                },
                "privacy": {"mechanism": "gaussian", "delta": DELTA, "clip": 1.0, "scale_epsilon": share * EPSILON},
                "owners": [{"name": owner.name, "records": rows, "epsilon": EPSILON} for owner in owners],
            }
        )
        ready = ask_column_statistics(terms, owners, seed=0).ready.terms
        result = parley.train(plan(ready).terms, owners, replicates=RUNS, seed=1, whole_path=False)
        names = sum(map(len, ready.model.categories.values()))
        figures = f"{result.metrics['auc']:.4f}  {result.optimal_metrics['auc']:.4f}"
        print(f"{share:g}  {names}  {len(ready.model.bounds)}  {figures}", flush=True)


if __name__ == "__main__":
    main()
