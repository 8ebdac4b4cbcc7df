"""How an owner's answer lies at two hosts: each holds one of two shares, and adds a whole noise of its own to their sum
before it opens that.

Formal guarantee: let one of the two hosts, A, keep the rules of `host.py` and its journal; the other host, the learner
and any owners may do whatever they like. Before A opens, they hold of an honest owner's answer x = x_0 + x_1 one share
and the tag, which are uniform whatever x is (`sharing.shares`). A opens one set of owners for a question, with one
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

from parley.network.exchange.share_bundle import SEED, Shape, ShareBundle, to_words
from parley.network.hosting.pool import Keys
from parley.network.hosting.proposal import Held, Proposal, Record, agreed_by_two, record_digest, tag
from parley.privacy.mechanisms.random_words import Draw, Words, random_words
from parley.privacy.mechanisms.recipe import draw_secretly, make_recipe
from parley.privacy.sharing.ring import expand, to_bytes


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
