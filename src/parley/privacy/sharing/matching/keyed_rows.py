"""Rows of whole numbers, each under a key of 128 bits, and what matching them comes to: second moments over the people
whom all tables hold. The hosts compute the same on shares (`matching`)."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from parley.errors import SettingError
from parley.privacy.mechanisms.exact_samplers import Integers, Words

KEY_WORDS = 2
MAX_DIGITS = 30  # of a value, without its sign


@dataclass(frozen=True, eq=False)
class KeyedRows:
    """A table's rows: `keys` [n, 2] of 64 bits each, `values` [n, p] in whole grid steps from -2^digits to 2^digits -
    1."""

    keys: Words
    values: Integers
    digits: int

    def __post_init__(self) -> None:
        if self.keys.shape != (len(self.values), KEY_WORDS) or self.values.ndim != 2:
            raise SettingError("rows: expected one key of two words for each row of values")
        if not 1 <= self.digits <= MAX_DIGITS:
            raise SettingError(f"rows: expected 1 to {MAX_DIGITS} digits, got {self.digits}")
        limit = 1 << self.digits
        if self.values.size and not (self.values.min() >= -limit and self.values.max() < limit):
            raise SettingError(f"rows: expected values from -{limit} to {limit - 1}")


def hash_keys(names: Sequence[str], about: str) -> Words:
    """Return the keys of normalised names [n, 2]: the first 128 bits of SHA-256. `about` is the same for all tables
    that are to be matched.

    >>> hash_keys(["a"], "x").shape
    (1, 2)
    """
    start = hashlib.sha256(len(about.encode()).to_bytes(8, "little") + about.encode())

    def key(name: str) -> bytes:
        made = start.copy()
        made.update(name.encode())
        return made.digest()[: 8 * KEY_WORDS]

    return np.frombuffer(b"".join(map(key, names)), dtype="<u8").reshape(-1, KEY_WORDS).astype(np.uint64)


def matching_rows(tables: Sequence[Words]) -> list[NDArray[np.intp]]:
    """Return, for tables of keys [n, 2] of which none holds a key twice, the rows of the keys that all of them hold:
    one array a table, in the same order of people."""
    labelled = [_labels(keys) for keys in tables]
    common = reduce(lambda one, other: np.intersect1d(one, other, assume_unique=True), labelled)
    found = []
    for labels in labelled:
        order = np.argsort(labels)
        found.append(order[np.searchsorted(labels, common, sorter=order)])
    return found


def count_common(tables: Sequence[Words]) -> Counter[frozenset[int]]:
    """Return how many keys just these tables hold, for each set of at least two of them that hold one. No table holds a
    key twice."""
    flags = np.repeat([1 << place for place in range(len(tables))], [len(keys) for keys in tables])
    _, who = np.unique(np.concatenate([_labels(keys) for keys in tables]), return_inverse=True)
    held = np.bincount(who, weights=flags).astype(np.int64)  # no table holds a key twice: the sums are sets
    sets = {
        number: frozenset(place for place in range(len(tables)) if number >> place & 1) for number in set(held.tolist())
    }
    return Counter({sets[number]: int((held == number).sum()) for number in sets if len(sets[number]) > 1})


def joined_moments(tables: Sequence[KeyedRows], unit: int) -> Integers:
    """Return the upper triangle, row by row, of the sum of z z' over the people of all tables: z = [values of the first
    table, ..., of the last, unit].

    >>> one = KeyedRows(np.array([[0, 1], [0, 2]], dtype=np.uint64), np.array([[3], [5]]), 4)
    >>> two = KeyedRows(np.array([[0, 2], [0, 9]], dtype=np.uint64), np.array([[7], [1]]), 4)
    >>> joined_moments([one, two], 10).tolist()
    [25, 35, 50, 49, 70, 100]
    """
    rows = matching_rows([table.keys for table in tables])
    parts = [table.values[at] for table, at in zip(tables, rows, strict=True)]
    z = np.column_stack([*parts, np.full(len(rows[0]), unit, dtype=np.int64)]).astype(np.int64)
    return np.asarray((z.T @ z)[np.triu_indices(z.shape[1])])


def _labels(keys: Words) -> NDArray[np.void]:
    """Return each key as one item, which sorts and compares."""
    return np.ascontiguousarray(keys).astype("<u8").view(np.dtype((np.void, 8 * KEY_WORDS))).reshape(-1)
