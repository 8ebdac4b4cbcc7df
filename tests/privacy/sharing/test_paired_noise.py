"""Two hosts draw one noise: its law, its arithmetic, and that neither can tell."""

import dataclasses
import decimal
import hashlib
import threading
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chi2

from parley.errors import ExchangeError
from parley.privacy.mechanisms import shared_noise
from parley.privacy.mechanisms import tabled_recipe as tabled_recipes
from parley.privacy.mechanisms.exact_samplers import SeededWords
from parley.privacy.mechanisms.shared_noise import Law, discrete_gaussian, draw_low_plainly
from parley.privacy.mechanisms.tabled_recipe import PLACE_BITS, PLACES, AliasTable, TabledRecipe, tabled_recipe
from parley.privacy.sharing import oblivious, paired_noise
from parley.privacy.sharing import pair as pair_module
from parley.privacy.sharing.circuits import run_circuit
from parley.privacy.sharing.conversion import unpack_bits
from parley.privacy.sharing.oblivious import (
    BASE_BYTES,
    BaseTransfers,
    Receiver,
    Sender,
    Strings,
    hash_rows,
    rows_of,
    unknown_key,
)
from parley.privacy.sharing.pair import Pair, agree_pair
from parley.privacy.sharing.paired_noise import INPUTS, draw_paired, make_paired_plan
from parley.privacy.sharing.party import Counted, run_in_threads, wires
from parley.privacy.sharing.ring import Keystream

LAWS = [tabled_recipe(Law.LAPLACE, 3), tabled_recipe(Law.GAUSSIAN, 3)]
WIDE = [tabled_recipe(law, exponent) for law in Law for exponent in (3, 12, 48)]


def seeded_bytes(seed):
    words = SeededWords(seed.encode())
    return lambda size: words(-(-size // 8)).tobytes()[:size]


def drawn_by(seeds, recipe, size, channels=None):
    """Both hosts' shares; each host's randomness follows from its seed."""
    ends = wires(hosts=2)
    watched = ends if channels is None else [channels(end) for end in ends]

    def host(end, seed):
        pair = agree_pair(end, seeded_bytes(seed))
        return draw_paired(pair, recipe, size, SeededWords(f"low {seed}".encode()))

    return run_in_threads(*(partial(host, *each) for each in zip(watched, seeds, strict=True)), wires=ends)


def opened(recipe, size, seed="law"):
    first, second = drawn_by((f"{seed} 0", f"{seed} 1"), recipe, size)
    return (first + second).view(np.int64)


def in_the_clear(seeds, recipe, size):
    """The same numbers by the definition, from both hosts' random words."""
    total, streams = np.zeros(size, dtype=np.int64), []
    for index, seed in enumerate(seeds):
        draw = seeded_bytes(seed)
        BaseTransfers(index, draw)
        streams.append(Keystream(draw(32)))
        total += recipe.draw_low(size, SeededWords(f"low {seed}".encode()))
    plan, numbers = make_paired_plan(recipe), []
    for start in range(0, size, paired_noise.BATCH_COORDINATES):
        count = min(paired_noise.BATCH_COORDINATES, size - start)
        words = -(-count // 64)
        inputs = streams[0].words(INPUTS, words) ^ streams[1].words(INPUTS, words)
        for index, stream in enumerate(streams):  # what triples and choices use up
            stream.words(plan.circuit.gates * words + (2 * PLACE_BITS * words if index else 0))
        bits = unpack_bits(inputs, count).astype(np.uint64)
        place = sum(bits[k] << np.uint64(k) for k in range(PLACE_BITS)).astype(np.int64)
        word = np.zeros(count, dtype=np.uint64)
        for k in range(PLACE_BITS, INPUTS - 1):
            word = word << np.uint64(1) | bits[k]
        sign = 1 - 2 * bits[-1].astype(np.int64)
        numbers.append(recipe.recipe.top * sign * recipe.top.numbers(place, word))
    return total + np.concatenate(numbers)


def law_of(recipe: TabledRecipe):
    """(the smallest number, the probabilities from there on) of a number with one low part, in closed form."""
    if recipe.recipe.law == Law.LAPLACE:
        q = np.exp(-1 / recipe.recipe.scale)
        return -600, (1 - q) / (1 + q) * q ** np.abs(np.arange(-600, 601))
    step, places = recipe.recipe.step, np.arange(-92, 93)
    top = np.exp(-(places**2) / 200)
    law = np.zeros(184 * step + 1)
    law[::step] = top / top.sum()
    for _ in range(14):
        law = np.convolve(law, np.full(step, 1 / step))
    return -92 * step - 7 * (step - 1), law


def low_law(recipe: TabledRecipe):
    """The same of a low part: of 14 uniform numbers, or of the low digits of two geometric ones."""
    top = recipe.recipe.top
    if recipe.recipe.law == Law.GAUSSIAN:
        law = np.ones(1)
        for _ in range(14):
            law = np.convolve(law, np.full(top, 1 / top))
        return -7 * (top - 1), law
    one = np.exp(-np.arange(top) / recipe.recipe.scale)
    one /= one.sum()
    return -(top - 1), np.convolve(one, one[::-1])


def p_value(drawn, start, law):
    """Of Pearson's chi-square, cells of less than 25 expected draws taken together at either end."""
    if drawn.min() < start or drawn.max() >= start + law.size:
        return 0.0
    expected = law * drawn.size
    kept = np.flatnonzero(expected >= 25)
    counts = np.bincount(drawn - start, minlength=law.size)
    ends = [each for each in (slice(0, kept[0]), slice(kept[-1] + 1, None)) if law[each].size]
    cells = [*(slice(k, k + 1) for k in range(kept[0], kept[-1] + 1)), *ends]
    seen, due = (np.array([a[c].sum() for c in cells], dtype=float) for a in (counts, expected))
    return float(chi2.sf(((seen - due) ** 2 / due).sum(), len(cells) - 1))


def whole_law(recipe):
    """The law of the whole sum: one number of the recipe's law and a second low part."""
    start, law = law_of(recipe)
    low_start, low = low_law(recipe)
    return start + low_start, np.convolve(law, low)


@pytest.mark.parametrize("recipe", LAWS, ids=["laplace", "gaussian"])
def test_a_million_draws_in_the_clear_have_the_law(recipe):
    rng = np.random.default_rng(0)
    place, word = rng.integers(0, PLACES, 10**6), rng.integers(0, 2**64, 10**6, dtype=np.uint64)
    drawn = recipe.recipe.top * rng.choice([-1, 1], 10**6) * recipe.top.numbers(place, word)
    one_low = drawn + recipe.draw_low(10**6, SeededWords(b"low"))
    assert p_value(one_low, *law_of(recipe)) > 1e-3
    low = draw_low_plainly(recipe.recipe, (10**6,), rng)
    assert p_value(low, *low_law(recipe)) > 1e-3  # as studies draw it
    assert p_value(one_low + low, *whole_law(recipe)) > 1e-3
    assert p_value(drawn + 2 * low, *law_of(recipe)) < 1e-6
    assert np.abs(low).max() <= recipe.recipe.low_reach
    assert 0.9 < low.var() / recipe.recipe.low_variance < 1  # rounded up


@pytest.mark.parametrize("recipe", LAWS, ids=["laplace", "gaussian"])
def test_draws_through_the_protocol_have_the_law(recipe):
    drawn = opened(recipe, 20_000)
    assert p_value(drawn, *whole_law(recipe)) > 1e-3
    error = np.sqrt(5 / drawn.size)
    due = recipe.recipe.variance + recipe.recipe.low_variance
    assert abs(np.mean(drawn.astype(float) ** 2) / due - 1) < 6 * error


def test_wrong_tables_are_told():
    recipe = LAWS[0]
    for mutant in (
        dataclasses.replace(recipe, top=AliasTable((0,) * PLACES, recipe.top.aliases)),
        dataclasses.replace(recipe, top=AliasTable(recipe.top.thresholds, (0,) * PLACES)),
        dataclasses.replace(recipe, recipe=dataclasses.replace(recipe.recipe, exponent=2)),
    ):
        assert p_value(opened(mutant, 20_000), *whole_law(recipe)) < 1e-6


@pytest.mark.parametrize("recipe", WIDE, ids=[f"{each.recipe.law}-{each.recipe.exponent}" for each in WIDE])
def test_the_protocol_computes_the_definition(recipe):
    seeds = ("one", "other")
    first, second = drawn_by(seeds, recipe, 3_500)
    assert (first + second).view(np.int64).tolist() == in_the_clear(seeds, recipe, 3_500).tolist()


def test_the_table_is_exact():
    """Every chance, added up in whole numbers, is the law's to 2^-70."""
    for chances in (tabled_recipes._gaussian_chances(), tabled_recipes._laplace_chances()):
        made = AliasTable.from_chances(chances)
        thresholds, aliases = made.thresholds, made.aliases
        found = [0] * PLACES
        for place, (threshold, alias) in enumerate(zip(thresholds, aliases, strict=True)):
            found[place] += threshold
            found[alias] += 2**64 - threshold
        assert sum(found) == PLACES * 2**64
        assert all(abs(int(chance * 2**71) - each) <= 1 for chance, each in zip(chances[1:], found[1:], strict=False))
        assert abs(int(chances[0] * 2**71) - found[0]) <= PLACES
        assert not any(found[len(chances) :])


class Recorded(Counted):
    """A channel that remembers what this host received."""

    def __init__(self, channel):
        super().__init__(channel)
        self.received = []

    def receive(self, source):
        self.received.append(super().receive(source))
        return self.received[-1]


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


@pytest.mark.parametrize("digits", [6, 12])
def test_tables_do_not_depend_on_the_precision_of_the_callers_decimals(digits):
    made = [tabled_recipe(law, 9) for law in Law]
    for cached in (tabled_recipe, shared_noise.laplace_recipe, shared_noise.gaussian_recipe, discrete_gaussian):
        cached.cache_clear()
    with decimal.localcontext(prec=digits):
        assert [tabled_recipe(law, 9) for law in Law] == made


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


def test_wrong_messages_are_refused_and_a_failed_pair_goes_no_further():
    ends = wires(timeout=0.2, hosts=2)
    pairs = run_in_threads(*(partial(agree_pair, end) for end in ends))
    ends[1].send(0, b"short")
    with pytest.raises(ExchangeError, match="the host sent a wrong message"):
        draw_paired(pairs[0], LAWS[0], 3)
    with pytest.raises(ExchangeError, match="begin a new session"):
        draw_paired(pairs[0], LAWS[0], 3)
    with pytest.raises(ExchangeError, match="wrong length"):
        BaseTransfers(0, seeded_bytes("keys")).streams(b"short")
    with pytest.raises(ExchangeError, match="not valid"):
        BaseTransfers(0, seeded_bytes("keys")).streams(bytes(BASE_BYTES))


def test_the_circuit_is_small_and_no_message_is_too_long():
    gates = {make_paired_plan(recipe).circuit.gates for recipe in WIDE}
    assert gates <= set(range(300, 320))
    depths = {len(make_paired_plan(recipe).circuit.rounds) for recipe in WIDE}
    assert max(depths) <= 13
    lanes = paired_noise.BATCH_COORDINATES // 64
    assert 128 * 8 * max(pair_module.PIECE_WORDS, 2 * PLACE_BITS * lanes) < 1 << 22  # columns of transfers
    assert 8 * 64 * 2 * PLACE_BITS * lanes < 1 << 22  # what is sent for sums
    widest = max(step.left.size for recipe in WIDE for step in make_paired_plan(recipe).circuit.rounds)
    assert 2 * 8 * widest * lanes < 1 << 22
    assert all(a < b for a, b in pairwise(sorted(recipe.recipe.distance for recipe in WIDE)) if a != b)
    assert all(recipe.recipe.distance < 2**-58 for recipe in WIDE)
