"""Compression of what was released: of a noisy answer only those k numbers travel that differ most from what the asker
holds already.

What stays behind stays in the difference, and comes up the larger the longer it waits: error feedback, with the asker's
own numbers in the place of a memory that no owner has.

Formal guarantee: post-processing. An answer is cut after its noise was added and its debit written, by a rule about
that answer and the question alone; no sensitivity and no debit changes.
"""

import numpy as np

from parley.errors import Malformed
from parley.validate import Floats


def travelling(top_k: int | None, parameters: int) -> int:
    """How many numbers of P travel, each with its place; 0: all of them, where that is no longer, or nobody asks for
    less.

    >>> travelling(10, 200), travelling(100, 200), travelling(None, 200)
    (10, 0, 0)
    """
    return top_k if top_k is not None and 2 * top_k < parameters else 0


def packed(value: Floats, held: Floats, k: int) -> Floats:
    """[..., 2 k] of vectors [..., P]: the increasing places of the k numbers that differ most from those held, the
    first of equal ones, then the numbers there.

    >>> packed(np.array([1.0, 5.0, 0.0, -3.0]), np.array([1.0, 1.0, 1.0, -5.0]), 2).tolist()
    [1.0, 3.0, 5.0, -3.0]
    """
    places = np.sort(np.argsort(-np.abs(value - held), axis=-1, kind="stable")[..., :k], axis=-1)
    return np.concatenate([places.astype(np.float64), np.take_along_axis(value, places, axis=-1)], axis=-1)


def unpacked(sent: Floats, held: Floats) -> Floats:
    """What is held [..., P], with the numbers that were sent in their places.

    >>> unpacked(np.array([1.0, 3.0, 5.0, -3.0]), np.array([1.0, 1.0, 1.0, -5.0])).tolist()
    [1.0, 5.0, 1.0, -3.0]
    """
    places, values = np.split(sent, 2, axis=-1)
    size = held.shape[-1]
    sound = (places == np.floor(places)).all() and (np.diff(places, axis=-1) > 0).all()
    if not (sound and places.min() >= 0 and places.max() < size):
        raise Malformed(f"places: expected increasing whole numbers from 0, below {size}")
    found: Floats = np.array(held)
    np.put_along_axis(found, places.astype(np.intp), values, axis=-1)
    return found
