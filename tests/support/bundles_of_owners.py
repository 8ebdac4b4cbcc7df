"""Three owners, three hosts in one process, small numbers."""

import os
from dataclasses import replace
from functools import partial

import numpy as np

from parley.errors import ParleyError
from parley.network.exchange.share_bundle import Shape, ShareBundle
from parley.network.hosting.host import Host
from parley.network.hosting.journal import Journal
from parley.network.hosting.proposal import HostAssignment, Turn, record_digest
from parley.privacy.sharing.party import Opening, open_words, run_in_threads
from parley.privacy.sharing.ring import Shares, last_share, to_bytes

TERMS = "a" * 64
CONTENT = "c" * 64
SHAPE = Shape("laplace", 4, 5)
RECORDS = {"bank-a": 10, "bank-b": 20, "bank-c": 30}
VALUES = {"bank-a": 1_000_000, "bank-b": 20_000_000, "bank-c": -300_000_000}


def make_assignment(quorum=3, rounds=4, shape=SHAPE):
    return HostAssignment(
        TERMS, "learner", ("h0", "h1", "h2"), rounds, {shape: 4}, lambda number: Turn(shape, RECORDS, quorum)
    )


def bundles(owner, value, number=1, content=CONTENT, terms=TERMS, shape=SHAPE, seeds=None) -> list[ShareBundle]:
    words = np.full(shape.size, value, dtype=np.int64).view(np.uint64)
    seeds = seeds or (os.urandom(32), os.urandom(32))
    shares = [*seeds, to_bytes(last_share(words, seeds))]
    pairs = [(shares[i], shares[(i + 1) % 3]) for i in range(3)]
    return [ShareBundle(terms, number, content, owner, RECORDS[owner], shape, pair) for pair in pairs]


def bundles_for_two(owner, value, number=1, content=CONTENT, shape=SHAPE) -> list[ShareBundle]:
    words = np.full(shape.size, value, dtype=np.int64).view(np.uint64)
    shares = Shares.from_words(words, bytes(32), content, hosts=2)
    pairs = [tuple(p if isinstance(p, bytes) else to_bytes(p) for p in shares.for_host(i)) for i in range(2)]
    return [ShareBundle(TERMS, number, content, owner, RECORDS[owner], shape, pair) for pair in pairs]


def total(openings) -> np.ndarray:
    return open_words([Opening(each.words, each.digest) for each in openings]).view(np.int64)


class Forger:
    """A hostile host as one victim sees it: it leaves out owners, and claims to have recorded whatever the victim
    has."""

    def __init__(self, own: Host, victim: Journal, left_out: set[str]) -> None:
        self._own, self._victim, self._left_out = own, victim, left_out

    def proposal(self, terms_hash, number, content):
        true = self._own.proposal(number, content)
        return replace(true, held=tuple(each for each in true.held if each.owner not in self._left_out))

    def record(self, terms_hash, number):
        return record_digest(self._victim.entry(terms_hash, number).record)


def attempts(*tasks):
    """What each of them returned or raised, all at once."""

    def guarded(task):
        try:
            return task()
        except ParleyError as refusal:
            return refusal

    return run_in_threads(*(partial(guarded, task) for task in tasks))
