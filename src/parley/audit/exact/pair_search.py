"""Hill climbing for two neighbouring tables and a question whose answer tells them apart better than is claimed. It
varies cells' values, types and gaps, forms of tables, questions, numbers of rows and batches, and enumerates all secret
draws. Tables are read and prepared as an owner's are; noise is not drawn, since its law is known."""

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import joblib
import numpy as np

from parley.audit.canary import ROWS_BEYOND_LIMIT
from parley.audit.exact.cell_pool import DECLARED_FRAME, UNWRITABLE, CellPool
from parley.audit.exact.enumeration import MAX_ENUMERATED_ROWS, answered_share, density_share, drawn_share, sizes
from parley.audit.exact.trial import CANARY_NAME, Asked, Moves, Shape, StageQuestions, Trial, Unit
from parley.data import Design
from parley.data.cells import Schema
from parley.data.holdout import name_on_side
from parley.data.sources import open_table
from parley.errors import DataError, Refusal, TermsError
from parley.learning.algorithms.algorithm import Progress
from parley.privacy.mechanisms import Norm
from parley.protocol.queries import Query, Tables
from parley.protocol.setup import Setup
from parley.terms.sections import OWNER_UNIT
from parley.validate import Floats

EXTREME_CANARIES = 16  # canaries that are tried
MAX_TURNED_QUESTIONS = 50  # questions about each of them


def extreme_trial(search: "PairSearch", rng: np.random.Generator) -> Trial:
    """Return the pair of canaries whose answers lie farthest apart, asked at the start or at ends of the box, one
    number turned after another as long as answers move apart."""
    base = plain_trial(search, rng)
    try:
        agreement = search.questions.of_size(search.records(base), base.batches)
    except TermsError:
        return base
    units, tables = answerable(search, base, agreement, rng)
    if agreement.question.own_noise is not None or len(units) < 2:
        return base
    numbers, (_, a, b) = _turn_question(search, base, agreement, tables, rng)
    return replace(base, a=units[a], b=units[b], numbers=numbers)


def _turn_question(
    search: "PairSearch", base: Trial, agreement: Asked, tables: Sequence[Tables], rng: np.random.Generator
) -> tuple[Mapping[str, Floats], tuple[float, int, int]]:
    """Return (numbers to ask at, the farthest two tables), turned until the claim or the steps are used up."""
    moves, question, steps = search.moves, agreement.question, MAX_TURNED_QUESTIONS
    enough = 0.999 * (question.reach if question.together > 1 else question.sensitivity)

    def apart(numbers: Mapping[str, Floats]) -> tuple[float, int, int]:
        nonlocal steps
        try:
            queries = list(search.questions.queries(agreement, numbers, 0))
        except Refusal:
            return 0.0, 0, 1
        steps -= len(queries)
        return farthest([exact_answer(agreement, queries, each) for each in tables], question.norm)

    best, farthest_pair = base.numbers, apart(base.numbers)
    ends = ({name: np.full_like(v, sign * moves.largest[name]) for name, v in base.numbers.items()} for sign in (1, -1))
    places = [(name, place, end) for name, v in base.numbers.items() for place in range(v.size) for end in (-1, 0, 1)]
    coordinate_order = (
        places[int(place)]
        for _ in range(MAX_TURNED_QUESTIONS)
        for place in rng.permutation(len(places))[:MAX_TURNED_QUESTIONS]
    )
    while farthest_pair[0] < enough and steps > 0 and any(moves.largest.values()):
        tried = next(ends, None)
        if tried is None:
            name, place, end = next(coordinate_order)
            turned = best[name].copy()
            turned.flat[place] = end * moves.largest[name]
            tried = {**best, name: turned}
        if (now := apart(tried)) > farthest_pair:
            best, farthest_pair = tried, now
    return best, farthest_pair


def plain_trial(search: "PairSearch", rng: np.random.Generator) -> Trial:
    """Make a table of a few usual rows in a declared frame."""
    moves, shape = search.moves, search.shape
    rows = shape.rows + shape.beyond
    unit = moves.unit(rng, moves.plain_kinds, rows)
    others = (unit if shape.several else unit[:1],) * min(2, moves.most - 1)
    batches = moves.batches[0] if moves.batches else None
    return Trial(DECLARED_FRAME, moves.plain_kinds, others, unit, unit, 0, moves.asked, 0, batches)


def answerable(
    search: "PairSearch", base: Trial, asked: Asked, rng: np.random.Generator, times: int = 1
) -> tuple[list[Unit], list[Tables]]:
    """Return the canaries whose tables are accepted, and those tables."""
    moves, rows = search.moves, search.shape.rows + search.shape.beyond
    units = [base.a, *(moves.unit(rng, base.kinds, rows) for _ in range(times * EXTREME_CANARIES - 1))]
    read = [(unit, search.prepared(base, asked, unit, "a").tables) for unit in units]
    taken = [(unit, tables) for unit, tables in read if tables is not None]
    return [unit for unit, _ in taken], [tables for _, tables in taken]


def exact_answer(asked: Asked, queries: Sequence[Query], tables: Tables) -> Floats:
    """Concatenate all answers without noise; if rows are drawn, every row is."""
    question = asked.question
    if question.draws:
        return np.concatenate([question.about(query, tables, np.arange(len(tables.train))) for query in queries])
    return np.concatenate([question.bounded(query, tables).value for query in queries])


def farthest(answers: Sequence[Floats], norm: Norm) -> tuple[float, int, int]:
    """Return (distance, one place, other place) of the two answers that lie farthest apart."""
    values, best = np.array(answers), (0.0, 0, 0)
    for place in range(1, len(values)):
        apart = sizes(values[:place] - values[place], norm)
        best = max(best, (float(apart.max()), int(np.argmax(apart)), place))
    return best


T = TypeVar("T")

MAX_STEP, LEAST_STEP = 3.0, 1e-3  # of steps


def climbing(
    values: Callable[[list[T]], Sequence[float]],
    begin: Callable[[np.random.Generator], T],
    move: Callable[[np.random.Generator, T, float], T],
    seeds: Iterable[object],
) -> Iterator[tuple[float, T]]:
    """Yield (the largest value so far, its candidate) at the start and after every step, without end. `values` judges
    one candidate of each climb. Steps grow while they lead up; level steps are taken too, to wander over flat ground.
    """
    draws = [np.random.default_rng(seed) for seed in seeds]  # type: ignore[arg-type]
    positions, lengths = [begin(rng) for rng in draws], [1.0] * len(draws)
    position_values = [float(value) for value in values(positions)]
    best = max(range(len(position_values)), key=position_values.__getitem__)
    best_so_far = position_values[best], positions[best]
    while True:
        yield best_so_far
        moved = [move(*each) for each in zip(draws, positions, lengths, strict=True)]
        for place, value in enumerate(map(float, values(moved))):
            longer = value > position_values[place]
            if value >= position_values[place]:
                positions[place], position_values[place] = moved[place], value
            lengths[place] = min(MAX_STEP, 1.5 * lengths[place]) if longer else max(LEAST_STEP, 0.97 * lengths[place])
            if value > best_so_far[0]:
                best_so_far = value, moved[place]


MAX_UNITS = 8  # in a table
MAX_RECORD_ROWS = 2000  # that a record has which is made of several
REFUSED_SHARE = -1.0  # the value of a trial that nobody answers
BATCH_COUNTS = (2, 3, 4)
WIDE_TABLE_COLUMNS = 20  # columns, from which on tables take longer
# Of shares that climbs tell apart, each its own: who looks for the peak stays there, and who wanders finds more.
SHARE_CEILINGS = (math.inf, 0.9, 0.5, 0.0)
SEEN_ANSWER = "seen"  # the number that an answer with noise inside comes out as


@dataclass(frozen=True)
class Searched:
    """What a search for pairs of tables found about one kind of question: `share` of the claim, of which 1 is all."""

    kind: str
    share: float
    tried: int
    read: int  # of them, where both tables were taken
    found: str  # where the largest share was
    instructions: str = "as they are"  # of the processor

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts the claim, up to rounding of logarithms."""
        return self.share <= 1 + 1e-9

    def to_json(self) -> dict[str, Any]:
        """Return a search's object in `parley audit --json`; an infinite share, of a broken rule, is null."""
        return {**vars(self), "share": self.share if math.isfinite(self.share) else None, "holds": self.holds}


@dataclass(frozen=True, eq=False)
class Read:
    """A table as read: its schema (None: it cannot be written so), and its prepared rows (None: it was refused)."""

    schema: Schema | None = None
    tables: Tables | None = None


@dataclass(eq=False)
class PairSearch:
    """The search about one stage of an owner, training or score; `setup` is that of the unchanged terms."""

    setup: Setup
    name: str
    stage: int = 0
    folder: Path = field(default_factory=Path)
    tried: int = 0
    read: int = 0

    @cached_property
    def kind(self) -> str:
        return self._usual.question.asks.kind

    def climb(self, tries: int, seed: int, step: Callable[[], None] = lambda: None) -> Searched:
        """Search about `tries` trials; stop at once when a claim is broken."""
        moves = self.moves
        # tables of a few rows: threads would take longer than the rows
        with tempfile.TemporaryDirectory() as folder, joblib.parallel_config(backend="sequential"):
            self.folder = Path(folder)
            for side in ("a", "b", "all"):
                (self.folder / side).mkdir()
            first = [extreme_trial(self, np.random.default_rng(seed))]
            best, where = REFUSED_SHARE, moves.begin(np.random.default_rng(seed))

            def begin(rng: np.random.Generator) -> Trial:
                return first.pop() if first else moves.begin(rng)

            def values(trials: list[Trial]) -> list[float]:
                nonlocal best, where
                step()
                shares = [self.share(each) for each in trials]
                for share, trial in zip(shares, trials, strict=True):
                    best, where = max((best, where), (share, trial), key=lambda each: each[0])
                return [min(share, ceiling) for share, ceiling in zip(shares, SHARE_CEILINGS, strict=True)]

            seeds = np.random.SeedSequence(seed).spawn(len(SHARE_CEILINGS))
            for _ in climbing(values, begin, moves.move, seeds):
                if best > 1 + 1e-9 or self.tried >= tries:
                    break
        return Searched(self.kind, max(best, 0.0), self.tried, self.read, self._words(where))

    def share(self, trial: Trial) -> float:
        """Return the share of the claim that a trial uses; `REFUSED_SHARE` if it is not answered."""
        self.tried += 1
        try:
            agreement = self.questions.of_size(self.records(trial), trial.batches)
            a, b = (self.prepared(trial, agreement, unit, side) for unit, side in ((trial.a, "a"), (trial.b, "b")))
            if a.schema != b.schema or a.schema is None:
                return REFUSED_SHARE  # another schema is no neighbour
            if a.tables is None or b.tables is None:
                return self._refused(trial, agreement, a, b)
            trial = self._aim_at_targets(trial, agreement)
            queries = list(self.questions.queries(agreement, trial.numbers, trial.round))
        except (TermsError, Refusal):
            return REFUSED_SHARE
        self.read += 1
        return self._answered(trial, agreement, queries, a.tables, b.tables)

    def _answered(self, trial: Trial, agreement: Asked, queries: list[Query], a: Tables, b: Tables) -> float:
        question = agreement.question
        if question.own_noise is not None:
            epsilon = float(agreement.setup.terms.training_epsilon(self.name))
            return density_share(question, trial.numbers[SEEN_ANSWER], a, b, epsilon)
        if question.draws:
            return drawn_share(question, queries[0], a, b, self.shape.canary_places(trial))
        return answered_share(question, queries, a, b)

    @cached_property
    def shape(self) -> Shape:
        """The shape of tables under the terms."""
        terms, task = self.setup.terms, self.setup.task
        several, person = task.record_column(terms.model), terms.privacy.person
        named = several if several is not None else person
        read = (*self.setup.preparation.features, *task.columns(terms.model), *([] if named is None else [named]))
        extra_rows = ROWS_BEYOND_LIMIT if several is None and person is not None else 0
        rows = terms.privacy.records_per_person
        if several is not None:
            rows = min(task.record_rows(terms.model), MAX_RECORD_ROWS)
        whole = terms.privacy.unit == OWNER_UNIT
        people: tuple[str, ...] = (CANARY_NAME,)
        if terms.model.holdout_by is not None:
            sides = (True, False) if self.stage else (False, True)
            people = tuple(name_on_side(terms.model, CANARY_NAME, side) for side in sides)
        return Shape(tuple(dict.fromkeys(read)), named, several is not None, rows, extra_rows, whole, people)

    @cached_property
    def moves(self) -> Moves:
        """The moves of the search."""
        question = self._usual.question
        numbers = dict(self.questions.query(0).arrays)
        largest = {name: self.questions.largest(name, question) for name in numbers}
        if question.own_noise is not None:
            numbers[SEEN_ANSWER] = np.zeros(question.size)
            largest[SEEN_ANSWER] = float(np.max(question.extent.high)) / question.size**0.5
        learning = self.setup.terms.learning
        max_rows = (
            MAX_ENUMERATED_ROWS - self.shape.records + 1 if question.draws and question.own_noise is None else MAX_UNITS
        )
        batches = BATCH_COUNTS if learning.batches is not None else ()
        rounds = 1 if max(question.disjoint, question.together) > 1 else len(self.questions.rounds)
        return Moves(self.shape, CellPool(self.setup), numbers, largest, rounds, batches, max(max_rows, 2))

    @cached_property
    def questions(self) -> StageQuestions:
        """The questions that the owner may be asked."""
        return StageQuestions(self.setup, self.name, self.stage)

    @property
    def _usual(self) -> Asked:
        batches = self.setup.terms.learning.batches
        return self.questions.of_size(MAX_UNITS + self.shape.records, None if batches is None else BATCH_COUNTS[0])

    def records(self, trial: Trial) -> int:
        """The number of records in a trial's tables."""
        return len(trial.others) + self.shape.records

    def prepared(self, trial: Trial, asked: Asked, canary: Unit, side: str, everybody: bool = False) -> Read:
        """Write, read and prepare the table as an owner would."""
        try:
            table = self.shape.table(trial, canary, everybody, trial.names[side == "b"])
            given = trial.form.write(table, self.folder / side)
        except UNWRITABLE:
            return Read()
        opened = open_table(given)
        try:
            tables = Tables(*asked.setup.preparation.designs(opened, asked.setup.terms, self.name))
        except DataError:
            return Read(opened.schema, None)
        return Read(opened.schema, tables)

    def _refused(self, trial: Trial, asked: Asked, a: Read, b: Read) -> float:
        """Return inf if other rows caused a refusal: only one canary is refused, and not in a table of only it."""
        if a.tables is b.tables:
            return REFUSED_SHARE
        refused = trial.a if a.tables is None else trial.b
        alone = self.prepared(trial, asked, refused, "all", everybody=True)
        return REFUSED_SHARE if alone.tables is None or alone.schema != a.schema else math.inf

    def _aim_at_targets(self, trial: Trial, agreement: Asked) -> Trial:
        """Return the trial at numbers where a row's prediction is about its target or 0: derivatives turn there."""
        name = next(iter(trial.numbers), None)
        if trial.aimed is None or name is None or name == SEEN_ANSWER:
            return trial
        made = self.prepared(replace(trial, form=DECLARED_FRAME), agreement, trial.a, "all").tables
        rows = None if made is None else made.train
        values = trial.numbers[name]
        if not isinstance(rows, Design) or not len(rows) or not rows.width or len(values) % rows.width:
            return trial
        row = trial.aimed // 2 % len(rows)
        wanted = float(rows.y[row]) if trial.aimed % 2 else 0.0
        fresh = aimed_at(values.reshape(-1, rows.width), rows.X[row], wanted).ravel()
        return replace(trial, numbers={**trial.numbers, name: self.moves.within(name, fresh)})

    def _words(self, trial: Trial) -> str:
        """Describe where the search arrived."""
        plain = CellPool(self.setup)
        odd = [
            f"{column} declared as {kind}"
            for column, kind in trial.kinds.items()
            if column != self.shape.named and kind != plain.plain_kind(column)
        ]
        sizes = [f"{name} up to {np.abs(values).max(initial=0.0):.3g}" for name, values in trial.numbers.items()]
        return "; ".join([f"{trial.form.name} of {self.records(trial)} records", *odd, *sizes])


def aimed_at(blocks: Floats, x: Floats, wanted: float) -> Floats:
    """Return parameters [blocks, p] with one coordinate of each solved so that their products with x are `wanted`."""
    last = int(np.argmax(np.abs(x)))
    if not abs(x[last]) > 0:
        return blocks
    fresh = blocks.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        other_sums = np.delete(blocks, last, axis=1) @ np.delete(x, last)
        fresh[:, last] = (wanted - other_sums) / x[last]
    return fresh


def search_owner(
    setup: Setup, name: str, tries: int, seed: int = 0, progress: Progress = lambda done, total: None
) -> list[Searched]:
    """Search each kind of question to this owner by `tries` trials, fewer for wide tables. Questions that cannot be
    asked about small tables are left out."""
    plans = list(setup.plans(name))
    searched, done = list[Searched](), 0

    def step() -> None:
        nonlocal done
        done += len(SHARE_CEILINGS)
        progress(min(done, tries * len(plans)), tries * len(plans))

    for stage in range(len(plans)):
        search = PairSearch(setup, name, stage)
        with suppress(TermsError):
            searched.append(
                search.climb(
                    tries * WIDE_TABLE_COLUMNS // max(len(search.shape.columns), WIDE_TABLE_COLUMNS), seed + stage, step
                )
            )
    return searched
