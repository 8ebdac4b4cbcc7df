"""From files as they are to a model, by the commands that a user types: incomes in five tables, heart disease in four
hospitals.

Each time files are written as they come (names, gaps, skewed numbers), `parley init` writes the terms, `parley train`
releases a model from the owners' ledgers, `parley predict` applies it to rows that nobody learned from, and the AUC of
its probabilities is printed beside that of the same columns without privacy (logistic regression by scikit-learn on the
same training rows). No file is edited.

- adult: 2,000 public rows, five owners of 7,000, all raw columns, eps = 1, delta = 1e-6.
- heart: Cleveland, Budapest, Zurich and Basel, Long Beach; two thirds of each table are private rows, the others are
  the test. Nobody has a public sample: ranges and codes are declared in the command, as a physician would. Missing
  cells stay in. The target `num` counts vessels, and 0 is healthy. eps = 1, delta = 1e-6; each hospital's own noise,
  and one noise that three of them draw.

    python benchmarks/raw_tables.py [--table adult|heart|"heart with one noise"] [--runs 5] [--json F]

Needs adult.parquet and heart_*.csv in PARLEY_DATA (default ../shared/data).
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from common.books import DATA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from parley.report.terminal import progress_bar

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]
HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
RANGES = {
    "age": (20, 90), "trestbps": (80, 200), "chol": (0, 500), "thalach": (60, 210), "oldpeak": (-2, 6), "ca": (0, 3),
}  # fmt: skip
CODES = {
    "sex": "0,1",
    "cp": "1,2,3,4",
    "fbs": "0,1",
    "restecg": "0,1,2",
    "exang": "0,1",
    "slope": "1,2,3",
    "thal": "3,6,7",
}
WANTED = {"adult": 0.89, "heart": 0.84, "heart with one noise": 0.84}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", choices=list(WANTED), action="append", help="this one alone")
    parser.add_argument("--runs", type=int, default=5, help="independent splits, each with fresh noise")
    parser.add_argument("--json", type=Path, metavar="F")
    asked = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {}
    tables = asked.table or list(WANTED)
    with progress_bar("raw tables") as report:
        for place, name in enumerate(tables):
            found[name] = []
            for seed in range(asked.runs):
                report(place * asked.runs + seed, len(tables) * asked.runs)
                with tempfile.TemporaryDirectory() as scratch:
                    run = {"adult": adult, "heart": heart, "heart with one noise": heart_with_hosts}[name]
                    found[name].append(run(Path(scratch), seed, show=seed == 0))
    for name, runs in found.items():
        private, plain = ([run[kind] for run in runs] for kind in ("private", "plain"))
        print(
            f"{name}: AUC {np.mean(private):.4f} (from {min(private):.4f} to {max(private):.4f}; wanted "
            f"{WANTED[name]}), without privacy {np.mean(plain):.4f}; {np.mean([run['seconds'] for run in runs]):.0f} "
            "s a run"
        )
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


def adult(folder: Path, seed: int, show: bool) -> dict[str, float]:
    rows = pd.read_parquet(DATA / "adult.parquet").drop(columns="split")
    rows = rows.iloc[np.random.default_rng(seed).permutation(len(rows))]
    public, owned, test = rows.iloc[:2000], rows.iloc[2000:37_000], rows.iloc[37_000:]
    public.to_csv(folder / "public.csv", index=False)
    parts = {f"county-{i + 1}": owned.iloc[7000 * i : 7000 * (i + 1)] for i in range(5)}
    return through_commands(
        folder, parts, test, "income", ["--public", "public.csv"], test["income"].to_numpy() == 1, "1", show
    )


def heart_with_hosts(folder: Path, seed: int, show: bool) -> dict[str, float]:
    return heart(folder, seed, show, ("--hosts", "cleveland,hungarian,va"))


def heart(folder: Path, seed: int, show: bool, hosts: Sequence[str] = ()) -> dict[str, float]:
    rng, parts, tests = np.random.default_rng(seed), {}, []
    for name in HOSPITALS:
        rows = pd.read_csv(DATA / f"heart_{name}.csv")
        order = rng.permutation(len(rows))
        parts[name], held_out = rows.iloc[order[: 2 * len(rows) // 3]], rows.iloc[order[2 * len(rows) // 3 :]]
        tests.append(held_out)
    test = pd.concat(tests)
    more = ["--kind", "logistic-regression", "--positive", "0", *hosts]
    more += [word for column, (low, high) in RANGES.items() for word in ("--bounds", f"{column}={low},{high}")]
    more += [word for column, codes in CODES.items() for word in ("--categories", f"{column}={codes}")]
    return through_commands(folder, parts, test, "num", more, test["num"].to_numpy() == 0, "0", show)


def through_commands(
    folder: Path,
    parts: dict[str, pd.DataFrame],
    test: pd.DataFrame,
    target: str,
    more: list[str],
    positive: object,
    name: str,
    show: bool,
) -> dict[str, float]:
    """AUCs and seconds: three commands, and plain logistic regression."""
    began = time.perf_counter()
    for owner, rows in parts.items():
        rows.to_csv(folder / f"{owner}.csv", index=False)
    test.drop(columns=target).to_csv(folder / "new.csv", index=False)
    files = [f"{owner}.csv" for owner in parts]
    command(
        folder,
        ["init", *files, "--target", target, *more, *BUDGET, "--holdout", "0", "--write", "terms.toml", "--yes"],
        show,
    )
    books = ["--ledgers", "books", "--lifetime", "1", "--lifetime-delta", "1e-6"]
    command(folder, ["train", "terms.toml", *books, "--save", "model.json"], show)
    command(folder, ["predict", "model.json", "new.csv", "--out", "predicted.csv"], show)
    predicted = pd.read_csv(folder / "predicted.csv")[f"probability_{name}"]
    if show:
        lines = (folder / "terms.toml").read_text(encoding="utf-8").splitlines()
        print(
            "\n".join(
                line
                for line in lines
                if line.startswith(("algorithm", "horizon", "step", "clip", "start", "noise", "whitening"))
            )
        )
    return {
        "private": float(roc_auc_score(positive, predicted)),
        "plain": plain_auc(pd.concat(parts.values()), test, target, name, positive),
        "seconds": time.perf_counter() - began,
    }


def command(folder: Path, words: Sequence[str], show: bool) -> None:
    """One command line as a user types it; its output only if it fails."""
    if show:
        print("$ parley " + shlex.join(words), flush=True)
    done = subprocess.run([sys.executable, "-m", "parley", *words], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"parley {words[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def plain_auc(train: pd.DataFrame, test: pd.DataFrame, target: str, name: str, positive: object) -> float:
    """Without privacy: names and codes one-hot, gaps at the median with a mark."""
    both = pd.concat([train, test]).drop(columns=target)
    coded = [column for column in both if column in CODES or not pd.api.types.is_numeric_dtype(both[column])]
    numbers = both.drop(columns=coded)
    marks = numbers.isna().loc[:, numbers.isna().any()].add_suffix("?")
    hot = pd.get_dummies(both[coded].astype(str))
    X = pd.concat([numbers.fillna(numbers.iloc[: len(train)].median()), marks, hot], axis=1).to_numpy(np.float64)
    X = StandardScaler().fit(X[: len(train)]).transform(X)
    model = LogisticRegression(C=0.1, max_iter=1000).fit(X[: len(train)], train[target].astype(str).to_numpy() == name)
    return float(roc_auc_score(positive, model.decision_function(X[len(train) :])))


if __name__ == "__main__":
    main()
