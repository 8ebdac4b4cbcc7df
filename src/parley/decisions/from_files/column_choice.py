"""The choice what columns become, straight lines, bins or trees, judged on public rows at the same budgets.

Each way is a public map, so the choice costs no privacy. What owners add is forecast too optimistically for small
samples with many columns, so it counts half. Public trees were best on most tables (benchmarks/RESULTS.md, kinds.py),
so another way must be better by a standard error. Among ways with trees, and among the others, the first of
`COLUMN_WAYS` wins unless another is clearly better.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from parley.decisions.planning.planner import Proposal
from parley.errors import DataError, SettingError, TermsError
from parley.learning.algorithms.algorithm import Progress
from parley.learning.outcome.verdict import LEAST_GAIN
from parley.protocol.setup import resolve
from parley.protocol.task import task_of
from parley.terms import Terms
from parley.terms.model import KINDS_WITH_GROWN_TREES

Wanted = Literal["lines", "bins", "hinges", "trees", "margin", "best"]

CLEARLY_BETTER_RATIO = 1 - LEAST_GAIN  # of the simplest way's cost: what is not below is no reason to bend
MIN_INFORMATIVE_ROWS = 200  # that tell (`informative_rows`), of a public sample, to cut or grow anything on
# `evidence_per_column` from which boosted trees are the default without a public sample, found on so many tables
# (benchmarks/RESULTS.md, kinds.py: of each table also without that table)
TREES_MIN_EVIDENCE, TABLES_COMPARED = 80.0, 8
TREE_TARGETS = ("number", "two classes")  # what trees predict; leaves of several classes are too many to plan


@dataclass(frozen=True)
class ColumnWay:
    """A way of using columns: its label, and the keys of `[model]` that ask for it."""

    label: str
    wanted: Wanted
    model: Mapping[str, Any] = field(default_factory=dict)


COLUMN_WAYS = (
    ColumnWay("straight lines", "lines"),
    ColumnWay("bins", "bins", {"columns": "bins"}),
    ColumnWay("bins joined by lines", "hinges", {"columns": "hinges"}),
    ColumnWay("public trees", "trees", {"columns": "trees"}),
    ColumnWay("straight lines beside public trees", "margin", {"columns": "trees", "trees": {"refitted": 0}}),
)


@dataclass(frozen=True)
class Tried:
    """A way and its best plan, or why there is none. `least`: its cost without noise, if another way was clearly better
    than that, so that nothing was planned. `judged`: the expected cost of a model that has no plan."""

    way: ColumnWay
    proposal: Proposal | None
    why: str | None = None
    least: float | None = None
    judged: float | None = None

    @property
    def cost(self) -> float:
        """The joint model's forecast cost on new rows; infinite if unknown."""
        known = self.judged if self.proposal is None else self.proposal.expected_cost
        return math.inf if known is None else known

    @property
    def compared(self) -> float:
        """The cost by which ways are compared: half of the forecast gain over the public sample alone."""
        if self.least is not None:
            return self.least
        alone = None if self.proposal is None else self.proposal.public_fit
        return self.cost if alone is None else (alone + self.cost) / 2

    def to_json(self) -> dict[str, Any]:
        """Return its object under `columns` in `parley init --json`."""
        alone = None if self.proposal is None else self.proposal.public_fit
        cost, compared = (None if math.isinf(each) else each for each in (self.cost, self.compared))
        costs = {"expected_cost": cost, "public_fit": alone, "compared": compared}
        return {"columns": self.way.label, **costs, "unjudged": self.why}


def wanted_columns(text: str) -> Wanted:
    """Return the requested use of columns; raise an error if it is unknown."""
    known: tuple[Wanted, ...] = get_args(Wanted)
    for each in known:
        if text == each:
            return each
    raise SettingError(f"--columns {text}: expected one of {', '.join(known)}")


def informative_rows(terms: Terms, public: pd.DataFrame) -> float:
    """Return how many public rows are informative: all for a number, fewer for classes if one is common, in proportion
    to its indicator's variance over 1/4. 1,000 payments with two frauds count like eight rows of even classes."""
    target = public[terms.model.target].dropna()
    if terms.model.predicts not in ("two classes", "classes") or target.empty:
        return len(target)
    share = float(target.astype(str).value_counts(normalize=True).iloc[0])
    return len(target) * min(1.0, 4 * share * (1 - share) if share > 0.5 else 1.0)


def open_ways(terms: Terms, rows: float | None, wanted: Wanted = "best") -> Iterator[ColumnWay]:
    """Yield the ways that these terms allow; `rows` of their public sample are informative, None without a sample."""
    model = terms.model
    chosen = (model.columns, model.components, model.whitening, model.basis)
    if any(each is not None for each in chosen):
        yield ColumnWay("as the terms say", "best")
        return
    for way in COLUMN_WAYS:
        if wanted not in (way.wanted, "best"):
            continue
        if way.wanted != "lines" and wanted == "best" and (rows or 0) < MIN_INFORMATIVE_ROWS:
            continue
        if way.wanted in ("trees", "margin") and (
            model.predicts not in TREE_TARGETS or model.kind not in KINDS_WITH_GROWN_TREES or rows is None
        ):
            continue
        if way.wanted in ("bins", "hinges") and model.predicts not in (*TREE_TARGETS, "classes"):
            continue
        yield way


def evidence_per_column(terms: Terms) -> float:
    """Return records times epsilon per column of an equivalent single owner whose people have one row each."""
    promised = np.array([part.epsilon for part in terms.owners])
    epsilon = promised.min() if terms.noise.summed else np.sum(promised**-2.0) ** -0.5
    people = sum(terms.train_rows(part.name) for part in terms.owners) / terms.privacy.records_per_person
    return float(people * epsilon / resolve(terms).preparation.width)


def judged_trees(terms: Terms, public: pd.DataFrame) -> Tried:
    """Judge boosted trees. They are shown but never taken, since owners' gains cannot be forecast yet."""
    way = ColumnWay(terms.model.kind, "best")
    try:
        return Tried(way, None, judged=task_of(terms).expected_cost(terms, public))
    except (DataError, SettingError, TermsError) as error:
        return Tried(way, None, str(error))


def choose_columns(
    terms: Terms,
    ways: Sequence[ColumnWay],
    plan: Callable[[Terms, Progress], Proposal],
    least: Callable[[Terms], float],
    progress: Progress,
) -> tuple[Tried, tuple[Tried, ...]]:
    """Return (the way to take, all that were tried, the best first): the simplest way unless another is clearly better.
    Ways without trees are planned only if `least`, their compared cost without noise, leaves them a chance."""
    if not ways:
        raise SettingError(
            "--columns: 'bins' and 'hinges' require a target with numbers or classes. 'trees' and 'margin' require a "
            "public sample and a target with numbers or two classes"
        )
    tried, simplest = list[Tried](), ways[0]
    for place, way in enumerate(sorted(ways, key=lambda way: "trees" not in way.model.values())):

        def report(done: int, total: int, place: int = place) -> None:
            progress(place * total + done, len(ways) * total)

        changed = terms.changed(model=dict(way.model)) if way.model else terms
        best = min((each.compared for each in tried), default=math.inf)
        try:
            bound = least(changed) if math.isfinite(best) and changed.model.trees is None else -math.inf
            if bound * CLEARLY_BETTER_RATIO > best:
                tried.append(Tried(way, None, "this choice is worse than another one, even without noise", bound))
            else:
                tried.append(Tried(way, plan(changed, report)))
        except (DataError, SettingError, TermsError) as error:
            if len(ways) == 1 or not way.model:  # what the terms ask for has to be possible
                raise
            tried.append(Tried(way, None, str(error)))
    tried.sort(key=lambda each: each.compared)
    first = next(each for each in tried if each.way is simplest)
    grown = [each for each in tried if "trees" in each.way.model.values() and each.proposal is not None]
    if grown:
        close = [each for each in grown if each.compared * CLEARLY_BETTER_RATIO <= grown[0].compared]
        usual = min(close, key=lambda each: ways.index(each.way))
        taken = usual if tried[0] in close or not _significantly_better(tried[0], usual) else tried[0]
    else:
        taken = (
            first if first.least is None and first.compared * CLEARLY_BETTER_RATIO <= tried[0].compared else tried[0]
        )
    return taken, (taken, *(each for each in tried if each is not taken))


def _significantly_better(best: Tried, usual: Tried) -> bool:
    """Return whether public rows show that `best` beats `usual` by a standard error."""
    plans = [each.proposal.held_back for each in (best, usual) if each.proposal is not None]
    best_scores, usual_scores = plans if len(plans) == 2 else (None, None)
    error = 0.0 if best_scores is None or usual_scores is None else best_scores.spread_beside(usual_scores)
    return best.compared + error < usual.compared
