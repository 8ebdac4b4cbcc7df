import numpy as np
import pytest
from three_hosts import all_three, bits_of, joined, make_keys, planes_of, split

from parley.errors import SettingError
from parley.privacy.sharing.circuits import Builder, Circuit, Output, below, carry, evaluate
from parley.privacy.sharing.secret_noise import sum_weighted_bits, unpack_bits, weighted_sum

EDGES = [0, 1, 2, 3, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1, 2**64]


def run(circuit: Circuit, bits: np.ndarray, seed: int = 0) -> np.ndarray:
    shares = split(planes_of(bits), np.random.default_rng(seed), xor=True)
    out = all_three(make_keys(seed), lambda host: evaluate(host, circuit, shares[host.index]))
    return bits_of(joined(out, xor=True), bits.shape[1])


def digits(words: list[int], length: int) -> np.ndarray:
    return np.array([[w >> (length - 1 - j) & 1 for w in words] for j in range(length)], dtype=np.uint64)


def test_conjunction_and_parity() -> None:
    bits = np.random.default_rng(1).integers(0, 2, size=(4, 1000), dtype=np.uint64)
    make = Builder(4)
    both = make.conjunction(0, 1)
    odd = make.parity(both, 2, flip=True)
    outputs = [
        Output((both,)),
        Output((make.conjunction(odd, 3), 0)),
        Output((), flip=True),
        Output((make.parity(odd, 3),), flip=True),
    ]
    a, b, c, d = bits
    expected = [a & b, ((a & b) ^ c ^ 1) & d ^ a, np.ones_like(a), (a & b) ^ c ^ d]
    np.testing.assert_array_equal(run(make.build(outputs), bits), expected)


@pytest.mark.parametrize("length", [2, 4, 6])
def test_every_word_and_threshold(length: int) -> None:
    words = list(range(2**length))
    make = Builder(length)
    circuit = make.build([below(make, range(length), t) for t in range(2**length + 1)])
    np.testing.assert_array_equal(
        run(circuit, digits(words, length)), [[w < t for w in words] for t in range(2**length + 1)]
    )


def test_long_words_and_edges() -> None:
    rng = np.random.default_rng(2)
    thresholds = (
        EDGES
        + [int(t) for t in rng.integers(0, 2**64, size=20, dtype=np.uint64)]
        + [0xFF << 32, 1 << 40, (1 << 40) - 1]
    )
    near = [w for t in thresholds for w in (t - 1, t, t + 1) if 0 <= w < 2**64]
    words = near + [int(w) for w in rng.integers(0, 2**64, size=300, dtype=np.uint64)]
    make = Builder(64)
    circuit = make.build([below(make, range(64), t) for t in thresholds])
    assert len(circuit.rounds) - 1 == 6
    np.testing.assert_array_equal(run(circuit, digits(words, 64)), [[w < t for w in words] for t in thresholds])


def test_a_comparison_alone_takes_at_most_89_gates() -> None:
    for threshold in [0x5555555555555555, 0x0123456789ABCDEF, 2**63 + 1]:
        make = Builder(64)
        assert make.build([below(make, range(64), threshold)]).gates <= 89


def test_threshold_beyond_the_word_is_refused() -> None:
    with pytest.raises(SettingError, match="threshold"):
        below(Builder(64), range(64), 2**64 + 1)


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_every_carry(length: int) -> None:
    pairs = [(a, b) for a in range(2**length) for b in range(2**length)]
    make = Builder(2 * length)
    circuit = make.build([carry(make, range(length), range(length, 2 * length))])
    bits = np.concatenate([digits([a for a, _ in pairs], length), digits([b for _, b in pairs], length)])
    np.testing.assert_array_equal(run(circuit, bits)[0], [a + b >= 2**length for a, b in pairs])


def test_long_carries() -> None:
    rng = np.random.default_rng(3)
    a = [int(x) for x in rng.integers(0, 2**48, size=200)] + [2**48 - 1, 2**48 - 1, 0]
    b = [2**48 - 1 - x + int(y) for x, y in zip(a[:200], rng.integers(0, 2, size=200), strict=True)] + [0, 1, 0]
    b = [min(x, 2**48 - 1) for x in b]
    make = Builder(96)
    circuit = make.build([carry(make, range(48), range(48, 96))])
    expected = [x + y >= 2**48 for x, y in zip(a, b, strict=True)]
    assert 0 < sum(expected) < len(expected)
    np.testing.assert_array_equal(run(circuit, np.concatenate([digits(a, 48), digits(b, 48)]))[0], expected)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 300])
def test_weighted_sum_of_shared_bits(count: int) -> None:
    rng = np.random.default_rng(count)
    bits = rng.integers(0, 2, size=(count, 130), dtype=np.uint64)
    weights = np.array([(-5) % 2**64, 2**63, 1, 12][:count] + [7] * (count - 4), dtype=np.uint64)
    shares = split(planes_of(bits), rng, xor=True)
    first, second, third = all_three(
        make_keys(count), lambda host: weighted_sum(host, shares[host.index], weights, 130)
    )
    expected = [sum(int(w) * int(b) for w, b in zip(weights, column, strict=True)) % 2**64 for column in bits.T]
    assert [int(x) for x in first + second + third] == expected
    assert [int(x) for x in sum_weighted_bits(unpack_bits(planes_of(bits), 130), weights)] == expected
