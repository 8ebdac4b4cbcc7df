"""A candidate of a search: two neighbouring tables, how they are written, and what is asked about them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from parley.audit.exact.cell_pool import ALL_KINDS, FORMS, CellPool, Form
from parley.errors import ParleyError, Refusal, TermsError
from parley.learning.algorithms.algorithm import Asker
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.start import starting_point
from parley.protocol.queries import Query, Question, ScoreQuery
from parley.protocol.setup import Setup
from parley.validate import LARGEST, Floats

MAX_EPOCHS = 2  # in which a record comes at most: more say the same again


@dataclass(frozen=True, eq=False)
class Asked:
    """The agreement for tables of one size: its setup, and the stage's question."""

    setup: Setup
    question: Question


@dataclass(frozen=True, eq=False)
class StageQuestions:
    """The questions of one stage of an owner: training, or the score."""

    setup: Setup
    name: str
    stage: int
    _sizes: dict[tuple[int, int | None], Asked | None] = field(default_factory=dict)
    _queries: dict[int, Query] = field(default_factory=dict)

    def of_size(self, records: int, batches: int | None) -> Asked:
        """Return the agreement for tables of this many records; `TermsError` if there is none."""
        size = records, None if batches is None else min(batches, records)
        if size not in self._sizes:
            self._sizes[size] = self._resolved(*size)
        found = self._sizes[size]
        if found is None:
            raise TermsError(
                f"records: these terms do not allow a table of {records} records; give another number of records"
            )
        return found

    def _resolved(self, records: int, batches: int | None) -> Asked | None:
        known = self.setup.terms.learning
        length = {"horizon": known.horizon} if known.epochs is None else {"epochs": min(known.epochs, MAX_EPOCHS)}
        learning = None if batches is None else {"batches": batches, **length}
        try:
            terms = self.setup.terms.changed(learning=learning, owners={self.name: {"records": records}})
            setup = self.setup.under(terms)
            return Asked(setup, setup.question(list(setup.plans(self.name))[self.stage], self.name))
        except ParleyError:
            return None

    @cached_property
    def rounds(self) -> list[int]:
        """The rounds to try: the first, the second and the last."""
        rounds = list(self.setup.plans(self.name))[self.stage].rounds
        return sorted({rounds[0], rounds[min(1, len(rounds) - 1)], rounds[-1]})

    def query(self, place: int) -> Query:
        """Return the query that the agreed algorithm sends at its start, in one of these rounds."""
        number = self.rounds[place]
        if number not in self._queries:
            self._queries[number] = self._first_query(number)
        return self._queries[number]

    def _first_query(self, number: int) -> Query:
        setup = self.setup
        if self.stage:
            return ScoreQuery.ask(setup.hash, setup.terms.learning.learner, number, np.zeros(setup.parameters))
        algorithm = make_algorithm(setup)
        begin = algorithm.start(starting_point(setup))
        try:
            return algorithm.questions(replace(begin, round=number), Asker.from_setup(setup))[self.name]
        except (KeyError, ValueError, ParleyError):  # later rounds ask by answers to earlier ones
            return algorithm.questions(begin, Asker.from_setup(setup))[self.name]

    def queries(self, agreement: Asked, numbers: Mapping[str, Floats], place: int) -> Iterator[Query]:
        """Yield queries at these numbers, checked as owners do (`Refusal`): one round, an epoch of disjoint rows, or
        all rounds that share one noise."""
        together = max(agreement.question.disjoint, agreement.question.together)
        place = 0 if together > 1 else place
        known, first, fitted = self.query(place), self.rounds[place], agreement.question.fitted(numbers)
        for number in range(first, first + together):
            query = asked_at(known, number, {name: fitted[name] for name in known.arrays})
            agreement.question.check(query, ())
            yield query

    def largest(self, name: str, question: Question) -> float:
        """Return the largest size that all of these numbers may have at once, to the last digit; 0 if there is none."""
        known = self.query(0)

        def allowed(size: float) -> bool:
            try:
                numbers = question.fitted({**known.arrays, name: np.full_like(known.arrays[name], size)})
                question.check(asked_at(known, known.round, numbers), ())
            except Refusal:
                return False
            return True

        if allowed(LARGEST):
            return LARGEST
        low, high = 0.0, LARGEST
        while low < (middle := float(np.sqrt(low) * np.sqrt(high)) if high > 4 * low > 0 else (low + high) / 2) < high:
            low, high = (middle, high) if allowed(middle) else (low, middle)
        return low


def asked_at(query: Query, number: int, numbers: Mapping[str, Floats]) -> Query:
    """Repeat a query in another round with some numbers changed."""
    own: dict[str, Any] = {**query.counts, **query.arrays, **numbers}
    return type(query).ask(query.terms_hash, query.learner, number, *(own[name] for name in query.own_fields()))


Row: TypeAlias = Mapping[str, Any]  # cells by column
Unit: TypeAlias = tuple[Row, ...]  # the rows of one person, user or recording

CANARY_NAME = "canary"
DECLARING_FORMS = tuple(form for form in FORMS if form.declares)
RESTART_RATE = 0.15  # how often a search starts over
ODD_NUMBERS = (0.0, -0.0, 1.0, 2.0, -1.0, 0.5, 1e-300, 5e-324, 100.0, 1e16)


@dataclass(frozen=True, eq=False)
class Trial:
    """Two tables whose canary rows are `a` and `b`; all other rows are the same."""

    form: Form
    kinds: Mapping[str, pa.DataType]  # what columns are declared to be
    others: tuple[Unit, ...]
    a: Unit
    b: Unit
    place: int  # of the canary among the others
    numbers: Mapping[str, Floats]  # that are asked at, by name
    round: int  # that is asked in, counted among those that may be
    batches: int | None = None  # where answers are about batches
    names: tuple[int, int] = (0, 0)  # of the canary in either table, among those of `Shape.people`
    aimed: int | None = None  # the row whose prediction lies where its derivative turns; every second: at 0 instead

    @property
    def units(self) -> int:
        return len(self.others) + 1


@dataclass(frozen=True, eq=False)
class Shape:
    """The shape of tables under the terms. `named`: the column of names, if any; `several`: all rows of a name are one
    record; `rows`: rows of a person or record that count; `beyond`: rows that do not."""

    columns: tuple[str, ...]
    named: str | None
    several: bool
    rows: int
    beyond: int
    whole: bool = False  # whether the canary is the whole table: an owner is protected, not a person
    # what the canary may be called: first a name that counts in the stage, then one that does not where people are
    # held out
    people: tuple[str, ...] = (CANARY_NAME,)

    @property
    def records(self) -> int:
        """How many counting records the canary's rows make."""
        return 1 if self.several else self.rows

    def canary_places(self, trial: Trial) -> list[int]:
        """Return the places of the canary's counting rows, or of its record if a record has several rows."""
        return [trial.place] if self.several else [trial.place + row for row in range(self.rows)]

    def table(self, trial: Trial, canary: Unit, everybody: bool = False, called: int = 0) -> pa.Table:
        """Return the rows in Arrow, or raise its error if types cannot hold cells. `everybody`: all have the canary's
        cells; `called`: its name among `people`."""
        own = self.people[called]
        units = [canary if everybody or self.whole else unit for unit in trial.others]
        names = [f"u{place}" for place in range(len(units))]
        units.insert(trial.place, canary[: len(canary) - self.beyond])
        names.insert(trial.place, own)
        units.append(canary[len(canary) - self.beyond :] if self.beyond else ())
        names.append(own)
        if (everybody or self.whole) and not self.several:
            units = [unit[:1] if name != own else unit for unit, name in zip(units, names, strict=True)]
        rows = [
            row if self.named is None else {**row, self.named: name}
            for unit, name in zip(units, names, strict=True)
            for row in unit
        ]
        return pa.table({c: pa.array([row[c] for row in rows], trial.kinds[c]) for c in self.columns})


@dataclass(frozen=True, eq=False)
class Moves:
    """How a search begins and moves on. `largest`: the largest size of numbers to ask at, by name (0: none)."""

    shape: Shape
    pool: CellPool
    asked: Mapping[str, Floats]
    largest: Mapping[str, float]
    rounds: int
    batches: tuple[int, ...]  # numbers of batches that are tried
    most: int  # units in a table

    def begin(self, rng: np.random.Generator) -> Trial:
        """Draw a first trial: cells at the terms' limits, everybody alike or not, in a form that keeps all types."""
        kinds, rows = self.plain_kinds, self._unit_rows(rng)
        a, b = self.unit(rng, kinds, rows), self.unit(rng, kinds, rows)
        plain = a if self.shape.several else a[:1]
        some = range(int(rng.integers(1, self.most)))
        same_rows = rng.random() < 0.5
        others = tuple(plain if same_rows else self.unit(rng, kinds, len(plain)) for _ in some)
        numbers = {name: self._size(rng, name, array) for name, array in self.asked.items()}
        batches = int(rng.choice(self.batches)) if self.batches else None
        form = DECLARING_FORMS[int(rng.integers(len(DECLARING_FORMS)))]
        aimed = int(rng.integers(2 * len(others) + 2)) if rng.random() < 0.5 else None
        round_ = int(rng.integers(self.rounds))
        place = int(rng.integers(len(others) + 1))
        plainly = Trial(form, kinds, others, a, b, place, numbers, round_, batches, aimed=aimed)
        plainly = self._named(rng, plainly, 1.0)
        return plainly if rng.random() < 0.3 else self._kind(rng, plainly, 1.0)

    def move(self, rng: np.random.Generator, trial: Trial, length: float) -> Trial:
        """Change one thing, sometimes several; now and then start again."""
        if rng.random() < RESTART_RATE:
            return self.begin(rng)
        cells, numbers, kinds = (self._cell,) * 3, (self._number,) * 2, (self._kind,) * 2
        names = (self._named,) * (len(self.shape.people) - 1)
        ways = (*cells, *numbers, *kinds, self._alike, self._form, self._table, *names)
        for _ in range(int(rng.geometric(0.6))):
            trial = ways[int(rng.integers(len(ways)))](rng, trial, length)
        return trial

    def _unit_rows(self, rng: np.random.Generator) -> int:
        if self.shape.several:
            return self.shape.rows if rng.random() < 0.5 else int(rng.integers(1, 9))
        return self.shape.rows + self.shape.beyond

    def unit(self, rng: np.random.Generator, kinds: Mapping[str, pa.DataType], rows: int) -> Unit:
        """Draw the rows of one person, all alike, or of one record."""
        held = {c: kind for c, kind in kinds.items() if c != self.shape.named}
        if not self.shape.several:
            return ({c: self.pool.usual(rng, c, kind) for c, kind in held.items()},) * rows
        columns = {c: self.pool.patterned(rng, c, kind, rows) for c, kind in held.items()}
        return tuple({c: cells[row] for c, cells in columns.items()} for row in range(rows))

    @property
    def plain_kinds(self) -> dict[str, pa.DataType]:
        """The types an analyst would declare."""
        return {c: pa.string() if c == self.shape.named else self.pool.plain_kind(c) for c in self.shape.columns}

    def _cell(self, rng: np.random.Generator, trial: Trial, length: float) -> Trial:
        """Change one cell of the canary, before or after, or of somebody else, perhaps to a number nearby."""
        columns = [column for column in self.shape.columns if column != self.shape.named]
        column = columns[int(rng.integers(len(columns)))]
        changed_unit, at = int(rng.integers(3)), int(rng.integers(len(trial.others)))
        unit = (trial.a, trial.b, trial.others[at])[changed_unit]
        place = int(rng.integers(len(unit)))
        cell, kind = unit[place][column], trial.kinds[column]
        if isinstance(cell, float) and pa.types.is_floating(kind) and rng.random() < 0.4:
            with np.errstate(over="ignore"):
                fresh = float(cell * (1 + length * rng.normal()) + (rng.normal() * length if rng.random() < 0.3 else 0))
        else:
            fresh = self.pool.draw(rng, column, kind)
        everywhere = not self.shape.several  # a person's rows are alike
        changed = tuple(
            {**row, column: fresh} if everywhere or number == place else row for number, row in enumerate(unit)
        )
        if changed_unit == 2:
            return replace(trial, others=(*trial.others[:at], changed, *trial.others[at + 1 :]))
        return replace(trial, a=changed) if changed_unit == 0 else replace(trial, b=changed)

    def _alike(self, rng: np.random.Generator, trial: Trial, length: float) -> Trial:
        """Give everybody the canary's cells, or make the canary change in one cell only."""
        canary = trial.a if rng.random() < 0.5 else trial.b
        if rng.random() < 0.5:
            return self._cell(rng, replace(trial, b=trial.a), length)
        plain = canary if self.shape.several else canary[:1]
        return replace(trial, others=(plain,) * len(trial.others))

    def _named(self, rng: np.random.Generator, trial: Trial, length: float) -> Trial:
        """Rename the canary, so that it counts in both tables, in one or in none."""
        many = len(self.shape.people)
        return trial if many == 1 else replace(trial, names=(int(rng.integers(many)), int(rng.integers(many))))

    def _form(self, rng: np.random.Generator, trial: Trial, length: float) -> Trial:
        return replace(trial, form=FORMS[int(rng.integers(len(FORMS)))])

    def _kind(self, rng: np.random.Generator, trial: Trial, length: float) -> Trial:
        """Change one column's type and its cells; often canaries differ by a gap only, to see who else changes."""
        columns = [column for column in self.shape.columns if column != self.shape.named]
        column = columns[int(rng.integers(len(columns)))]
        kinds = ALL_KINDS if rng.random() < 0.3 else self.pool.fitting_kinds(column)
        kind = kinds[int(rng.integers(len(kinds)))]

        def fresh(unit: Unit) -> Unit:
            if not self.shape.several:
                cell = self.pool.usual(rng, column, kind)
                return tuple({**row, column: cell} for row in unit)
            return tuple({**row, column: self.pool.usual(rng, column, kind)} for row in unit)

        others, a, b = tuple(fresh(unit) for unit in trial.others), fresh(trial.a), fresh(trial.b)
        retyped = replace(trial, kinds={**trial.kinds, column: kind}, others=others, a=a, b=b)
        if rng.random() < 0.3:
            return retyped
        gap = tuple({**row, column: None} for row in a)
        plain = a if self.shape.several else a[:1]
        new_others = (plain,) * len(others) if rng.random() < 0.5 else others
        return replace(retyped, form=DECLARING_FORMS[int(rng.integers(len(DECLARING_FORMS)))], others=new_others, b=gap)

    def _table(self, rng: np.random.Generator, trial: Trial, length: float) -> Trial:
        """Change the number of rows, the canary's place, the batches, the round or the aim."""
        which = int(rng.integers(4))
        if which == 0:
            some = int(rng.integers(1, self.most))
            others = (trial.others * self.most)[:some]
            return replace(trial, others=others, place=int(rng.integers(some + 1)))
        if which == 1 and self.batches:
            return replace(trial, batches=int(rng.choice(self.batches)))
        if which == 2:
            return replace(trial, round=int(rng.integers(self.rounds)))
        return replace(trial, aimed=int(rng.integers(2 * trial.units)) if rng.random() < 0.7 else None)

    def _number(self, rng: np.random.Generator, trial: Trial, length: float) -> Trial:
        """Draw numbers of another size, nearby ones, or a single odd one."""
        if not trial.numbers:
            return trial
        name = list(trial.numbers)[int(rng.integers(len(trial.numbers)))]
        values = trial.numbers[name]
        way = int(rng.integers(3))
        if way == 0:
            fresh = self._size(rng, name, values)
        elif way == 1:
            fresh = values * (1 + length * rng.normal(size=values.shape))
        else:
            fresh = values.copy()
            fresh[int(rng.integers(len(fresh)))] = float(rng.choice(ODD_NUMBERS)) * float(rng.choice([1.0, -1.0]))
        return replace(trial, numbers={**trial.numbers, name: self.within(name, fresh)})

    def _size(self, rng: np.random.Generator, name: str, values: Floats) -> Floats:
        """Draw numbers of any size up to the largest, or at corners of the box; unchanged if there is no box."""
        largest = self.largest[name]
        if not largest > 0:
            return values
        size = largest * 10.0 ** -float(rng.exponential(2.0) if rng.random() < 0.5 else rng.uniform(0, 60))
        signs = rng.choice([-1.0, 1.0], values.shape)
        return self.within(name, signs * (size if rng.random() < 0.3 else size * rng.uniform(0.1, 1.0, values.shape)))

    def within(self, name: str, values: Floats) -> Floats:
        """Clip the numbers to their box."""
        most = self.largest[name]
        return np.clip(values, -most, most) if most > 0 else values
