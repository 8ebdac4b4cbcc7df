"""Neighbouring sets of small synthetic tables, and a search for those whose moments lie farthest apart.

Neighbours are as the guarantee says (`Case`). Rows are those that owners make of extreme cells, and any that hosts let
through. Moments are compared in whole numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import isqrt
from typing import Any

import numpy as np
import pandas as pd

from parley.audit.canary import cell_values, outcome_cells
from parley.data.dates import date_of
from parley.learning.algorithms.algorithm import Progress
from parley.privacy.mechanisms.exact_samplers import Integers, Words
from parley.privacy.sharing.matching.keyed_rows import KEY_WORDS, KeyedRows, joined_moments
from parley.privacy.sharing.matching.packed_rows import TableShape
from parley.tasks.joined.plan import JoinPlan, join_plan
from parley.tasks.joined.tables import people_table

CLIMB_PAIRS = 250  # of one climb
POOL_ROWS = 100  # that each owner makes of extreme cells
TableSet = frozenset[int]
Rows = Sequence[Integers]  # one part of a row for each owner
Tables = list[KeyedRows]


@dataclass(frozen=True)
class Case:
    """A person in the tables `held`, whose rows in the `changed` ones become those of a newcomer, who is in the tables
    `newcomer` before and after. `same`: the newcomer has the person's key, so values alone change."""

    held: TableSet
    changed: TableSet
    newcomer: TableSet
    same: bool = False

    def tables(self, person: Rows, newcomer: Rows, others: Sequence[KeyedRows], keys: Words) -> list[Tables]:
        """Return both sets of tables. `others`: rows that stay; `keys` [2, 2]: the person's and the newcomer's."""
        keys = keys[[0, 0]] if self.same else keys
        sides = (self.held, self.newcomer), (self.held - self.changed, self.newcomer | self.changed)
        return [
            [
                _with_rows(
                    rows, [(keys[who], part[at]) for who, part in enumerate((person, newcomer)) if at in side[who]]
                )
                for at, rows in enumerate(others)
            ]
            for side in sides
        ]


def _with_rows(rows: KeyedRows, added: Sequence[tuple[Words, Integers]]) -> KeyedRows:
    keys = np.array([*rows.keys, *(key for key, _ in added)], dtype=np.uint64).reshape(-1, KEY_WORDS)
    values = np.array([*rows.values, *(row for _, row in added)], dtype=np.int64).reshape(
        len(keys), rows.values.shape[1]
    )
    return KeyedRows(keys, values, rows.digits)


def all_cases(tables: int) -> list[Case]:
    """Return every way in which one person's rows become a newcomer's, a stranger's, or their own with other values.

    >>> len(all_cases(2))
    14
    """
    every = [frozenset(each) for size in range(tables + 1) for each in combinations(range(tables), size)]
    changes = [(held, changed) for held in every for changed in every if changed and changed <= held]
    moved = [Case(held, changed, new) for held, changed in changes for new in every if not changed & new]
    return [*moved, *(Case(held, changed, frozenset(), same=True) for held, changed in changes)]


@dataclass(frozen=True, eq=False)
class RowPool:
    """Rows of every owner: those that it makes of extreme cells (`own`), and any that hosts let through."""

    shapes: tuple[TableShape, ...]
    own: tuple[Integers, ...]

    @classmethod
    def of_plan(cls, plan: JoinPlan, rng: np.random.Generator) -> "RowPool":
        """Read synthetic tables as owners read theirs. Rows are the cells' alone: sizes of tables do not matter."""
        small = join_plan(plan.terms.changed(owners={part.name: {"records": POOL_ROWS} for part in plan.terms.owners}))
        own = []
        for part, clip in zip(plan.terms.owners, plan.law.clips, strict=True):
            read = people_table(small, part.name, synthetic_table(plan, part.name, POOL_ROWS, rng))
            own.append(read.keyed(plan.law, clip, "").values)
        return cls(plan.match_plan.shapes, tuple(own))

    @property
    def kept(self) -> bool:
        """Whether hosts let every row of an owner through that is as it should be."""
        pairs = zip(self.own, self.shapes, strict=True)
        return all(bool((squares(rows) <= shape.largest_square).all()) for rows, shape in pairs)

    def draw(self, rng: np.random.Generator, owner: int, beside: Integers | None = None) -> Integers:
        """Draw a row of an owner's; `beside`: another one, whose numbers it had better leave 0."""
        if rng.random() < 0.3:
            return np.asarray(self.own[owner][rng.integers(len(self.own[owner]))])
        order = rng.permutation(self.shapes[owner].columns)
        if beside is not None and rng.random() < 0.8:
            order = order[np.argsort(np.abs(beside[order]), kind="stable")]
        count = len(order) if rng.random() < 0.5 else int(rng.integers(len(order) + 1))
        return hostile_row(self.shapes[owner], order[:count], bool(rng.integers(2)), rng)

    def varied(self, rng: np.random.Generator, owner: int, row: Integers) -> Integers:
        """Return the row with some numbers changed, if hosts let it through, else as it is."""
        made, some = row.copy(), rng.random(len(row)) < rng.choice([0.1, 0.5, 1.0])
        made[some] = -made[some] if rng.random() < 0.5 else made[some] + rng.integers(-1, 2) * rng.integers(1, 64)
        limit = 1 << self.shapes[owner].digits
        inside = not made.size or (made.min() >= -limit and made.max() < limit)
        return made if inside and squares(made[None])[0] <= self.shapes[owner].largest_square else row


def synthetic_table(plan: JoinPlan, name: str, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return a table of cells at the limits that terms and public knowledge give this owner's columns."""
    whole, model = plan.whole, plan.terms.model
    outcome = [each[model.target] for each in outcome_cells(whole)]
    table: dict[str, list[object]] = {
        plan.join.key: [f"person {row}" if plan.join.date is None else date_of(float(row)) for row in range(rows)]
    }
    for column in plan.terms.owner(name).columns or ():
        cells = outcome if column == model.target else cell_values(whole, column)
        table[column] = [cells[place] for place in rng.integers(len(cells), size=rows)]
    return pd.DataFrame(table)


def hostile_row(shape: TableShape, places: Integers, even: bool, rng: np.random.Generator) -> Integers:
    """Return a row at the clip, or as near as digits allow: numbers at `places` are `even`, or as large as can be."""
    row, room, limit = np.zeros(shape.columns, dtype=np.int64), shape.largest_square, 1 << shape.digits
    signs = rng.choice([-1, 1], size=len(places))
    for left, (place, sign) in enumerate(zip(places[::-1], signs, strict=True)):
        share = room // (len(places) - left) if even else room
        row[place] = sign * min(isqrt(share), limit - int(sign > 0))
        room -= int(row[place]) ** 2
    return row


def squares(rows: Integers) -> Integers:
    return np.asarray((rows * rows).sum(axis=1))  # below 2^62 (`TableShape`)


@dataclass(frozen=True, eq=False)
class Searched:
    """The pair of neighbouring tables whose moments lie farthest apart, of those that were tried."""

    pairs: int
    violations: int  # pairs farther apart than is claimed
    share: float  # of the claimed move
    claimed: int
    case: Case
    apart: Integers = field(repr=False)  # the moments' difference

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley audit --json` prints."""
        tables = {name: sorted(getattr(self.case, name)) for name in ("held", "changed", "newcomer")}
        found = {"pairs": self.pairs, "violations": self.violations, "share": self.share, "claimed": self.claimed}
        return {**found, **tables, "holds": not self.violations}


def search_pairs(
    plan: JoinPlan, pool: RowPool, pairs: int, rng: np.random.Generator, progress: Progress = lambda done, total: None
) -> Searched:
    """Try so many pairs of neighbouring sets of tables: climbs from random ones, each with its case.

    Formal guarantee: a pair is called a violation if and only if it is one: moments are whole numbers, and where their
    distance is close to the claim, so is the comparison.
    """
    cases, law = all_cases(len(pool.shapes)), plan.law
    best, violations, tried = Searched(0, 0, -1.0, law.moved, cases[0], np.zeros(law.noise.size, dtype=np.int64)), 0, 0
    while tried < pairs:
        case, height = cases[int(rng.integers(len(cases)))], -1.0
        rows: list[list[Integers]] = []
        for _ in range(min(CLIMB_PAIRS, pairs - tried)):
            found, trial = _varied(case, cases, rows, pool, rng)
            apart = _apart(found, trial, pool, law.unit, rng)
            share = float(np.linalg.norm(apart.astype(np.float64))) / law.moved
            violations += _exceeds(apart, share, law.moved)
            if share >= height:
                case, rows, height = found, trial, share
            if share > best.share:
                best = Searched(0, 0, share, law.moved, found, apart)
            tried += 1
        progress(tried, pairs)
    return replace(best, pairs=tried, violations=violations)


def _varied(
    case: Case, cases: Sequence[Case], rows: list[list[Integers]], pool: RowPool, rng: np.random.Generator
) -> tuple[Case, list[list[Integers]]]:
    """Return the next case and rows [person and newcomer][owner] to try."""
    if not rows:
        person = [pool.draw(rng, owner) for owner in range(len(pool.shapes))]
        return case, [person, [pool.draw(rng, owner, beside) for owner, beside in enumerate(person)]]
    made, who, owner = [list(each) for each in rows], int(rng.integers(2)), int(rng.integers(len(pool.shapes)))
    old, beside = made[who][owner], made[1 - who][owner]
    made[who][owner] = pool.draw(rng, owner, beside) if rng.random() < 0.5 else pool.varied(rng, owner, old)
    return (cases[int(rng.integers(len(cases)))] if rng.random() < 0.05 else case), made


def _apart(case: Case, rows: Sequence[Rows], pool: RowPool, unit: int, rng: np.random.Generator) -> Integers:
    """Return by how much the moments of two neighbouring sets of tables differ, with other people beside."""
    keys = rng.integers(0, 2**64, size=(4, KEY_WORDS), dtype=np.uint64)
    others = [
        KeyedRows(
            keys[2 : 3 + owner % 2], np.array([pool.draw(rng, owner) for _ in range(1 + owner % 2)]), shape.digits
        )
        for owner, shape in enumerate(pool.shapes)
    ]
    one, other = case.tables(rows[0], rows[1], others, keys[:2])
    return joined_moments(other, unit) - joined_moments(one, unit)


def _exceeds(apart: Integers, share: float, moved: int) -> bool:
    if abs(share - 1) > 1e-6:  # floats are far more exact than that
        return share > 1
    return sum(int(each) ** 2 for each in apart) > moved**2


def hostile_table(shape: TableShape, rng: np.random.Generator) -> KeyedRows:
    """Return a table of two people who are in all such tables and two who are not."""
    keys = np.arange(8, dtype=np.uint64).reshape(4, KEY_WORDS)
    keys[2:] = rng.integers(0, 2**64, size=(2, KEY_WORDS), dtype=np.uint64)
    rows = [hostile_row(shape, rng.permutation(shape.columns), even, rng) for even in (True, False, True, False)]
    return KeyedRows(keys, np.array(rows, dtype=np.int64).reshape(4, -1), shape.digits)


def row_beyond(shape: TableShape, clip: int) -> Integers:
    """Return a row just beyond a clip, or the longest one that digits allow."""
    row, room = np.zeros(shape.columns, dtype=np.int64), clip * clip
    for place in range(shape.columns):
        row[place] = -min(isqrt(max(room, 0)) + (room >= 0), 1 << shape.digits)
        room -= int(row[place]) ** 2
    return row
