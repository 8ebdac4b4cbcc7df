"""Sketches of a table, which tell whether two tables are about the same rows or people without holding cells.

Hashes are keyed, and the key never leaves the account. A cell is hashed by its value (7.50 as text is 7.5), so the
file's format, the order of rows or columns, and the columns' names do not matter. A sketch holds

- the smallest hashes of whole rows, of rows without one of the columns, and of each column's values. They tell which
  share of the smaller table's keys the larger one holds (bottom-k sampling);
- a sum of hashes of every column, which the same cells have in any order.

Rows that many tables share are no evidence. Two unrelated tables share by chance as many keys as two parts of the
larger one do, and as many as agree by all columns except one, which may count 1, 2, 3 everywhere.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from parley.data.cells import schema_digest
from parley.data.sources import Table, TableSource, find_source, open_table
from parley.data.sources.source import Rows, column_names, declared_column

Hashes: TypeAlias = NDArray[np.uint64]

MAX_HASHES = 1024  # hashes of each kind: a share of 90 % is known to within 1 %
MAX_COLUMNS = 64  # of a wider table's columns so many are looked at one by one
MAX_CHANCE = 0.5  # where unrelated tables share more keys than that, keys are no evidence
MAX_UNIQUE_CHANCE = 0.05  # where they share less of a column's values, that tells rows apart by itself
MAX_ERROR_PROBABILITY = 1e-4  # the probability with which chance may explain what is called evidence
MIN_BITS = 20.0  # columns whose cells agree by chance with probability 2^-MIN_BITS are the same
MIN_DENSITY = 0.5  # whole numbers that fill this share of their range count something: other tables count so, too
FRACTION_BITS = 30  # bits of a fraction that count: files are written to so many digits at least
_HASH_COUNT = 2**64


@dataclass(frozen=True, eq=False)
class Keys:
    """The smallest hashes of one kind of keys, their frequencies, and the number of different keys."""

    hashes: Hashes
    counts: NDArray[np.int64]
    distinct: float

    @property
    def limit(self) -> int:
        """The limit below which all hashes are known."""
        return int(self.hashes[-1]) + 1 if len(self.hashes) == MAX_HASHES else _HASH_COUNT

    def chance(self, ratio: float = 1.0) -> float:
        """Return the share of keys that an unrelated table of the same law, `ratio` times as long, should find here:
        what a random part of these rows finds in the rest; beyond half as long, what two halves find."""
        if not len(self.counts):
            return 1.0
        part = min(ratio, 0.5)
        drawn = 1 - (1 - part) ** self.counts
        share = float((drawn - part**self.counts).sum() / drawn.sum())
        return share if ratio <= 0.5 else 1 - (1 - share) ** 2


@dataclass(frozen=True, eq=False)
class TableSketch:
    """The sketch of a table. `columns` holds keyed hashes of names; the fields from `without` on follow its order."""

    rows: int
    width: int
    columns: tuple[str, ...]
    whole: Keys
    alike: float  # the largest share of pairs of rows that agree by all columns except one
    without: tuple[Keys, ...]
    single: tuple[Keys, ...]
    contents: Hashes
    bits: NDArray[np.float64]  # how unlikely it is that other cells have the same sum
    counting: NDArray[np.bool_]  # whether it holds whole numbers without gaps, as places do


@dataclass(frozen=True)
class Overlap:
    """How much two tables share: `keys`, a share of the smaller one's; `certain`, whether that alone is evidence."""

    keys: float
    certain: bool


def name_hash(key: bytes, column: str) -> str:
    """Return a column's keyed name in a sketch."""
    return hashlib.blake2b(column.encode(), key=key, digest_size=8).hexdigest()


def table_sketch(table: TableSource, key: bytes, person: str | None = None) -> TableSketch:
    """Return the sketch of a table in one pass, holding only a sample of its rows. `key`: 32 bytes."""
    names = column_names(table.example)
    looked_at = sorted(names, key=lambda name: (name != person, name_hash(key, name)))[:MAX_COLUMNS]
    cells = _Cells(key)
    whole, places = _Smallest(len(looked_at)), [names.index(name) for name in looked_at]
    without, single = [_Smallest() for _ in looked_at], [_Smallest() for _ in looked_at]
    contents, numbers, rows = np.zeros(len(looked_at), np.uint64), [_WholeNumbers() for _ in looked_at], 0
    for batch in table.batches(names):
        hashed = [cells.column(batch, name) for name in names]
        sums: Hashes = np.add.reduce([each for each, _, _ in hashed], dtype=np.uint64)
        chosen = [hashed[place] for place in places]
        whole.add(cells.mixed(sums, "row"), [each for each, _, _ in chosen])
        for k, (each, present, present_numbers) in enumerate(chosen):
            without[k].add(cells.mixed(sums - each, "row"))
            values = cells.mixed(each, "value")
            single[k].add(values[present])
            contents[k : k + 1] += values.sum(dtype=np.uint64)
            numbers[k].add(present_numbers)
        rows += len(sums)
    kept = [each.keys() for each in single]
    return TableSketch(
        rows,
        len(names),
        tuple(name_hash(key, name) for name in looked_at),
        whole.keys(),
        _near_duplicate_share(whole.cells),
        tuple(each.keys() for each in without),
        tuple(kept),
        contents,
        np.array([_bits(each) for each in kept]),
        np.array(
            [each.without_gaps(column_keys.distinct) for each, column_keys in zip(numbers, kept, strict=True)], bool
        ),
    )


def overlap(one: TableSketch, other: TableSketch, person: str | None, same_owner: bool) -> Overlap:
    """Return how much two tables share. `person` is the hashed name of the column of people: whole numbers without gaps
    count there for tables of one owner only."""
    narrow, wide = sorted((one, other), key=lambda each: each.width)
    if _same_cells(narrow, wide):
        return Overlap(1.0, True)
    overlaps = [_overlap_by_rows(narrow, wide)]
    if person in one.columns and person in other.columns:
        at, other_at = one.columns.index(person), other.columns.index(person)
        if same_owner or not (one.counting[at] and other.counting[other_at]):
            share, compared = _contained(one.single[at], other.single[other_at])
            overlaps.append(Overlap(_share_beyond_chance(share, compared, 0.0), True))
        overlaps.append(
            _overlap_beyond_chance(one.without[at], other.without[other_at], max(one.alike, other.alike), one, other)
        )
    if wide.width - narrow.width > 1 or wide.width > MAX_COLUMNS:
        overlaps.append(_overlap_by_columns(narrow, wide))
    return max(overlaps, key=lambda each: (each.keys, each.certain))


def _comparable(narrow: TableSketch, wide: TableSketch) -> list[int]:
    """Return the narrower table's columns that the wider one would have examined too."""
    ends = [each.columns[-1] for each in (narrow, wide) if each.width > len(each.columns)]
    return [k for k, name in enumerate(narrow.columns) if all(name <= end for end in ends)]


def _same_cells(narrow: TableSketch, wide: TableSketch) -> bool:
    """Whether all columns of a table, renamed or not, equal the other's beyond chance: one may count 1, 2, 3
    everywhere."""
    if narrow.rows != wide.rows:
        return False
    bits = [float(narrow.bits[k]) for k in _comparable(narrow, wide)]
    narrow_cells = {narrow.columns[k]: int(narrow.contents[k]) for k in _comparable(narrow, wide) if narrow.bits[k]}
    wide_cells = dict(zip(wide.columns, wide.contents.tolist(), strict=True))
    renamed = Counter(cells for name, cells in narrow_cells.items() if name not in wide_cells)
    others = Counter(cells for name, cells in wide_cells.items() if name not in narrow.columns)
    same = (
        all(wide_cells[name] == cells for name, cells in narrow_cells.items() if name in wide_cells)
        and renamed <= others
    )
    ways = math.lgamma(renamed.total() + 1) / math.log(2)
    return same and sum(bits) - max(bits, default=0.0) - ways >= MIN_BITS


def _overlap_by_rows(narrow: TableSketch, wide: TableSketch) -> Overlap:
    """Compare whole rows; with one more column, rows without any one column."""
    if wide.width - narrow.width > 1:
        return Overlap(0.0, False)
    held = (wide.whole,) if wide.width == narrow.width else wide.without
    overlaps = [_overlap_beyond_chance(narrow.whole, keys, narrow.alike, narrow, wide) for keys in held]
    return max(overlaps, key=lambda each: each.keys, default=Overlap(0.0, False))


def _overlap_beyond_chance(one: Keys, other: Keys, alike: float, table: TableSketch, its: TableSketch) -> Overlap:
    """Return how much these keys of two tables share beyond chance."""
    longer, shorter = (one, other) if table.rows >= its.rows else (other, one)
    share, compared = _contained(longer, shorter)
    if share < MAX_UNIQUE_CHANCE:
        return Overlap(0.0, False)
    chance = max(alike, longer.chance(min(table.rows, its.rows) / max(table.rows, its.rows)))
    return Overlap(_share_beyond_chance(share, compared, chance), True)


def _overlap_by_columns(narrow: TableSketch, wide: TableSketch) -> Overlap:
    """Compare all columns that identify the narrower table's rows, at least two: weaker evidence."""
    wide_keys = dict(zip(wide.columns, wide.single, strict=True))
    narrow_keys = {narrow.columns[k]: narrow.single[k] for k in _comparable(narrow, wide)}
    apart = {name: keys for name, keys in narrow_keys.items() if keys.chance() <= MAX_UNIQUE_CHANCE}
    if len(apart) < 2 or not apart.keys() <= wide_keys.keys():
        return Overlap(0.0, False)
    return Overlap(
        min(_share_beyond_chance(*_contained(keys, wide_keys[name]), keys.chance()) for name, keys in apart.items()),
        False,
    )


def _contained(one: Keys, other: Keys) -> tuple[float, int]:
    """Return (the share of the fewer keys that are among the others, the number of keys compared)."""
    limit = min(one.limit, other.limit)
    own_hashes, other_hashes = (
        each.hashes if limit == _HASH_COUNT else each.hashes[each.hashes < limit] for each in (one, other)
    )
    compared = min(len(own_hashes), len(other_hashes))
    both = np.intersect1d(own_hashes, other_hashes, assume_unique=True)
    return (len(both) / compared if compared else 0.0), compared


def _share_beyond_chance(share: float, compared: int, chance: float) -> float:
    """Return the share, or 0 if chance, raised by a quarter and to one key at least, explains it (Chernoff's bound)."""
    if not compared or chance > MAX_CHANCE:
        return 0.0
    chance = max(1.25 * chance, 1 / compared)
    if share <= chance:
        return 0.0
    evidence = share * math.log(share / chance)
    if share < 1:
        evidence += (1 - share) * math.log((1 - share) / (1 - chance))
    return share if compared * evidence >= -math.log(MAX_ERROR_PROBABILITY) else 0.0


def _near_duplicate_share(cells: Hashes) -> float:
    """Return the largest share of pairs of rows that agree by all columns except one; 1 if there is only one."""
    if len(cells) < 2 or cells.shape[1] < 2:
        return 1.0
    sums, pairs = cells.sum(axis=1, dtype=np.uint64), len(cells) * (len(cells) - 1)
    rest = [np.unique(sums - column, return_counts=True)[1] for column in cells.T]
    return max(float((counts * (counts - 1)).sum()) for counts in rest) / pairs


def _bits(keys: Keys) -> float:
    """Return about -log2 of the chance that two columns of one law have the same counts: a value with c rows has c
    again with probability 1 / sqrt(4 pi c), and the last count follows."""
    if not len(keys.counts):
        return 0.0
    each = 0.5 * np.log2(4 * math.pi * keys.counts)
    return float((each.sum() - each.max()) * keys.distinct / len(each))


class _Smallest:
    """The smallest different hashes so far with their frequencies; with `cells`, a row of cells for each."""

    def __init__(self, cells: int = 0) -> None:
        self._hashes, self._counts = np.empty(0, np.uint64), np.empty(0, np.int64)
        self.cells = np.empty((0, cells), np.uint64)

    def add(self, hashes: Hashes, cells: Sequence[Hashes] = ()) -> None:
        chosen: Any = slice(None)
        if len(self._hashes) == MAX_HASHES:
            chosen = np.flatnonzero(hashes <= self._hashes[-1])
        hashes = hashes[chosen]
        if not len(hashes):
            return
        both = np.concatenate([self._hashes, hashes])
        counts = np.concatenate([self._counts, np.ones(len(hashes), np.int64)])
        distinct, first, inverse = np.unique(both, return_index=True, return_inverse=True)
        self._hashes = distinct[:MAX_HASHES]
        self._counts = np.bincount(inverse, weights=counts).astype(np.int64)[:MAX_HASHES]
        if cells:
            new = np.stack([column[chosen] for column in cells], axis=1)
            self.cells = np.concatenate([self.cells, new])[first[:MAX_HASHES]]

    def keys(self) -> Keys:
        held = len(self._hashes)
        distinct = float(held) if held < MAX_HASHES else (held - 1) * _HASH_COUNT / (int(self._hashes[-1]) + 1)
        return Keys(self._hashes, self._counts, distinct)


class _WholeNumbers:
    """Whether a column holds whole numbers without many gaps."""

    def __init__(self) -> None:
        self._whole, self._least, self._most = True, math.inf, -math.inf

    def add(self, numbers: NDArray[np.float64] | None) -> None:
        self._whole = self._whole and numbers is not None and bool((numbers == np.rint(numbers)).all())
        if self._whole and numbers is not None and len(numbers):
            self._least = min(self._least, float(numbers.min()))
            self._most = max(self._most, float(numbers.max()))

    def without_gaps(self, distinct: float) -> bool:
        return self._whole and distinct >= MIN_DENSITY * (self._most - self._least + 1) > 0


class _Cells:
    """Keyed hashes of cells by their values."""

    def __init__(self, key: bytes) -> None:
        self._keys: dict[str, tuple[np.uint64, np.uint64]] = {}
        for use in ("number", "text", "row", "value"):
            digest = hashlib.blake2b(use.encode(), key=key, digest_size=16).digest()
            self._keys[use] = np.uint64(int.from_bytes(digest[:8])), np.uint64(int.from_bytes(digest[8:]))
        self._text_key = hashlib.blake2b(b"text", key=key, digest_size=8).hexdigest()  # 16 characters, as pandas wants

    def mixed(self, words: Hashes, use: str) -> Hashes:
        """Spread words over all hashes (the finaliser of SplitMix64, with two words of the key)."""
        first, second = self._keys[use]
        mixed = words ^ first
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= second
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
        return mixed

    def column(self, rows: Rows, name: str) -> tuple[Hashes, NDArray[np.bool_], NDArray[np.float64] | None]:
        """Return (hashes of cells, which cells are present, the present numbers if all of them are numbers)."""
        cells = _arrow(declared_column(rows, name)[1])
        if pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type) or pa.types.is_decimal(cells.type):
            numbers = pc.cast(cells, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            hashes, present = self._numbers(numbers), ~np.isnan(numbers)
            return hashes, present, numbers if present.all() else numbers[present]
        coded = cells.dictionary_encode()
        hashes, numbers = self._texts(coded.dictionary)
        if coded.null_count:
            hashes, numbers = np.append(hashes, self._missing), np.append(numbers, np.nan)
        places = pc.fill_null(coded.indices, len(hashes) - 1).to_numpy(zero_copy_only=False)
        hashes = hashes[places]
        present = hashes != self._missing
        present_numbers = numbers[places][present]
        return hashes, present, None if np.isnan(present_numbers).any() else present_numbers

    @property
    def _missing(self) -> np.uint64:
        return np.uint64(self._numbers(np.array([np.nan]))[0])

    def _numbers(self, numbers: NDArray[np.float64]) -> Hashes:
        parts, powers = np.frexp(numbers)
        rounded = np.ldexp(np.rint(np.ldexp(parts, FRACTION_BITS)), powers - FRACTION_BITS)
        numbers = np.where(numbers == np.rint(numbers), numbers, rounded) + 0.0  # -0 is 0
        numbers[np.isnan(numbers)] = np.nan  # one of its many forms
        return self.mixed(numbers.view(np.uint64), "number")

    def _texts(self, texts: pa.Array) -> tuple[Hashes, NDArray[np.float64]]:
        """Return (hashes of texts, with numbers as such; the numbers, NaN for other texts)."""
        words = pd.Series(texts.to_numpy(zero_copy_only=False), dtype=object)
        try:
            numbers = pc.cast(texts, pa.float64()).to_numpy(zero_copy_only=False).copy()
        except pa.ArrowInvalid:
            numbers = pd.to_numeric(words, errors="coerce").to_numpy(np.float64, copy=True)
        hashes, other = self._numbers(numbers), np.isnan(numbers)
        if other.any():
            written = pd.util.hash_array(words[other].to_numpy(), hash_key=self._text_key, categorize=False)
            hashes[other] = np.where(words[other] == "", self._missing, self.mixed(written, "text"))
        return hashes, numbers


def _arrow(column: "pa.Array | pd.Series[Any]") -> pa.Array:
    """Return a column as numbers or as trimmed lower-case text, dates as usually written."""
    if isinstance(column, pd.Series):
        try:
            cells = pa.Array.from_pandas(column)
        except (pa.ArrowException, TypeError, ValueError):  # objects of several types
            cells = pa.array([None if each is None else str(each) for each in column], pa.string())
    else:
        cells = column
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    kind = cells.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return cells
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([None if each is None else repr(each) for each in cells.to_pylist()], pa.string())
    cells = pc.cast(cells, pa.string())
    if pa.types.is_temporal(kind):
        cells = pc.replace_substring_regex(cells, r"( 00:00:00)?(\.0+)?Z?$", "")
    return pc.utf8_lower(pc.utf8_trim_whitespace(cells))


@dataclass(frozen=True)
class TableDigest:
    """What a ledger keeps of a table: digests of its cells and of its declared schema, which counts as public."""

    cells: bytes
    schema: str


def digested_table(table: Table) -> tuple[TableSource, TableDigest]:
    """Return the opened table and its digest, which covers the rows now and whenever they are read again."""
    source = find_source(table)
    cells = source.digest()
    return open_table(source), TableDigest(cells, schema_digest(source.schema))
