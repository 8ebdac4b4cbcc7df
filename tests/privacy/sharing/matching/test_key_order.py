"""Hosts learn whether a table's keys rise strictly, and nothing else."""

import numpy as np
import pytest
from matched_tables import people
from three_hosts import all_three, make_keys, split

from parley.privacy.sharing.matching import key_order
from parley.privacy.sharing.matching.key_order import RepeatedKeysError, require_rising_keys
from parley.privacy.sharing.party import Party


def rise(keys: np.ndarray) -> bool:
    """What three hosts find of rows with these keys."""
    rows = np.column_stack([keys, np.ones((len(keys), 1), dtype=np.uint64)])
    shares = split(rows, np.random.default_rng(3), xor=True)

    def refused(host: Party) -> int | None:
        try:
            require_rising_keys(host, shares[host.index], 4)
        except RepeatedKeysError as error:
            return error.table
        return None

    told = set(all_three(make_keys("order"), refused))
    assert told in ({4}, {None})
    return told == {None}


def in_order(keys: np.ndarray) -> np.ndarray:
    return np.array(sorted(keys.tolist()), dtype=np.uint64).reshape(-1, 2)


@pytest.mark.parametrize("rows", [0, 1, 2, 63, 64, 65, 66, 130, 300])
def test_rising_keys_are_taken_whatever_their_number(rows: int) -> None:
    keys = in_order(people(rows, np.random.default_rng(rows)))
    assert rise(keys)
    if rows > 1:
        assert not rise(keys[::-1])


@pytest.mark.parametrize("rows", [2, 65, 66, 130])
def test_one_key_that_comes_twice_is_found_wherever_it_stands(rows: int) -> None:
    keys = in_order(people(rows, np.random.default_rng(rows)))
    for place in {1, rows // 2, rows - 1}:
        twice = keys.copy()
        twice[place] = twice[place - 1]
        assert not rise(twice)


def test_the_order_is_that_of_128_digits_exactly() -> None:
    top = 2**64 - 1
    ends = [
        [0, 0],
        [0, 1],
        [0, top],
        [1, 0],
        [1, top],
        [2**63, 0],
        [2**63, 2**63],
        [top, 0],
        [top, top - 1],
        [top, top],
    ]
    for one in ends:
        for other in ends:
            assert rise(np.array([one, other], dtype=np.uint64)) == (one < other)
    rng = np.random.default_rng(8)
    for _ in range(20):  # keys that differ in one digit
        one = [int(word) for word in rng.integers(0, 2**64, size=2, dtype=np.uint64)]
        word, digit = int(rng.integers(2)), int(rng.integers(64))
        other = [each ^ (1 << digit if place == word else 0) for place, each in enumerate(one)]
        assert rise(np.array([one, other], dtype=np.uint64)) == (one < other)


def test_batches_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_order, "BATCH_WORDS", 2)
    keys = in_order(people(400, np.random.default_rng(1)))
    assert rise(keys)
    for place in (128, 256, 399):
        twice = keys.copy()
        twice[place] = twice[place - 1]
        assert not rise(twice)
