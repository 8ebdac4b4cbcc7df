"""An owner's answer in three shares, any two of which say nothing: two seeds, and what the words they stand for leave of it.

What an owner writes down is the seeds and a tag of the third share. The three shares together are the exact answer, which would then lie
in every backup of its ledger; from seeds and table the third share can be computed again. A plain digest would let whoever reads a backup
try out guesses of the answer, so the tag has a key, which lies beside the ledger and is in no backup.
"""

import hmac
import os
from dataclasses import dataclass

import numpy as np

from parley.errors import VoidRound
from parley.mechanisms.random_words import Words
from parley.sharing.ring import third_share, to_bytes

SEED = 32  # bytes


@dataclass(frozen=True, eq=False)
class Shares:
    """x = expand(seed 0) + expand(seed 1) + third, modulo 2^64.

    Formal guarantee: the seeds are fresh and used for this one vector, so the three parts that one host gets - two of seed 0, seed 1 and
    third - tell nothing of x to anybody who cannot tell AES-256 in counter mode from random words.
    """

    seeds: tuple[bytes, bytes]
    third: Words

    @classmethod
    def of(cls, words: Words) -> "Shares":
        """Fresh shares of these words."""
        return cls._split(words, (os.urandom(SEED), os.urandom(SEED)))

    @classmethod
    def again(cls, record: Words, words: Words, key: bytes) -> "Shares":
        """The shares that were recorded, of words that were computed again; `VoidRound` if they did not come out as they were."""
        content = record.tobytes()
        shares = cls._split(words, (content[:SEED], content[SEED : 2 * SEED]))
        if not hmac.compare_digest(shares._tag(key), content[2 * SEED :]):
            raise VoidRound(
                "the answer did not come out as it was when it was first shared, to the last digit: another machine or "
                "another version of a library computed it; this round is void, its debit stands"
            )
        return shares

    def record(self, key: bytes) -> Words:
        """What is written down: seeds, and a tag of the third share."""
        return np.frombuffer(b"".join([*self.seeds, self._tag(key)]), dtype="<u8")

    def of_host(self, place: int) -> tuple[bytes | Words, bytes | Words]:
        """What the host at this place gets: shares `place` and `place` + 1."""
        parts = (*self.seeds, self.third)
        return parts[place], parts[(place + 1) % 3]

    def _tag(self, key: bytes) -> bytes:
        return hmac.digest(key, to_bytes(self.third), "sha256")

    @classmethod
    def _split(cls, words: Words, seeds: tuple[bytes, bytes]) -> "Shares":
        return cls(seeds, third_share(words, seeds))
