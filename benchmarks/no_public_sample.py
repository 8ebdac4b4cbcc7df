"""Adult from raw columns without a public sample: scales asked of five owners, a plan by what they released, a model;
epsilon 1 in all.

    python benchmarks/no_public_sample.py [SHARE ...]

prints for each share of epsilon that goes to the scales the AUC on held-out rows, beside that of the model without
privacy, prepared alike.

    python benchmarks/no_public_sample.py --forecasts

prints for four tables, each split among three owners, of which generous ranges alone are declared, the forecast
relative fitness with its interval beside the simulated one, by planned terms. PARLEY_DATA is the folder of the tables.
"""

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

import parley
from parley.decisions.planning.planner import plan
from parley.tasks.statistics.column_statistics.run import ask_column_statistics

OWNERS, EPSILON, DELTA, RUNS = 5, 1.0, 1e-6, 4
ROWS = 4000  # of each of three owners whose columns have declared ranges


@dataclass(frozen=True)
class Declared:
    """A table, and ranges that somebody generous would declare without looking."""

    file: str
    kind: str
    target: str
    ranges: Mapping[str, tuple[float, float]]


DECLARED = (
    Declared(
        "adult",
        "logistic-regression",
        "income",
        {
            "age": (0, 120),
            "education_num": (0, 20),
            "hours_per_week": (0, 120),
            "capital_gain": (0, 1e5),
            "capital_loss": (0, 5000),
        },
    ),
    Declared(
        "lendingclub",
        "linear-regression",
        "int_rate",
        {
            "loan_amnt": (0, 4e4),
            "annual_inc": (0, 5e5),
            "dti": (0, 60),
            "open_acc": (0, 80),
            "revol_util": (0, 150),
            "int_rate": (0, 40),
        },
    ),
    Declared(
        "sba_loans",
        "logistic-regression",
        "Default",
        {
            "Term": (0, 600),
            "NoEmp": (0, 500),
            "DisbursementGross": (0, 2e6),
            "GrAppv": (0, 2e6),
            "ApprovalFY": (1960, 2020),
        },
    ),
    Declared(
        "creditcard",
        "linear-regression",
        "Amount",
        {"V1": (-30, 30), "V2": (-30, 30), "V3": (-30, 30), "V4": (-30, 30), "V5": (-30, 30), "Amount": (0, 5000)},
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shares", nargs="*", type=float, default=[0.1, 0.2, 0.3])
    parser.add_argument("--forecasts", action="store_true", help="of declared ranges, beside simulations")
    given = parser.parse_args()
    shares, folder = given.shares, Path(os.environ.get("PARLEY_DATA", "shared/data"))
    if given.forecasts:
        forecasts(folder)
        return
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


def forecasts(folder: Path) -> None:
    print("table  epsilon  forecast  from  to  simulated  within")
    for table in DECLARED:
        columns = [*table.ranges, *(() if table.target in table.ranges else (table.target,))]
        rows = pd.read_parquet(folder / f"{table.file}.parquet")[columns].dropna().astype(float)
        rows = rows.sample(3 * ROWS, random_state=1)
        owners = [parley.Owner(f"o{k}", rows.iloc[k * ROWS : (k + 1) * ROWS]) for k in range(3)]
        for epsilon in (0.5, 2.0, 8.0):
            terms = plan(declared_terms(table, epsilon)).terms
            said = parley.forecast(terms).relative_fitness
            found = parley.train(terms, owners, replicates=40, seed=3, whole_path=False).relative_fitness["mean"]
            figures = f"{said.mean:.3g}  {said.low:.3g}  {said.high:.3g}  {found:.3g}"
            print(f"{table.file}  {epsilon:g}  {figures}  {said.low <= found <= said.high}", flush=True)


def declared_terms(table: Declared, epsilon: float) -> parley.Terms:
    """Terms by which nothing but ranges is known of the columns."""
    features = [column for column in table.ranges if column != table.target]
    return parley.Terms.from_dict(
        {
            "model": {
                "kind": table.kind,
                "target": table.target,
                "features": features,
                "intercept": True,
                "bounds": dict(table.ranges),
                "centres": {column: (low + high) / 2 for column, (low, high) in table.ranges.items()},
                "scales": {column: (high - low) / 4 for column, (low, high) in table.ranges.items()},
                "holdout": 0.2,
            },
            "learning": {"algorithm": "averaged-subgradient", "horizon": 30, "step": "auto"},
            "privacy": {"mechanism": "gaussian", "delta": DELTA, "clip": 3.0},
            "owners": [{"name": f"o{k}", "records": ROWS, "epsilon": epsilon} for k in range(3)],
        }
    )


if __name__ == "__main__":
    main()
