"""Is the outlook right on real tables? What it says of owners' gains beside what joining then brought, over splits.

Each table is cut twice, into up to six owners: by who holds the rows (states, banks, hospitals, regions, towns,
years), with own noise; and at random into owners of 100 to 1,500 rows, with one noise. Terms as `parley init` writes
them, eps 1. A split draws anew which rows are public, an owner's or new, and trains once. An owner's gain is what its
personal model saves against its model alone on new rows of its own. An owner is clear where its mean gain over splits
lies beyond two standard errors from 0.5 % of its cost; if it is below that, or not clear, `join` is wrong.

    python benchmarks/outlook_of_tables.py [--splits 12] [--first 0] [--tables loans,heart] [--jobs 2] [--json F]

Needs PARLEY_DATA (default ../shared/data).
"""

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common.books import DATA
from joblib import Parallel, delayed

import parley
from parley.decisions.from_files.terms_from_files import draft_terms
from parley.decisions.outlook.inside_view import inside_view
from parley.errors import ParleyError
from parley.learning.outcome.correction import rows_with_trees
from parley.learning.outcome.personal import alone_and_personal_models, plain_columns
from parley.learning.outcome.verdict import LEAST_GAIN

OWNERS, PUBLIC, EPSILON = 6, 1000, 1.0
SIZES = np.geomspace(100, 1500, OWNERS).astype(int)  # where rows are cut at random
MOST, NEW = 1500, 3000  # rows of an owner at most: to learn from, and to judge by


@dataclass(frozen=True, eq=False)
class Cut:
    """A table with its target, and who holds each row."""

    rows: pd.DataFrame
    target: str
    who: pd.Series
    wishes: dict[str, Any] = field(default_factory=dict)
    public: pd.DataFrame | None = None  # None: rows held back


def loans() -> Cut:
    rows = pd.read_parquet(DATA / "lendingclub.parquet")
    rows = rows[rows["source"] == 0]
    kept = "loan_amnt term emp_length annual_inc dti open_acc revol_bal revol_util inq_last_6mths total_acc purpose"
    return Cut(rows[[*kept.split(), "home_ownership", "int_rate"]], "int_rate", rows["addr_state"].astype(str))


def adult() -> Cut:
    rows = pd.read_parquet(DATA / "adult.parquet")
    rows = rows[rows["occupation"].notna()]
    kept = "age education_num capital_gain capital_loss hours_per_week workclass marital_status race income"
    return Cut(rows[kept.split()], "income", rows["occupation"].astype(str))


def defaults() -> Cut:
    return _banks("Default", "DisbursementGross", "SBA_Appv", "ApprovalFY")


def amounts() -> Cut:
    return _banks("DisbursementGross")


def _banks(target: str, *more: str) -> Cut:
    kept = ["Term", "NoEmp", "CreateJob", "RetainedJob", "NewExist", "UrbanRural", *more, target]
    rows = pd.read_parquet(DATA / "sba_loans.parquet", columns=list({*kept, "Bank", "Default"}))
    rows = rows[rows["Default"].notna() & rows["Bank"].notna()]
    if target == "DisbursementGross":
        rows[target] = np.log1p(rows[target].astype(float))
    return Cut(rows[kept], target, rows["Bank"].astype(str))


def heart() -> Cut:
    names = ("cleveland", "hungarian", "switzerland", "va")
    parts = [pd.read_csv(DATA / f"heart_{name}.csv").assign(who=name) for name in names]
    rows = pd.concat(parts, ignore_index=True)
    rows["disease"] = (rows.pop("num") > 0).astype(int)
    return Cut(rows.drop(columns=["who", "slope", "ca", "thal"]), "disease", rows["who"])


def hours() -> Cut:
    rows = pd.read_parquet(DATA / "hi.parquet")
    kept = ["whrswk", "education", "race", "hispanic", "experience", "kidslt6", "kids618", "husby", "hhi"]
    return Cut(rows[kept], "whrswk", rows["region"].astype(str))


def food() -> Cut:
    rows = pd.read_parquet(DATA / "budget_food.parquet").dropna()
    return Cut(rows[["wfood", "totexp", "age", "size", "sex"]], "wfood", rows["town"].astype(str))


def fraud() -> Cut:
    rows = pd.read_parquet(DATA / "creditcard.parquet")
    hour = pd.qcut(rows["Time"].rank(method="first"), OWNERS, labels=[f"part {place}" for place in range(OWNERS)])
    return Cut(rows.drop(columns="Time"), "Class", hour.astype(str))


def relapse() -> Cut:
    rows, public = (pd.read_parquet(DATA / f"{name}.parquet") for name in ("rotterdam", "gbsg"))
    named = {"rtime": "time", "recur": "event", "rfstime": "time", "status": "event"}
    kept = ["age", "meno", "nodes", "pgr", "er", "hormon", "grade", "time", "event"]
    third = pd.qcut(rows["year"].rank(method="first"), 3, labels=["early", "middle", "late"]).astype(str)
    rows, public = (each.rename(columns=named)[kept] for each in (rows, public))
    return Cut(rows, "time", third, {"kind": "survival", "event": "event", "periods": (365, 730, 1095, 1825)}, public)


TABLES: dict[str, Callable[[], Cut]] = {
    each.__name__: each for each in (loans, adult, defaults, amounts, heart, hours, food, fraud, relapse)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=12)
    parser.add_argument("--first", type=int, default=0, help="the first split")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="F", help="add a line for each split")
    asked = parser.parse_args()
    cases = [
        (name, by, split)
        for split in range(asked.first, asked.first + asked.splits)
        for name in asked.tables.split(",")
        for by in ("holder", "chance")
    ]
    found = Parallel(n_jobs=asked.jobs)(delayed(judged)(*case, asked.json) for case in cases)
    for line in lines([row for rows in found for row in rows]):
        print(line)


def judged(name: str, by: str, split: int, file: Path | None = None) -> list[dict[str, Any]]:
    """What was said of the owners of one split, and what came of it."""
    cut, rng = TABLES[name](), np.random.default_rng([11, split])
    public, parts = divided(cut, by, rng)
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / f"{who}.csv") for who in ("public", *parts)]
        for place, table in zip(files, [public, *(mine for mine, _ in parts.values())], strict=True):
            table.to_csv(place, index=False)
        try:
            told = _judged(cut, by, split, files[1:], files[0], [new for _, new in parts.values()])
        except ParleyError as error:
            print(f"{name} {by} {split}: {error}"[:300])
            return []
    told = [{"table": name, "by": by, "split": split, **each} for each in told]
    if file is not None:
        with file.open("a") as out:
            out.write("".join(json.dumps(each) + "\n" for each in told))
    return told


def divided(
    cut: Cut, by: str, rng: np.random.Generator
) -> tuple[pd.DataFrame, dict[str, tuple[pd.DataFrame, pd.DataFrame]]]:
    """(public rows, for each owner the rows it learns from and new ones)."""
    rows, who = cut.rows.reset_index(drop=True), cut.who.reset_index(drop=True)
    order = rng.permutation(len(rows))
    held = 0 if cut.public is not None else min(PUBLIC, len(rows) // 6)
    public, left = rows.iloc[order[:held]] if cut.public is None else cut.public, order[held:]
    if by == "chance":
        sizes = np.maximum(SIZES * min(1.0, 0.7 * len(left) / SIZES.sum()), 60).astype(int)
        ends = np.cumsum(sizes)
        new = rows.iloc[left[ends[-1] :][:NEW]]
        starts = zip(ends - sizes, ends, strict=True)
        return public, {f"owner{place}": (rows.iloc[left[a:b]], new) for place, (a, b) in enumerate(starts)}
    sizes = who.value_counts()
    names = sorted((name for name, count in sizes.items() if count >= 100), key=lambda name: (-sizes[name], name))
    chosen = [names[place] for place in np.unique(np.linspace(0, len(names) - 1, OWNERS).round().astype(int))]
    parts = {}
    for place, name in enumerate(chosen):
        mine = left[who.iloc[left].to_numpy() == name]
        new = min(NEW, int(0.4 * len(mine)))
        parts[f"owner{place}"] = rows.iloc[mine[new:][:MOST]], rows.iloc[mine[:new]]
    return public, parts


def _judged(
    cut: Cut, by: str, split: int, files: Sequence[str], public: str, future: Sequence[pd.DataFrame]
) -> list[dict[str, Any]]:
    hosts = ("h1", "h2", "h3") if by == "chance" else ()
    terms = draft_terms(files, cut.target, public=public, epsilon=EPSILON, hosts=hosts, **cut.wishes).terms
    forecast = parley.forecast(terms)
    owners = [parley.Owner(part.name, file) for part, file in zip(terms.owners, files, strict=True)]
    model = parley.train(terms, owners, seed=split, measure=False).model
    told = []
    for owner, expected, new in zip(owners, forecast.owners, future, strict=True):
        agreement = owner.prepare(terms)
        alone, (personal,) = alone_and_personal_models(
            agreement, model.theta_[None], plain_columns(owner, agreement)[0]
        )
        risk, preparation = agreement.setup.risk, agreement.setup.preparation
        rows, columns = preparation.design(new, owner.name), preparation.unturned.design(new, owner.name).X
        costs = [
            float(risk.record_losses(*rows_with_trees(risk, rows, theta, trees, columns)).mean())
            * preparation.target_scale**2
            for theta, trees in ((alone.theta, alone.trees), (personal.theta, personal.trees), (model.theta_, None))
        ]
        inside = inside_view(terms, owner, public=forecast).owner
        real = dict(zip(("real_alone", "real_personal", "real_together"), costs, strict=True))
        told.append({**expected.to_json(), **real, "records": expected.records, "inside": inside.to_json()})
    return told


def lines(told: Sequence[dict[str, Any]]) -> list[str]:
    """How often verdicts are wrong, and how often unsure where the outcome is clear."""
    owners = defaultdict[tuple[str, str, str], list[dict[str, Any]]](list)
    for row in told:
        owners[row["table"], row["by"], row["name"]].append(row)
    views = {"outside": lambda row: row["verdict"], "inside": lambda row: row["inside"]["verdict"]}
    views["by sign"] = lambda row: "join" if row["gain"] > 0 else "stay"
    views["everybody joins"] = lambda row: "join"
    found = [f"{len(owners)} owners, {len(told)} owners in splits"]
    for view, verdict in views.items():
        clear = gaining = wrong = unsure = unclear_joins = 0
        for rows in owners.values():
            gains = np.array([row["real_alone"] - row["real_personal"] for row in rows])
            least = LEAST_GAIN * float(np.mean([row["real_alone"] for row in rows]))
            error = 2 * gains.std(ddof=1) / len(gains) ** 0.5
            gained, lost = gains.mean() - error > least, gains.mean() + error < least
            said_ = [verdict(row) for row in rows]
            if gained or lost:
                clear, gaining = clear + len(rows), gaining + len(rows) * gained
                wrong += said_.count("stay" if gained else "join")
                unsure += said_.count("unsure")
            else:
                unclear_joins += said_.count("join")
        total = len(told)
        found.append(
            f"{view:16} wrong {(wrong + unclear_joins) / max(total, 1):6.1%} (of clear {wrong / max(clear, 1):6.1%}), "
            f"unsure of clear {unsure / max(clear, 1):6.1%}; clear {clear / max(total, 1):.0%}, gaining "
            f"{gaining / max(total, 1):.0%}"
        )
    return found


if __name__ == "__main__":
    main()
