"""An owner's table as it enters the match: one key and one part of a row per person, in whole grid steps.

Formal guarantee: a row's key and its numbers are functions of the raw row, the terms and, for rows that take no part,
fresh random words. Every table has as many rows as the terms state. A person who is held out, or whose target is
missing, has a random key, which nobody else's equals, and zeros. An owner's part of a row never exceeds its clip.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.data.holdout import is_held_out
from parley.data.join_keys import person_keys
from parley.data.preparation import require_records
from parley.data.sources import Table, open_table
from parley.data.sources.source import chosen_rows
from parley.data.table import require_columns
from parley.data.targets import has_target
from parley.errors import DataError
from parley.privacy.mechanisms.exact_samplers import DrawWords, Integers, random_words
from parley.privacy.sharing.matching.keyed_rows import KEY_WORDS, KeyedRows, hash_keys
from parley.tasks.joined.law import JoinedLaw
from parley.tasks.joined.plan import JoinPlan, OwnerColumns
from parley.validate import Floats

Marks = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PeopleTable:
    """One owner's rows, prepared: `features` [n, p] and `targets` [n, q], each at most 1 in size."""

    columns: OwnerColumns
    people: Sequence[str]  # normal keys
    features: Floats
    targets: Floats
    present: Marks  # whether the row has a target, if the owner has the target
    held_out: Marks

    @property
    def trained(self) -> Marks:
        """The rows that may be matched."""
        return self.present & ~self.held_out

    def keyed(self, law: JoinedLaw, clip: int, about: str, words: DrawWords = random_words) -> KeyedRows:
        """Return the rows in grid steps, each of norm at most `clip`. `about`: what keys are hashed with, the same for
        all tables; `words` supplies the keys of rows that take no part."""
        targets = np.rint(self.targets * law.unit).astype(np.int64)
        squares = (targets * targets).sum(axis=1)
        features = shortened(np.rint(self.features * law.unit).astype(np.int64), clip * clip - squares)
        values = np.column_stack([features, targets])
        keys = hash_keys(self.people, about)
        out = ~self.trained
        values[out] = 0
        keys[out] = words(KEY_WORDS * int(np.count_nonzero(out))).reshape(-1, KEY_WORDS)
        return KeyedRows(keys, values, law.digits)


def people_table(plan: JoinPlan, name: str, table: Table) -> PeopleTable:
    """Read one owner's table; refuse missing and repeated keys, and another number of rows than the terms state."""
    terms, model = plan.terms, plan.terms.model
    columns = next(owner for owner in plan.owners if owner.name == name)
    source = open_table(table)
    if source.streams:
        raise DataError(f"{name}: Parley cannot join a folder of Parquet files; give all rows in one file")
    listed = [plan.join.key, *(terms.owner(name).columns or ())]
    require_columns(source.example, listed, name)
    require_records(terms, name, len(source))
    rows = source.frame(listed)
    people = person_keys(rows, plan.join, name)
    features = np.empty((len(people), 0))
    if columns.preparation is not None:
        width = len(columns.sizes)
        prepared = np.ascontiguousarray(columns.preparation.columns(rows, name)[:width].T)
        features = np.clip(prepared / columns.sizes, -1.0, 1.0)
    present = np.ones(len(people), dtype=bool)
    targets = np.zeros((len(people), columns.outcomes))
    if columns.outcomes:
        present = has_target(rows, model, name)
        some = rows if present.all() else chosen_rows(rows, present)
        targets[present] = outcomes(plan, plan.whole.target(some, name))
    held_out = np.array([is_held_out(model, person) for person in people], dtype=bool)
    return PeopleTable(columns, people, features, targets, present, held_out)


def outcomes(plan: JoinPlan, y: Floats) -> Floats:
    """Return the target's numbers [n, q]: the number, -1 and 1 of two classes, or a 1 at the class."""
    if plan.whole.model.predicts == "classes":
        return np.asarray(y[:, None] == np.arange(plan.whole.outcomes), dtype=np.float64)
    return np.clip(y / plan.target_size, -1.0, 1.0)[:, None]


def shortened(values: Integers, squared: Integers) -> Integers:
    """Return the rows [n, p], each scaled down until its squared norm is at most its number in `squared`, exactly.

    Formal guarantee: the check is in whole numbers. A row is scaled by a factor and cut towards zero, so no number
    grows. The factor shrinks until the row fits; a row of zeros always does.

    >>> shortened(np.array([[3, 4], [40, 41]]), np.array([25, 25])).tolist()
    [[3, 4], [3, 3]]
    """
    made, over = values.copy(), np.flatnonzero((values * values).sum(axis=1) > squared)
    squares = (values[over] * values[over]).sum(axis=1)
    factor = np.sqrt(np.maximum(squared[over], 0) / np.maximum(squares, 1))
    while over.size:
        made[over] = np.trunc(values[over] * factor[:, None]).astype(np.int64)
        still = (made[over] * made[over]).sum(axis=1) > squared[over]
        over, factor = over[still], factor[still] * (1 - 2.0**-20)
    return made
