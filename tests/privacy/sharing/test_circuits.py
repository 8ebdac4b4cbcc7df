import numpy as np
import pytest
from three_hosts import all_three, bits_of, joined, make_keys, planes_of, split

from parley.privacy.sharing import conversion
from parley.privacy.sharing.circuits import Builder, Circuit, Output, add_columns, carry, evaluate


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


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_every_carry(length: int) -> None:
    pairs = [(a, b) for a in range(2**length) for b in range(2**length)]
    make = Builder(2 * length)
    circuit = make.build([Output((carry(make, range(length), range(length, 2 * length)),))])
    bits = np.concatenate([digits([a for a, _ in pairs], length), digits([b for _, b in pairs], length)])
    np.testing.assert_array_equal(run(circuit, bits)[0], [a + b >= 2**length for a, b in pairs])


def test_long_carries() -> None:
    rng = np.random.default_rng(3)
    a = [int(x) for x in rng.integers(0, 2**48, size=200)] + [2**48 - 1, 2**48 - 1, 0]
    b = [2**48 - 1 - x + int(y) for x, y in zip(a[:200], rng.integers(0, 2, size=200), strict=True)] + [0, 1, 0]
    b = [min(x, 2**48 - 1) for x in b]
    make = Builder(96)
    circuit = make.build([Output((carry(make, range(48), range(48, 96)),))])
    expected = [x + y >= 2**48 for x, y in zip(a, b, strict=True)]
    assert 0 < sum(expected) < len(expected)
    np.testing.assert_array_equal(run(circuit, np.concatenate([digits(a, 48), digits(b, 48)]))[0], expected)


@pytest.mark.parametrize("heights", [[1], [2, 2], [3, 0, 1], [5, 4, 3, 2, 1, 0], [17] * 9, [0, 2, 0, 3]])
def test_columns_add_up(heights: list[int]) -> None:
    rng = np.random.default_rng(sum(heights))
    bits = rng.integers(0, 2, size=(sum(heights), 500), dtype=np.uint64)
    starts = np.cumsum([0, *heights])
    make = Builder(sum(heights))
    columns = [range(starts[k], starts[k + 1]) for k in range(len(heights))]
    outputs = [Output(() if wire is None else (wire,)) for wire in add_columns(make, columns)]
    expected = sum(int(2**k) * bits[starts[k] : starts[k + 1]].sum(axis=0) for k in range(len(heights)))
    got = run(make.build(outputs), bits)
    np.testing.assert_array_equal(
        sum(np.uint64(2**k) * digit for k, digit in enumerate(got)), expected % np.uint64(2 ** len(heights))
    )


def test_long_sums_take_few_rounds() -> None:
    make = Builder(192)
    outputs = add_columns(make, [range(k, 192, 64) for k in range(64)])
    circuit = make.build([Output((wire,)) for wire in outputs if wire is not None])
    assert len(circuit.rounds) - 1 <= 13
    assert circuit.gates <= 300
    rng = np.random.default_rng(4)
    words = rng.integers(0, 2**64, size=(3, 200), dtype=np.uint64)
    words[:, :3] = [[2**64 - 1, 0, 1], [2**64 - 1, 2**63, 2**64 - 1], [2**64 - 1, 2**63, 0]]
    got = run(circuit, _digits(words))
    np.testing.assert_array_equal(sum(np.uint64(2**k) * digit for k, digit in enumerate(got)), words.sum(axis=0))


def _digits(words: np.ndarray) -> np.ndarray:
    return np.concatenate([[row >> np.uint64(k) & np.uint64(1) for k in range(64)] for row in words])


def test_all_of() -> None:
    bits = np.array([[n >> k & 1 for n in range(32)] for k in range(5)], dtype=np.uint64)
    make = Builder(5)
    np.testing.assert_array_equal(run(make.build([Output((make.all_of(range(5)),))]), bits)[0], np.arange(32) == 31)


@pytest.mark.parametrize("size", [1, 64, 100])
def test_numbers_and_their_planes(size: int) -> None:
    words = np.random.default_rng(size).integers(0, 2**64, size=size, dtype=np.uint64)
    planes = conversion.planes_of(words)
    np.testing.assert_array_equal(
        planes, planes_of(np.array([words >> np.uint64(k) & np.uint64(1) for k in range(64)]))
    )
    np.testing.assert_array_equal(conversion.words_of(planes, size), words)
