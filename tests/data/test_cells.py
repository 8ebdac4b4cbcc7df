"""One record never changes how another one is read, whatever types its cell drags its column into.

Premise T1.
"""

import enum
import re
import sqlite3
import uuid
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.data.cells import MAX_CELL_CHARACTERS, MISSING_WORDS, cell_name, cell_number, plain_decimals
from parley.data.table import codes, keep_per_person, names, numbers
from parley.errors import DataError


class Home(str, enum.Enum):  # noqa: UP042
    OWN = "OWN"


class Level(enum.IntEnum):
    ONE = 1


class Grade(enum.Enum):
    A = 1


class Shout(str):
    """Text that prints, and compares, as something else."""

    def __str__(self):
        return "printed"

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
CELLS = [
    *(1, 1.0, True, "1", "1.0", "1.00", "01", Decimal("1"), Decimal("1.0"), Decimal("1.00"), Fraction(1), np.int8(1)),
    *(np.float32(1),),
    *(np.bool_(True), 1 + 0j, Level.ONE, np.str_("1"), 0, 0.0, -0.0, Decimal("-0.0"), "-0", False),
    *(0.1, np.float32(0.1), Decimal("0.1"), Decimal("0.10"), "0.1", 1j, 2.5, Decimal("2.50")),
    *(2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, Decimal(2**53 + 1), 2.0**53, np.uint64(2**63), 2**64, 10**400, 1e300),
    *(Decimal("9007199254740993.5"), Decimal("1E+1000"), float("inf"), Decimal("-Infinity")),
    *(None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, Decimal("NaN"), Decimal("sNaN"), np.datetime64("NaT", "s")),
    *(date(2020, 1, 1), datetime(2020, 1, 1), pd.Timestamp("2020-01-01"), np.datetime64("2020-01-01")),
    *(np.datetime64("2020-01-01", "ns"),),
    *(NOON, NOON.astimezone(timezone(timedelta(hours=1))), pd.Timestamp(NOON)),
    *(pd.Timestamp(NOON).tz_convert("Europe/Paris"),),
    *(timedelta(1), pd.Timedelta(1, "D"), np.timedelta64(1, "D"), np.timedelta64(5, "ns")),
    *("OWN", Home.OWN, Shout("OWN"), Shout("RENT"), np.str_("OWN"), "OWN\0", "RENT", "printed", "", " 1 "),
    *("nan", "None", "inf"),
    *(" ", " n/a", "True"),
    *(b"OWN", Grade.A, uuid.UUID(int=1), pd.Interval(0, 1), pd.Interval(0.0, 1.0), pd.Interval(0.5, 1)),
    *(pd.Period("2020-01"),),
    *("x" * MAX_CELL_CHARACTERS, "x" * MAX_CELL_CHARACTERS + "y", ("a", 1), object(), [1], {"a": 1}),
]  # fmt: skip
LISTED = [
    "1",
    "OWN",
    "0",
    "0.1",
    "9007199254740993",
    "2020-01-01 00:00:00",
    "1 days 00:00:00",
    "(0, 1]",
    "printed",
    "None",
]
READINGS = {
    "codes": lambda frame: codes(frame, "a", LISTED, "t"),
    "numbers": lambda frame: numbers(frame, "a", "t"),
    "codes with gaps": lambda frame: codes(frame, "a", LISTED, "t", gaps=True),
    "numbers with gaps": lambda frame: np.nan_to_num(numbers(frame, "a", "t", gaps=True), nan=-7.0),
}


def whole_column(cells):
    """A column that keeps every cell as it is."""
    column = np.empty(len(cells), dtype=object)
    column[:] = [*cells, None][:-1]
    return pd.DataFrame({"a": pd.Series(column, dtype=object)})


def columns(cells):
    """The ways in which these cells become a column: as they are, and in whatever type they make pandas choose."""
    yield whole_column(cells)
    try:
        yield pd.DataFrame({"a": pd.Series(cells)})
    except (TypeError, ValueError, OverflowError):
        return  # pandas itself does not take them
    try:
        yield pd.DataFrame({"a": pd.array(cells)})
    except (TypeError, ValueError, OverflowError, ArithmeticError):
        return


@cache
def alone(kind, place):
    """What one cell says where nothing stands beside it."""
    return reading(READINGS[kind], whole_column([CELLS[place]]))


def reading(read, frame):
    try:
        return read(frame)
    except DataError:
        return None


@pytest.mark.parametrize("kind", READINGS)
@settings(max_examples=150, deadline=None)
@given(
    cells=st.lists(st.sampled_from(range(len(CELLS))), min_size=2, max_size=6), place=st.integers(0, 5), other=st.data()
)
def test_replacing_a_cell_leaves_all_other_rows_as_they_were(kind, cells, place, other):
    """Or the table is refused. A row is read as if it were alone in its table, through every type of column."""
    read, place = READINGS[kind], place % len(cells)
    replaced = [*cells[:place], other.draw(st.sampled_from(range(len(CELLS)))), *cells[place + 1 :]]
    others = np.arange(len(cells)) != place
    before, after = (
        [found for frame in columns([CELLS[i] for i in chosen]) if (found := reading(read, frame)) is not None]
        for chosen in (cells, replaced)
    )
    for one in before:
        for two in after:
            np.testing.assert_array_equal(one[others], two[others])
    by_itself = [alone(kind, i) for i in cells]
    for found in before:
        for row, lonely in zip(found, by_itself, strict=True):
            assert lonely is None or row == lonely[0]
    if all(number is not None for number in by_itself):  # a refusal has a cell to blame
        assert reading(read, whole_column([CELLS[i] for i in cells])) is not None


@settings(max_examples=100, deadline=None)
@given(cells=st.lists(st.sampled_from(range(len(CELLS))), min_size=1, max_size=8), limit=st.integers(1, 2))
def test_a_person_is_whoever_has_one_name(cells, limit):
    """At most `limit` rows of each, the first ones, whatever type the column of names has."""
    for frame in columns([CELLS[i] for i in cells]):
        frame["row"] = range(len(frame))
        try:
            kept = keep_per_person(frame, "a", limit, "t")["row"].tolist()
        except DataError:
            continue
        called = [cell_name(CELLS[i]) for i in cells]
        assert kept == [row for row in range(len(cells)) if called[:row].count(called[row]) < limit]


def test_equal_cells_that_are_written_differently_are_one_name():
    """Factorised as they come, they would all be called what the first one of them is called."""
    for cells in ([Decimal("1.00"), Decimal("1.0"), 1], [1, Decimal("1.0"), Decimal("1.00")], [True, 1.0, "1"]):
        assert codes(whole_column(cells), "a", ["1"], "t").tolist() == [0, 0, 0]
        assert len(keep_per_person(whole_column(cells), "a", 1, "t")) == 1
    for cells in ([Shout("OWN"), "RENT", "OWN"], ["RENT", Shout("OWN"), "OWN"]):
        assert codes(whole_column(cells), "a", ["OWN", "RENT"], "t").tolist() == [
            ["OWN", "RENT"].index(str.__str__(c)) for c in cells
        ]
    paris = pd.Timestamp(NOON).tz_convert("Europe/Paris")
    for cells in ([NOON, paris], [paris, NOON]):  # equal, and two names
        assert codes(whole_column(cells), "a", ["2020-01-01 12:00:00+00:00"], "t").tolist() == [
            float(c is paris) for c in cells
        ]


def test_numbers_too_large_for_a_float_are_told_apart_or_refused():
    assert codes(pd.DataFrame({"a": [2**53, 2**53 + 1]}), "a", [str(2**53 + 1)], "t").tolist() == [1, 0]
    assert len(keep_per_person(pd.DataFrame({"a": [2**53, 2**53 + 1, 2**53]}), "a", 1, "t")) == 2
    mixed = pd.DataFrame({"a": [2**53 + 1, 0.5]})  # pandas made floats of them
    for read in (lambda: codes(mixed, "a", ["1"], "t"), lambda: keep_per_person(mixed, "a", 1, "t")):
        with pytest.raises(DataError, match=r"row 1: expected a name: .*a float below 2\^53"):
            read()


@pytest.mark.parametrize("coerce", [True, False])
@pytest.mark.parametrize("declared", ["NUMERIC", "NUMERIC_TEXT"])
@pytest.mark.parametrize("stray", [("n/a", "?"), (Decimal("2.50"), Decimal("9.0")), (2.5, 3), (None, "x")])
def test_frames_from_sql_with_numeric_columns(coerce, declared, stray):
    """Decimals, as drivers give them (SQLite keeps their spelling as text only); pandas makes floats of them unless one
    cell is odd."""
    rows = [(Decimal(f"{i % 4}.{'0' * (i % 3 + 1)}"), Decimal(f"{i % 5}.5{'0' * (i % 3)}")) for i in range(60)]
    with decimals(declared):
        frames = [
            from_sql(changed, declared, coerce) for changed in (rows, [*rows[:7], stray, *rows[8:]], [stray, *rows[1:]])
        ]
    for frame, place in zip(frames, (60, 7, 0), strict=True):
        others = np.arange(60) != place
        full = frame.astype(object).fillna("gap")
        np.testing.assert_array_equal(
            codes(full, "level", ["0", "1", "2", "3"], "t")[others], [i % 4 for i in np.arange(60)[others]]
        )
        found = codes(full, "dti", ["0.5", "1.5", "2.5", "3.5", "4.5"], "t")
        np.testing.assert_array_equal(found[others], [i % 5 for i in np.arange(60)[others]])
        found = numbers(full.assign(dti=full["dti"].where(others, 1)), "dti", "t")
        np.testing.assert_array_equal(found[others], [i % 5 + 0.5 for i in np.arange(60)[others]])


def from_sql(rows, declared, coerce):
    base = sqlite3.connect(":memory:", detect_types=sqlite3.PARSE_DECLTYPES)
    base.execute(f"CREATE TABLE loans (level {declared}, dti {declared})")
    base.executemany("INSERT INTO loans VALUES (?, ?)", rows)
    frame = pd.read_sql("SELECT * FROM loans", base, coerce_float=coerce)
    base.close()
    return frame


@contextmanager
def decimals(declared):
    """Decimals go into the database as text and come back as decimals while it lasts, as people register it."""

    def converter(text):
        try:
            return Decimal(text.decode())
        except ArithmeticError:
            return text.decode()

    sqlite3.register_adapter(Decimal, str)
    sqlite3.register_converter(declared, converter)
    try:
        yield
    finally:
        sqlite3.converters.pop(declared)
        sqlite3.adapters.pop((Decimal, sqlite3.PrepareProtocol))


def test_text_is_read_alike_in_bulk_and_cell_by_cell():
    """Columns of nothing but text take a faster way; half characters, which Arrow does not hold, do not."""
    text = [cell for cell in CELLS if type(cell) is str] + [
        "ä" * (MAX_CELL_CHARACTERS + 5),
        "\U0001f600" * (MAX_CELL_CHARACTERS + 5),
    ]
    for cells in (text, [*text, "\ud800"]):
        listed = sorted({cell[:MAX_CELL_CHARACTERS] for cell in cells})[::2]
        digits = [re.sub(r"^(-?[0-9]+)\.0+$", r"\1", name) for name in listed]  # 1.0 is 1
        expected = []
        for cell in (each[:MAX_CELL_CHARACTERS] for each in cells):
            value = re.sub(r"^(-?[0-9]+)\.0+$", r"\1", cell)
            expected.append(
                listed.index(cell) if cell in listed else digits.index(value) if value in digits else len(listed)
            )
        assert codes(whole_column(cells), "a", listed, "t").tolist() == expected
        assert codes(whole_column([*cells, 5]), "a", listed, "t").tolist()[:-1] == expected
        assert names(whole_column(cells), "a", "t") == sorted({cell[:MAX_CELL_CHARACTERS] for cell in cells})
    arrow = [pa.array(text), pa.array(text, pa.large_string()), pa.array(text).dictionary_encode()]
    for column in arrow:
        batch = pa.record_batch({"a": column})
        assert codes(batch, "a", listed, "t").tolist() == expected[: len(text)]
        assert codes(batch.slice(3, 9), "a", listed, "t").tolist() == expected[3:12]


def test_only_the_beginning_of_a_long_cell_counts():
    for cells in (["1" + " " * 5000 + "2", "3"], [b"1" + b" " * 5000 + b"2", b"3"]):
        for rows in (pd.DataFrame({"a": cells}), pa.record_batch({"a": cells})):
            assert numbers(rows, "a", "t").tolist() == [1, 3]
            assert codes(rows, "a", [str(cells[1])], "t").tolist() == [1, 0]
    assert cell_name("x" * 5000) == "x" * MAX_CELL_CHARACTERS
    assert len(cell_name(b"x" * 5000)) == MAX_CELL_CHARACTERS
    assert cell_number("0." + "1" * (MAX_CELL_CHARACTERS - 2) + "x") == 0.1111111111111111


def test_bytes_that_are_no_text_are_not_quoted():
    words = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 5], pa.int32()).buffers()[1], pa.py_buffer(b"Jane\xff")]
    )
    for rows in (
        pa.record_batch({"a": words}),
        pd.DataFrame({"a": pd.Series(words, dtype=pd.ArrowDtype(pa.string()))}),
    ):
        with pytest.raises(DataError, match="column 'a': the text is not UTF-8") as caught:
            codes(rows, "a", ["Jane"], "t")
        assert "Jane" not in str(caught.value)


def test_words_for_gaps_are_those_of_pandas(tmp_path):
    """A cell is a gap in a data frame where it would be one in a CSV file."""
    words = sorted(MISSING_WORDS)
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f'"{word}",1\n' for word in words))
    assert pd.read_csv(tmp_path / "t.csv", dtype=str)["a"].isna().all()
    frame = pd.DataFrame({"a": [*words, "no", "0"]})
    assert codes(frame, "a", ["no"], "t", gaps=True).tolist() == [2.0] * len(words) + [0.0, 1.0]
    assert names(frame, "a", "t", gaps=True) == ["0", "no"]
    read = numbers(pd.DataFrame({"a": [*words, "7"]}), "a", "t", gaps=True)
    assert np.isnan(read[:-1]).all()
    assert read[-1] == 7.0


def test_what_is_no_gap_is_refused_even_where_gaps_are_filled():
    for cells in (["?"], ["1.0", "inf"], [float("inf")], ["-"]):
        with pytest.raises(DataError, match="expected"):
            numbers(whole_column(cells), "a", "t", gaps=True)


def test_truth_is_one_thing_in_text_and_in_columns_of_truth_values():
    for listed in (["False", "True"], ["false", "true"]):
        for cells in ([True, False], ["True", "False"], ["TRUE", "false"], [1, 0]):
            assert codes(whole_column(cells), "a", listed, "t").tolist() == [1.0, 0.0]
    assert numbers(whole_column(["true", "False", True]), "a", "t").tolist() == [1.0, 0.0, 1.0]
    assert codes(whole_column([True, "True", "true"]), "a", ["True", "1"], "t").tolist() == [
        1.0,
        0.0,
        2.0,
    ]  # names, if there are others


DECIMALS = r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,2})?"


@given(st.lists(st.from_regex(DECIMALS, fullmatch=True) | st.none() | st.floats(1e-80, 1e80).map(repr), min_size=1))
def test_plain_decimals_read_at_once_are_those_read_one_by_one(cells):
    """To the bit, minus zero too; one cell that is none sends the column the other way, which says the same of the
    rest."""
    alone = np.array([np.nan if cell is None else cell_number(cell) for cell in cells])
    read = plain_decimals(pa.array(cells, pa.string()))
    assert read.tobytes() == alone.tobytes()
    frame = pd.DataFrame({"x": pd.Series([*cells, "+1"], dtype="str")})
    assert plain_decimals(pa.array([*cells, "+1"])) is None
    assert numbers(frame, "x", "a", gaps=True).tobytes() == np.append(alone, 1.0).tobytes()


@pytest.mark.parametrize(
    "cell", ["", " 1", "1 ", "1_0", "nan", "inf", "1e999", "9" * 41, "٣", "0x1p3", "1\n", ".5", "5."]
)
def test_no_other_text_is_read_at_once(cell):
    assert plain_decimals(pa.array(["1.5", cell])) is None
