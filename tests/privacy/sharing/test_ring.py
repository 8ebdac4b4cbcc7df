"""Shares of numbers modulo 2⁶⁴.

Premise F6.
"""

import os

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from three_hosts import make_keys, parties, split

from parley.errors import ExchangeError, GuaranteeError, SettingError, Unavailable
from parley.privacy.mechanisms.tabled_recipe import tabled_recipe
from parley.privacy.sharing import ring
from parley.privacy.sharing.party import (
    Counted,
    LyingHostError,
    Opening,
    Party,
    agree_keys,
    open_words,
    opening_of,
    run_in_threads,
    wires,
)
from parley.privacy.sharing.ring import Keystream, Replicated, digest, expand_seed, last_share
from parley.privacy.sharing.secret_noise import draw


def test_a_seed_stands_for_the_same_words_for_ever() -> None:
    """Owners' books hold seeds: AES-256 of the counters 0, 1, ..., little-endian words."""
    seed = bytes(range(32))
    encryptor = Cipher(algorithms.AES256(seed), modes.ECB()).encryptor()
    blocks = encryptor.update(b"".join(k.to_bytes(16, "big") for k in range(3)))
    assert [int(w) for w in expand_seed(seed, 5)] == [
        int.from_bytes(blocks[8 * k : 8 * k + 8], "little") for k in range(5)
    ]


def test_three_shares_make_the_vector() -> None:
    words = np.array([5, 2**64 - 3, 0], dtype=np.uint64)
    seeds = os.urandom(32), os.urandom(32)
    np.testing.assert_array_equal(expand_seed(seeds[0], 3) + expand_seed(seeds[1], 3) + last_share(words, seeds), words)


def test_digest_has_the_length() -> None:
    nothing, zero = np.zeros(0, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    assert len({digest(nothing), digest(zero), digest(np.zeros(2, dtype=np.uint64)), digest(zero + np.uint64(1))}) == 4


def test_a_stream_goes_on_and_purposes_differ() -> None:
    key = make_keys("stream")[0]
    stream = Keystream(key, 1)
    pieces = np.concatenate([stream.words(3), stream.words(2, 2).ravel(), stream.words(1)])
    np.testing.assert_array_equal(pieces, Keystream(key, 1).words(8))
    assert not set(pieces) & set(Keystream(key, 2).words(8))


def test_no_word_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[int, list[np.ndarray]] = {}
    honest = Keystream.words

    def recorded(self: Keystream, *shape: int) -> np.ndarray:
        words = honest(self, *shape)
        given.setdefault(id(self), []).append(words.ravel())
        return words

    monkeypatch.setattr(Keystream, "words", recorded)
    hosts, _ = parties(make_keys("twice"))
    for recipe in (tabled_recipe("laplace", 5), tabled_recipe("gaussian", 5), tabled_recipe("laplace", 5)):
        run_in_threads(*[lambda h=h, r=recipe: draw(h, r, 300) for h in hosts])
    rows = split(np.arange(900, dtype=np.uint64).reshape(300, 3), np.random.default_rng(1), xor=True)
    for pair in range(3):
        run_in_threads(*[lambda h=h, p=pair: h.shuffled(rows[h.index], p) for h in hosts])
    for host in hosts:
        for which in (0, 1):
            words = np.concatenate([w for (j, _), s in host._streams.items() if j == which for w in given[id(s)]])
            assert np.unique(words).size == words.size > 15_000


METHODS = {
    "random": lambda p: p.random(60),
    "zero_bits": lambda p: p.zero_bits(60),
    "zero_words": lambda p: p.zero_words(60),
}


@pytest.mark.parametrize("method", METHODS)
def test_no_method_goes_beyond_the_end_of_a_stream(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr(ring, "MAX_WORDS", 100)
    ends = wires()
    party = Party(ends[0], make_keys("end")[:2])
    ends[2].send(0, (1).to_bytes(8, "little") + bytes(480))
    METHODS[method](party)
    with pytest.raises(GuaranteeError, match="new keys"):
        METHODS[method](party)
    for again in METHODS.values():
        with pytest.raises(ExchangeError, match="new keys"):
            again(party)
    with pytest.raises(ExchangeError, match="new keys"):
        party.complete(np.zeros(1, dtype=np.uint64))


def test_agreed_keys_are_fresh_and_held_by_two() -> None:
    counted = [Counted(w) for w in wires()]
    hosts = [
        Party(c, keys)
        for c, keys in zip(counted, run_in_threads(*[lambda c=c: agree_keys(c) for c in counted]), strict=True)
    ]
    drawn = run_in_threads(*[lambda h=h: h.random(4) for h in hosts])
    for i in range(3):
        np.testing.assert_array_equal(drawn[i].second, drawn[(i + 1) % 3].first)
    assert len({tuple(d.first) for d in drawn}) == 3
    assert [(c.messages, c.bytes) for c in counted] == [(1, 32)] * 3


def test_bad_keys_and_indices_are_refused() -> None:
    ends = wires()
    with pytest.raises(SettingError, match="31 bytes"):
        Party(ends[0], (bytes(31), bytes(32)))
    ends[1].send(0, b"short")
    with pytest.raises(ExchangeError, match="5 bytes"):
        agree_keys(ends[0])
    ends[0].index = 3
    with pytest.raises(SettingError, match="a host number from 0 to 2"):
        Party(ends[0], (bytes(32), bytes(32)))


def test_one_error_stops_the_others() -> None:
    ends = wires(timeout=60)

    def fail() -> bytes:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_in_threads(fail, lambda: ends[1].receive(0), lambda: ends[2].receive(1), wires=ends)
    with pytest.raises(Unavailable, match="closed"):
        ends[1].receive(0)


def test_a_late_host_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="host 1"):
        wires(timeout=0.01)[0].receive(1)


def sums() -> tuple[np.ndarray, list[Replicated]]:
    rng = np.random.default_rng(4)
    a, b, c = (rng.integers(0, 2**64, size=7, dtype=np.uint64) for _ in range(3))
    return a + b + c, [Replicated(a, b), Replicated(b, c), Replicated(c, a)]


def test_opening() -> None:
    total, held = sums()
    np.testing.assert_array_equal(open_words([opening_of(h + h) for h in held]), total + total)
    with pytest.raises(SettingError, match="cannot be added"):
        held[0] + Replicated(held[0].first[:1], held[0].second[:1])


@pytest.mark.parametrize("liar", [0, 1, 2])
def test_a_lying_host_is_noticed(liar: int) -> None:
    _, held = sums()
    openings = [opening_of(h) for h in held]
    true, wrong = openings[liar], held[liar].first + np.uint64(1)
    before, after = tuple(sorted(((liar + 2) % 3, liar))), tuple(sorted((liar, (liar + 1) % 3)))
    lies = {
        "share": (Opening(wrong, true.digest), {before}, None),
        "digest": (Opening(true.words, digest(wrong)), {after}, None),
        "both": (Opening(wrong, digest(wrong)), {before, after}, liar),
        "length": (Opening(true.words[:3], true.digest), {before}, None),
    }
    for lie, pairs, host in lies.values():
        with pytest.raises(LyingHostError, match="disagree") as caught:
            open_words([lie if i == liar else o for i, o in enumerate(openings)])
        assert {tuple(sorted(p)) for p in caught.value.pairs} == pairs
        assert caught.value.host == host


def test_long_messages_travel_in_pieces_and_short_ones_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parley.privacy.sharing.party.MESSAGE_WORDS", 7)
    for size, messages in ((0, 1), (6, 1), (7, 1), (8, 2), (30, 5)):
        counted = [Counted(end) for end in wires()]
        hosts = [
            Party(end, (make_keys("pieces")[end.index], make_keys("pieces")[(end.index + 1) % 3])) for end in counted
        ]
        parts = [np.arange(size, dtype=np.uint64) + np.uint64(100 * k) for k in range(3)]
        made = run_in_threads(*[lambda h=h, p=parts: h.complete(p[h.index]) for h in hosts])
        assert all(list(each.second) == list(parts[(k + 1) % 3]) for k, each in enumerate(made))
        assert counted[0].messages == messages
