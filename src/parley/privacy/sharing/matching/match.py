"""What three hosts compute on tables about the same people: which rows belong together, and second moments over the
people whom all tables hold.

1. The hosts compare tags of the shares that two of them hold. An owner that gave them different ones is refused, and
  one whose table holds a key twice (`key_order`).
2. Each table gets dummy rows (`dummies`) and is shuffled three times, each time by two other hosts.
3. Each row's values become words, and tables with a row beyond its owner's clip are refused (`row_values`).
4. The hosts draw a key on shares for this one match, encrypt all keys under it and open what comes out: tags. Equal
  tags are the same person, or dummies of which nobody knows how many there are.
5. Shares of rows with equal tags are lined up and multiplied. A host sends one re-sharing of p (p + 1)/2 words.

Formal guarantee: let at most one host be curious; it follows the protocol and shows all it sees to any owners that are
not the other two hosts. Owners may share any rows. What the host and the owners see follows from their own input, the
tables' sizes and clips, which tables were refused, and the number of equal tags of each set of tables, which carry the
dummies' law. Proof. Shuffles, conversions and products send words masked by a key that the receiver lacks. Before tags
are opened only three bits a table are, each a function of that table alone. Tags are AES under a key that nobody knows,
so they are like different random words (AES-128 being a pseudo-random permutation), equal where keys are. No table
holds one twice, except by a dummy's chance below 2^-60. Their order is uniform even given two of three shuffles. So
only the numbers of equal tags tell anything.

Not promised: anything against two hosts together, or against a host that departs from the protocol.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from threadpoolctl import threadpool_limits

from parley.errors import SettingError
from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.sharing.matching.aes import encrypt
from parley.privacy.sharing.matching.dummies import CountLaw, TableSet, draw_dummies
from parley.privacy.sharing.matching.key_order import require_rising_keys
from parley.privacy.sharing.matching.keyed_rows import KEY_WORDS, count_common, matching_rows
from parley.privacy.sharing.matching.packed_rows import RefusedTableError, TableShape
from parley.privacy.sharing.matching.row_values import require_small_rows, share_numbers, share_values
from parley.privacy.sharing.party import HOST_COUNT, Party
from parley.privacy.sharing.ring import Replicated

GRAM_ROWS = 1 << 16  # rows of which 32-bit products are added at a time


class DifferentSharesError(RefusedTableError):
    """Two hosts got different shares of a table."""

    def __init__(self, table: int) -> None:
        super().__init__(
            table,
            "two hosts hold different words of one share, so nothing was matched; its owner must send its shares again",
        )


@dataclass(frozen=True)
class MatchPlan:
    """What hosts know of a match: each table's shape, the law of how many dummies are equal, and the grid steps of the
    value 1."""

    shapes: tuple[TableShape, ...]
    law: CountLaw
    unit: int


@dataclass(frozen=True, eq=False)
class Matched:
    """What a host holds after a match: shares of each table's values for the people of all tables, row by row; how many
    keys each set of tables has in common with the dummies counted; shares of the number of dummies among the rows."""

    values: tuple[Replicated, ...]
    counts: Counter[TableSet]
    dummies: Replicated

    @property
    def rows(self) -> int:
        """Rows of the join, dummies included."""
        return len(self.values[0].first)


def matched_moments(party: Party, tables: Sequence[Replicated], plan: MatchPlan) -> Replicated:
    """Return shares of the moments over the people whom all tables hold (`keyed_rows.joined_moments`); all hosts call
    it alike, with keys for this one match. A `RefusedTableError` names a table that stops it."""
    return share_moments(party, match(party, tables, plan.shapes, plan.law), plan.unit)


def match(party: Party, tables: Sequence[Replicated], shapes: Sequence[TableShape], law: CountLaw) -> Matched:
    """Return which rows belong together, from shares of packed rows; all hosts call it alike, with keys for this one
    match. Formal guarantee: as above."""
    try:
        return _match(party, tables, shapes, law)
    except BaseException:
        party.give_up()
        raise


def _match(party: Party, tables: Sequence[Replicated], shapes: Sequence[TableShape], law: CountLaw) -> Matched:
    for place, (table, shape) in enumerate(zip(tables, shapes, strict=True)):
        if table.first.shape != (shape.rows, shape.width):
            raise SettingError(f"table {place}: expected {shape.rows} rows of {shape.width} words")
        if not party.hold_same(table):  # its owner's doing, as hosts follow the protocol
            raise DifferentSharesError(place)
        require_rising_keys(party, table, place)
    dummies = draw_dummies(party, law, len(tables))
    shuffled = [_shuffled(party, *each) for each in zip(tables, dummies.keys, shapes, strict=True)]
    values = []
    for place, (rows, shape) in enumerate(zip(shuffled, shapes, strict=True)):
        values.append(share_values(party, rows, shape))
        require_small_rows(party, values[-1], shape, place)
    tags = _open_tags(party, shuffled)
    lined_up = tuple(part[rows] for part, rows in zip(values, matching_rows(tags), strict=True))
    same = dummies.same[frozenset(range(len(tables)))].map(lambda side: side.reshape(1, -1))
    number = share_numbers(party, same, law.dummies, signed=False).map(lambda side: side.sum(keepdims=True))
    return Matched(lined_up, count_common(tags), number)


def _shuffled(party: Party, table: Replicated, keys: Replicated, shape: TableShape) -> Replicated:
    """Return the table's rows and its dummies', whose values are 0, in an order that no host knows."""
    padding = ((0, 0), (0, shape.width - KEY_WORDS))
    rows = Replicated.concatenate([table, keys.map(lambda side: np.pad(side, padding))])
    for pair in range(HOST_COUNT):
        rows = party.shuffled(rows, pair)
    return rows


def _open_tags(party: Party, tables: Sequence[Replicated]) -> list[Words]:
    """Return each table's keys encrypted under a key that is drawn here, known to nobody and used once."""
    keys = Replicated.concatenate([table[:, :KEY_WORDS] for table in tables])
    tags = party.reveal(encrypt(party, keys, party.random(KEY_WORDS)))
    ends = np.cumsum([len(table.first) for table in tables])[:-1]
    return [np.ascontiguousarray(part) for part in np.split(tags, ends)]


def share_moments(party: Party, matched: Matched, unit: int) -> Replicated:
    """Return shares of what `keyed_rows.joined_moments` gives for the matched people, modulo 2^64.

    Formal guarantee: dummies count for nothing: their values are 0, and their number is taken off the last entry. The
    message is masked by a part of zero.
    """
    values = Replicated.concatenate(matched.values, axis=1)
    columns = values.first.shape[1]
    both = values.first + values.second
    products = _gram(both) - _gram(values.second)
    upper = np.triu_indices(columns)
    inner = party.complete(products[upper] + party.zero_words(len(upper[0])))
    packed = [np.zeros((columns + 1, columns + 1), dtype=np.uint64) for _ in range(2)]
    rows, square_unit = (np.array([whole % 2**64], dtype=np.uint64) for whole in (matched.rows, unit * unit))
    dummies = matched.dummies.first, matched.dummies.second
    sides = zip(packed, (inner.first, inner.second), (values.first, values.second), dummies, strict=True)
    for place, (made, square, side, surplus) in enumerate(sides):
        made[upper] = square
        made[:columns, columns] = side.sum(axis=0, dtype=np.uint64) * np.uint64(unit)
        counted = rows - surplus if (party.index + place) % HOST_COUNT == 0 else -surplus
        made[columns, columns] = (counted * square_unit)[0]
    whole = np.triu_indices(columns + 1)
    return Replicated(packed[0][whole], packed[1][whole])


def _gram(x: Words) -> Words:
    """Return x' x modulo 2^64, from four parts of 16 bits each: sums of their products over a block stay below 2^53, so
    floating point adds them up exactly."""
    total = np.zeros((x.shape[1], x.shape[1]), dtype=np.uint64)
    for start in range(0, len(x), GRAM_ROWS):
        block = x[start : start + GRAM_ROWS]
        parts = [(block >> np.uint64(16 * k) & np.uint64(0xFFFF)).astype(np.float64) for k in range(4)]
        pairs = [each for each in combinations_with_replacement(range(4), 2) if sum(each) < 4]
        with threadpool_limits(1, user_api="blas"):  # threads of hosts on one machine wait for each other
            products = [(parts[one].T @ parts[other]).astype(np.uint64) for one, other in pairs]
        for (one, other), product in zip(pairs, products, strict=True):
            both = product if one == other else product + product.T
            total += both << np.uint64(16 * (one + other))
    return total
