"""The canary: a person whose replaced rows an owner's answers tell apart best, since nobody else has a target."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.data import Design, Preparation, Summable
from parley.data.dates import date_of
from parley.data.holdout import name_on_side
from parley.errors import TermsError
from parley.learning.algorithms.algorithm import Algorithm, Asker
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.start import starting_point
from parley.protocol.queries import Query, Question, ScoreQuery, Tables
from parley.protocol.setup import Setup
from parley.protocol.task import task_of
from parley.terms import Terms
from parley.terms.keys import is_defined
from parley.terms.outcomes import SurvivalModel
from parley.terms.sections import OWNER_UNIT
from parley.validate import Floats


def require_audited_owner(terms: Terms) -> None:
    """Refuse terms that release nothing, and tasks in which no owner alone answers: they have their own audit."""
    terms.require_release()
    if "audit" in task_of(terms).commands:
        raise TermsError(
            f"task {terms.task}: no owner answers alone, so there is no audit of one owner; parley audit TERMS attacks "
            "what all owners release together"
        )


def require_audited_unit(terms: Terms) -> None:
    """Refuse terms that protect whole tables or release nothing. Audits replace one person's rows, and would call far
    too large an answer for a whole table private."""
    require_audited_owner(terms)
    if terms.privacy.unit == OWNER_UNIT:
        raise TermsError(
            "privacy.unit: expected 'record'; an audit replaces one person's rows and cannot test a promise for a "
            "whole table"
        )


@dataclass(frozen=True, eq=False)
class PresentRows(Summable):
    """`records` rows: those at `places` have a target, the rest are zeros of weight 0 (`data.targets`)."""

    rows: Design
    places: NDArray[np.int64]
    records: int
    mean_over: int | None = None  # as in `Design`

    def __len__(self) -> int:
        return self.records

    @property
    def divisor(self) -> int:
        return self.records if self.mean_over is None else self.mean_over

    @property
    def width(self) -> int:
        return self.rows.width

    @property
    def statistics(self) -> tuple[Floats, Floats, float]:
        if not len(self.rows):
            return np.zeros((self.width, self.width)), np.zeros(self.width), 0.0
        (A, b, c), share = self.rows.statistics, len(self.rows) / self.divisor
        return A * share, b * share, c * share

    def sum(self, part: Callable[[Design], Floats]) -> Floats:
        return self.rows.sum(part) if len(self.rows) else 0.0 * part(self._row_without_target)

    @property
    def _row_without_target(self) -> Design:
        """A row without a target."""
        return Design(np.zeros((1, self.width)), np.ones(1), np.zeros(1), secret=self.rows.secret)

    def in_memory(self) -> Design:
        zeros, over = np.zeros((self.records, self.width)), self.mean_over
        whole = Design(zeros, np.ones(self.records), np.zeros(self.records), mean_over=over)
        whole.X[self.places], whole.y[self.places], whole.weight[self.places] = (
            self.rows.X,
            self.rows.y,
            self.rows.weight,
        )
        return whole

    def batch(self, places: NDArray[np.int64]) -> "PresentRows":
        here = np.isin(self.places, places)
        return PresentRows(self.rows.where(here), np.searchsorted(places, self.places[here]), len(places))

    def drawn(self, places: NDArray[np.int64]) -> "PresentRows":
        some = self.batch(places)
        return replace(some, rows=replace(some.rows, secret=True))

    @property
    def studied(self) -> None:
        return None

    def for_studies(self) -> "PresentRows":
        return self

    @property
    def untargeted(self) -> int:
        return self.records - len(self.rows)


def present_rows(rows: Design, places: NDArray[np.int64], records: int, mean_over: int | None = None) -> PresentRows:
    """Return a table of `records` records in which only these rows, at these places, have a target."""
    return PresentRows(replace(rows, study=False), places, records, mean_over)


def compressed(design: Summable) -> PresentRows:
    """Drop the rows without a target."""
    rows = design.in_memory()
    return present_rows(rows.where(rows.present), np.flatnonzero(rows.present), len(rows), rows.mean_over)


UNBOUNDED_END = 100.0  # where nothing bounds a column, clips bind here
MAX_CANARIES = 240  # canaries that are tried, at most
ROWS_BEYOND_LIMIT = 2  # rows of the canary above what the terms let count
DISTANCE_TOLERANCE = 1e-3  # of the largest distance: pairs so near to it are as good


@dataclass(frozen=True, eq=False)
class Neighbours:
    """An owner's table before and after the canary is replaced, as an analyst would write it."""

    a: pd.DataFrame
    b: pd.DataFrame


@dataclass(frozen=True, eq=False)
class CanarySearch:
    """The search for the two canaries whose answers lie farthest apart, at the start of a run or elsewhere."""

    setup: Setup
    name: str
    stage: int = 0  # of what the owner is asked: training, or the score
    at: Floats | None = None  # the parameter [P] that it is asked at; None: where a run begins

    @cached_property
    def algorithm(self) -> Algorithm:
        return make_algorithm(self.setup)

    def neighbours(self) -> Neighbours:
        """Return the pair of tables found, with the canary at places that the owner trains on."""
        return Neighbours(*(self._table(self._candidates[place]) for place in self.pair))

    def tables(self) -> tuple[Tables, Tables]:
        """Return the same pair prepared, with the canary alone in each."""
        a, b = (self._alone(place) for place in self.pair)
        return a, b

    def typical_tables(self) -> tuple[Tables, Tables]:
        """Return the pair of median distance, with the canary alone in each."""
        near = np.abs(self._apart - np.median(self._apart[np.triu_indices(len(self._apart), 1)]))
        np.fill_diagonal(near, np.inf)
        first, second = np.unravel_index(int(np.argmin(near)), near.shape)
        return self._alone(int(first)), self._alone(int(second))

    @property
    def empty_table(self) -> pd.DataFrame:
        """A table of this owner's size without any target."""
        return self._table(None)

    @cached_property
    def pair(self) -> tuple[int, int]:
        """The places of the two canaries among the candidates."""
        question, distance = self.asked[0], self._apart
        good = distance >= distance.max() * (1 - DISTANCE_TOLERANCE)
        sizes = question.record_sizes(self._prepared, self._theta)
        # of pairs that lie equally far apart at the start, that whose gradients stay clipped longest
        clipped_longest = np.where(good, np.minimum(sizes[:, None], sizes[None, :]), -1.0)
        first, second = np.unravel_index(int(np.argmax(clipped_longest)), clipped_longest.shape)
        if not distance[first, second] > 0:
            raise TermsError(f"{self.name}: no row changes this owner's answers, so there is nothing to audit")
        return int(first), int(second)

    @cached_property
    def _apart(self) -> Floats:
        """The distance between the answers on each two candidates."""
        question, query = self.asked
        values = [self._answer(question, query, self._alone(place)) for place in range(len(self._prepared))]
        return _distances(np.array(values))

    @cached_property
    def asked(self) -> tuple[Question, Query]:
        """The stage's first question to this owner."""
        stage = self.setup.part(self.name).stages[self.stage]
        return stage.question, self.query(stage.rounds[0])

    def query(self, number: int) -> Query:
        """Return the owner's query in this round of the stage."""
        if self.stage:
            return ScoreQuery.ask(self.setup.hash, self.setup.terms.learning.learner, number, self._theta)
        begin = replace(self.algorithm.start(self._theta), round=number)
        return self.algorithm.questions(begin, Asker.from_setup(self.setup))[self.name]

    @cached_property
    def _theta(self) -> Floats:
        return starting_point(self.setup) if self.at is None else self.at

    @cached_property
    def _candidates(self) -> list[dict[str, object]]:
        return list(candidate_rows(self.setup.preparation, np.random.default_rng(0)))

    @cached_property
    def _prepared(self) -> Design:
        return self.setup.preparation.design(pd.DataFrame(self._candidates), self.name)

    def _alone(self, place: int) -> Tables:
        """Return tables of the stage's size in which only this candidate has a target, as often as a person counts."""
        rows = self.asked[0].records
        copies = rows if self._whole else min(self.setup.terms.privacy.records_per_person, rows)
        table = present_rows(self._prepared.where(np.full(copies, place)), np.arange(copies), rows)
        return Tables(table, table)

    def _answer(self, question: Question, query: Query, tables: Tables) -> Floats:
        """Return the exact answer, or for an answer about some rows only the clipped gradient behind it."""
        if question.draws or question.batched:
            return self.setup.risk.mean_gradient(tables.train, self._theta, question.bound)
        return question.bounded(query, tables).value

    def _table(self, canary: dict[str, object] | None) -> pd.DataFrame:
        """Return the owner's table with this canary at trained places; with named people, more rows than count."""
        terms, preparation = self.setup.terms, self.setup.preparation
        records, person = terms.owner(self.name).records, terms.privacy.person
        extra = 0 if person is None else ROWS_BEYOND_LIMIT
        places, cells_by_column = self._places(records, extra), {}
        for column, usual in {**self._candidates[0], **no_target(preparation)}.items():
            cells = np.full(records + extra, usual, dtype=np.float64 if isinstance(usual, float) else object)
            if canary is not None:
                cells[places] = canary[column]
            cells_by_column[column] = cells
        if person is not None:
            cells_by_column[person] = np.array([f"person {place}" for place in range(records + extra)], dtype=object)
            cells_by_column[person][places] = self._canary_name
        return pd.DataFrame(cells_by_column)

    def _places(self, records: int, extra: int) -> NDArray[np.int64]:
        """Return the places of the canary's rows: counting ones among the first, others at the end."""
        preparation = self.setup.preparation
        if preparation.model.holdout_by is not None:
            stage_places = np.arange(records)  # whether a row counts follows from its name
        else:
            learned = preparation.trained_on(records)
            stage_places = np.flatnonzero(~learned if self.stage else learned)
        count = records if self._whole else self.setup.terms.privacy.records_per_person
        return np.concatenate([stage_places[:count], np.arange(records, records + extra)])

    @property
    def _canary_name(self) -> str:
        """The canary's name; where people are held out, a name on the stage's side."""
        model = self.setup.terms.model
        return "canary" if model.holdout_by is None else name_on_side(model, "canary", bool(self.stage))

    @property
    def _whole(self) -> bool:
        """Whether the canary is the whole table, because an owner is protected and not a person."""
        return self.setup.terms.privacy.unit == OWNER_UNIT


def candidate_rows(preparation: Preparation, rng: np.random.Generator) -> Iterator[dict[str, object]]:
    """Yield rows at the ends of what the terms allow, each with every extreme target: one column at an end and the
    others in their middle, all at one end, some at random."""
    columns = {column: cell_values(preparation, column) for column in preparation.features}
    middle: dict[str, object] = {column: values[-1] for column, values in columns.items()}
    rows = [{column: values[end] for column, values in columns.items()} for end in (0, 1)]
    alone = [(column, values[end]) for column, values in columns.items() for end in (0, 1)]
    targets = outcome_cells(preparation)
    max_rows = max(MAX_CANARIES // len(targets), 4)
    kept = rng.permutation(len(alone))[: max_rows - max_rows // 4]
    rows += [{**middle, alone[place][0]: alone[place][1]} for place in kept]
    while len(rows) < max_rows:
        rows.append({column: values[int(rng.integers(len(values)))] for column, values in columns.items()})
    for row in rows:
        for target in targets:
            yield {**row, **target}


def cell_values(preparation: Preparation, column: str) -> Sequence[object]:
    """Return cells of a feature: its two ends, and last one in its middle."""
    if column in preparation.categories:
        names = preparation.categories[column]
        return names[-1], names[0], *names
    low, high = ends(*preparation.ranges[column])
    transform = preparation.model.transforms.get(column)
    if transform is not None and not is_defined(transform, low):
        low = min(1.0, high)
    values = low, high, min(max(0.0, low), high)
    return [date_of(value) for value in values] if column in preparation.model.dates else values


def ends(low: float, high: float) -> tuple[float, float]:
    """Return an interval's ends; missing ones are replaced by distant ones.

    >>> ends(-math.inf, math.inf), ends(500.0, math.inf)
    ((-100.0, 100.0), (500.0, 600.0))
    """
    below = float(low) if math.isfinite(low) else min(-UNBOUNDED_END, high - UNBOUNDED_END)
    return below, float(high) if math.isfinite(high) else max(UNBOUNDED_END, below + UNBOUNDED_END)


def target_values(preparation: Preparation) -> Sequence[object]:
    """Return the extreme targets, as a table has them."""
    model = preparation.model
    if model.target in preparation.categories:
        return preparation.categories[model.target]
    if model.predicts == "two classes":
        return (0.0, 1.0) if model.positive is None else (model.positive, f"not {model.positive}")
    if model.predicts == "survival":
        return 0.0, SurvivalModel.expect(model).periods[-1] * 2
    return ends(*preparation.target_bounds)


def no_target(preparation: Preparation) -> dict[str, object]:
    """Return the target cell of a row without a target."""
    numbers = all(isinstance(value, float) for value in target_values(preparation))
    return {preparation.model.target: math.nan if numbers else None}


def outcome_cells(preparation: Preparation) -> list[dict[str, object]]:
    """Return every extreme of a record's outcome: the target, and the columns that belong to it."""
    model = preparation.model
    found: list[dict[str, object]] = [{model.target: value} for value in target_values(preparation)]
    for column in model.outcome_columns[1:]:  # an exposure has bounds; an event is 1 or 0
        values = ends(*model.bounds[column]) if column in model.bounds else (0.0, 1.0)
        found = [{**each, column: value} for each in found for value in values]
    return found


def _distances(values: Floats) -> Floats:
    """Return L2 distances [m, m] of answers [m, d]: of equal L1 differences, noise hides those in one number least."""
    squares = np.sum(values**2, axis=1)
    return np.asarray(np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * values @ values.T, 0.0)))
