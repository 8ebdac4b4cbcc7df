"""How an owner's answer lies at hosts: at two, each of which holds one of two shares and adds a whole noise of its
own, or at three, each of which holds two of three shares, and two of the noise that they drew.

Formal guarantee: let one of the two hosts, A, keep the rules of `host.py` and its journal; the other host, the learner
and any owners may do whatever they like. Before A opens, they hold of an honest owner's answer x = x_0 + x_1 one share
and the tag, which are uniform whatever x is (`sharing.ring`). A opens one set of owners for a question, with one
noise that it drew for this alone and nobody else knows. So all that they learn of the honest owners' answers, with
their own shares and their own noise taken off, is the sum of these answers with one whole noise of the recipe's law:
(eps, delta) as that is calibrated. Who knows neither noise sees twice its variance.

Both keep the rules, and one of them loses its journal, or has an older one: it proposes under a name that it draws
afresh for every proposal, so its record is not the other's, who kept its own, and it aborts instead of opening a second
noise. With a curious other host a lost journal is not made good: A could open the same shares again, under another
noise. Two hosts that act together have both shares of every answer. So a host remembers in its account's state folder
where its journal ended, and takes up no older one (`journal`); a disk that is put back whole takes both back.
"""

import hashlib
import secrets
from collections.abc import Sequence

import numpy as np

from parley.network.exchange.share_bundle import HOSTS, SEED, Shape, ShareBundle, to_words
from parley.network.hosting.pool import Keys, Pool
from parley.network.hosting.proposal import Held, Proposal, Record, agreed, agreed_by_two, record_digest, tag
from parley.privacy.mechanisms.exact_samplers import Draw, Words, random_words
from parley.privacy.mechanisms.shared_noise import draw_secretly, make_recipe
from parley.privacy.sharing.ring import Replicated, digest, expand, to_bytes


class AdditiveShares:
    """What host `index` of two does with its share bundles; `words`: where the random words of its noise come from."""

    def __init__(self, index: int, words: Draw = random_words) -> None:
        self._index, self._words = index, words

    def lengths(self, shape: Shape) -> tuple[int, int]:
        """How many bytes a share bundle's two parts have: host 0 gets a seed, host 1 words, and both the tag."""
        return (shape.bytes if self._index else SEED), hashlib.sha256().digest_size

    def keys(self) -> Keys:
        """A name for one proposal, drawn for it alone; nothing is kept secret from the other host."""
        return Keys(secrets.token_hex(32), b"", b"")

    def name_noise(self, session: str, shape: Shape, patience: float) -> int:
        """0: a noise is drawn when its record is written, and has no other use."""
        return 0

    def held(self, keys: Keys, bundle: ShareBundle) -> Held:
        """What this host says of an owner's share bundle: the tag that the owner gave to both."""
        return Held(bundle.owner, tag(keys.first, bundle, 0, bundle.shares[1]))

    def agreed(self, proposals: Sequence[Proposal], quorum: int) -> Record:
        """The record that follows from the two proposals."""
        return agreed_by_two(proposals, quorum)

    def sums(self, record: Record, bundles: Sequence[ShareBundle], shape: Shape, patience: float) -> bytes:
        """This host's share of the sum with a whole noise on it, drawn here and now."""
        total = self._noise(shape)
        for bundle in bundles:
            total += to_words(bundle.shares[0], shape.size) if self._index else expand(bundle.shares[0], shape.size)
        return to_bytes(total)

    def opened(self, sums: bytes, record: str) -> tuple[Words, bytes]:
        """(its share, the digest of what both recorded)."""
        return to_words(sums, len(sums) // 8), bytes.fromhex(record_digest(record))

    def _noise(self, shape: Shape) -> Words:
        return np.asarray(
            draw_secretly(make_recipe(shape.law, shape.exponent), shape.size, self._words).view(np.uint64)
        )


class ReplicatedShares:
    """What host `index` of three does with its share bundles; the noise comes from its `pool`."""

    def __init__(self, index: int, pool: Pool) -> None:
        self._index, self._pool = index, pool
        self._numbers = index, (index + 1) % HOSTS

    def lengths(self, shape: Shape) -> tuple[int, int]:
        """How many bytes a share bundle's two parts have: the last share is words, the others are seeds."""
        first, second = (shape.bytes if number == HOSTS - 1 else SEED for number in self._numbers)
        return first, second

    def keys(self) -> Keys:
        """Of the session that the hosts are in; `Unavailable` where there is none yet."""
        return self._pool.keys()

    def name_noise(self, session: str, shape: Shape, patience: float) -> int:
        """The number of a noise for a new question: host 0's to say, the others say 0."""
        return self._pool.name(session, shape, patience) if self._index == 0 else 0

    def held(self, keys: Keys, bundle: ShareBundle) -> Held:
        """What this host says of an owner's share bundle: the tags of both shares."""
        (first, second), (one, other) = self._numbers, bundle.shares
        return Held(bundle.owner, tag(keys.first, bundle, first, one), tag(keys.second, bundle, second, other))

    def agreed(self, proposals: Sequence[Proposal], quorum: int) -> Record:
        """The record that follows from the three proposals."""
        return agreed(proposals, quorum)

    def sums(self, record: Record, bundles: Sequence[ShareBundle], shape: Shape, patience: float) -> bytes:
        """This host's two shares of the noisy sum, one after the other; the noise is used up."""
        total = self._pool.take(record.session, record.noise, shape, patience)
        for bundle in bundles:
            total += self._shares(bundle)
        return to_bytes(total.first) + to_bytes(total.second)

    def opened(self, sums: bytes, record: str) -> tuple[Words, bytes]:
        """(its first share, the digest of its second)."""
        half = len(sums) // 2
        return to_words(sums[:half], half // 8), digest(to_words(sums[half:], half // 8))

    def _shares(self, bundle: ShareBundle) -> Replicated:
        """The two shares of a bundle, as words."""
        size = bundle.shape.size
        first, second = (
            to_words(content, size) if number == HOSTS - 1 else expand(content, size)
            for number, content in zip(self._numbers, bundle.shares, strict=True)
        )
        return Replicated(first, second)
