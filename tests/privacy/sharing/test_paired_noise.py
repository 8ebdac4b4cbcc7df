"""Two hosts draw one noise: its law, its arithmetic, and that neither can tell."""

import dataclasses
import hashlib
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chi2

from parley.errors import ExchangeError
from parley.privacy.mechanisms import paired_recipe as recipes
from parley.privacy.mechanisms.exact_samplers import SeededWords
from parley.privacy.mechanisms.paired_recipe import INDEX_BITS, PLACES, PairedRecipe, paired_recipe
from parley.privacy.mechanisms.shared_noise import Law, draw_low_plainly
from parley.privacy.sharing import oblivious, paired_noise
from parley.privacy.sharing.oblivious import (
    BASE_BYTES,
    BaseTransfers,
    Receiver,
    Sender,
    hash_rows,
    rows_of,
    unknown_key,
)
from parley.privacy.sharing.pair import Pair, agree_pair
from parley.privacy.sharing.paired_noise import INPUTS, draw_paired, make_paired_plan
from parley.privacy.sharing.party import Counted, run_in_threads, wires
from parley.privacy.sharing.ring import Keystream
from parley.privacy.sharing.secret_noise import unpack_bits

LAWS = [paired_recipe(Law.LAPLACE, 3), paired_recipe(Law.GAUSSIAN, 3)]
WIDE = [paired_recipe(law, exponent) for law in Law for exponent in (3, 12, 48)]


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
            stream.words(plan.circuit.gates * words + (2 * INDEX_BITS * words if index else 0))
        bits = unpack_bits(inputs, count).astype(np.uint64)
        place = sum(bits[k] << np.uint64(k) for k in range(INDEX_BITS)).astype(np.int64)
        word = np.zeros(count, dtype=np.uint64)
        for k in range(INDEX_BITS, INPUTS - 1):
            word = word << np.uint64(1) | bits[k]
        sign = 1 - 2 * bits[-1].astype(np.int64)
        numbers.append(recipe.recipe.top * sign * recipe.magnitudes(place, word))
    return total + np.concatenate(numbers)


def law_of(recipe: PairedRecipe):
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


def low_law(recipe: PairedRecipe):
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
    drawn = recipe.recipe.top * rng.choice([-1, 1], 10**6) * recipe.magnitudes(place, word)
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
        dataclasses.replace(recipe, thresholds=(0,) * PLACES),
        dataclasses.replace(recipe, aliases=(0,) * PLACES),
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
    for chances in (recipes._gaussian_chances(), recipes._laplace_chances()):
        thresholds, aliases = recipes.alias_table(chances)
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
    assert (hash_rows(rows_of(planes)) != hash_rows(rows_of(planes) ^ np.uint64(1))).any(axis=1).all()


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
    longest = 128 * 8 * max(gates) * paired_noise.BATCH_COORDINATES // 64
    assert longest < 1 << 22
    assert all(a < b for a, b in pairwise(sorted(recipe.recipe.distance for recipe in WIDE)) if a != b)
    assert all(recipe.recipe.distance < 2**-58 for recipe in WIDE)
