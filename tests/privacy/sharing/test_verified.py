"""One of three hosts may do anything: the noise is right, or there is none.

PARLEY_CHEATS sets how many runs with a changed message there are (default 40), PARLEY_CHEATS_SEED which.

"""

import os
import random
from collections.abc import Callable
from functools import partial
from math import comb

import numpy as np
import pytest
from three_hosts import all_three, joined, make_keys, numbers_of, parties, planes_drawn, split

from parley.errors import ExchangeError, ParleyError
from parley.privacy.mechanisms.tabled_recipe import tabled_recipe
from parley.privacy.sharing import verified
from parley.privacy.sharing.party import Party, Wire, open_words, opening_of, run_in_threads, wires
from parley.privacy.sharing.ring import Replicated
from parley.privacy.sharing.secret_noise import draw
from parley.privacy.sharing.verified import CheatingHostError, VerifiedParty, bucket_size, permutation
from parley.privacy.sharing.verified_noise import PREFIX, DisagreeingHostsError, Statement, derive_key, draw_verified

GAUSSIAN = tabled_recipe("gaussian", 3)
SIZE = 70
CHEATS = int(os.environ.get("PARLEY_CHEATS", "40"))
ABOUT = f"gaussian 3 {SIZE}"
SECRET = np.arange(SIZE, dtype=np.uint64)  # an owner's answer
CHANGES = ("flip", "replace", "repeat", "drop", "shorten", "swap")


class Cheat:
    """A host's end that does something to its message number `at`."""

    def __init__(self, wire: Wire, at: int, change: str, rng: random.Random) -> None:
        self._wire, self._at, self._change, self._rng = wire, at, change, rng
        self.index, self.receive, self.sent = wire.index, wire.receive, 0
        self._last: bytes | None = None
        self._kept: tuple[int, bytes] | None = None

    def send(self, to: int, payload: bytes) -> None:
        number, self.sent = self.sent, self.sent + 1
        if self._kept is not None and self._kept[0] == to:
            self._wire.send(to, payload)
            payload, self._kept = self._kept[1], None
        elif number == self._at:
            if self._change == "drop":
                return
            if self._change == "swap":
                self._kept = to, payload
                return
            if self._change == "repeat" and self._last is not None:
                self._wire.send(to, self._last)
            payload = self._changed(payload)
        self._last = payload
        self._wire.send(to, payload)

    def _changed(self, payload: bytes) -> bytes:
        body = bytearray(payload[8:])
        if self._change == "flip" and body:
            body[self._rng.randrange(len(body))] ^= 1 << self._rng.randrange(8)
        elif self._change == "replace":
            body = bytearray(self._rng.randbytes(len(body)))
        elif self._change == "shorten":
            body = body[:-8]
        return payload[:8] + bytes(body)


def run(cheater: int, at: int, change: str, seed: object, party: Callable = draw_verified):
    """What each host says in the end, and how many messages the cheater sent."""
    keys, ends, rng = (
        make_keys(seed),
        wires(timeout=1.0 if CHEATS < 1000 else 0.15),
        random.Random(f"{seed} {cheater} {at} {change}"),
    )
    channels = [Cheat(end, at, change, rng) if end.index == cheater else end for end in ends]
    shares = split(SECRET, np.random.default_rng(at), xor=False)

    def host(channel) -> Replicated | ParleyError:
        own = keys[channel.index], keys[(channel.index + 1) % 3]
        try:
            return party(channel, own, 1, GAUSSIAN, SIZE) + shares[channel.index]
        except ParleyError as error:
            ends[channel.index].close()
            return error

    return run_in_threads(*(partial(host, channel) for channel in channels), wires=ends), channels[cheater].sent


def noise_of(seed: object) -> np.ndarray:
    keys = [derive_key(key, 1, ABOUT) for key in make_keys(seed)]
    drawn = all_three((keys[0], keys[1], keys[2]), lambda host: draw(host, GAUSSIAN, SIZE))
    return joined(drawn, xor=False)


def opened(results) -> np.ndarray | None:
    """What a learner opens, who asks all three; None if a host has nothing to open."""
    if any(isinstance(each, ParleyError) for each in results):
        return None
    return open_words([opening_of(each) for each in results])


def test_changed_messages_open_no_wrong_sum() -> None:
    """One message of one host, at a random step: the sum is right or nothing is opened; who is named, cheated."""
    rng, cheats = random.Random(os.environ.get("PARLEY_CHEATS_SEED", "3")), CHEATS
    right, (_, messages) = SECRET + noise_of("cheats"), run(0, 10**9, "flip", "cheats")
    outcomes = {"right": 0, "refused": 0, "named": 0}
    for _ in range(cheats):
        cheater, change = rng.randrange(3), rng.choice(CHANGES)
        results, _ = run(cheater, rng.randrange(messages), change, "cheats")
        sums = opened(results)
        if sums is None:
            outcomes["refused"] += 1
        else:
            outcomes["right"] += 1
            np.testing.assert_array_equal(sums, right)
        for index, each in enumerate(results):
            if index != cheater and isinstance(each, DisagreeingHostsError):
                outcomes["named"] += 1
                assert cheater in each.pair
    print(outcomes)  # noqa: T201
    assert outcomes["refused"] > cheats / 2
    assert outcomes["named"] > cheats / 5


def test_every_flipped_bit_before_the_opening_is_noticed_by_both_others() -> None:
    """All of one host's messages, one after the other: both honest hosts name a pair that it is in."""
    _, messages = run(1, 10**9, "flip", "each")
    named = []
    for at in range(0, messages, 5):
        results, _ = run(1, at, "replace", "each")
        assert opened(results) is None or np.array_equal(opened(results), SECRET + noise_of("each"))
        pairs = [each.pair for each in (results[0], results[2]) if isinstance(each, DisagreeingHostsError)]
        assert all(1 in pair for pair in pairs)
        named.append(len(pairs))
    assert named.count(2) > len(named) / 2


def test_without_verification_a_wrong_sum_is_opened() -> None:
    """The mutant: hosts that believe each other."""

    def believing(channel, keys, number, recipe, size) -> Replicated:
        first, second = (derive_key(key, number, ABOUT) for key in keys)
        return draw(Party(channel, (first, second)), recipe, size)

    right = SECRET + noise_of("each")
    wrong = [opened(run(1, at, "flip", "each", believing)[0]) for at in range(3, 23)]
    assert any(sums is not None and not np.array_equal(sums, right) for sums in wrong)


@pytest.mark.parametrize("mutant", ["no buckets", "no digests"])
def test_a_check_left_out_is_told(monkeypatch: pytest.MonkeyPatch, mutant: str) -> None:
    if mutant == "no buckets":
        monkeypatch.setattr(VerifiedParty, "_check", lambda *_: None)
    else:
        monkeypatch.setattr(VerifiedParty, "_compare", lambda self, wrong=False: None)
    right = SECRET + noise_of("each")
    wrong = [opened(run(1, at, "flip", "each")[0]) for at in range(3, 23)]
    assert any(sums is not None and not np.array_equal(sums, right) for sums in wrong)


def test_the_same_numbers_as_by_hosts_that_trust_each_other() -> None:
    recipe = tabled_recipe("laplace", 3)
    trusting = all_three(make_keys("same"), lambda host: draw(host, recipe, 200))
    checking = all_three(make_keys("same"), lambda host: draw(host, recipe, 200), VerifiedParty)
    np.testing.assert_array_equal(joined(trusting, xor=False), joined(checking, xor=False))


def test_bad_triples_hit_their_gates_with_less_than_the_stated_chance() -> None:
    """By enumeration for small numbers, and for all numbers of bad gates."""
    for words in (1, 2, 5, 700, 10_000, 10**6):
        size = bucket_size(words)
        places = size * words + size
        tried = {bad for bad in (1, 2, words // 2, words - 1, words) if 1 <= bad <= words and size * bad < 10**4}
        worst = max(1 / comb(places, size * bad) for bad in tried)
        assert comb(places, size * words) == comb(places, size)
        assert worst <= 2.0**-40
    size, words = 2, 3  # all orders of 8 triples, in 6 of 8 places
    drawn = np.array([np.random.default_rng(seed).permutation(8) for seed in range(40_000)])
    for bad in (1, 2, 3):
        hit = np.sort(drawn[:, : size * bad], axis=1) == np.arange(size, size * (bad + 1))
        found, due = hit.all(axis=1).mean(), 1 / comb(8, size * bad)
        assert abs(found - due) < 5 * np.sqrt(due / 40_000)


def test_a_permutation_is_uniform_and_everybodys() -> None:
    first = [permutation(make_keys(seed)[0], 50)[0] for seed in range(3000)]
    counts = np.bincount(first, minlength=50)
    assert ((counts - 60) ** 2 / 60).sum() < 100  # 49 degrees of freedom
    np.testing.assert_array_equal(permutation(bytes(32), 1000), permutation(bytes(32), 1000))
    assert sorted(permutation(bytes(32), 1000)) == list(range(1000))


def test_openings_tell_nothing_of_what_is_checked() -> None:
    """Every bit that a host receives is fair over runs, the digests left out, although all inputs are zeros."""
    received = []
    for run_number in range(40):
        keys = list(make_keys("fixed"))
        keys[2] = make_keys(f"fresh {run_number}")[0]
        hosts, channels = parties((keys[0], keys[1], keys[2]), VerifiedParty)
        run_in_threads(*[partial(verify_zeros, host) for host in hosts])
        long = [payload[8:] for payload in channels[0].received if len(payload) > 8 * 300]
        received.append(np.frombuffer(b"".join(long), dtype=np.uint8))
    bits = np.unpackbits(np.array(received), axis=1)
    statistic = ((2.0 * bits.sum(axis=0) - len(bits)) ** 2 / len(bits)).sum()
    assert bits.shape[1] > 50_000
    assert abs(statistic - bits.shape[1]) < 5 * np.sqrt(2 * bits.shape[1])


def verify_zeros(host: VerifiedParty) -> None:
    zeros = Replicated(np.zeros(300, dtype=np.uint64), np.zeros(300, dtype=np.uint64))
    host.conjunction(zeros, zeros)
    host.verify()


class FalseOpening(VerifiedParty):
    """Host 0 tells host 1 another share of what is opened than host 2 vouches for."""

    def _open(self, words: Replicated) -> np.ndarray:
        if self.index == 0 and words.first.shape == (5,):
            words = Replicated(words.first ^ np.uint64(1), words.second)
        return super()._open(words)


@pytest.mark.parametrize("sound", [True, False])
def test_a_false_opening_draws_no_complaint_that_depends_on_secrets(
    monkeypatch: pytest.MonkeyPatch, sound: bool
) -> None:
    """What has to be 0 is not compared where an opening was told wrongly; if it were, it would tell bits of inputs."""
    if not sound:

        def at_once(self: VerifiedParty, wrong: bool = False) -> None:
            self._send(self.before, verified._words(self._told))
            self._send(self.next, verified._words(self._zeros))
            vouched, zeros = self._receive(self.next, 4), self._receive(self.before, 4)
            lied = vouched.tobytes() != self._heard.digest()
            self._agree(wrong or lied or zeros.tobytes() != self._due.digest())

        monkeypatch.setattr(VerifiedParty, "_compare", at_once)
    complaints = []
    honest = VerifiedParty._agree

    def noted(self: VerifiedParty, found: bool) -> None:
        if self.index == 2:
            complaints.append(found)
        honest(self, found)

    monkeypatch.setattr(VerifiedParty, "_agree", noted)
    for secret in range(12):
        rng = np.random.default_rng(secret)
        x, y = (split(rng.integers(0, 2**64, size=5, dtype=np.uint64), rng, xor=True) for _ in range(2))

        def task(host: VerifiedParty, x=x, y=y) -> None:
            host.conjunction(x[host.index], y[host.index])
            host.verify()

        with pytest.raises(CheatingHostError):
            all_three(make_keys(secret), task, FalseOpening)
    assert (not any(complaints)) == sound


def test_openings_without_a_mask_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VerifiedParty, "random", lambda self, *shape: Party.random(self, *shape).map(np.zeros_like))
    with pytest.raises(AssertionError):
        test_openings_tell_nothing_of_what_is_checked()


def test_a_complaint_to_one_host_alone_is_answered_by_both() -> None:
    """The others hear of it by its statement, and both name who complained."""

    class OneSided(VerifiedParty):
        def _agree(self, found: bool) -> None:
            if self.index == 2:
                self._send(0, np.array([1], dtype=np.uint64))
                self._send(1, np.array([0], dtype=np.uint64))
                for other in (0, 1):
                    self._receive(other, 1)
                return
            super()._agree(found)

    keys, ends = make_keys("one-sided"), wires(timeout=3.0)

    def host(end: Wire) -> ParleyError | None:
        own = keys[end.index], keys[(end.index + 1) % 3]
        try:
            if end.index == 2:
                first, second = (derive_key(key, 1, ABOUT) for key in own)
                draw(OneSided(end, (first, second)), GAUSSIAN, SIZE)
            else:
                draw_verified(end, own, 1, GAUSSIAN, SIZE)
        except ParleyError as error:
            return error
        return None

    first, second, _ = run_in_threads(*(partial(host, end) for end in ends), wires=ends)
    assert isinstance(first, DisagreeingHostsError)
    assert isinstance(second, DisagreeingHostsError)
    assert 2 in first.pair
    assert 2 in second.pair


def test_statements_that_are_none_are_refused() -> None:
    keys = (bytes(32), bytes(32))
    good = Statement(0, keys, {1: [], 2: []}, {1: [], 2: []})
    assert Statement.from_bytes(0, good.to_bytes(), 10) == good
    for payload in (
        b"",
        b"[]",
        PREFIX + b"[[],[],[]]",
        PREFIX + b'[["00","00"],[[Infinity,[]]],[]]',
        good.to_bytes()[:-1],
        PREFIX + bytes(1 << 21),
        PREFIX + b"[" * 100_000,
    ):
        assert Statement.from_bytes(0, payload, 10) is None
    assert Statement.from_bytes(1, good.to_bytes(), 10) is None


def test_keys_of_draws_differ_and_tell_nothing_of_the_session() -> None:
    session = make_keys("session")[0]
    derived = {derive_key(session, number, about) for number in range(50) for about in ("a", "b")}
    assert len(derived) == 100
    assert session not in derived


def test_numbers_are_those_of_the_definition() -> None:
    bits = np.random.default_rng(1).integers(0, 2, size=(planes_drawn(GAUSSIAN), 5), dtype=np.uint64)
    assert np.abs(numbers_of(GAUSSIAN, bits)).max() <= GAUSSIAN.recipe.reach


def test_a_party_that_failed_goes_on_no_more() -> None:
    hosts, channels = parties(make_keys("failed"), VerifiedParty)
    for channel in channels:
        channel._channel._timeout = 0.1
    with pytest.raises(ParleyError):
        draw(hosts[0], GAUSSIAN, 10)
    with pytest.raises(ExchangeError, match="new keys"):
        draw(hosts[0], GAUSSIAN, 10)
