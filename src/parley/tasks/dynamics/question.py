"""The second moments of trajectories, released once: all that identifying a linear plant needs.

Formal guarantee: a prepared record is a function of that trajectory's rows and the terms alone. Replacing one
trajectory, with all its samples, replaces one record.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from parley.data.design import Design, Summable
from parley.data.preparation import Preparation, require_records
from parley.data.rowwise import clip_to_grid
from parley.data.sources import Rows, Table, open_table
from parley.data.table import numbers, require_columns
from parley.errors import DataError
from parley.protocol.queries.query import Query
from parley.protocol.queries.question import Context
from parley.tasks.dynamics.delay import Layout
from parley.tasks.dynamics.terms import PlantModel
from parley.tasks.records import RecordedMomentsQuestion, by_recording
from parley.terms import Model, Terms
from parley.validate import SMALLEST, Floats


def layout_of(model: Model) -> Layout:
    """Return the columns of a row of moments that the terms fix."""
    plant = PlantModel.expect(model)
    return Layout(len(plant.states), len(plant.inputs), plant.max_delay)


def rows_of(model: Model) -> int:
    """Return the number of rows of moments in a trajectory of `samples` samples."""
    plant = PlantModel.expect(model)
    return plant.samples - plant.max_delay - 2


@dataclass(frozen=True, eq=False)
class TrajectoryPreparation(Preparation):
    """Cut states and inputs to their bounds and divide by the larger end, into [-1, 1], without centring."""

    model: PlantModel

    @property
    def width(self) -> int:
        """The size of a record: the upper triangle of its second moments."""
        size = layout_of(self.model).width
        return size * (size + 1) // 2

    def designs(self, table: Table, terms: Terms, name: str) -> tuple[Summable, Summable]:
        """Return one record per trajectory, in the order in which they begin; the first `samples` samples count."""
        source = open_table(table)
        if source.streams:
            raise DataError(f"{name}: a folder of Parquet files cannot be split into trajectories; give one file")
        columns = [*self.features, self.model.trajectory]
        require_columns(source.example, columns, name)
        records = self.records(source.frame(columns), name)
        require_records(terms, name, len(records), " trajectories")
        design = Design(records, np.zeros(len(records)), np.ones(len(records)))
        return design, design.empty()

    def records(self, table: Rows, name: str) -> Floats:
        """Return the mean of z z' over each trajectory's rows, as upper triangles [trajectories, width]."""
        model, layout, max_rows = self.model, layout_of(self.model), rows_of(self.model)
        i, j = np.triu_indices(layout.width)
        found = []
        for states, inputs in self.recordings(table, name):
            rows = layout.rows(states[: model.samples], inputs[: model.samples])
            found.append((rows.T @ rows)[i, j] / max_rows)
        return np.array(found).reshape(len(found), len(i))

    def recordings(self, table: Rows, name: str) -> list[tuple[Floats, Floats]]:
        """Return the scaled (states, inputs) of every trajectory."""
        model, column = self.model, self.model.trajectory
        require_columns(table, [*self.features, column], name)
        parts = zip(self.features, self.low, self.high, self.scale, strict=True)
        scaled = np.column_stack(
            [
                clip_to_grid(np.clip(numbers(table, c, name), low, high) / scale, -1.0, 1.0)
                for c, low, high, scale in parts
            ]
        )
        n = layout_of(model).states
        pieces = by_recording(table, column, scaled, name, "its trajectory")
        return [(piece[:, :n], piece[:, n:]) for piece in pieces]


def trajectory_preparation(model: Model) -> TrajectoryPreparation:
    """Return the preparation that the terms alone fix; every state and input needs bounds."""
    plant = PlantModel.expect(model)
    columns = (*plant.states, *plant.inputs)
    missing = [column for column in columns if column not in model.bounds]
    if missing:
        raise DataError(
            f"model.bounds.{missing[0]}: expected [low, high] of every state and input; values outside are clipped to "
            "these bounds"
        )
    ends = np.array([model.bounds[column] for column in columns])
    scale = np.maximum(np.abs(ends).max(axis=1), SMALLEST)
    none = np.zeros(len(columns))
    return TrajectoryPreparation(plant, columns, {}, ends[:, 0], ends[:, 1], (-np.inf, np.inf), none, scale)


@dataclass(frozen=True, eq=False)
class TrajectoriesQuery(Query):
    """The mean over trajectories of each one's mean of z z' (rows z: `delay.Layout`), as an upper triangle."""

    kind: ClassVar[str] = "trajectories"


@dataclass(frozen=True, eq=False)
class TrajectoriesQuestion(RecordedMomentsQuestion):
    """Every trajectory's matrix is bounded as a whole.

    Formal guarantee: as in `RecordedMomentsQuestion`; a row holds states and inputs, scaled so that each number is at
    most 1.
    """

    asks = TrajectoriesQuery

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        model = context.terms.model
        return cls.of(context, owner, layout_of(model).width, rows_of(model))

    def words(self) -> str:
        return f"a mean over {self.records:,} trajectories as second moments"
