"""Sketches: copies of a table are recognised in any format, order and set of columns, and other people's are not."""

import numpy as np
import pandas as pd
import pytest

from parley.data import sketch
from parley.data.sketch import name_hash, overlap, table_sketch
from parley.data.sources import find_source

KEY = bytes(range(32))


def people(rows=600, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "id": np.arange(rows),
            "income": rng.lognormal(10, 1, rows).round(-2),
            "day": pd.date_range("2024-01-01", periods=rows).strftime("%Y-%m-%d"),
            "grade": rng.choice(["A", "b", None], rows),
            "y": rng.normal(size=rows),
        }
    )


def sketched(table, person=None):
    return table_sketch(find_source(table), KEY, person)


def shared(one, other, person=None, same_owner=True):
    named = None if person is None else name_hash(KEY, person)
    return overlap(sketched(one, person), sketched(other, person), named, same_owner)


def test_a_table_is_recognised_in_another_format_order_and_set_of_columns(tmp_path):
    table = people()
    table.to_csv(tmp_path / "table.csv", index=False)
    table.assign(day=pd.to_datetime(table["day"])).to_parquet(tmp_path / "table.parquet")
    (tmp_path / "parts").mkdir()
    for k, part in enumerate(np.array_split(np.arange(600)[::-1], 3)):
        table.iloc[part].to_parquet(tmp_path / "parts" / f"{k}.parquet", index=False)
    shuffled = table.sample(frac=1, random_state=1)
    copies = (
        tmp_path / "table.parquet",
        tmp_path / "parts",
        shuffled,
        table.rename(columns=str.upper)[table.columns[::-1].str.upper()],
        shuffled.assign(more=1.5),
        shuffled.assign(more=1.5, still=np.arange(600) * 0.7, than="x"),
        table.drop(columns="income"),
        pd.concat([table, people(120, seed=1)]),
        table.iloc[::2],
    )
    for copy in copies:
        found = shared(tmp_path / "table.csv", copy)
        assert found.certain
        assert found.keys == 1


def test_a_table_without_the_column_that_told_its_rows_apart_is_recognised_by_its_cells():
    few = np.random.default_rng(0).integers(0, 50, 2000)
    table = pd.DataFrame({"id": np.arange(2000), "ward": few % 4, "urgent": few % 2, "y": few})
    assert shared(table, table.drop(columns="id").sample(frac=1, random_state=1)).keys == 1
    flags = pd.DataFrame({"id": np.arange(200)} | {f"c{k}": np.arange(200) == k for k in range(6)})
    assert shared(flags, flags.iloc[::-1].assign(id=np.arange(200))).keys < 0.1  # one of each is seen everywhere


def test_a_share_of_rows_is_the_share_that_is_found():
    table, other = people(4000), people(4000, seed=1)
    for share in (0.3, 0.6, 0.95):
        some = int(share * 4000)
        mixed = pd.concat([table.iloc[:some], other.iloc[some:]])
        error = np.sqrt(share * (1 - share) / 500)  # at least so many of the kept hashes are compared
        assert abs(shared(table, mixed).keys - share) < 4 * error
        assert abs(shared(table, mixed.assign(more=0)).keys - share) < 4 * error


@pytest.mark.parametrize("rows", [20, 200, 3000])
@pytest.mark.parametrize(
    "law",
    [
        lambda rng, n: people(n, seed=rng.integers(2**32)),
        lambda rng, n: pd.DataFrame({"a": (few := rng.integers(0, 50, n)) % 7, "b": few % 5, "y": few}),
        lambda rng, n: pd.DataFrame({"id": np.arange(n), "y": rng.integers(0, 2, n)}),
        lambda rng, n: pd.DataFrame({"t": np.arange(n) * 0.1, "u": np.sin(np.arange(n)), "x": rng.normal(size=n)}),
        lambda rng, n: pd.DataFrame(rng.integers(0, 2, (n, 10))).rename(columns=str),
        lambda rng, n: pd.DataFrame((rng.uniform(size=(n, 4)) > 0.9) * rng.integers(1, 9, (n, 4))).rename(columns=str),
    ],
    ids=["people", "fifty different rows", "number and truth value", "same input", "truth values", "mostly zeros"],
)
def test_other_peoples_tables_share_nothing_that_counts(law, rows):
    rng = np.random.default_rng(rows)
    for size in (*[rows] * (20 if rows == 20 else 1), 20, 2 * rows):
        one, other = law(rng, rows), law(rng, size)
        if size == rows:
            other["y" if "y" in other else other.columns[0]] = np.sort(one["y" if "y" in one else one.columns[0]])
        assert shared(one, other).keys < 0.1
        assert shared(one, other.assign(more=rng.normal(size=size))).keys < 0.1


def test_without_a_guess_at_chance_a_table_of_few_rows_would_be_taken_for_another(monkeypatch):
    """The mutant of the test above."""
    monkeypatch.setattr(sketch.Keys, "chance", lambda self, ratio=1.0: 0.0)
    monkeypatch.setattr(sketch, "_near_duplicate_share", lambda cells: 0.0)
    rng = np.random.default_rng(0)
    one, other = (pd.DataFrame({"a": rng.integers(0, 7, 500), "b": rng.integers(0, 7, 500)}) for _ in range(2))
    assert shared(one, other).keys > 0.87


def test_people_are_known_by_their_column_whatever_else_changed():
    """Numbers that only count people are somebody else's in another owner's table."""
    rng = np.random.default_rng(0)

    def visits(people, seed):
        return people_rows.assign(person=people, y=np.random.default_rng(seed).normal(size=400))

    people_rows = pd.DataFrame({"kind": np.arange(400) % 3})
    accounts = np.repeat(rng.integers(10**9, 10**10, 200), 2)
    for same_owner in (True, False):
        assert shared(visits(accounts, 1), visits(accounts, 2), "person", same_owner).keys == 1
        counted = np.repeat(np.arange(200), 2)
        assert shared(visits(counted, 1), visits(counted, 2), "person", same_owner).keys == same_owner
    assert shared(visits(accounts, 1), visits(accounts, 2)).keys == 0
    renamed = np.repeat(rng.integers(10**9, 10**10, 200), 2)
    assert shared(visits(accounts, 1), visits(renamed, 1), "person").keys > 0.9  # other names for the same rows


def test_a_sketch_of_a_wide_table_has_the_columns_that_another_one_has():
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(300, 90))).rename(columns=lambda name: f"c{name}")
    more = wide.sample(frac=1, random_state=1).assign(**{f"more{k}": k for k in range(5)})
    assert shared(wide, more).keys == 1
    assert shared(wide.iloc[:280], more).keys > 0.9
    assert shared(wide, wide.assign(more=rng.normal(size=300))).keys == 1
    other = pd.DataFrame(rng.normal(size=(300, 92))).rename(columns=lambda name: f"c{name}")
    assert shared(wide, other).keys == 0


def test_with_another_key_a_sketch_tells_nothing_of_the_table():
    table = people()
    one, other = sketched(table), table_sketch(find_source(table), KEY[::-1])
    assert overlap(one, other, None, True).keys == 0
    assert not set(one.columns) & set(other.columns)
