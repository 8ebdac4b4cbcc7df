"""Is there a better model at the same eps? What `parley init` plans beside other private methods and the public sample
alone.

Three tasks on real tables (interest rates of Lending Club by least squares; incomes of the 1994 census and defaults of
SBA loans by logistic regression), for one owner, three, and thirty of 800 rows, at eps 0.3, 1 and 3, delta = 1e-6,
replace-one adjacency. What is printed is the excess of the test cost over the best linear model without privacy (ridge
of a tiny penalty on all training rows), times 1000: mean and standard error over independent splits into public,
training and test rows, each with several draws of the noise. Every split has a public sample of its own, 1,000 rows or
3,000. Below stand the paired differences between Parley and every rival, and their significance by Student's t,
corrected for all of them together by Holm's rule.

Everybody gets the same features: coded by hand from the split's public sample (`common/books.py`). Rivals have them
bounded, centred and scaled by it, too; with --raw Parley takes the columns as they are in the file.

- Parley: `init`'s own draft and plan, lines, bins or trees, then `parley.train`; each owner's noise, and one for all.
- DP gradient descent (from 0; from what the public sample alone teaches; from there in coordinates whitened by the
  public Hessian), objective perturbation, AdaSSP: `common/rivals.py`, tuned by an oracle on *test* costs, which favours
  them. With several owners each draws its own noise, as federated methods do.
- diffprivlib, if an interpreter that has it is given: pure eps (it has no delta for these models), chosen by the same
  oracle.
- the public sample alone: ridge; boosted public sample: trees of it, their size by cross-validation, of raw columns.
- own rows alone: each owner's own ridge regression without any privacy, the mean over owners.

    python benchmarks/best_model.py [--task adult] [--owners 30] [--epsilon 1] [--public 1000] [--runs 5] [--raw]
                                    [--diffprivlib PYTHON] [--json F]

Needs lendingclub.parquet, adult.parquet and sba_loans.parquet in PARLEY_DATA (default ../shared/data). A split takes
about a minute.
"""

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import books
from common.boosted import boosted_public
from common.cells import (
    BOOSTED,
    DESCENT,
    LIBRARY,
    OBJECTIVE,
    ONE_NOISE,
    OWN_ALONE,
    PLANNED,
    PUBLIC_ALONE,
    STATISTICS,
    TURNED,
    WARM,
    ZERO,
    Cell,
    Entry,
    comparisons,
    kept,
    summary,
    table,
    to_json,
    verdict,
)
from common.linear import TINY, Rows, chosen_ridge, losses, ridge, whitening
from common.rivals import GradientDescent, ObjectivePerturbation, Privacy, Rival, Statistics, tuned

import parley
from parley.decisions.forecasting.known_columns import Wishes
from parley.decisions.forecasting.terms_from_files import draft, planned
from parley.protocol.setup import Setup, resolve
from parley.report.terminal import console, progress_bar, terminal_table
from parley.validate import Floats

DELTA = 1e-6
MANY = (30, 800)
BOOKS = {"loans": lambda: books.loans(all_years=True), "adult": books.adult, "SBA": books.sba}
TASKS = {
    "loans": (60_000, 30_000),
    "adult": (33_000, 12_000),
    "SBA": (60_000, 30_000),
}  # rows of one owner, or three together; to test on
EPSILONS, OWNERS, PUBLIC = (0.3, 1.0, 3.0), (1, 3, 30), (1000, 3000)


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of a book, in this order: public ones, each owner's, and those to test on; and a folder of its own."""

    book: books.Book
    public: int
    owners: int
    each: int
    folder: Path
    raw: bool

    @cached_property
    def coded(self) -> pd.DataFrame:
        """By hand, from the public rows."""
        return self.book.one_hot(self.public)

    @cached_property
    def given(self) -> pd.DataFrame:
        """What Parley's files hold."""
        columns = [*self.book.numbers, *self.book.names, self.book.target]
        return self.book.rows[columns] if self.raw else self.coded

    @cached_property
    def files(self) -> tuple[Path, list[Path]]:
        """(the public sample's, owners')"""
        names = ["public", *(f"owner-{i}" for i in range(self.owners))]
        places = [self.folder / f"{name}.parquet" for name in names]
        for file, rows in zip(places, [slice(self.public), *self.owned], strict=True):
            self.given.iloc[rows].to_parquet(file)
        return places[0], places[1:]

    @property
    def owned(self) -> list[slice]:
        begins = range(self.public, self.public + self.owners * self.each, self.each)
        return [slice(begin, begin + self.each) for begin in begins]

    @property
    def tested(self) -> slice:
        return slice(self.public + self.owners * self.each, None)

    @cached_property
    def base(self) -> Setup:
        """How rivals' columns are bounded, centred and scaled."""
        self.coded.iloc[: self.public].to_parquet(self.folder / "coded.parquet")
        model = {"kind": self.book.kind, "target": self.book.target, "intercept": True}
        return resolve(
            parley.Terms.from_dict(
                {
                    "model": {**model, "public": str(self.folder / "coded.parquet")},
                    "privacy": {"mechanism": "gaussian", "delta": DELTA, "clip": 1.0},
                    "owners": [{"name": "all", "records": self.owners * self.each, "epsilon": 1.0}],
                }
            )
        )

    def rows(self, places: slice) -> Rows:
        design = self.base.preparation.design(self.coded.iloc[places], "rows")
        return Rows(design.X, design.y, self.book.classes)

    @cached_property
    def sample(self) -> Rows:
        return self.rows(slice(self.public))

    @cached_property
    def train(self) -> Rows:
        return self.rows(slice(self.public, self.tested.start))

    @cached_property
    def test(self) -> Rows:
        return self.rows(self.tested)

    @cached_property
    def public_model(self) -> Floats:
        return chosen_ridge(self.sample)

    @cached_property
    def turn(self) -> Floats:
        """Coordinates in which the public Hessian at the public model is near the identity."""
        return whitening(self.sample, self.public_model)

    @cached_property
    def least(self) -> float:
        return float(self.test.cost(ridge(self.train, TINY)))

    @cached_property
    def own_alone(self) -> float:
        """The mean over owners of what each reaches with its own rows."""
        return float(np.mean([self.excess(chosen_ridge(self.rows(places))) for places in self.owned]))

    @cached_property
    def boosted(self) -> float:
        """Of trees of the public sample, which take columns as they are."""
        columns = [*self.book.numbers, *self.book.names, self.book.target]
        public, test = (self.book.rows[columns].iloc[places] for places in (slice(self.public), self.tested))
        said = boosted_public(self.book, public, test)
        if self.book.classes:
            chance = np.clip(said, 1e-9, 1 - 1e-9)
            said = np.log(chance) - np.log1p(-chance)
        return self.said_excess(said)

    def excess(self, theta: Floats) -> float:
        """Mean over models [..., p], times 1000."""
        return 1000 * (float(self.test.cost(theta).mean()) - self.least)

    def said_excess(self, said: Floats) -> float:
        """The same of what models say [..., n] in the target's own units, or in log-odds."""
        made = self.base.preparation
        margins = (said - made.target_centre) / made.target_scale
        return 1000 * (float(losses(margins, self.test.y, self.test.classes).mean()) - self.least)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--task", choices=list(TASKS), action="append", help="this one alone; may be repeated, as the next three may"
    )
    parser.add_argument("--owners", type=int, choices=OWNERS, action="append")
    parser.add_argument("--epsilon", type=float, action="append")
    parser.add_argument("--public", type=int, action="append", help="rows of the public sample: 1000 and 3000")
    parser.add_argument("--runs", type=int, default=5, help="independent splits, each with its own public sample")
    parser.add_argument("--replicates", type=int, default=4, help="draws of the noise for each split")
    parser.add_argument("--columns", default="best", help="what init shall make of columns: best, lines, bins or trees")
    parser.add_argument("--raw", action="store_true", help="Parley's files hold columns as they are")
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
    epsilons, protocol = asked.epsilon or EPSILONS, {"runs": asked.runs, "replicates": asked.replicates}
    known = kept(asked.keep, protocol)
    began, cells = time.perf_counter(), list[Cell]()
    for study in studies(asked):
        with progress_bar(study.name) as report:
            before = known.get(study.key)
            entries = study.others(lambda done: report(done, 200)) if before is None else before
            if not asked.only_rivals:
                entries |= study.planned(lambda done: report(100 + done, 200))
        cells.append(Cell(*study.key, entries))
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
    for line in [] if asked.only_rivals else [*comparisons(cells), *verdict(cells)]:
        console.print(line, markup=False, soft_wrap=True)
    console.print(f"{time.perf_counter() - began:.0f} s", markup=False)


def studies(asked: argparse.Namespace) -> Iterator["Study"]:
    """The cells to be filled, those of the same splits one after the other."""
    for name in asked.task or TASKS:
        book = BOOKS[name]()
        for public in asked.public or PUBLIC:
            for owners in asked.owners or OWNERS:
                with tempfile.TemporaryDirectory() as scratch:
                    splits = list(make_splits(book, owners, public, asked, Path(scratch)))
                    for epsilon in asked.epsilon or EPSILONS:
                        yield Study(splits, epsilon, asked.replicates, asked.columns, asked.diffprivlib)


def make_splits(
    book: books.Book, owners: int, public: int, asked: argparse.Namespace, scratch: Path
) -> Iterator[Split]:
    rows, tested = TASKS[book.name]
    count, each = MANY if owners == MANY[0] else (owners, rows // owners)
    wanted = public + count * each + tested
    if len(book.rows) < wanted:
        raise SystemExit(f"{book.name}: {len(book.rows)} rows are too few for {wanted}")
    for run in range(asked.runs):
        order = np.random.default_rng([1, run]).permutation(len(book.rows))[:wanted]
        folder = scratch / str(run)
        folder.mkdir()
        drawn = replace(book, rows=book.rows.iloc[order].reset_index(drop=True))
        yield Split(drawn, public, count, each, folder, asked.raw)


@dataclass(frozen=True, eq=False)
class Study:
    """One cell to be filled."""

    splits: list[Split]
    epsilon: float
    replicates: int
    columns: str
    library: str | None

    @property
    def owners(self) -> int:
        return self.splits[0].owners

    @property
    def key(self) -> tuple[str, int, float, int]:
        return self.splits[0].book.name, self.owners, self.epsilon, self.splits[0].public

    @property
    def name(self) -> str:
        return f"{self.key[0]}, {self.owners} owners, eps {self.epsilon:g}, {self.key[3]} public rows"

    def others(self, report: Callable[[int], None]) -> dict[str, Entry]:
        """All rows but Parley's."""
        entries = {ZERO: self._each(lambda split: split.excess(np.zeros(split.train.X.shape[1])))}
        entries[PUBLIC_ALONE] = self._each(lambda split: split.excess(split.public_model))
        entries[BOOSTED] = self._each(lambda split: split.boosted)
        if self.owners > 1:
            entries[OWN_ALONE] = self._each(lambda split: split.own_alone)
        report(20)
        privacy = Privacy(self.epsilon, DELTA, self.owners)
        entries[DESCENT] = self._rival(lambda split: GradientDescent(), privacy)
        report(40)
        entries[WARM] = self._rival(lambda split: GradientDescent(split.public_model), privacy)
        report(60)
        entries[TURNED] = self._rival(lambda split: GradientDescent(split.public_model, split.turn), privacy)
        report(80)
        if self.owners == 1:
            if self.splits[0].book.classes:
                entries[OBJECTIVE] = self._rival(lambda split: ObjectivePerturbation(), privacy)
            else:
                entries[STATISTICS] = self._rival(lambda split: Statistics(), privacy)
            if self.library is not None:
                entries[LIBRARY] = self._library()
        return entries

    def planned(self, report: Callable[[int], None]) -> dict[str, Entry]:
        """Drafted and planned as `parley init` does it on every split, and trained; for several owners with one noise
        for all, too."""
        found, settings = dict[str, list[float]](), dict[str, list[dict[str, Any]]]()
        for seed, split in enumerate(self.splits):
            report(100 * seed // len(self.splits))
            sample, files = split.files
            wishes = Wishes(
                split.book.target, sample, self.epsilon, DELTA, split.book.kind, holdout=0.0, columns=self.columns
            )
            proposal = planned(draft(files, wishes)).proposal
            if proposal is None:
                raise SystemExit(f"{split.book.name}: these files cannot be planned")
            for name, each in ((PLANNED, proposal), (ONE_NOISE, proposal.shared if self.owners > 1 else None)):
                if each is not None:
                    found.setdefault(name, []).append(self._trained(split, each, seed))
                    chosen = {"columns": each.terms.model.columns, **asdict(each.require_choice())}
                    settings.setdefault(name, []).append(chosen)
        return {name: Entry(tuple(costs), {"by_split": settings[name]}) for name, costs in found.items()}

    def _trained(self, split: Split, proposal: parley.Proposal, seed: int) -> float:
        """The excess test cost of planned terms."""
        parts = zip(proposal.terms.owners, split.files[1], strict=True)
        owners = [parley.Owner(part.name, file) for part, file in parts]
        result = parley.train(proposal.terms, owners, replicates=self.replicates, seed=seed, measure=False)
        made = resolve(proposal.terms).preparation
        margins = result.theta @ made.matrix(split.given.iloc[split.tested], "test").T
        return split.said_excess(margins * made.target_scale + made.target_centre)

    def _each(self, method: Callable[[Split], float]) -> Entry:
        return Entry(tuple(method(split) for split in self.splits))

    def _rival(self, make: Callable[[Split], Rival], privacy: Privacy) -> Entry:
        """Tuned on the first split, run on all."""
        first = self.splits[0]
        setting = tuned(make(first), first.train, first.test, privacy)
        found = (
            split.excess(make(split).models(split.train, [setting], privacy, self.replicates, seed))
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
            settings = [{"epsilon": self.epsilon}]
        costs = [first.excess(theta) for theta in self._ask_library(first, settings, 2)]
        best = settings[int(np.argmin(costs))]
        return Entry(
            tuple(split.excess(self._ask_library(split, [best], self.replicates)[0]) for split in self.splits), best
        )

    def _ask_library(self, split: Split, settings: list[dict[str, Any]], runs: int) -> Floats:
        if not split.train.classes:
            ends = [float(end) for end in np.abs(split.train.X[:, :-1]).max(axis=0)]
            settings = [{**each, "ends": ends, "most": float(np.abs(split.train.y).max())} for each in settings]
        rows, wanted, out = (split.folder / name for name in ("rows.npz", "settings.json", "models.npz"))
        np.savez(rows, X=split.train.X, y=split.train.y)
        wanted.write_text(
            json.dumps(
                {"classes": split.train.classes, "settings": settings, "runs": runs, "seed": int(split.folder.name)}
            ),
            encoding="utf-8",
        )
        program = Path(__file__).parent / "common" / "diffprivlib_models.py"
        subprocess.run([str(self.library), str(program), str(rows), str(wanted), str(out)], check=True)
        return np.load(out)["theta"]


if __name__ == "__main__":
    main()
