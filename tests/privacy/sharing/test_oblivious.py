"""Oblivious transfers: the chosen string, hashes that tell nothing, and keys that do not tell the choice."""

import numpy as np
import pytest
from two_hosts import seeded_bytes

from parley.errors import ExchangeError
from parley.privacy.mechanisms.exact_samplers import SeededWords
from parley.privacy.sharing.conversion import unpack_bits
from parley.privacy.sharing.oblivious import BASE_BYTES, BaseTransfers, hash_rows, rows_of, unknown_key


def test_base_transfers_and_the_extension_give_the_chosen_string():
    sides = [BaseTransfers(index, seeded_bytes(f"base {index}")) for index in (0, 1)]
    (sender, _), (_, receiver) = (sides[k].streams(sides[1 - k].message) for k in (0, 1))
    for words in (1, 7):
        choices = SeededWords(b"choices")(words)
        columns, chosen = receiver.extend(choices)
        strings = sender.extend(columns)
        bits = unpack_bits(choices[None], 64 * words)[0].astype(bool)
        assert (chosen == np.where(bits[:, None], strings.second, strings.first)).all()
        assert (strings.first != strings.second).any(axis=1).all()


def test_rows_are_the_transposed_planes():
    planes = SeededWords(b"planes")(128 * 1_100).reshape(128, 1_100)
    bits = np.unpackbits(planes.astype("<u8").view(np.uint8), axis=1, bitorder="little").T
    assert (rows_of(planes) == np.ascontiguousarray(np.packbits(bits, axis=1, bitorder="little")).view("<u8")).all()


def test_hashes_of_rows_that_differ_by_one_secret_are_unrelated():
    rows, secret = SeededWords(b"rows")(2 * 5_000).reshape(-1, 2), SeededWords(b"secret")(2)
    differences = hash_rows(rows) ^ hash_rows(rows ^ secret)
    assert len(np.unique(differences, axis=0)) == len(rows)
    ones = np.unpackbits(differences.view(np.uint8)).mean()
    assert abs(ones - 0.5) < 5 * 0.5 / np.sqrt(128 * len(rows))


def test_keys_that_nobody_knows_look_like_others():
    """Both kinds lie on the curve and in its group of prime order; a point of the twist would tell the choice."""
    prime, order = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
    side = BaseTransfers(0, seeded_bytes("keys"))
    keys = [side.message[k : k + 32] for k in range(32, BASE_BYTES, 32)]
    keys += [unknown_key(seeded_bytes(f"key {k}")) for k in range(20)]
    for key in keys:
        u = int.from_bytes(key, "little")
        assert pow((u**3 + 486662 * u * u + u) % prime, (prime - 1) // 2, prime) == 1
        assert ladder(order, u, prime) is None


def ladder(scalar, u, prime):
    """The x-coordinate of a multiple of a point of the curve; None: the neutral element."""
    (x2, z2), (x3, z3) = (1, 0), (u, 1)
    for bit in bin(scalar)[2:]:
        if bit == "1":
            (x2, z2), (x3, z3) = (x3, z3), (x2, z2)
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb = d * a, c * b
        x3, z3 = (da + cb) ** 2 % prime, u * (da - cb) ** 2 % prime
        e = a * a - b * b
        x2, z2 = a * a * b * b % prime, e * (a * a + 121665 * e) % prime
        if bit == "1":
            (x2, z2), (x3, z3) = (x3, z3), (x2, z2)
    return None if z2 % prime == 0 else x2 * pow(z2, -1, prime) % prime


@pytest.mark.parametrize(("message", "fault"), [(b"short", "wrong length"), (bytes(BASE_BYTES), "not valid")])
def test_wrong_keys_are_refused(message, fault):
    with pytest.raises(ExchangeError, match=fault):
        BaseTransfers(0, seeded_bytes("keys")).streams(message)
