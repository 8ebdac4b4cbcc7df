"""Tables of recordings for a reservoir: one record is a whole recording, and what it teaches are the second moments of
what the reservoir says and the target.

Formal guarantee: a prepared record is a function of that recording's rows and the terms; no other recording touches
it. So replacing one recording, with all its samples, by one that begins where it began replaces one record: the order
in which recordings begin is public, for by it they are held out. (One that began elsewhere would shift the places of
those between, and bring others of them into training.)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from parley.data.design import Design, Summable
from parley.data.preparation import Preparation, require_records
from parley.data.rowwise import settle
from parley.data.sources import Rows, Table, open_table
from parley.data.table import numbers, require_columns
from parley.errors import DataError
from parley.protocol.queries.query import Query
from parley.protocol.queries.question import Context
from parley.tasks.recorded_moments import RecordedMomentsQuestion, by_recording
from parley.tasks.reservoir.features import Features
from parley.terms import Model, Terms
from parley.terms.columns import Reservoir
from parley.validate import Floats

AT_ONCE = 1 << 22  # numbers of states in memory


def reservoir_of(model: Model) -> Reservoir:
    """The section of the terms."""
    if model.reservoir is None:
        raise DataError("model.reservoir: expected one")
    return model.reservoir


def features_of(model: Model) -> Features:
    """What the read-out takes, as the terms fix it."""
    return Features.of(reservoir_of(model), len(model.features or ()))


@dataclass(frozen=True, eq=False)
class ReservoirPreparation(Preparation):
    """Inputs and the target are cut to their bounds, which become -1 and 1."""

    @property
    def width(self) -> int:
        """Numbers of one record: the upper triangle of its second moments."""
        size = features_of(self.model).width + 1
        return size * (size + 1) // 2

    def designs(self, table: Table, terms: Terms, name: str) -> tuple[Summable, Summable]:
        """(training, held-out) records, one a recording, in the order in which they begin, which is public; recordings
        are held out by their places."""
        source, columns = open_table(table), [*self.features, self.model.target, reservoir_of(self.model).recording]
        if source.streams:
            raise DataError(f"{name}: a streamed table cannot be told into recordings; give one file")
        require_columns(source.example, columns, name)
        records = self.records(source.frame(columns), name)
        require_records(terms, name, len(records), " recordings")
        design, train = record_design(records), self.trained_on(len(records))
        return design.where(train), design.where(~train)

    def records(self, table: Rows, name: str) -> Floats:
        """The sum of z z' over each recording's samples behind the washout, z = (f, u, 1, y), divided by how many there
        can be at most, as upper triangles [recordings, width]."""
        reservoir, i, j = reservoir_of(self.model), *np.triu_indices(features_of(self.model).width + 1)
        found = [np.empty((0, len(i)))]
        for rows in self._driven(table, name):
            z = rows[reservoir.washout :]
            found.append(((z.T @ z)[i, j] / reservoir.rows)[None])
        return np.concatenate(found)

    def states(self, table: Rows, name: str) -> Floats:
        """(f, u, 1) of every row [n, p], after all rows of its recording before it."""
        column, inputs = reservoir_of(self.model).recording, self._inputs(table, name)
        found = np.empty((len(inputs), features_of(self.model).width))
        places = by_recording(table, column, np.arange(len(inputs)), name, "its recording")
        for some in self._batches(places):
            for each, rows in zip(some, features_of(self.model).rows([inputs[each] for each in some]), strict=True):
                found[each] = rows
        return found

    def one_recording(self, raw: Floats) -> Floats:
        """The same of raw inputs [n, inputs] that are one recording."""
        scaled = [_scaled(cells, *ends) for cells, ends in zip(raw.T, self._scales, strict=True)]
        return features_of(self.model).rows([np.column_stack(scaled)])[0]

    def _driven(self, table: Rows, name: str) -> Iterator[Floats]:
        """Every recording's rows (f, u, 1, y) [samples, p + 1] that count."""
        features, reservoir = features_of(self.model), reservoir_of(self.model)
        require_columns(table, [*self.features, self.model.target, reservoir.recording], name)
        cells = np.column_stack([self._inputs(table, name), self.target(table, name)])
        pieces = by_recording(table, reservoir.recording, cells, name, "its recording")
        for some in self._batches([piece[: reservoir.samples] for piece in pieces]):
            driven = features.rows([piece[:, :-1] for piece in some])
            yield from (np.column_stack([rows, piece[:, -1]]) for rows, piece in zip(driven, some, strict=True))

    def _batches(self, pieces: list[NDArray[Any]]) -> Iterator[list[NDArray[Any]]]:
        """As many recordings at a time as memory should hold, by the longest of them."""
        longest = max(map(len, pieces), default=1)
        step = max(1, AT_ONCE // (longest * features_of(self.model).width))
        yield from (pieces[start : start + step] for start in range(0, len(pieces), step))

    def target(self, frame: Rows, name: str) -> Floats:
        """The targets [n], from -1 to 1."""
        found = numbers(frame, self.model.target, name)
        return _scaled(found, *self.target_bounds, self.target_centre, self.target_scale)

    def _inputs(self, table: Rows, name: str) -> Floats:
        """The inputs of all rows [n, inputs], from -1 to 1."""
        require_columns(table, self.features, name)
        parts = zip(self.features, self._scales, strict=True)
        return np.column_stack([_scaled(numbers(table, column, name), *ends) for column, ends in parts])

    @property
    def _scales(self) -> list[tuple[float, float, float, float]]:
        """(low, high, centre, scale) of each input."""
        return list(zip(self.low, self.high, self.centre, self.scale, strict=True))


def _scaled(cells: Floats, low: float, high: float, centre: float, scale: float) -> Floats:
    """Numbers [n] cut to their bounds, which become -1 and 1."""
    return settle((np.clip(cells, low, high) - centre) / scale, -1.0, 1.0)


def record_design(records: Floats) -> Design:
    """Records as what sums are taken over."""
    return Design(records, np.zeros(len(records)), np.ones(len(records)))


def reservoir_preparation(model: Model) -> ReservoirPreparation:
    """The preparation that the terms alone fix."""
    low, high = np.array([model.bounds[column] for column in (*(model.features or ()), model.target)]).T
    centre, scale = low / 2 + high / 2, high / 2 - low / 2
    ends, features = (float(low[-1]), float(high[-1])), model.features or ()
    return ReservoirPreparation(
        model, features, {}, low[:-1], high[:-1], ends, centre[:-1], scale[:-1], float(centre[-1]), float(scale[-1])
    )


@dataclass(frozen=True, eq=False)
class StateMomentsQuery(Query):
    """The mean over recordings of each one's mean of z z', z = (f, u, 1, y), as an upper triangle."""

    kind: ClassVar[str] = "state-moments"


@dataclass(frozen=True, eq=False)
class StateMomentsQuestion(RecordedMomentsQuestion):
    """Every recording's matrix is bounded as a whole.

    Formal guarantee: as of all recordings. A row has w = p + 1 numbers: turned states are cut to [-1, 1] as they are
    computed; inputs and the target are cut to bounds that become -1 and 1; the constant is 1. So each is at most 1,
    whatever the recording holds and however its samples hang together, and replacing a recording moves the mean of n by
    at most sqrt 2 Xi/n in L2 with Xi = w or the clip, 2 Xi/n in L1.
    """

    asks = StateMomentsQuery

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        model = context.terms.model
        return cls.of(context, owner, features_of(model).width + 1, reservoir_of(model).rows)

    def words(self) -> str:
        return f"a mean over {self.records:,} recordings as second moments of the reservoir's states"
