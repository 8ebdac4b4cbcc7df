"""An owner's answer in three shares, any two of which say nothing, or in two, either of which says nothing: seeds, and
what the words they stand for leave of it.

What an owner writes down is a nonce and a tag of the last share. All shares together are the exact answer; from the
nonce, the question and a key the seeds follow, and from seeds and table the last share can be computed again. The key
lies beside the ledger and is in no backup of it, so whoever reads a backup has no share at all, and cannot try out
guesses of the answer either.
"""

import hmac
import os
from dataclasses import dataclass

import numpy as np

from parley.errors import AbortedRound
from parley.privacy.mechanisms.random_words import Words
from parley.privacy.sharing.ring import last_share, to_bytes

NONCE = 32  # bytes


@dataclass(frozen=True, eq=False)
class Shares:
    """x = the sum of all expand(seed) + last, modulo 2^64; `record` is what is written down.

    Formal guarantee: a seed is HMAC-SHA-256 of a fresh nonce and of the question, under the owner's key, and stands for
    this one vector. So what one host gets - two of seed 0, seed 1 and last; of two hosts, seed 0 or last, and the tag,
    which is HMAC-SHA-256 of the nonce, the question and the last share - tells nothing of x to anybody who cannot tell
    HMAC-SHA-256 and AES-256 in counter mode from random functions.
    """

    seeds: tuple[bytes, ...]
    last: Words
    record: Words

    @classmethod
    def of(cls, words: Words, key: bytes, content: str, hosts: int = 3) -> "Shares":
        """Fresh shares of the answer to the question with this content, for so many hosts."""
        return cls._split(words, key, content, os.urandom(NONCE), hosts)

    @classmethod
    def again(cls, record: Words, words: Words, key: bytes, content: str, hosts: int = 3) -> "Shares":
        """The shares that were recorded, of words that were computed
        again; `AbortedRound` if they did not come out as they were."""
        shares = cls._split(words, key, content, to_bytes(record)[:NONCE], hosts)
        if not hmac.compare_digest(to_bytes(shares.record), to_bytes(record)):
            raise AbortedRound(
                "the answer did not come out as it was when it was first shared, to the last digit: another machine "
                "or another version of a library computed it, or the ledger's secret is another one; this round is "
                "aborted, its debit stands"
            )
        return shares

    @property
    def hosts(self) -> int:
        """How many hosts they are for."""
        return len(self.seeds) + 1

    def of_host(self, place: int) -> tuple[bytes | Words, bytes | Words]:
        """What the host at this place gets: of three, shares `place` and `place` + 1; of two, share `place` and the
        tag, by which they see that theirs belong together."""
        parts: tuple[bytes | Words, ...] = (*self.seeds, self.last)
        if self.hosts == 2:
            return parts[place], to_bytes(self.record)[NONCE:]
        return parts[place], parts[(place + 1) % 3]

    @classmethod
    def _split(cls, words: Words, key: bytes, content: str, nonce: bytes, hosts: int) -> "Shares":
        def derived(purpose: bytes, about: bytes = b"") -> bytes:
            return hmac.digest(key, purpose + nonce + bytes.fromhex(content) + about, "sha256")

        seeds = tuple(derived(b"seed %d" % number) for number in range(hosts - 1))
        last = last_share(words, seeds)
        return cls(seeds, last, np.frombuffer(nonce + derived(b"tag of", to_bytes(last)), dtype="<u8"))
