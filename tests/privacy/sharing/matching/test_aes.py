"""AES on shares is AES."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from three_hosts import all_three, joined, make_keys, split

from parley.privacy.sharing.matching import aes


def in_the_open(blocks: np.ndarray, key: np.ndarray) -> np.ndarray:
    cipher = Cipher(algorithms.AES(key.astype("<u8").tobytes()), modes.ECB()).encryptor()
    made = cipher.update(blocks.astype("<u8").tobytes())
    return np.frombuffer(made, dtype="<u8").reshape(-1, 2)


@pytest.mark.parametrize(("rows", "batch"), [(1, 1 << 10), (64, 1 << 10), (65, 1 << 10), (130, 1)])
def test_as_the_library_of_the_field(rows: int, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aes, "BATCH_WORDS", batch)
    rng = np.random.default_rng(rows)
    blocks, key = (rng.integers(0, 2**64, size=size, dtype=np.uint64) for size in ((rows, 2), 2))
    shares, keys = split(blocks, rng, xor=True), split(key, rng, xor=True)
    made = all_three(make_keys("aes"), lambda host: aes.encrypt(host, shares[host.index], keys[host.index]))
    np.testing.assert_array_equal(joined(made, xor=True), in_the_open(blocks, key))


def test_the_standards_own_example() -> None:
    """FIPS 197, appendix B."""
    block = np.frombuffer(bytes.fromhex("3243f6a8885a308d313198a2e0370734"), dtype="<u8").reshape(1, 2)
    key = np.frombuffer(bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c"), dtype="<u8")
    rng = np.random.default_rng(3)
    shares, keys = split(block, rng, xor=True), split(key, rng, xor=True)
    made = all_three(make_keys("b"), lambda host: aes.encrypt(host, shares[host.index], keys[host.index]))
    assert joined(made, xor=True).astype("<u8").tobytes().hex() == "3925841d02dc09fbdc118597196a0b32"


def test_a_byte_takes_36_ands_in_four_rounds() -> None:
    circuit = aes.substitution()
    assert circuit.gates == 36
    assert sum(step.left.size > 0 for step in circuit.rounds) == 4
