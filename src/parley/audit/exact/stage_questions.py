"""What an owner may be asked in one stage, about tables of any size: the terms as they are but for the number of its
records, of batches and of epochs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from parley.errors import ParleyError, Refusal, TermsError
from parley.learning.algorithms.algorithm import Asker
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.start import starting_point
from parley.protocol.queries import Query, Question, ScoreQuery
from parley.protocol.setup import Setup
from parley.validate import LARGEST, Floats

EPOCHS = 2  # in which a record comes at most: more say the same again


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
        """The agreement for tables of so many records, or a `TermsError` where there is none."""
        size = records, None if batches is None else min(batches, records)
        if size not in self._sizes:
            self._sizes[size] = self._resolved(*size)
        found = self._sizes[size]
        if found is None:
            raise TermsError(f"records: by these terms nothing can be asked about tables of {records}")
        return found

    def _resolved(self, records: int, batches: int | None) -> Asked | None:
        epochs = min(self.setup.terms.learning.epochs or 1, EPOCHS)
        learning = None if batches is None else {"batches": batches, "epochs": epochs}
        try:
            terms = self.setup.terms.changed(learning=learning, owners={self.name: {"records": records}})
            setup = self.setup.under(terms)
            return Asked(setup, setup.question(list(setup.plans(self.name))[self.stage], self.name))
        except ParleyError:
            return None

    @cached_property
    def rounds(self) -> list[int]:
        """The rounds that are tried: the first, the second and the last."""
        rounds = list(self.setup.plans(self.name))[self.stage].rounds
        return sorted({rounds[0], rounds[min(1, len(rounds) - 1)], rounds[-1]})

    def query(self, place: int) -> Query:
        """What the agreed algorithm asks at its start, in one of these rounds."""
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
            return algorithm.questions(replace(begin, round=number), Asker.of(setup))[self.name]
        except (KeyError, ValueError, ParleyError):  # later rounds ask by answers to earlier ones
            return algorithm.questions(begin, Asker.of(setup))[self.name]

    def queries(self, asked: Asked, numbers: Mapping[str, Floats], place: int) -> Iterator[Query]:
        """What is asked at these numbers, as owners check it (`Refusal`): in one round, or in all of an epoch where
        answers are about disjoint rows, or in all rounds where one noise is for all of them."""
        together = max(asked.question.disjoint, asked.question.together)
        place = 0 if together > 1 else place
        known, first, fitted = self.query(place), self.rounds[place], asked.question.fitted(numbers)
        for number in range(first, first + together):
            query = asked_at(known, number, {name: fitted[name] for name in known.arrays})
            asked.question.check(query, ())
            yield query

    def largest(self, name: str, question: Question) -> float:
        """The largest size that all of these numbers may have at once, to the last digit; 0 where no size will do."""
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
    """The same query in another round, with some of its numbers changed."""
    own: dict[str, Any] = {**query.counts, **query.arrays, **numbers}
    return type(query).ask(query.terms_hash, query.learner, number, *(own[name] for name in query.own_fields()))
