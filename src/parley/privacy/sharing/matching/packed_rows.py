"""Rows as bits in three exclusive-or shares: the key's two words, then the values' digits in two's complement, lowest
first, one value after the other. So a value cannot lie outside its range, whatever an owner shares. Rows stand in the
order of their keys, by which hosts see that no key comes twice."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.errors import ContradictionError, SettingError
from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.sharing.circuits import WORD_LANES
from parley.privacy.sharing.conversion import pack_bits, unpack_bits
from parley.privacy.sharing.matching.keyed_rows import KEY_WORDS, MAX_DIGITS, KeyedRows
from parley.privacy.sharing.party import HOST_COUNT
from parley.privacy.sharing.ring import Replicated, expand_seed

BATCH_VALUES = 1 << 18  # values that are packed at a time, for memory's sake


@dataclass(frozen=True)
class TableShape:
    """What hosts know of a table: its rows, columns, digits of a value without its sign, and the largest sum of a row's
    squares."""

    rows: int
    columns: int
    digits: int
    largest_square: int

    def __post_init__(self) -> None:
        if not (self.rows >= 0 and self.columns >= 0 and 1 <= self.digits <= MAX_DIGITS and self.largest_square >= 0):
            raise SettingError(f"table: expected 1 to {MAX_DIGITS} digits and no negative size, got {self}")
        if not self.columns << 2 * self.digits < 1 << 62:
            raise SettingError(
                f"table: the squares of {self.columns} values of {self.digits} digits do not fit into 62 bits; use "
                "fewer columns or a coarser grid"
            )

    @property
    def width(self) -> int:
        """Words of a row."""
        return KEY_WORDS + -(-self.columns * (self.digits + 1) // WORD_LANES)

    @property
    def bytes(self) -> int:
        """Bytes of a share's words."""
        return 8 * self.rows * self.width


class RefusedTableError(ContradictionError):
    """Table `table` cannot be matched: `reason`. Nothing was opened but this."""

    def __init__(self, table: int, reason: str) -> None:
        self.table, self.reason = table, reason
        super().__init__(f"table {table}: {reason}")


def pack_rows(table: KeyedRows) -> Words:
    """Return the rows as words [n, width], in the order of their keys, of which the first word counts most."""
    n, columns = table.values.shape
    shape = TableShape(n, columns, table.digits, 0)
    packed = np.zeros((n, shape.width), dtype=np.uint64)
    packed[:, :KEY_WORDS] = table.keys
    for at in batches(n, columns):
        packed[at, KEY_WORDS:] = pack_bits(_digits_of(table.values[at], table.digits), shape.width - KEY_WORDS)
    return packed[np.lexsort(table.keys.T[::-1])]


def _digits_of(values: NDArray[np.int64], digits: int) -> NDArray[np.uint8]:
    """Return the digits of each row's values, a byte each [n, p (digits + 1)]."""
    words = np.ascontiguousarray(values, dtype="<i8")
    bits = np.unpackbits(words.view(np.uint8).reshape(*values.shape, 8), axis=2, count=digits + 1, bitorder="little")
    return bits.reshape(len(values), -1)


def planes_of_values(rows: Words, shape: TableShape) -> Words:
    """Return the planes [digits + 1, words] of the values of packed rows, one row after the other."""
    bits = unpack_bits(rows[:, KEY_WORDS:], shape.columns * (shape.digits + 1))
    return pack_bits(bits.reshape(-1, shape.digits + 1).T)


def batches(rows: int, columns: int) -> list[slice]:
    """Return the rows in parts with few values; each but the last fills whole words of lanes."""
    step = max(1, BATCH_VALUES // max(columns, 1) // WORD_LANES) * WORD_LANES
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def table_shares(shape: TableShape, host: int, parts: tuple[bytes | Words, bytes | Words]) -> Replicated:
    """Return what host `host` holds of a table from what its owner sent: seeds, or the last share's words."""

    def share(part: bytes | Words) -> Words:
        words = expand_seed(part, shape.rows * shape.width) if isinstance(part, bytes) else part
        if words.size != shape.rows * shape.width:
            raise SettingError(f"table: expected {shape.rows * shape.width} words for a share, got {words.size}")
        return words.reshape(shape.rows, shape.width)

    if host not in range(HOST_COUNT):
        raise SettingError(f"host {host}: expected a host number from 0 to 2")
    return Replicated(share(parts[0]), share(parts[1]))
