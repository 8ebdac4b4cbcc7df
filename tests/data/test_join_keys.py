"""Keys of people, as all owners of joined tables read them."""

import datetime

import numpy as np
import pandas as pd
import pytest

from parley.data.join_keys import person_keys
from parley.errors import DataError
from parley.terms.join import Join


def keys(cells, **changes):
    join = Join(**{"key": "id", "epsilon": 0.1, "delta": 1e-7, **changes})
    return person_keys(pd.DataFrame({"id": cells}), join, "bank")


@pytest.mark.parametrize(
    "cells",
    [[12, 7], [12.0, 7.0], ["12", "7"], [" 12", "7 "], ["12.0", "7"], np.array([12, 7], dtype=np.int8)],
)
def test_the_same_people_have_the_same_keys_however_a_table_writes_them(cells):
    assert keys(cells) == ["12", "7"]


def test_leading_zeros_and_capitals_count_unless_the_terms_say_otherwise():
    assert keys(["007", "7", "Ann", "ann"]) == ["007", "7", "Ann", "ann"]
    assert keys(["Ann  LEE", " bob"], case="ignore") == ["ann lee", "bob"]
    with pytest.raises(DataError, match="1 row has the key of an earlier row"):
        keys(["Ann", "ann "], case="ignore")


def test_letters_are_composed_alike():
    assert keys(["Jos\u0065\u0301"]) == keys(["Jos\u00e9"])


def test_dates_are_days_whoever_wrote_them():
    written = keys(["24.12.2019", "1.2.1970"], date="%d.%m.%Y")
    assert written == keys([datetime.date(2019, 12, 24), datetime.date(1970, 2, 1)], date="%Y-%m-%d")
    with pytest.raises(DataError, match="1 row has a key that is not a date in the format %Y-%m-%d") as refusal:
        keys(["secret", "1970-01-01"], date="%Y-%m-%d")
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("cells", [["a", None, ""], ["a", "NA", np.nan], [1.0, np.nan, np.nan]])
def test_missing_keys_are_counted_and_refused(cells):
    with pytest.raises(DataError, match="'id': 2 rows have no key"):
        keys(cells)


def test_repeated_keys_are_counted_and_never_quoted():
    with pytest.raises(DataError, match="3 rows have the key of an earlier row") as refusal:
        keys(["secret", "b", "secret ", "b", "secret"])
    assert "secret" not in str(refusal.value)


def test_a_key_of_blanks_is_refused():
    with pytest.raises(DataError, match="bank: column 'id'"):
        keys(["a", "  "])
