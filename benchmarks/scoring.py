"""Nine owners judge one joint model: `parley score --all`, from files, in processor seconds by what they are spent on.

    python benchmarks/scoring.py [--rows 10000] [--kind logistic-regression]

Each owner's table is the loans of one state (US Small Business Administration, PARLEY_DATA; without, synthetic loans),
raw columns from CSV files. Beside the owner's own verdicts: what reading and preparing the tables takes, and the time
of the same models, alone and personal, if they were made one after the other.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from common.books import DATA

import parley
from parley.data import synthetic_lending
from parley.learning.outcome.personal import personal_model, plain_columns
from parley.learning.outcome.verdict import score

OWNERS, PUBLIC = 9, 2000
TARGETS = {"logistic-regression": "Default", "linear-regression": "GrAppv"}


def tables(rows: int) -> tuple[list[pd.DataFrame], pd.DataFrame, list[str]]:
    """The owners' tables, a public sample, and the columns of names."""
    if not (DATA / "sba_loans.parquet").exists():
        loans = synthetic_lending(OWNERS * rows + PUBLIC, seed=1)
        loans = loans.assign(Default=(loans["int_rate"] > 14).astype(int), GrAppv=loans["loan_amnt"]).drop(
            columns="int_rate"
        )
        names = [str(column) for column in loans if not pd.api.types.is_numeric_dtype(loans[column])]
        parts = [loans.iloc[k * rows : (k + 1) * rows] for k in range(OWNERS)]
        return parts, loans.iloc[OWNERS * rows :], names
    loans = pd.read_parquet(DATA / "sba_loans.parquet").dropna(subset=["Default"])
    loans = loans.drop(columns=["Bank", "NAICS", "FranchiseCode", "ChgOffPrinGr", "ApprovalFY"]).sample(
        frac=1, random_state=0
    )
    loans["Default"] = loans["Default"].astype(int)
    public, loans = loans.iloc[:PUBLIC].drop(columns="State"), loans.iloc[PUBLIC:]
    states = loans["State"].value_counts().index[:OWNERS]
    parts = [loans[loans["State"] == state].drop(columns="State").iloc[:rows] for state in states]
    return parts, public, ["BankState", "RevLineCr", "LowDoc"]


def terms_of(kind: str, parts: list[pd.DataFrame], names: list[str], folder: Path) -> parley.Terms:
    target = TARGETS[kind]
    model = {
        "kind": kind, "target": target, "public": str(folder / "public.csv"), "holdout": 0.2, "missing": "fill",
        "coding": "one-hot", "intercept": True, "features": [column for column in parts[0].columns if column != target],
        "categories": {
            name: sorted(pd.read_csv(folder / "public.csv")[name].dropna().astype(str).unique()) for name in names
        },
    }  # fmt: skip
    owners = [
        {"name": f"o{k}", "records": len(part), "epsilon": 3.0, "data": str(folder / f"o{k}.csv")}
        for k, part in enumerate(parts)
    ]
    return parley.Terms.from_dict(
        {
            "model": model,
            "learning": {"horizon": 10},
            "privacy": {"mechanism": "gaussian", "delta": 1e-6, "clip": 5.0},
            "owners": owners,
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--kind", choices=list(TARGETS), default="logistic-regression")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        parts, public, names = tables(given.rows)
        public.to_csv(folder / "public.csv", index=False)
        for k, part in enumerate(parts):
            part.to_csv(folder / f"o{k}.csv", index=False)
        terms = terms_of(given.kind, parts, names, folder)
        owners = [parley.Owner(part.name, str(part.data)) for part in terms.owners]
        model = parley.train(terms, owners, seed=1, measure=False).model
        began = time.process_time()
        fresh = [parley.Owner(part.name, str(part.data)) for part in terms.owners]
        agreements = [owner.prepare(terms) for owner in fresh]
        read = time.process_time() - began
        print(f"{len(parts)} owners, {sum(map(len, parts)):,} rows, {len(model.theta_)} parameters, {given.kind}")
        print(f"reading and preparing               {read:8.2f} s")
        began = time.process_time()
        for owner, agreement in zip(fresh, agreements, strict=True):
            for start in (np.zeros_like(model.theta_), model.theta_):
                personal_model(agreement, start, plain_columns(owner, agreement)[0])
        apart = time.process_time() - began
        print(f"models alone, then personal ones    {apart:8.2f} s")
        began = time.process_time()
        verdicts = [score(terms, parley.Owner(part.name, str(part.data)), model) for part in terms.owners]
        whole = time.process_time() - began
        gains = [verdict.personal_gain.mean for verdict in verdicts]
        print(
            f"all of it, as parley score --all    {whole:8.2f} s, {(read + apart) / whole:.2f} x as fast as the two "
            f"above"
        )
        print(f"what the personal models save: {min(gains):.3g} to {max(gains):.3g}")


if __name__ == "__main__":
    main()
