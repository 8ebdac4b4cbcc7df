"""The key of a person, as every owner of joined tables reads it.

Formal guarantee: a row's key is a function of its own cell and of the section `[join]` alone, the same on every
machine. Messages count rows without a key and rows whose key is repeated, and quote none.
"""

import unicodedata
from collections import Counter

import numpy as np

from parley.data.cells import plain_name
from parley.data.sources import Rows
from parley.data.table import days, is_gap, names_of, require_columns
from parley.errors import DataError
from parley.terms.join import Join
from parley.terms.keys import fold_name


def normal_key(text: str, join: Join) -> str:
    """Return how a name counts: Unicode's composed form, without outer blanks, and without the decimals of a whole
    number; if `case = "ignore"`, also without differences in capitals and inner blanks.

    >>> join = Join(key="id", case="ignore", epsilon=0.1, delta=1e-7)
    >>> normal_key(" Ann  LEE ", join), normal_key("12.0", join), normal_key("0012", join)
    ('ann lee', '12', '0012')
    """
    composed = plain_name(unicodedata.normalize("NFC", text).strip())
    return unicodedata.normalize("NFC", fold_name(composed)) if join.case == "ignore" else composed


def person_keys(rows: Rows, join: Join, name: str) -> list[str]:
    """Return the normal key of every row; refuse missing keys and keys that several rows have."""
    require_columns(rows, [join.key], name)
    missing = int(np.count_nonzero(is_gap(rows, join.key, name)))
    if missing:
        raise DataError(
            f"{name}: column {join.key!r}: {missing} {_rows(missing)} no key; every row needs one. Fix the file, or "
            "agree on a table without these rows"
        )
    keys = _dates(rows, join, name) if join.date is not None else _names(rows, join, name)
    repeated = sum(count - 1 for count in Counter(keys).values())
    if repeated:
        raise DataError(
            f"{name}: column {join.key!r}: {repeated} {_rows(repeated)} the key of an earlier row; a person has one "
            "row. Keep one row per person"
        )
    if "" in keys:
        raise DataError(f"{name}: column {join.key!r}: a key consists of blanks only; fix the file")
    return keys


def _rows(count: int) -> str:
    return "row has" if count == 1 else "rows have"


def _names(rows: Rows, join: Join, name: str) -> list[str]:
    place, called = names_of(rows, join.key, name, "a key")
    normal = [normal_key(text, join) for text in called]
    return [normal[at] for at in place.tolist()]


def _dates(rows: Rows, join: Join, name: str) -> list[str]:
    found = days(rows, join.key, str(join.date), name, gaps=True)
    wrong = int(np.count_nonzero(np.isnan(found)))
    if wrong:
        raise DataError(
            f"{name}: column {join.key!r}: {wrong} {_rows(wrong)} a key that is not a date in the format {join.date} "
            "of join.date"
        )
    return [str(int(day)) for day in found]
