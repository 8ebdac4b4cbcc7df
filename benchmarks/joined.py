"""Columns of the same people at two owners: a joint model from noisy moments beside what each owner could do alone.

    python benchmarks/joined.py [--book adult] [--people 31000] [--splits 3] [--runs 3] [--bins 20]

Each table is cut by columns into two owners' tables, which share `people` people; each owner has some thousand others.
A fifth of the shared people test every model. A public sample of 1,000 other rows gives cut points and names; one
setting, the usual 20 bins, is used throughout, and no test row chooses anything. Printed: AUC on test people, the mean
over splits with twice its standard error, of

- boosted trees without noise: of the target's owner on all its own rows, of the other's columns, of all columns;
- the joined model at each epsilon (delta 1e-6, a tenth of epsilon for the number of matches), from zero and from the
  public sample's fit; that fit alone; and the joined model without noise;
- logistic regression without noise on the same columns, which the joined model approximates; and its log loss beside
  that of the joined model without noise, by a line from the public rows' margins and by one from normal margins.

Needs adult.parquet and sba_loans.parquet in PARLEY_DATA (default ../shared/data).
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import books
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

import parley
from parley.data.holdout import is_held_out
from parley.protocol.task import RunSettings
from parley.tasks.joined.run import simulate_join

EPSILONS, DELTA, PUBLIC, HELD_OUT = (0.5, 1.0, 4.0), 1e-6, 1000, 0.2
KEY = "person"


@dataclass(frozen=True)
class Cut:
    """A table, and which columns the target's owner has beside the target."""

    book: books.Book
    own: tuple[str, ...]
    others: int  # rows of each owner alone, about people whom the other does not know


def cuts() -> dict[str, Cut]:
    adult = ("workclass", "occupation", "hours_per_week", "capital_gain", "capital_loss")
    sba = ("Term", "DisbursementGross", "GrAppv", "SBA_Appv", "ApprovalFY", "RevLineCr", "LowDoc")
    return {"adult": Cut(books.adult(), adult, 8400), "SBA": Cut(books.sba(), sba, 8400)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--book", choices=["adult", "SBA"], default=None)
    parser.add_argument("--people", type=int, nargs="+", default=[31_000])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--bins", type=int, default=20)
    asked = parser.parse_args()
    for name, cut in cuts().items():
        if asked.book not in (None, name):
            continue
        for people in asked.people:
            rows = [measured(cut, people, split, asked.runs, asked.bins) for split in range(asked.splits)]
            print(f"\n{name}, {people:,} people at both owners, {round(people * (1 - HELD_OUT)):,} to learn from")
            for figure in rows[0]:
                values = np.array([row[figure] for row in rows])
                error = 2 * values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
                print(f"  {figure:<44} {values.mean():.4f} ± {error:.4f}", flush=True)


def measured(cut: Cut, people: int, split: int, runs: int, bins: int) -> dict[str, float]:
    """Return every model's AUC on this split's test people."""
    book, target = cut.book, cut.book.target
    columns = [*book.numbers, *book.names]
    rows = book.rows.sample(frac=1, random_state=split).reset_index(drop=True)[[*columns, target]]
    rows[target] = rows[target].astype(int)
    rows = plain(rows, book).assign(**{KEY: np.arange(len(rows))})
    public, rest = rows[:PUBLIC], rows[PUBLIC:]
    both, first, second = rest[:people], rest[people : people + cut.others], rest[people + cut.others :][: cut.others]
    others = [column for column in columns if column not in cut.own]
    with tempfile.TemporaryDirectory() as folder:
        sample = Path(folder) / "public.csv"
        public.drop(columns=KEY).to_csv(sample, index=False)
        tables = (
            pd.concat([both, first])[[KEY, *cut.own, target]],
            pd.concat([both, second])[[KEY, *others]],
        )
        found, terms = {}, terms_of(book, tables, sample, bins, split)
        out = np.array([is_held_out(terms.model, str(person)) for person in both[KEY]])
        mine = ~np.array([is_held_out(terms.model, str(person)) for person in tables[0][KEY]])
        train, test = both[~out], both[out]
        found["boosted trees: the target's owner alone"] = boosted(tables[0][mine], test, cut.own, book)
        found["boosted trees: the other's columns, matched"] = boosted(train, test, others, book)
        for start in (None, "public"):
            for epsilon in EPSILONS:
                result = simulated(terms.changed(learning={"start": start}), tables, epsilon, runs)
                name = "joined" if start is None else "joined, public start"
                found[f"{name}, epsilon {epsilon:g}"] = float(result.joined.values("auc").mean())
        found["the public sample alone, same columns"] = float(result.alone[-1].values("auc")[0])
        found["joined, without noise"] = float(result.without_noise.values("auc")[0])
        found |= beside_logistic(result, train, test, target)
        found["boosted trees: all columns, matched"] = boosted(train, test, columns, book)
    return found


def plain(rows: pd.DataFrame, book: books.Book) -> pd.DataFrame:
    """Names as text, gaps as a name of their own; missing numbers as 0, as elsewhere in these benchmarks."""
    changed = {}
    for column in book.names:
        cells = rows[column].astype(object)
        changed[column] = "n " + cells.where(cells.notna(), "none").astype(str)
    return rows.assign(**changed, **{column: rows[column].fillna(0).astype(float) for column in book.numbers})


def terms_of(book: books.Book, tables: Sequence[pd.DataFrame], sample: Path, bins: int, split: int) -> parley.Terms:
    return parley.Terms.from_dict(
        {
            "model": {
                "kind": book.kind,
                "target": book.target,
                "columns": "bins",
                "bins": bins,
                "public": str(sample),
                "holdout": HELD_OUT,
                "holdout_by": "person",
                "holdout_seed": split,
            },
            "learning": {"algorithm": "joined-moments"},
            "privacy": {"mechanism": "gaussian", "noise": "shared", "delta": DELTA},
            "join": {"key": KEY, "epsilon": 0.1, "delta": DELTA / 10},
            "hosts": [{"name": name} for name in ("a", "b", "c")],
            "owners": [
                {
                    "name": name,
                    "records": len(table),
                    "epsilon": 1.0,
                    "columns": [column for column in table if column != KEY],
                }
                for name, table in zip(("first", "second"), tables, strict=True)
            ],
        }
    )


def simulated(terms: parley.Terms, tables: Sequence[pd.DataFrame], epsilon: float, runs: int) -> Any:
    agreed = terms.changed(everyone={"epsilon": epsilon}, join={"epsilon": epsilon / 10})
    owners = [parley.Owner(name, table) for name, table in zip(("first", "second"), tables, strict=True)]
    return simulate_join(agreed, owners, RunSettings(replicates=runs, seed=1))


def boosted(train: pd.DataFrame, test: pd.DataFrame, columns: Sequence[str], book: books.Book) -> float:
    names = [column for column in columns if column in book.names]
    kinds = {column: pd.CategoricalDtype(sorted({*train[column], *test[column]})) for column in names}
    one, other = (rows[[*columns]].astype(kinds) for rows in (train, test))
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    model.fit(one, train[book.target])
    return float(roc_auc_score(test[book.target], model.predict_proba(other)[:, 1]))


def beside_logistic(result: Any, train: pd.DataFrame, test: pd.DataFrame, target: str) -> dict[str, float]:
    """Logistic regression on the same columns, and how far the surrogate's probabilities are from its."""
    from parley.learning.outcome.model import make_model
    from parley.tasks.joined.fitting import fit_moments
    from parley.tasks.joined.plan import join_plan

    plan = result.plan
    X, Z = (plan.whole.matrix(rows, "rows") for rows in (train, test))
    true = LogisticRegression(C=1e4, max_iter=2000, fit_intercept=False).fit(X, train[target])
    normal = join_plan(plan.terms.changed(learning={"start": None}))
    surrogates = [make_model(plan.whole, fit_moments(each, result.clear).theta, "", False) for each in (plan, normal)]
    probabilities = [true.predict_proba(Z)[:, 1], *(each.predict_proba(test)[:, 1] for each in surrogates)]
    losses = [log_loss(test[target], p) for p in probabilities]
    return {
        "logistic regression, same columns": float(roc_auc_score(test[target], probabilities[0])),
        "log loss: logistic regression": losses[0],
        "log loss: joined, no noise, public margins": losses[1],
        "log loss: joined, no noise, normal margins": losses[2],
    }


if __name__ == "__main__":
    main()
