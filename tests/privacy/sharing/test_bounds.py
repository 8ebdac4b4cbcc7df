"""Answers are checked on their shares: a bit each, exact at the bound."""

import dataclasses
import os

import numpy as np
import pytest
from three_hosts import all_three, make_keys, parties, split

from parley.errors import SettingError
from parley.privacy.sharing import bounds as bounds_module
from parley.privacy.sharing.bounds import VectorBounds, find_kept_bounds
from parley.privacy.sharing.party import Party, run_in_threads
from parley.privacy.sharing.ring import Replicated
from parley.privacy.sharing.verified import VerifiedParty

WHOLE = 2**64


def vector(*values: int) -> np.ndarray:
    return np.array([value % WHOLE for value in values], dtype=np.uint64)


def kept(vectors, bounds, kind: type[Party] = Party, seed: object = "bounds") -> list[bool]:
    rng = np.random.default_rng(5)
    shares = [split(each, rng, xor=False) for each in vectors]
    found = all_three(
        make_keys(seed), lambda host: find_kept_bounds(host, [each[host.index] for each in shares], bounds), kind
    )
    assert found[0] == found[1] == found[2]
    return found[0]


def box(size: int, most: int, norm: str = "l2", limit: int | None = None) -> VectorBounds:
    ends = np.full(size, most, dtype=np.int64)
    return VectorBounds(-ends, ends, norm, size * most * most if limit is None else limit)


@pytest.mark.parametrize("kind", [Party, VerifiedParty])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_one_unit_beyond_is_caught_and_the_bound_is_kept(norm: str, kind: type[Party]) -> None:
    most = 1000
    bounds = box(3, most, norm)
    vectors = [
        vector(most, -most, most),
        vector(most + 1, 0, 0),
        vector(0, -most - 1, 0),
        vector(0, 0, 0),
        vector(-most, -most, -most),
    ]
    assert kept(vectors, [bounds] * 5, kind) == [True, False, False, True, True]


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_norms_are_exact(norm: str) -> None:
    rng = np.random.default_rng(8)
    for size, most in ((1, 7), (5, 3), (64, 10**4), (65, 2**30), (200, 2**45)):
        values = rng.integers(-most, most + 1, size=size)
        total = sum(abs(int(v)) if norm == "l1" else int(v) ** 2 for v in values)
        limits = [total, total - 1, total + 1, 0]
        found = kept([vector(*values.tolist())] * 4, [box(size, most, norm, limit) for limit in limits])
        assert found == [True, total == 0, True, total == 0]


def test_values_up_to_the_whole_ring_and_wrapped_squares_are_caught() -> None:
    """2^32 squared is 0 modulo 2^64, and 3 037 000 500 squared wraps below 0: sums of squares do not wrap here."""
    bounds = VectorBounds(vector(-(2**60)).astype(np.int64), np.array([2**60]), "l2", 2**40)
    tried = [
        2**32,
        2**33,
        3_037_000_500,
        2**63,
        2**63 - 1,
        WHOLE - 1 - 2**60,
        2**60,
        2**60 + 1,
        -(2**32),
        2**20,
        2**20 + 1,
    ]
    assert kept([vector(each) for each in tried], [bounds] * len(tried)) == [
        bounds.holds(vector(each)) for each in tried
    ]
    assert bounds.holds(vector(2**20))


def test_random_vectors_as_in_the_clear() -> None:
    """PARLEY_VECTORS sets how many (default 300): ranges of their own, norms near the limit, values from anywhere."""
    rng, count = np.random.default_rng(2), int(os.environ.get("PARLEY_VECTORS", "300"))
    for norm in ("l1", "l2"):
        for size in (1, 3, 70):
            vectors, bounds = [], []
            for _ in range(count // 6):
                most = int(rng.integers(1, 2 ** rng.integers(1, 50)))
                low, high = np.sort(rng.integers(-most, most + 1, size=(2, size)), axis=0)
                values = rng.integers(low, high + 1)
                odd = rng.integers(6)
                if odd == 0:
                    values[rng.integers(size)] = high[0] + 1
                if odd == 1:
                    values[rng.integers(size)] = low[-1] - 1
                if odd == 2:
                    values[rng.integers(size)] = rng.integers(-(2**63), 2**63 - 1)
                total = sum(abs(int(v)) if norm == "l1" else int(v) ** 2 for v in np.clip(values, low, high))
                vectors.append(values.view(np.uint64))
                bounds.append(VectorBounds(low, high, norm, max(0, total - int(odd == 3))))
            expected = [limit.holds(words) for limit, words in zip(bounds, vectors, strict=True)]
            assert kept(vectors, bounds) == expected
            assert 0 < sum(expected) < len(expected)


def always(party: Party, count: int) -> Replicated:
    return bounds_module.public(party, np.full(count, 2**64 - 1, dtype=np.uint64))


@pytest.mark.parametrize("mutant", ["no range", "no norm", "half the lanes", "no shares of one host"])
def test_a_check_left_out_is_told(monkeypatch: pytest.MonkeyPatch, mutant: str) -> None:
    """Each of these vectors is beyond its bounds."""
    far, long, last = vector(*([0] * 40), 11), vector(*([3] * 41)), vector(*([0] * 40), 10)
    bounds = [box(41, 10, limit=200), box(41, 10, limit=100), box(41, 10, limit=99)]
    assert kept([far, long, last], bounds) == [False] * 3
    if mutant == "half the lanes":
        monkeypatch.setattr(bounds_module, "HALVES", bounds_module.HALVES[1:])
    if mutant == "no norm":
        monkeypatch.setattr(
            bounds_module, "_compare_sums", lambda party, layout, rows, limits: always(party, len(limits))
        )
    if mutant == "no range":
        monkeypatch.setattr(bounds_module, "all_lanes", lambda party, bits: always(party, len(bits.first)))
    if mutant == "no shares of one host":
        honest = bounds_module.share_planes
        monkeypatch.setattr(
            bounds_module,
            "share_planes",
            lambda party, vectors, lanes: honest(
                party, [each.map(np.zeros_like) for each in vectors] if party.index == 0 else vectors, lanes
            ),
        )
        monkeypatch.setattr(Party, "reveal", unchecked_reveal)
        assert kept([vector(*([0] * 41))], [box(41, 10)]) == [False]
        return
    assert any(kept([far, long, last], bounds))


def unchecked_reveal(party: Party, words: Replicated) -> np.ndarray:
    lacking = party._pass(party.next, words.first, party.before, words.first.shape)
    return words.first ^ words.second ^ lacking


def test_terms_that_no_check_fits_are_refused() -> None:
    with pytest.raises(SettingError, match="61"):
        kept([vector(1)], [box(1, 2**61)])
    with pytest.raises(SettingError, match="one norm"):
        kept([vector(1)] * 2, [box(1, 5), dataclasses.replace(box(1, 5), norm="l1")])


@pytest.mark.parametrize("host", [0, 1, 2])
def test_a_host_receives_fair_bits(host: int) -> None:
    """The same answer in 40 runs, the host's two keys and shares fixed: all but digests and the result is uniform."""
    received = []
    for run in range(40):
        keys, rng = list(make_keys("fixed")), np.random.default_rng(run)
        keys[(host + 2) % 3] = make_keys(f"fresh {run}")[0]
        shares = split(vector(5, -7, 100), rng, xor=False)
        hosts, channels = parties((keys[0], keys[1], keys[2]))
        run_in_threads(*[lambda h=h, s=shares: find_kept_bounds(h, [s[h.index]], [box(3, 100)]) for h in hosts])
        received.append(np.frombuffer(b"".join(p[8:] for p in channels[host].received[:-2]), dtype=np.uint8))
    bits = np.unpackbits(np.array(received), axis=1)
    statistic = ((2.0 * bits.sum(axis=0) - len(bits)) ** 2 / len(bits)).sum()
    assert bits.shape[1] > 10_000
    assert abs(statistic - bits.shape[1]) < 5 * np.sqrt(2 * bits.shape[1])
