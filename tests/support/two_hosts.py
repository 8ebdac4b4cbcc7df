"""Two hosts in threads that draw one noise, with randomness of the test's choice, and the same numbers in the open."""

from functools import partial

import numpy as np

from parley.privacy.mechanisms.exact_samplers import SeededWords
from parley.privacy.mechanisms.shared_noise import Law
from parley.privacy.mechanisms.tabled_recipe import PLACE_BITS, tabled_recipe
from parley.privacy.sharing import paired_noise
from parley.privacy.sharing.conversion import unpack_bits
from parley.privacy.sharing.oblivious import BaseTransfers
from parley.privacy.sharing.pair import agree_pair
from parley.privacy.sharing.paired_noise import INPUTS, draw_paired, make_paired_plan
from parley.privacy.sharing.party import run_in_threads, wires
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
