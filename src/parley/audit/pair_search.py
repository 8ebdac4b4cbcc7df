"""The search for two neighbouring tables, and a question about them, that an answer tells apart better than is claimed.

Hill climbing over values, types and gaps of cells, forms in which tables are written, what is asked at up to the
largest that the terms allow, numbers of rows and of batches, and all secret draws. Tables are read and prepared as an
owner's are; no noise is drawn, for its law is known.
"""

import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from parley.audit.canary import BEYOND
from parley.audit.cell_pool import CellPool
from parley.audit.claim_share import MOST_ROWS, answered_share, density_share, drawn_share
from parley.audit.hill_climbing import climbing
from parley.audit.trial import Moves, Shape, Trial, Unit
from parley.audit.written_tables import FORMS, UNWRITABLE
from parley.data import Design
from parley.data.schema import Schema
from parley.data.sources import open_table
from parley.errors import DataError, ParleyError, Refusal, TermsError
from parley.learning.algorithms.algorithm import Asker, Progress
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.start import starting_point
from parley.protocol.queries import Query, Question, ScoreQuery, Tables
from parley.protocol.setup import Setup
from parley.validate import LARGEST, Floats

MOST_UNITS = 8  # in a table
REFUSED = -1.0  # the value of a trial that nobody answers
BATCHES = (2, 3, 4)
# Of shares that climbs tell apart, each its own: who looks for the peak stays there, and who wanders finds more.
CEILINGS = (math.inf, 0.9, 0.5, 0.0)
SEEN = "seen"  # the number that an answer with noise inside comes out as


@dataclass(frozen=True)
class Searched:
    """What a search for pairs of tables found about one kind of question: `share` of the claim, 1 is all of it."""

    kind: str
    share: float
    tried: int
    read: int  # of them, where both tables were taken
    found: str  # where the largest share was
    instructions: str = "as they are"  # of the processor

    @property
    def holds(self) -> bool:
        """Whether nothing was found that contradicts the claim; but for roundings of logarithms."""
        return self.share <= 1 + 1e-9

    def to_json(self) -> dict[str, Any]:
        """The object that `parley audit --json` prints of a search; no share: somebody was refused for no reason of
        their own, or seen who was not drawn."""
        return {**vars(self), "share": self.share if math.isfinite(self.share) else None, "holds": self.holds}


@dataclass(frozen=True, eq=False)
class Asked:
    """The agreement for tables of one size: its setup, and the stage's question."""

    setup: Setup
    question: Question


@dataclass(frozen=True, eq=False)
class Read:
    """A table as it is read: what it declares, and its rows prepared; None where it is refused."""

    schema: Schema
    tables: Tables | None


@dataclass(eq=False)
class PairSearch:
    """The search about one stage of an owner: training, or the score. `setup` is that of the terms as they are."""

    setup: Setup
    name: str
    stage: int = 0
    folder: Path = field(default_factory=Path)
    tried: int = 0
    read: int = 0

    @cached_property
    def kind(self) -> str:
        return self._asked(*self._usual_size).question.asks.kind

    def climb(self, tries: int, seed: int, step: Callable[[], None] = lambda: None) -> Searched:
        """What so many trials find; it ends at once where a claim is broken."""
        moves = self.moves
        # tables of a few rows: threads would take longer than the rows
        with tempfile.TemporaryDirectory() as folder, joblib.parallel_config(backend="sequential"):
            self.folder = Path(folder)
            for side in ("a", "b", "all"):
                (self.folder / side).mkdir()
            best, where = REFUSED, moves.begin(np.random.default_rng(seed))

            def values(trials: list[Trial]) -> list[float]:
                nonlocal best, where
                step()
                shares = [self.share(each) for each in trials]
                for share, trial in zip(shares, trials, strict=True):
                    best, where = max((best, where), (share, trial), key=lambda each: each[0])
                return [min(share, most) for share, most in zip(shares, CEILINGS, strict=True)]

            seeds = np.random.SeedSequence(seed).spawn(len(CEILINGS))
            for _ in climbing(values, moves.begin, moves.move, seeds):
                if best > 1 + 1e-9 or self.tried >= tries:
                    break
        return Searched(self.kind, max(best, 0.0), self.tried, self.read, self._words(where))

    def share(self, trial: Trial) -> float:
        """How much of the claim a trial uses; `REFUSED` where nobody answers."""
        self.tried += 1
        try:
            asked = self._asked(self._records(trial), trial.batches)
            a, b = (self._tables(trial, asked, unit, side) for unit, side in ((trial.a, "a"), (trial.b, "b")))
            if a.schema != b.schema:
                return REFUSED  # another schema is no neighbour
            if a.tables is None or b.tables is None:
                return self._refused(trial, asked, a, b)
            trial = self._aimed(trial, asked)
            queries = list(self._queries(trial, asked))
        except (TermsError, Refusal, *UNWRITABLE):
            return REFUSED
        self.read += 1
        return self._answered(trial, asked, queries, a.tables, b.tables)

    def _answered(self, trial: Trial, asked: Asked, queries: list[Query], a: Tables, b: Tables) -> float:
        question = asked.question
        if question.own_noise is not None:
            epsilon = float(asked.setup.terms.training_epsilon(self.name))
            return density_share(question, trial.numbers[SEEN], a, b, epsilon)
        if question.draws:
            return drawn_share(question, queries[0], a, b, self.shape.canary_places(trial))
        return answered_share(question, queries, a, b)

    @cached_property
    def shape(self) -> Shape:
        """What tables look like by the terms."""
        terms, task = self.setup.terms, self.setup.task
        several, person = task.record_column(terms.model), terms.privacy.person
        named = several if several is not None else person
        read = (*self.setup.preparation.features, *task.columns(terms.model), *([] if named is None else [named]))
        beyond = BEYOND if several is None and person is not None else 0
        rows = 1 if several is not None else terms.privacy.records_per_person
        return Shape(tuple(dict.fromkeys(read)), named, several is not None, rows, beyond)

    @cached_property
    def moves(self) -> Moves:
        """How the search goes on."""
        question = self._asked(*self._usual_size).question
        first = self._query(0)
        numbers = dict(first.arrays)
        if question.own_noise is not None:
            numbers[SEEN] = np.zeros(question.size)
        largest = {name: self._largest(name, array) for name, array in numbers.items()}
        if question.own_noise is not None:
            largest[SEEN] = float(np.max(question.extent.high)) / question.size**0.5
        learning = self.setup.terms.learning
        most = MOST_ROWS - self.shape.rows + 1 if question.draws and question.own_noise is None else MOST_UNITS
        batches = BATCHES if learning.batches is not None else ()
        rounds = 1 if question.disjoint > 1 else len(self._rounds)
        return Moves(self.shape, CellPool(self.setup), numbers, largest, rounds, batches, max(most, 2))

    @cached_property
    def _sizes(self) -> dict[tuple[int, int | None], Asked | None]:
        return {}

    @property
    def _usual_size(self) -> tuple[int, int | None]:
        batches = self.setup.terms.learning.batches
        return MOST_UNITS + self.shape.rows, None if batches is None else BATCHES[0]

    def _records(self, trial: Trial) -> int:
        """How many records a trial's tables have."""
        return len(trial.others) + (1 if self.shape.several else self.shape.rows)

    def _asked(self, records: int, batches: int | None) -> Asked:
        """The agreement for tables of this size, or a `TermsError` where there is none."""
        key = records, None if batches is None else min(batches, records)
        if key not in self._sizes:
            learning = None if batches is None else {"batches": key[1]}
            try:
                terms = self.setup.terms.changed(learning=learning, owners={self.name: {"records": records}})
                setup = self.setup.under(terms)
                plan = list(setup.plans(self.name))[self.stage]
                self._sizes[key] = Asked(setup, setup.question(plan, self.name))
            except ParleyError:
                self._sizes[key] = None
        found = self._sizes[key]
        if found is None:
            raise TermsError(f"records: no terms for tables of {records}")
        return found

    def _tables(self, trial: Trial, asked: Asked, canary: Unit, side: str, everybody: bool = False) -> Read:
        """The table written, read and prepared as an owner's is."""
        opened = open_table(trial.form.write(self.shape.table(trial, canary, everybody), self.folder / side))
        try:
            tables = Tables(*asked.setup.preparation.designs(opened, asked.setup.terms, self.name))
        except DataError:
            return Read(opened.schema, None)
        return Read(opened.schema, tables)

    def _refused(self, trial: Trial, asked: Asked, a: Read, b: Read) -> float:
        """A refusal must be a single cell's fault: if one canary is refused among the others, and neither the other
        canary nor a table of nothing but it is, somebody else's row decided."""
        if a.tables is b.tables:
            return REFUSED
        refused = trial.a if a.tables is None else trial.b
        alone = self._tables(trial, asked, refused, "all", everybody=True)
        return REFUSED if alone.tables is None or alone.schema != a.schema else math.inf

    @cached_property
    def _rounds(self) -> list[int]:
        """The rounds that are tried: the first, the second and the last."""
        rounds = list(self.setup.plans(self.name))[self.stage].rounds
        return sorted({rounds[0], rounds[min(1, len(rounds) - 1)], rounds[-1]})

    def _query(self, place: int) -> Query:
        """What the agreed algorithm asks at its start, in one of these rounds."""
        number = self._rounds[place]
        if number not in self._known:
            self._known[number] = self._first_query(number)
        return self._known[number]

    @cached_property
    def _known(self) -> dict[int, Query]:
        return {}

    def _first_query(self, number: int) -> Query:
        setup = self.setup
        if self.stage:
            return ScoreQuery.ask(setup.hash, setup.terms.learning.learner, number, np.zeros(setup.parameters))
        algorithm = make_algorithm(setup)
        begin = algorithm.start(starting_point(setup))
        try:
            return algorithm.questions(replace(begin, round=number), Asker.of(setup))[self.name]
        except (KeyError, ValueError, ParleyError):  # later rounds ask by answers to earlier ones
            return algorithm.questions(begin, Asker.of(setup))[self.name]

    def _queries(self, trial: Trial, asked: Asked) -> Iterator[Query]:
        """What is asked, as owners check it: in one round, or in all of an epoch where answers are about disjoint
        rows."""
        question = asked.question
        known = self._query(0 if question.disjoint > 1 else trial.round)
        first = self._rounds[0 if question.disjoint > 1 else trial.round]
        for number in range(first, first + question.disjoint):
            own = {**known.counts, **{name: trial.numbers[name] for name in known.arrays}}
            query = type(known).ask(asked.setup.hash, known.learner, number, *(own[name] for name in _fields(known)))
            question.check(query, ())
            yield query

    def _largest(self, name: str, array: Floats) -> float:
        """The largest size that all of these numbers may have at once; 0 where no size will do."""
        known, question = self._query(0), self._asked(*self._usual_size).question

        def allowed(size: float) -> bool:
            own = {**known.counts, **known.arrays, name: np.full(array.shape, size)}
            values = (own[field] for field in _fields(known))
            try:
                question.check(type(known).ask(known.terms_hash, known.learner, known.round, *values), ())
            except Refusal:
                return False
            return True

        if name not in known.arrays or allowed(LARGEST):
            return LARGEST
        low, high = 0.0, LARGEST
        for _ in range(1200):  # to the last digit
            middle = float(np.sqrt(low) * np.sqrt(high)) if low > 0 and high > 2 * low else (low + high) / 2
            if not low < middle < high:
                break
            low, high = (middle, high) if allowed(middle) else (low, middle)
        return low

    def _aimed(self, trial: Trial, asked: Asked) -> Trial:
        """The trial with numbers at which a row's prediction is its target, or 0, but for rounding: there derivatives
        turn."""
        name = next(iter(trial.numbers), None)
        if trial.aimed is None or name is None or name == SEEN:
            return trial
        frame = next(form for form in FORMS if form.name == "declared frame")
        made = self._tables(replace(trial, form=frame), asked, trial.a, "all").tables
        rows = None if made is None else made.train
        values = trial.numbers[name]
        if not isinstance(rows, Design) or not len(rows) or not rows.width or len(values) % rows.width:
            return trial
        row = trial.aimed // 2 % len(rows)
        wanted = float(rows.y[row]) if trial.aimed % 2 else 0.0
        fresh = aimed_at(values.reshape(-1, rows.width), rows.X[row], wanted).ravel()
        return replace(trial, numbers={**trial.numbers, name: self.moves.within(name, fresh)})

    def _words(self, trial: Trial) -> str:
        """Where the search came to, in words."""
        plain = CellPool(self.setup)
        odd = [
            f"{column} declared as {kind}"
            for column, kind in trial.kinds.items()
            if column != self.shape.named and kind != plain.plain_kind(column)
        ]
        sizes = [f"{name} up to {np.abs(values).max(initial=0.0):.3g}" for name, values in trial.numbers.items()]
        return "; ".join([f"{trial.form.name} of {self._records(trial)} records", *odd, *sizes])


def aimed_at(blocks: Floats, x: Floats, wanted: float) -> Floats:
    """Parameters [blocks, p], of which one coordinate each is solved for, so that their products with x are `wanted`,
    but for rounding."""
    last = int(np.argmax(np.abs(x)))
    if not abs(x[last]) > 0:
        return blocks
    fresh = blocks.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        rest = np.delete(blocks, last, axis=1) @ np.delete(x, last)
        fresh[:, last] = (wanted - rest) / x[last]
    return fresh


def _fields(query: Query) -> list[str]:
    """The names of a query's own fields, in their order."""
    return list(type(query)._own())


def search_owner(
    setup: Setup, name: str, tries: int, seed: int = 0, progress: Progress = lambda done, total: None
) -> list[Searched]:
    """What a search of so many trials finds about each kind of question that this owner is asked."""
    plans = list(setup.plans(name))
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        progress(min(4 * done, tries * len(plans)), tries * len(plans))

    return [PairSearch(setup, name, stage).climb(tries, seed + stage, step=step) for stage in range(len(plans))]
