"""Tables about the same people, and three hosts in threads that match them."""

import numpy as np
from three_hosts import all_three, joined, make_keys, split

from parley.privacy.sharing.matching.dummies import CountLaw
from parley.privacy.sharing.matching.keyed_rows import KeyedRows
from parley.privacy.sharing.matching.match import Matched, match, share_moments
from parley.privacy.sharing.matching.packed_rows import TableShape, pack_rows


def people(count: int, rng: np.random.Generator) -> np.ndarray:
    """Random keys [count, 2]."""
    return rng.integers(0, 2**64, size=(count, 2), dtype=np.uint64)


def table(keys: np.ndarray, columns: int, digits: int, rng: np.random.Generator) -> KeyedRows:
    """A table with random values over their whole range, in an order of its own."""
    values = rng.integers(-(1 << digits), 1 << digits, size=(len(keys), columns))
    return KeyedRows(keys[rng.permutation(len(keys))], values, digits)


def shape_of(rows: KeyedRows) -> TableShape:
    """With the clip that the largest row just keeps."""
    squares = (rows.values**2).sum(axis=1)
    return TableShape(*rows.values.shape, rows.digits, int(squares.max(initial=0)))


def shares_of(rows: KeyedRows, rng: np.random.Generator) -> list:
    """What each host holds of a table."""
    return split(pack_rows(rows), rng, xor=True)


def matched(tables, law: CountLaw, seed: object, shapes=None) -> tuple[Matched, ...]:
    """What the hosts hold after a match."""
    rng = np.random.default_rng(5)
    shapes = [shape_of(each) for each in tables] if shapes is None else shapes
    shares = [shares_of(each, rng) for each in tables]
    return all_three(make_keys(seed), lambda host: match(host, [each[host.index] for each in shares], shapes, law))


def moments(tables, unit: int, law: CountLaw, seed: object) -> tuple[np.ndarray, Matched]:
    """The moments that the hosts hold in shares, put together without noise; and host 0's match."""
    rng = np.random.default_rng(5)
    shapes = [shape_of(each) for each in tables]
    shares = [shares_of(each, rng) for each in tables]

    def both(host):
        made = match(host, [each[host.index] for each in shares], shapes, law)
        return made, share_moments(host, made, unit)

    held = all_three(make_keys(seed), both)
    return joined(tuple(each[1] for each in held), xor=False).view(np.int64), held[0][0]
