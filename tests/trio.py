"""Three owners, three hosts in one process, small numbers."""

import os

import numpy as np

from parley.exchange.parcel import Parcel, Shape, pack, to_bytes
from parley.hosting.duty import Duty, Turn
from parley.sharing.opening import Opening, open_words
from parley.sharing.ring import third_share

TERMS = "a" * 64
CONTENT = "c" * 64
SHAPE = Shape("laplace", 4, 5)
RECORDS = {"bank-a": 10, "bank-b": 20, "bank-c": 30}


def make_duty(quorum=3, rounds=4, shape=SHAPE):
    return Duty(TERMS, "learner", ("h0", "h1", "h2"), rounds, {shape: 4}, lambda number: Turn(shape, RECORDS, quorum))


def parcels(owner, value, number=1, content=CONTENT, terms=TERMS, shape=SHAPE, seeds=None) -> list[Parcel]:
    words = np.full(shape.size, value, dtype=np.int64).view(np.uint64)
    seeds = seeds or (os.urandom(32), os.urandom(32))
    shares = [*seeds, to_bytes(third_share(words, seeds))]
    return pack(terms, number, content, owner, RECORDS[owner], shape, shares)


def total(openings) -> np.ndarray:
    return open_words([Opening(each.words, each.digest) for each in openings]).view(np.int64)
