"""The end of a question: each host says its share of the noisy sum, and what it holds of the next host's.

A host sums the owners' shares and the noise's with `+` of `Replicated` and sends `opening_of` the sum, once (that is
its keeper's duty, not this file's). Whoever gets all three has the sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parley.errors import ContradictionError
from parley.privacy.mechanisms.random_words import Words
from parley.privacy.sharing.channel import HOSTS
from parley.privacy.sharing.ring import Replicated, digest


class LyingHostError(ContradictionError):
    """Hosts say different things about a share that both of them
    hold: `pairs` of them, and `host` if only one can have lied alone."""

    def __init__(self, pairs: tuple[tuple[int, int], ...]) -> None:
        self.pairs = pairs
        common = set.intersection(*(set(p) for p in pairs))
        self.host = common.pop() if len(common) == 1 else None
        said = "; ".join(f"hosts {a} and {b} disagree about share {b}" for a, b in pairs)
        super().__init__(f"opening: {said}; the sum is not used, ask the hosts' operators")


@dataclass(frozen=True)
class Opening:
    """Host i's words: share i in full, and the digest of share i + 1."""

    words: Words
    digest: bytes


def opening_of(total: Replicated) -> Opening:
    """What a host sends of its shares of the noisy sum."""
    return Opening(total.first, digest(total.second))


def open_words(openings: Sequence[Opening]) -> Words:
    """The sum, from the openings of hosts 0, 1 and 2, or of two hosts.

    Formal guarantee: if at most one host says something else than what it holds, the words are the sum of the three
    shares, or `LyingHostError` names the pairs that disagree, with the liar in each (SHA-256 being free of collisions).
    Two hosts hold no share in common: that they recorded the same is all that is compared.
    """
    if len(openings) == HOSTS - 1:
        if len({each.digest for each in openings}) > 1:
            raise ContradictionError("opening: the two hosts recorded different things; the sum is not used")
        return np.asarray(openings[0].words + openings[1].words)
    first, second, third = openings
    pairs = tuple(
        (i, (i + 1) % HOSTS) for i in range(HOSTS) if openings[i].digest != digest(openings[(i + 1) % HOSTS].words)
    )
    if pairs:
        raise LyingHostError(pairs)
    return np.asarray(first.words + second.words + third.words)
