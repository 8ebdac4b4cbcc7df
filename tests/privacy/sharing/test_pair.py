"""What one of two hosts sees while both draw one noise: nothing of the noise, and nothing is used twice."""

import hashlib
import threading
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from three_hosts import Recorded
from two_hosts import LAWS, drawn_by, seeded_bytes

from parley.errors import ExchangeError
from parley.privacy.mechanisms.exact_samplers import SeededWords
from parley.privacy.mechanisms.tabled_recipe import PLACE_BITS
from parley.privacy.sharing import oblivious, paired_noise
from parley.privacy.sharing import pair as pair_module
from parley.privacy.sharing.circuits import run_circuit
from parley.privacy.sharing.conversion import unpack_bits
from parley.privacy.sharing.oblivious import Receiver, Sender, Strings
from parley.privacy.sharing.pair import Pair, agree_pair
from parley.privacy.sharing.paired_noise import INPUTS, draw_paired, make_paired_plan
from parley.privacy.sharing.party import run_in_threads, wires
from parley.privacy.sharing.ring import Keystream

RUNS, SIZE = 300, 64


def pair_without_keys(end, private, streams, choices):
    """A host whose first transfers were made from these seeds instead of X25519."""
    place = end.index
    both = [
        [Keystream(hashlib.sha256(f"{streams} {1 - place} {k} {c}".encode()).digest()) for k in range(128)]
        for c in (0, 1)
    ]
    picked = np.unpackbits(np.frombuffer(seeded_bytes(choices)(16), dtype=np.uint8), bitorder="little")
    known = [Keystream(hashlib.sha256(f"{streams} {place} {k} {c}".encode()).digest()) for k, c in enumerate(picked)]
    return Pair(end, (Sender(picked, known), Receiver(*both)), Keystream(seeded_bytes(private)(32)))


def views(recipe, host):
    """(noise less this host's low part [runs, size], bits that it received [runs, bits], its shares [runs, size]), its
    own randomness being the same in all runs."""
    noise, received, shares = [], [], []
    own_low = recipe.draw_low(SIZE, SeededWords(b"low own")).astype(float)
    for run in range(RUNS):
        seeds = ["own", "own"]
        seeds[1 - host] = f"fresh {run}"
        channels = [Recorded(end) for end in wires(hosts=2)]

        def draw(end, seeds=seeds, run=run):
            seed = seeds[end.index]
            pair = pair_without_keys(end, f"private {seed}", f"streams {run}", f"choices {seed}")
            return draw_paired(pair, recipe, SIZE, SeededWords(f"low {seed}".encode()))

        made = run_in_threads(*(partial(draw, end) for end in channels))
        noise.append((made[0] + made[1]).view(np.int64) - own_low)
        shares.append(made[host])
        received.append(b"".join(payload[8:1_000] for payload in channels[host].received))
    bits = np.unpackbits(np.array([np.frombuffer(each, dtype=np.uint8) for each in received]), axis=1)
    return np.array(noise), bits, np.array(shares)


def suspicious(noise, bits):
    """The largest |correlation| of a received bit with the first coordinate's noise, and of a bit's share of ones with
    a half, in standard errors."""
    y = (noise[:, 0] - noise[:, 0].mean()) / noise[:, 0].std()
    signs = 2.0 * bits - 1
    return np.abs(y @ signs).max() / np.sqrt(len(y)), np.abs(signs.mean(axis=0)).max() * np.sqrt(len(y))


@pytest.mark.parametrize("host", [0, 1])
def test_what_a_host_receives_tells_nothing_of_the_noise(host):
    noise, bits, shares = views(LAWS[1], host)
    assert max(suspicious(noise, bits)) < 6.5
    assert abs(np.corrcoef(shares[:, 0].view(np.int64).astype(float), noise[:, 0])[0, 1]) < 5 / np.sqrt(RUNS)
    assert abs(noise.var() / LAWS[1].recipe.variance - 1) < 6 * np.sqrt(2 / noise.size)  # one whole noise is left


@pytest.mark.parametrize("mask", ["triples", "sums"])
def test_a_missing_mask_is_told(monkeypatch, mask):
    if mask == "triples":
        zeros = lambda self, words: (np.zeros(words, dtype=np.uint64),) * 3  # noqa: E731
        monkeypatch.setattr(Pair, "_triples", zeros)
    else:
        monkeypatch.setattr(oblivious, "hash_rows", lambda rows: np.zeros_like(rows))
    noise, bits, _ = views(LAWS[1], 1)
    assert max(suspicious(noise, bits)) > 9


class IdealPair(Pair):
    """A host whose triples, transfers and own random words a dealer chose, and whose messages are remembered."""

    def __init__(self, channel, triples, ends, private):
        super().__init__(channel, ends, None)
        self._dealt, self._own = triples, private

    def _triples(self, words):
        return tuple(each.reshape(-1) for each in self._dealt)

    def random(self, *shape):
        return self._own.reshape(shape)


class IdealSender:
    def __init__(self, first, second):
        self._strings = Strings(*(np.stack([np.zeros_like(each), each], axis=1) for each in (first, second)))

    def extend(self, columns):
        return self._strings


class IdealReceiver:
    def __init__(self, first, second):
        self._first, self._second = first, second

    def extend(self, choices):
        bits = unpack_bits(choices[None], 64 * choices.size)[0].astype(bool)
        chosen = np.where(bits, self._second, self._first)
        return np.zeros((128, choices.size), dtype=np.uint64), np.stack([np.zeros_like(chosen), chosen], axis=1)


LANE_WORDS = 2


class Dealt:
    """Inputs, triples, strings and choices of both hosts: (share of host 0, share of host 1) each."""

    def __init__(self, recipe, seed):
        words = SeededWords(seed.encode())
        self.recipe, self.plan = recipe, make_paired_plan(recipe)
        gates, outputs = self.plan.circuit.gates, len(self.plan.weights)
        self.inputs = [words(INPUTS * LANE_WORDS).reshape(INPUTS, LANE_WORDS) for _ in (0, 1)]
        a, b, c = ([words(gates * LANE_WORDS).reshape(gates, LANE_WORDS) for _ in (0, 1)] for _ in range(3))
        c[1] = ((a[0] ^ a[1]) & (b[0] ^ b[1])) ^ c[0]
        self.triples = [list(each) for each in zip(a, b, c, strict=True)]
        self.strings = [words(64 * LANE_WORDS * outputs) for _ in (0, 1)]
        self.choices = words(outputs * LANE_WORDS)

    def run(self):
        """(the numbers, what each host received, the shares of the output planes)."""
        ends = [Recorded(end) for end in wires(hosts=2)]
        hosts = [
            IdealPair(ends[0], self.triples[0], (IdealSender(*self.strings), None), None),
            IdealPair(ends[1], self.triples[1], (None, IdealReceiver(*self.strings)), self.choices),
        ]

        def draw(host):
            bits = host.evaluate(self.plan.circuit, self.inputs[host.index])
            return bits, host.weighted_sum(bits, self.plan.weights)

        made = run_in_threads(*(partial(draw, host) for host in hosts))
        return (made[0][1] + made[1][1]).view(np.int64), [end.received for end in ends], [bits for bits, _ in made]

    def explained(self, host):
        """The same view of `host` from other inputs of the other one: its secrets are chosen to fit the messages."""
        _, _, bits = self.run()
        other, fitting = 1 - host, Dealt(self.recipe, "others")
        fitting.inputs[host], fitting.triples[host] = self.inputs[host], self.triples[host]
        self._fit_triples(fitting, other)
        outputs = fitting.run()[2]
        size = 64 * LANE_WORDS
        if host == 0:  # it sees choices behind x1, and knows both strings
            fitting.strings, fitting.choices = self.strings, self.choices ^ (bits[1] ^ outputs[1]).reshape(-1)
            return fitting
        chosen = unpack_bits(self.choices[None], self.choices.size * 64)[0].astype(bool)
        x1 = unpack_bits(bits[1], size).reshape(-1).astype(bool)
        before, after = (unpack_bits(each[0], size).reshape(-1).astype(np.uint64) for each in (bits, outputs))
        moved = np.uint64(2) * np.repeat(self.plan.weights, size) * (after - before)
        by_zero, by_one = (np.where(chosen ^ x1, *self.strings[::step]) for step in (-1, 1))
        by_zero, by_one = np.where(x1, by_zero + moved, by_zero), np.where(x1, by_one, by_one - moved)
        fitting.choices = self.choices
        fitting.strings = [np.where(chosen ^ x1, *pair) for pair in ((by_one, by_zero), (by_zero, by_one))]
        return fitting

    def _fit_triples(self, fitting, other):
        """Triples with which `other` sends the same messages from its other inputs."""
        circuit, used = self.plan.circuit, 0
        own, theirs = [np.zeros((circuit.wires + 1, LANE_WORDS), dtype=np.uint64) for _ in range(2)]
        shares = [own, theirs]  # of `other`, in this run and in the fitting one
        shares[0][: circuit.inputs], shares[1][: circuit.inputs] = self.inputs[other], fitting.inputs[other]
        host_shares = np.zeros_like(own)
        host_shares[: circuit.inputs] = self.inputs[1 - other]
        fitted = [np.zeros_like(each) for each in self.triples[other]]

        def conjunctions(step, wires):
            nonlocal used
            now, made = slice(used, used + step.left.size), slice(step.start, step.start + step.left.size)
            used += step.left.size
            mine, new, host = wires
            a, b, c = (each[now] for each in self.triples[other])
            a_host, b_host, c_host = (each[now] for each in self.triples[1 - other])
            sent_d, sent_e = mine[step.left] ^ a, mine[step.right] ^ b
            d, e = sent_d ^ host[step.left] ^ a_host, sent_e ^ host[step.right] ^ b_host
            fitted[0][now], fitted[1][now] = new[step.left] ^ sent_d, new[step.right] ^ sent_e
            fitted[2][now] = ((a_host ^ fitted[0][now]) & (b_host ^ fitted[1][now])) ^ c_host
            both = d & e
            mine[made] = c ^ (d & b) ^ (e & a) ^ (both if other == 0 else 0)
            new[made] = fitted[2][now] ^ (d & fitted[1][now]) ^ (e & fitted[0][now]) ^ (both if other == 0 else 0)
            host[made] = c_host ^ (d & b_host) ^ (e & a_host) ^ (both if other == 1 else 0)

        run_circuit(circuit, [own, theirs, host_shares], [other == 0, other == 0, other == 1], conjunctions)
        fitting.triples[other] = fitted


@pytest.mark.parametrize("host", [0, 1])
@pytest.mark.parametrize("recipe", LAWS, ids=["laplace", "gaussian"])
def test_every_view_fits_other_numbers(recipe, host):
    """For any other input of the other host there are secrets of it with which this host sees the same, bit for bit."""
    dealt = Dealt(recipe, "dealt")
    numbers, received, _ = dealt.run()
    others, seen, _ = dealt.explained(host).run()
    assert received[host] == seen[host]
    assert len(received[host]) > 10
    assert (numbers != others).mean() > 0.7  # small Laplace numbers are often equal


@pytest.mark.parametrize("mutant", ["one triple for all", "choices from the planes", "no choices"])
def test_a_view_without_a_mask_does_not_fit(monkeypatch, mutant):
    if mutant == "one triple for all":
        whole = IdealPair._triples
        monkeypatch.setattr(
            IdealPair,
            "_triples",
            lambda self, words: tuple(
                np.tile(each.reshape(-1)[:LANE_WORDS], words // LANE_WORDS) for each in whole(self, words)
            ),
        )
    else:
        kept = Pair._choose

        def choose(self, planes, weights):
            self._own = np.roll(planes, 1, axis=0) if mutant == "choices from the planes" else np.zeros_like(planes)
            return kept(self, planes, weights)

        monkeypatch.setattr(Pair, "_choose", choose)
    dealt = Dealt(LAWS[0], "dealt")
    received = dealt.run()[1]
    assert received[0] != dealt.explained(0).run()[1][0]


def once(monkeypatch, recipe=LAWS[0], size=700):
    """What a session of several batches used: stretches of streams by key, rows hashed and private words by host."""
    stretches, rows, lock = [], {}, threading.Lock()
    begin, give, hashed = Keystream.__init__, Keystream.words, oblivious.hash_rows

    def begun(self, key, purpose=0):
        begin(self, key, purpose)
        self.about = key, purpose

    def given(self, *shape):
        start = self.given
        made = give(self, *shape)
        with lock:
            stretches.append((threading.get_ident(), self.about, start, self.given))
        return made

    def hash_and_note(some):
        with lock:
            rows.setdefault(threading.get_ident(), []).append(some)
        return hashed(some)

    monkeypatch.setattr(Keystream, "__init__", begun)
    monkeypatch.setattr(Keystream, "words", given)
    monkeypatch.setattr(oblivious, "hash_rows", hash_and_note)
    monkeypatch.setattr(paired_noise, "BATCH_COORDINATES", 256)
    monkeypatch.setattr(pair_module, "PIECE_WORDS", 500)
    drawn_by(("once 0", "once 1"), recipe, size)
    return stretches, rows


def used_twice(stretches, rows):
    """Whether a host took a stretch of a stream, or hashed a row, twice."""
    by_stream = {}
    for host, about, start, end in stretches:
        by_stream.setdefault((host, about), []).append((start, end))
    overlaps = any(later[0] < earlier[1] for found in by_stream.values() for earlier, later in pairwise(sorted(found)))
    return overlaps or any(
        len(np.unique(np.concatenate(found), axis=0)) < sum(map(len, found)) for found in rows.values()
    )


def test_no_word_and_no_row_is_used_twice(monkeypatch):
    stretches, rows = once(monkeypatch)
    assert len(rows) == 2
    assert not used_twice(stretches, rows)
    gates, words = make_paired_plan(LAWS[0]).circuit.gates, 4 + 4 + 3
    own = private(stretches)
    spent = sorted(
        sum(end - start for host, about, start, end in stretches if host == each and (host, about) in own)
        for each in rows
    )
    assert spent == [words * (INPUTS + gates), words * (INPUTS + gates + 2 * PLACE_BITS)]


def private(stretches):
    """Streams that one host alone took from, the most by far: its own random words."""
    by_key = {}
    for host, about, start, end in stretches:
        by_key.setdefault(about, {}).setdefault(host, 0)
        by_key[about][host] += end - start
    alone = [(next(iter(hosts)), about, *hosts.values()) for about, hosts in by_key.items() if len(hosts) == 1]
    most = {host: max(size for each, _, size in alone if each == host) for host, *_ in alone}
    return {(host, about) for host, about, size in alone if size == most[host]}


def test_streams_that_begin_again_are_told(monkeypatch):
    whole = oblivious._planes

    def again(streams, words):
        for stream in streams:
            Keystream.__init__(stream, *stream.about)
        return whole(streams, words)

    monkeypatch.setattr(oblivious, "_planes", again)
    assert used_twice(*once(monkeypatch))


def test_wrong_messages_are_refused_and_a_failed_pair_goes_no_further():
    ends = wires(hosts=2)
    pairs = run_in_threads(*(partial(agree_pair, end) for end in ends), wires=ends)
    ends[1].send(0, b"short")
    for fault in ("the host sent a wrong message", "begin a new session"):
        with pytest.raises(ExchangeError, match=fault):
            draw_paired(pairs[0], LAWS[0], 3)
