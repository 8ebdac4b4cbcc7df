"""Is there a better model at the same eps? Parley's planned terms beside other private methods and the public sample
alone.

Three tasks on real tables (interest rates of Lending Club by least squares; incomes of the 1994 census and defaults of
SBA loans by logistic regression), for one owner, three, and thirty of 800 rows, at eps 0.3, 1 and 3, delta = 1e-6,
replace-one adjacency. What is printed is the excess of the test cost over the best model without privacy (ridge of a
tiny penalty on all training rows), times 1000: mean and standard error over independent splits into training and test
rows, each with several draws of the noise. The public sample and what is planned on it are the same in all.

Everybody gets the same features: coded by hand (`common/books.py`), then bounded, centred and scaled by one public
sample of 3,000 rows, none of them an owner's. It is public: Parley plans on it, and what it teaches alone is a row of
the table.

- Parley: planned on the public sample as `parley init` does it, then `parley.train`; each owner's noise, and one noise
  for all.
- DP gradient descent (from 0, and from what the public sample alone teaches), objective perturbation, AdaSSP:
  `common/rivals.py`, tuned by an oracle on *test* costs, which favours them. With several owners each draws its own
  noise, as federated methods do.
- diffprivlib, if an interpreter that has it is given: pure eps (it has no delta for these models), chosen by the same
  oracle.
- own rows alone: each owner's own ridge regression without any privacy, the mean over owners.

    python benchmarks/best_model.py [--task adult] [--owners 30] [--epsilon 1] [--runs 5] [--diffprivlib PYTHON] [--json
    F]

Needs lendingclub.parquet, adult.parquet and sba_loans.parquet in PARLEY_DATA (default ../shared/data). A cell takes
less than a minute.
"""

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import books
from common.cells import (
    DESCENT,
    LIBRARY,
    OBJECTIVE,
    ONE_NOISE,
    OWN_ALONE,
    PLANNED,
    PUBLIC_ALONE,
    STATISTICS,
    WARM,
    ZERO,
    Cell,
    Entry,
    kept,
    summary,
    table,
    to_json,
    verdict,
)
from common.linear import TINY, Rows, chosen_ridge, losses, ridge
from common.rivals import GradientDescent, ObjectivePerturbation, Privacy, Rival, Statistics, tuned

import parley
from parley.decisions.forecasting.terms_from_files import RADIUS, Draft, planned
from parley.protocol.setup import Setup, resolve
from parley.report.terminal import console, progress_bar, terminal_table
from parley.validate import Floats

DELTA = 1e-6
PUBLIC, MANY = 3000, (30, 800)
TASKS = {
    "loans": (60_000, 30_000),
    "adult": (33_000, 12_000),
    "SBA": (60_000, 30_000),
}  # rows of one owner, or three together; to test on
EPSILONS, OWNERS = (0.3, 1.0, 3.0), (1, 3, 30)


@dataclass(frozen=True, eq=False)
class Task:
    """A table coded by hand, its public sample, and the terms of learning from it but for owners and budgets."""

    name: str
    kind: str
    target: str
    public: Path
    pool: pd.DataFrame
    rows: int
    tested: int

    def shape(self, owners: int) -> tuple[int, int]:
        """How many owners, of how many rows each."""
        return MANY if owners == MANY[0] else (owners, self.rows // owners)

    def terms(self, owners: int, epsilon: float) -> parley.Terms:
        count, rows = self.shape(owners)
        return parley.Terms.from_dict(
            {
                "model": {
                    "kind": self.kind,
                    "target": self.target,
                    "public": str(self.public),
                    "intercept": True,
                    "radius": RADIUS,
                },
                "learning": {},
                "privacy": {"mechanism": "gaussian", "delta": DELTA, "clip": 1.0},
                "owners": [{"name": f"owner-{i}", "records": rows, "epsilon": epsilon} for i in range(count)],
            }
        )

    @cached_property
    def base(self) -> Setup:
        """The common preparation."""
        return resolve(self.terms(1, 1.0))

    @cached_property
    def prepared(self) -> Rows:
        return self._rows(self.pool)

    @cached_property
    def sample(self) -> Rows:
        return self._rows(pd.read_parquet(self.public))

    @cached_property
    def public_model(self) -> Floats:
        return chosen_ridge(self.sample)

    def _rows(self, frame: pd.DataFrame) -> Rows:
        design = self.base.preparation.design(frame, self.name)
        return Rows(design.X, design.y, self.kind == "logistic-regression")


@dataclass(frozen=True, eq=False)
class Split:
    """Places of the pool: each owner's rows [owners, n] and the test rows; and the best cost without privacy."""

    task: Task
    owned: Floats
    tested: Floats

    @cached_property
    def train(self) -> Rows:
        return self.task.prepared.take(self.owned.ravel())

    @cached_property
    def test(self) -> Rows:
        return self.task.prepared.take(self.tested)

    @cached_property
    def least(self) -> float:
        return float(self.test.cost(ridge(self.train, TINY)))

    @cached_property
    def own_alone(self) -> float:
        """The mean over owners of what each reaches with its own rows."""
        return float(np.mean([self.excess(chosen_ridge(self.task.prepared.take(places))) for places in self.owned]))

    def excess(self, theta: Floats) -> float:
        """Mean over models [..., p], times 1000."""
        return 1000 * (float(self.test.cost(theta).mean()) - self.least)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--task", choices=list(TASKS), action="append", help="this one alone; may be repeated, as the next two may"
    )
    parser.add_argument("--owners", type=int, choices=OWNERS, action="append")
    parser.add_argument("--epsilon", type=float, action="append")
    parser.add_argument("--runs", type=int, default=5, help="independent splits")
    parser.add_argument("--replicates", type=int, default=4, help="draws of the noise for each split")
    parser.add_argument("--public", type=int, default=PUBLIC, help="rows of the public sample")
    parser.add_argument("--diffprivlib", metavar="PYTHON", help="an interpreter that can import diffprivlib")
    parser.add_argument(
        "--json", type=Path, metavar="F", help="write every figure and setting to this file, cell by cell"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="F",
        help="take all rows but Parley's from a file that --json wrote for the same splits",
    )
    parser.add_argument("--only-rivals", action="store_true", help="leave Parley's own rows out, for --keep later")
    asked = parser.parse_args()
    tasks, owners, epsilons = asked.task or list(TASKS), asked.owners or OWNERS, asked.epsilon or EPSILONS
    protocol = {"runs": asked.runs, "replicates": asked.replicates, "public": asked.public}
    known = kept(asked.keep, protocol)
    began, cells = time.perf_counter(), list[Cell]()
    with tempfile.TemporaryDirectory() as scratch:
        for name in tasks:
            task = open_task(name, asked.public, Path(scratch))
            for count in owners:
                splits = list(make_splits(task, count, asked.runs))
                for epsilon in epsilons:
                    study = Study(task, count, epsilon, splits, asked.replicates, asked.diffprivlib, Path(scratch))
                    with progress_bar(f"{name}, {count} owners, eps {epsilon:g}") as report:
                        before = known.get((name, count, epsilon))
                        entries = study.others(lambda done: report(done, 200)) if before is None else before
                        if not asked.only_rivals:
                            entries |= study.planned(lambda done: report(100 + done, 200))
                    cells.append(Cell(name, count, epsilon, entries))
                    console.print(summary(cells[-1]), markup=False, soft_wrap=True)
                    if asked.json is not None:
                        content = {**protocol, "cells": [to_json(cell) for cell in cells]}
                        asked.json.write_text(json.dumps(content, indent=1), encoding="utf-8")
    for epsilon in epsilons:
        chosen = [cell for cell in cells if cell.epsilon == epsilon]
        console.print(terminal_table(table(chosen), title=f"\neps = {epsilon:g}, delta = {DELTA:g}"), soft_wrap=True)
    console.print(
        "excess test cost x 1000 ± standard error; *: the best private rival or the public sample", markup=False
    )
    for line in [] if asked.only_rivals else verdict(cells):
        console.print(line, markup=False, soft_wrap=True)
    console.print(f"{time.perf_counter() - began:.0f} s", markup=False)


def open_task(name: str, public: int, scratch: Path) -> Task:
    """The book shuffled, the first rows public, the rest a pool to draw owners and test rows from."""
    book = {"loans": lambda: books.loans(all_years=True), "adult": books.adult, "SBA": books.sba}[name]().shuffled(
        0, 130_000
    )
    table, path = book.one_hot(public), scratch / f"{name}.parquet"
    table.iloc[:public].to_parquet(path)
    return Task(name, book.kind, book.target, path, table.iloc[public:].reset_index(drop=True), *TASKS[name])


def make_splits(task: Task, owners: int, runs: int) -> Iterator[Split]:
    count, rows = task.shape(owners)
    for run in range(runs):
        order = np.random.default_rng([1, run]).permutation(len(task.pool))
        if len(order) < count * rows + task.tested:
            raise SystemExit(
                f"{task.name}: {len(order)} rows are too few for {count} x {rows} and {task.tested} to test on"
            )
        yield Split(task, order[task.tested :][: count * rows].reshape(count, rows), order[: task.tested])


@dataclass(frozen=True, eq=False)
class Study:
    """One cell to be filled."""

    task: Task
    owners: int
    epsilon: float
    splits: list[Split]
    replicates: int
    library: str | None
    scratch: Path

    def others(self, report: Callable[[int], None]) -> dict[str, Entry]:
        """All rows but Parley's."""
        entries = {ZERO: self._each(lambda split: split.excess(np.zeros(split.train.X.shape[1])))}
        entries[PUBLIC_ALONE] = self._each(lambda split: split.excess(self.task.public_model))
        if self.owners > 1:
            entries[OWN_ALONE] = self._each(lambda split: split.own_alone)
        report(20)
        privacy = Privacy(self.epsilon, DELTA, self.owners)
        entries[DESCENT] = self._rival(GradientDescent(), privacy)
        report(40)
        entries[WARM] = self._rival(GradientDescent(start=self.task.public_model), privacy)
        report(60)
        if self.owners == 1:
            classes = self.task.kind == "logistic-regression"
            name, rival = (OBJECTIVE, ObjectivePerturbation()) if classes else (STATISTICS, Statistics())
            entries[name] = self._rival(rival, privacy)
            if self.library is not None:
                entries[LIBRARY] = self._library()
        return entries

    def planned(self, report: Callable[[int], None]) -> dict[str, Entry]:
        """Planned as `parley init` does it, and trained; for several owners with one noise for all, too."""
        drafted = Draft(self.task.terms(self.owners, self.epsilon), ())
        proposal = planned(drafted, progress=lambda done, total: report(60 * done // total)).proposal
        if proposal is None:
            raise SystemExit(f"{self.task.name}: these terms cannot be planned")
        entries = {PLANNED: self._trained(proposal)}
        report(80)
        if proposal.shared is not None and self.owners > 1:
            entries[ONE_NOISE] = self._trained(proposal.shared)
        return entries

    def _each(self, method: Callable[[Split], float]) -> Entry:
        return Entry(tuple(method(split) for split in self.splits))

    def _trained(self, proposal: parley.Proposal) -> Entry:
        """What the planned terms make of every split."""
        found = []
        for seed, split in enumerate(self.splits):
            owners = [parley.Owner(f"owner-{i}", self.task.pool.iloc[places]) for i, places in enumerate(split.owned)]
            result = parley.train(proposal.terms, owners, replicates=self.replicates, seed=seed, measure=False)
            found.append(self._test_excess(split, resolve(proposal.terms), result.theta))
        return Entry(tuple(found), asdict(proposal.best))

    def _test_excess(self, split: Split, setup: Setup, theta: Floats) -> float:
        """Predictions by the planned terms' own preparation, judged in the units of the common one."""
        made, base = setup.preparation, self.task.base.preparation
        margins = theta @ made.matrix(self.task.pool.iloc[split.tested], "test").T
        margins = (margins * made.target_scale + made.target_centre - base.target_centre) / base.target_scale
        return 1000 * (float(losses(margins, split.test.y, split.test.classes).mean()) - split.least)

    def _rival(self, rival: Rival, privacy: Privacy) -> Entry:
        first = self.splits[0]
        setting = tuned(rival, first.train, first.test, privacy)
        found = (
            split.excess(rival.models(split.train, [setting], privacy, self.replicates, seed))
            for seed, split in enumerate(self.splits)
        )
        return Entry(tuple(found), {"setting": setting})

    def _library(self) -> Entry:
        """diffprivlib's own model in its own interpreter; the best of some settings on the first split."""
        first = self.splits[0]
        sizes = [float(q) for q in np.quantile(first.train.norms, [0.5, 0.9, 1.0])]
        if first.train.classes:
            settings = [
                {"epsilon": self.epsilon, "norm": size, "C": weight} for size in sizes for weight in (0.01, 0.1, 1.0)
            ]
        else:
            ends = [float(end) for end in np.abs(first.train.X[:, :-1]).max(axis=0)]
            settings = [{"epsilon": self.epsilon, "ends": ends, "most": float(np.abs(first.train.y).max())}]
        costs = [first.excess(theta) for theta in self._ask_library(first, settings, 2)]
        best = settings[int(np.argmin(costs))]
        return Entry(
            tuple(split.excess(self._ask_library(split, [best], self.replicates)[0]) for split in self.splits), best
        )

    def _ask_library(self, split: Split, settings: list[dict[str, Any]], runs: int) -> Floats:
        rows, wanted, out = (self.scratch / name for name in ("rows.npz", "settings.json", "models.npz"))
        np.savez(rows, X=split.train.X, y=split.train.y)
        wanted.write_text(
            json.dumps(
                {"classes": split.train.classes, "settings": settings, "runs": runs, "seed": int(split.tested[0])}
            ),
            encoding="utf-8",
        )
        program = Path(__file__).parent / "common" / "diffprivlib_models.py"
        subprocess.run([str(self.library), str(program), str(rows), str(wanted), str(out)], check=True)
        return np.load(out)["theta"]


if __name__ == "__main__":
    main()
