"""How an owner's answer lies at three hosts: each holds two of three shares, and two of the noise that they drew."""

from collections.abc import Sequence

from parley.network.exchange.share_bundle import HOSTS, SEED, Shape, ShareBundle, to_words
from parley.network.hosting.pool import Keys, Pool
from parley.network.hosting.proposal import Held, Proposal, Record, agreed, tag
from parley.privacy.mechanisms.random_words import Words
from parley.privacy.sharing.ring import Replicated, digest, expand, to_bytes


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
