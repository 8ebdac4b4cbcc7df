"""Recordings as records of a reservoir: the second moments of its states and the target.

Formal guarantee: a prepared record is a function of that recording's rows and the terms alone. Replacing one recording,
with all its samples, by one that begins where it began replaces one record: recordings are held out by the public order
in which they begin. (A different beginning would shift the places of others and bring them into training.)

The nodes form a ring (a simple cycle reservoir, Rodan and Tino 2011): x[t] = (1 - a) x[t-1] + a tanh(r P x[t-1] + s V
(1, u[t])), with P the ring, a the leak, r the spectral radius and s the scale of inputs. r P multiplies no vector's
length by more than r, so a starting state is forgotten by a factor 1 - a (1 - r) a step.

Nodes have nearly equal states, so noise would drown their differences. The read-out therefore takes f = cut(G L^-1 (x -
m)) to [-1, 1], where m and C = L L' (with a ridge) are the mean and covariance of states under evenly drawn public
inputs. Inputs of another law make f less well conditioned, but bounded all the same.

Formal guarantee: weights are integers of a hash, states are made of `data.rowwise`, and m and L use no private row. All
are the same to the bit on every machine, whatever recordings stand beside one.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from parley.data import rowwise
from parley.data.design import Design, Summable
from parley.data.preparation import Preparation, require_records
from parley.data.rowwise import clip_to_grid
from parley.data.sources import Rows, Table, open_table
from parley.data.table import numbers, require_columns
from parley.errors import DataError
from parley.protocol.queries.query import Query
from parley.protocol.queries.question import Context
from parley.tasks.dynamics.reservoir.terms import EchoStateModel, Reservoir
from parley.tasks.records import RecordedMomentsQuestion, by_recording
from parley.terms import Model, Terms
from parley.validate import Floats

DRIVES, SAMPLES, SKIPPED = 16, 500, 250  # of made-up inputs; the first samples of each are left out
RIDGE_SHARE = 0.01  # of the mean variance of a state: directions that move by less are not made larger
MIN_RIDGE = 2.0**-40  # that the ridge is at least
STATE_DEVIATION = 0.3  # the deviation of a turned state under made-up inputs: beyond 1 it is cut


def drawn(words: str, *shape: int) -> Floats:
    """Return numbers evenly from -1 to 1, of 52 bits each, determined by these words.

    >>> drawn("", 2).round(6).tolist()
    [-0.794183, -0.629332]
    """
    bits = hashlib.shake_256(f"parley reservoir {words}".encode()).digest(8 * int(np.prod(shape)))
    return np.asarray((np.frombuffer(bits, dtype="<u8") >> 12) * 2.0**-51 - 1).reshape(shape)


@dataclass(frozen=True)
class Nodes:
    """The nodes of the terms' reservoir, with `inputs` inputs."""

    settings: Reservoir
    inputs: int

    @cached_property
    def weights(self) -> Floats:
        """s V [inputs + 1, nodes], the constant first."""
        shape = self.inputs + 1, self.settings.nodes
        return self.settings.input_scale * drawn(f"weights {self.settings.seed} {shape}", *shape)

    def states(self, inputs: Floats) -> Floats:
        """Return x[t] [recordings, samples, nodes] for inputs [recordings, samples, inputs] from -1 to 1."""
        recordings, samples, _ = inputs.shape
        found = np.empty((recordings, samples, self.settings.nodes))
        state = np.zeros((recordings, self.settings.nodes))
        for t in range(samples):
            state = found[:, t] = self._next(state, inputs[:, t])
        return found

    def _next(self, state: Floats, inputs: Floats) -> Floats:
        """Return the states [recordings, nodes] after these inputs [recordings, inputs]."""
        reached = self.settings.spectral_radius * np.roll(state, 1, axis=1) + self.weights[0]
        for place in range(self.inputs):
            reached += inputs[:, place : place + 1] * self.weights[place + 1]
        leak = self.settings.leak
        return clip_to_grid((1 - leak) * state + leak * (2 * rowwise.logistic(2 * reached) - 1), -1.0, 1.0)


@dataclass(frozen=True)
class Features:
    """The p numbers of every sample: turned states, inputs, a constant."""

    nodes: Nodes

    @classmethod
    def from_reservoir(cls, settings: Reservoir, inputs: int) -> "Features":
        """Return the cached features of the terms' reservoir with `inputs` inputs."""
        return _features(settings, inputs)

    @property
    def width(self) -> int:
        return self.nodes.settings.nodes + self.nodes.inputs + 1

    @cached_property
    def turn(self) -> tuple[Floats, Floats]:
        """(m [nodes], G L^-1 [nodes, nodes])."""
        nodes = self.nodes
        words = f"inputs {nodes.settings.seed} {nodes.inputs}"
        driven = nodes.states(drawn(words, DRIVES, SAMPLES, nodes.inputs))[:, SKIPPED:].reshape(
            -1, nodes.settings.nodes
        )
        mean = rowwise.halving_sum(driven.copy()) / len(driven)
        away = np.ascontiguousarray((driven - mean).T)
        covariance = rowwise.products(away, away) / len(driven)
        ridge = RIDGE_SHARE * rowwise.halving_sum(covariance.diagonal().copy()[:, None]) / len(covariance) + MIN_RIDGE
        return mean, STATE_DEVIATION * inverse_root(covariance + ridge * np.eye(len(covariance)))

    def rows(self, recordings: Sequence[Floats]) -> list[Floats]:
        """Return (f[t], u[t], 1) [samples, p] of each recording's inputs [samples, inputs] from -1 to 1.

        Formal guarantee: a recording's rows are a function of its own inputs, to the bit. Recordings are driven
        together element by element, padded to the longest, and each is turned at its own length, because matrix
        products round by shape.
        """
        mean, turn = self.turn
        blocks = []
        for inputs, states in zip(recordings, self.nodes.states(_padded(recordings)), strict=True):
            turned = clip_to_grid((states[: len(inputs)] - mean) @ turn.T, -1.0, 1.0)
            blocks.append(np.column_stack([turned, inputs, np.ones(len(inputs))]))
        return blocks


def _padded(recordings: Sequence[Floats]) -> Floats:
    padded = np.zeros((len(recordings), max(map(len, recordings)), recordings[0].shape[1]))
    for place, inputs in enumerate(recordings):
        padded[place, : len(inputs)] = inputs
    return padded


@lru_cache(maxsize=8)
def _features(settings: Reservoir, inputs: int) -> Features:
    return Features(Nodes(settings, inputs))


def inverse_root(matrix: Floats) -> Floats:
    """Return L^-1 of a positive definite matrix L L' (L lower triangular), by single operations in a fixed order.

    >>> inverse_root(np.array([[4.0, 0.0], [0.0, 0.25]])).tolist()
    [[0.5, 0.0], [0.0, 2.0]]
    """
    size = len(matrix)
    L, inverse = np.zeros_like(matrix), np.eye(size)
    for k in range(size):
        column = matrix[k:, k] - rowwise.products(L[k:, :k], L[k : k + 1, :k])[0]
        L[k:, k] = column / np.sqrt(column[0])
        inverse[k] = (inverse[k] - rowwise.halving_sum(L[k, :k, None] * inverse[:k])) / L[k, k]
    return inverse


AT_ONCE = 1 << 22  # numbers of states in memory


def reservoir_of(model: Model) -> Reservoir:
    """Return the terms' reservoir section."""
    return EchoStateModel.expect(model).reservoir


def features_of(model: Model) -> Features:
    """Return the read-out's features that the terms fix."""
    return Features.from_reservoir(reservoir_of(model), len(model.features or ()))


@dataclass(frozen=True, eq=False)
class ReservoirPreparation(Preparation):
    """Cut inputs and target to their bounds, which become -1 and 1."""

    @property
    def width(self) -> int:
        """The size of a record: the upper triangle of its second moments."""
        size = features_of(self.model).width + 1
        return size * (size + 1) // 2

    def designs(self, table: Table, terms: Terms, name: str) -> tuple[Summable, Summable]:
        """Return (training, held-out) records, split by the public order in which recordings begin."""
        source, columns = open_table(table), [*self.features, self.model.target, reservoir_of(self.model).recording]
        if source.streams:
            raise DataError(f"{name}: a folder of Parquet files cannot be split into recordings; give one file")
        require_columns(source.example, columns, name)
        records = self.records(source.frame(columns), name)
        require_records(terms, name, len(records), " recordings")
        design, train = record_design(records), self.trained_on(len(records))
        return design.where(train), design.where(~train)

    def records(self, table: Rows, name: str) -> Floats:
        """Return each recording's sum of z z' after the washout, z = (f, u, 1, y), over the largest possible number of
        samples, as upper triangles [recordings, width]."""
        reservoir, i, j = reservoir_of(self.model), *np.triu_indices(features_of(self.model).width + 1)
        found = [np.empty((0, len(i)))]
        for rows in self._recording_rows(table, name):
            z = rows[reservoir.washout :]
            found.append(((z.T @ z)[i, j] / reservoir.rows)[None])
        return np.concatenate(found)

    def states(self, table: Rows, name: str) -> Floats:
        """Return (f, u, 1) of every row [n, p], given the earlier rows of its recording."""
        column, inputs = reservoir_of(self.model).recording, self._inputs(table, name)
        found = np.empty((len(inputs), features_of(self.model).width))
        places = by_recording(table, column, np.arange(len(inputs)), name, "its recording")
        for some in self._batches(places):
            for each, rows in zip(some, features_of(self.model).rows([inputs[each] for each in some]), strict=True):
                found[each] = rows
        return found

    def one_recording(self, raw: Floats) -> Floats:
        """Return (f, u, 1) of raw inputs [n, inputs] that are one recording."""
        scaled = [_scaled(cells, *ends) for cells, ends in zip(raw.T, self._scales, strict=True)]
        return features_of(self.model).rows([np.column_stack(scaled)])[0]

    def _recording_rows(self, table: Rows, name: str) -> Iterator[Floats]:
        """Yield the rows (f, u, 1, y) [samples, p + 1] of each recording that count."""
        features, reservoir = features_of(self.model), reservoir_of(self.model)
        require_columns(table, [*self.features, self.model.target, reservoir.recording], name)
        cells = np.column_stack([self._inputs(table, name), self.target(table, name)])
        pieces = by_recording(table, reservoir.recording, cells, name, "its recording")
        for some in self._batches([piece[: reservoir.samples] for piece in pieces]):
            driven = features.rows([piece[:, :-1] for piece in some])
            yield from (np.column_stack([rows, piece[:, -1]]) for rows, piece in zip(driven, some, strict=True))

    def _batches(self, pieces: list[NDArray[Any]]) -> Iterator[list[NDArray[Any]]]:
        """Yield as many recordings at a time as memory should hold."""
        longest = max(map(len, pieces), default=1)
        step = max(1, AT_ONCE // (longest * features_of(self.model).width))
        yield from (pieces[start : start + step] for start in range(0, len(pieces), step))

    def target(self, frame: Rows, name: str) -> Floats:
        """Return the targets [n], from -1 to 1."""
        found = numbers(frame, self.model.target, name)
        return _scaled(found, *self.target_bounds, self.target_centre, self.target_scale)

    def _inputs(self, table: Rows, name: str) -> Floats:
        """Return the inputs of all rows [n, inputs], from -1 to 1."""
        require_columns(table, self.features, name)
        parts = zip(self.features, self._scales, strict=True)
        return np.column_stack([_scaled(numbers(table, column, name), *ends) for column, ends in parts])

    @property
    def _scales(self) -> list[tuple[float, float, float, float]]:
        """(low, high, centre, scale) of each input."""
        return list(zip(self.low, self.high, self.centre, self.scale, strict=True))


def _scaled(cells: Floats, low: float, high: float, centre: float, scale: float) -> Floats:
    """Return numbers [n] cut to their bounds, which become -1 and 1."""
    return clip_to_grid((np.clip(cells, low, high) - centre) / scale, -1.0, 1.0)


def record_design(records: Floats) -> Design:
    """Return records as a design whose rows are summed."""
    return Design(records, np.zeros(len(records)), np.ones(len(records)))


def reservoir_preparation(model: Model) -> ReservoirPreparation:
    """Return the preparation that the terms alone fix."""
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

    Formal guarantee: as in `RecordedMomentsQuestion`, with rows of w = p + 1 numbers of size at most 1. Turned states
    are cut to [-1, 1] as computed, inputs and the target are cut to bounds that become -1 and 1, and the constant is 1.
    This holds whatever the recording contains and however its samples depend on each other. Replacing a recording moves
    the mean of n by at most sqrt 2 Xi/n in L2 with Xi = w or the clip, and 2 Xi/n in L1.
    """

    asks = StateMomentsQuery

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        model = context.terms.model
        return cls.of(context, owner, features_of(model).width + 1, reservoir_of(model).rows)

    def words(self) -> str:
        return f"a mean over {self.records:,} recordings as second moments of the reservoir's states"
