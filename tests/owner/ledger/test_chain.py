import hashlib
import sqlite3

import numpy as np
import pytest
from bookkeeping import filled
from hypothesis import given
from hypothesis import strategies as st

from parley.owner.ledger.chain import COLUMNS, FIRST_PREVIOUS_HASH, row_hash, seal

DIGESTS = st.binary(min_size=32, max_size=32)


def row(answer, kind="answer"):
    return (2, "2026-01-01", kind, None, "t", "learner", 1, "q", "c", "{}", "1/10", "0", "1/10", "[3]", answer)


@given(DIGESTS, DIGESTS)
def test_what_is_sealed_comes_back_with_its_pad(digest, pad):
    assert bytes.fromhex(seal(bytes.fromhex(seal(digest, pad)), pad)) == digest


@given(st.binary(), st.binary(), DIGESTS)
def test_every_answer_has_one_pad_for_every_hash(one, other, pad):
    """With a uniform pad the hash is then the same random variable whatever the answer was: it tells nothing about
    it."""
    moved = bytes.fromhex(seal(hashlib.sha256(other).digest(), bytes.fromhex(seal(hashlib.sha256(one).digest(), pad))))
    assert row_hash(FIRST_PREVIOUS_HASH, row(one), pad) == row_hash(FIRST_PREVIOUS_HASH, row(other), moved)
    if one != other:
        assert row_hash(FIRST_PREVIOUS_HASH, row(one), pad) != row_hash(FIRST_PREVIOUS_HASH, row(other), pad)


@given(DIGESTS, DIGESTS, DIGESTS)
def test_after_an_upgrade_no_hash_tells_what_was_hashed_before(one, other, pad):
    moved = bytes.fromhex(seal(other, bytes.fromhex(seal(one, pad))))
    assert row_hash(one.hex(), row(None, "upgrade"), pad) == row_hash(other.hex(), row(None, "upgrade"), moved)


def test_every_row_has_a_pad_of_its_own(tmp_path):
    with sqlite3.connect(filled(tmp_path)) as db:
        pads = [pad for (pad,) in db.execute("SELECT pad FROM entries")]
    assert len(set(pads)) == len(pads) == 6
    assert {len(pad) for pad in pads} == {32}
    bits = np.unpackbits(np.frombuffer(b"".join(pads), dtype=np.uint8))
    assert abs(bits.mean() - 0.5) < 6 * 0.5 / np.sqrt(bits.size)


@pytest.mark.parametrize("place", range(1, len(COLUMNS)))
def test_every_column_is_under_the_hash(place):
    changed = list(row(b"x" * 24))
    changed[place] = b"y" * 24 if COLUMNS[place] == "answer" else "changed"
    assert row_hash(FIRST_PREVIOUS_HASH, tuple(changed), bytes(32)) != row_hash(
        FIRST_PREVIOUS_HASH, row(b"x" * 24), bytes(32)
    )
