"""What one host with the learner learns of an answer under shared noise; before the opening a host learns nothing.

A host's view is what passes through its `Party` and its channel: two shares of the answer, two of the noise, a part of
it that it makes by itself, and what it receives. Its journal holds sums of these, and tags of shares under keys; these
are not attacked here, nor is a check of answers, nor a host that breaks the rules. Under `privacy.hosts_may_cheat` the
hosts verify each other, as they do in a run. Of two hosts each sees one share of the answer, and the noise that it
adds; where they draw together, its share of the noise, its own low part, and what it receives. The learner has all
openings.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np
from scipy.stats import chisquare

from parley.audit.distinguishing import best_event, check_confidence
from parley.errors import GuaranteeError, TermsError
from parley.network.exchange.share_bundle import Shape, ShareBundle
from parley.network.hosting.host import AdditiveShares, PairedShares
from parley.network.hosting.pool import Match, Pool
from parley.network.hosting.proposal import Record
from parley.privacy.events import Adjacency
from parley.privacy.mechanisms.exact_samplers import DrawWords, Integers, SeededWords, Words
from parley.privacy.mechanisms.shared_noise import Recipe, SharedNoise
from parley.privacy.mechanisms.tabled_recipe import TabledRecipe, tabled_recipe
from parley.privacy.sharing.matching.keyed_rows import KeyedRows
from parley.privacy.sharing.matching.match import MatchPlan
from parley.privacy.sharing.matching.packed_rows import RefusedTableError, pack_rows
from parley.privacy.sharing.pair import agree_pair
from parley.privacy.sharing.paired_noise import draw_paired
from parley.privacy.sharing.party import (
    HOST_COUNT,
    Channel,
    Opening,
    Party,
    open_words,
    opening_of,
    run_in_threads,
    wires,
)
from parley.privacy.sharing.ring import KEY_BYTES, Replicated, expand_seed, last_share, to_bytes
from parley.privacy.sharing.secret_noise import draw
from parley.privacy.sharing.verified import VerifiedParty
from parley.protocol.setup import resolve
from parley.terms import Terms
from parley.validate import Floats, upper, whole

BATCH_ANSWERS = 1 << 14  # of one opening
MAX_SUM_TERMS = 3  # numbers that a host knows and takes off what was opened, at most
FALSE_ALARM = 1e-3  # that shares as they should be are called uneven, for all hosts together
LABEL_BYTES = 8  # bytes before the words of a message
NO_RECORD = Record("", 1, "", "", 0, ())  # what two hosts agreed on: the sum of one answer depends on none of it

SignedNumbers = tuple[tuple[str, int], ...]  # which numbers of a view are added, and with which sign


@dataclass(eq=False)
class HostView:
    """What one host has seen of many answers at once, one per coordinate."""

    host: int
    words: dict[str, Words] = field(default_factory=dict)  # a number for each answer [size]
    received: Integers = field(default_factory=lambda: np.zeros(256, dtype=np.int64))  # how often each byte came

    def receive(self, payload: bytes) -> None:
        """Count the bytes of a message."""
        self.received += np.bincount(np.frombuffer(payload, dtype=np.uint8), minlength=256)

    def left(self, opened: Words, off: SignedNumbers) -> Floats:
        """Return what is left of the opened sums after the host subtracts numbers that it knows [size]."""
        total = opened.copy()
        for name, sign in off:
            total -= self.words[name] if sign > 0 else np.uint64(0) - self.words[name]
        return total.view(np.int64).astype(np.float64)

    def sums(self) -> Iterator[SignedNumbers]:
        """Yield every signed sum of a few numbers that it may subtract, first none."""
        for count in range(MAX_SUM_TERMS + 1):
            for names in combinations(self.words, count):
                for signs in product((1, -1), repeat=count):
                    yield tuple(zip(names, signs, strict=True))

    def uneven(self, size: int) -> float:
        """Return the least p-value, times their number, of bytes that should be uniform before the opening: each share,
        the sum of the two, by halves of the answers, and all that was received."""
        held = [words for name, words in self.words.items() if name.startswith("answer")]
        shares = [*held, np.asarray(sum(held)), *(w for name, w in self.words.items() if name.startswith("noise"))]
        halves = [part for words in shares for part in (words[: size // 2], words[size // 2 :])]
        columns = [half.astype("<u8").view(np.uint8).reshape(-1, 8)[:, place] for half in halves for place in range(8)]
        counts = [np.bincount(each, minlength=256) for each in columns]
        counts += [self.received] if self.received.any() else []
        return min(1.0, len(counts) * min(float(chisquare(each).pvalue) for each in counts))


class WatchedChannel:
    """A channel that keeps what this host receives, while it is `secret`: words that are the same in every run are no
    shares."""

    def __init__(self, channel: Channel, view: HostView) -> None:
        self._channel, self._view, self.index, self.send = channel, view, channel.index, channel.send
        self.secret = True

    def receive(self, source: int) -> bytes:
        payload = self._channel.receive(source)
        if self.secret:
            self._view.receive(payload[LABEL_BYTES:])
        elif any(payload[LABEL_BYTES:]):
            raise GuaranteeError(f"host {source}: expected the public word 0, that it found nothing wrong")
        return payload


class WatchedParty(Party):
    """A host that remembers a part of the noise that it makes by itself, if it does; of `size` answers."""

    def __init__(self, channel: Channel, keys: tuple[bytes, bytes], view: HostView, size: int) -> None:
        self._watched = WatchedChannel(channel, view)
        super().__init__(self._watched, keys)
        self._view, self._size = view, size

    def zero_words(self, *shape: int) -> Words:
        made = super().zero_words(*shape)
        if shape == (self._size,):
            self._view.words["zero"] = made
        return made

    def complete(self, part: Words) -> Replicated:
        if part.shape == (self._size,):
            self._view.words["part"] = part.copy()
        return super().complete(part)


class WatchedVerifiedParty(WatchedParty, VerifiedParty):
    """The same for a host that verifies the others."""

    def _agree(self, found: bool) -> None:
        self._watched.secret = False
        super()._agree(found)
        self._watched.secret = True


class WatchedShares(AdditiveShares):
    """One of two hosts, whose view shows the noise that it adds."""

    def __init__(self, view: HostView, words: DrawWords) -> None:
        super().__init__(view.host, words)
        self._view = view

    def _noise(self, record: Record, shape: Shape, patience: float) -> Words:
        drawn = super()._noise(record, shape, patience)
        self._view.words["own noise"] = drawn.copy()
        return drawn


@dataclass(frozen=True)
class HostVerdict:
    """What an answer is claimed to cost, what one host with the learner was shown to learn, and its view's evenness."""

    host: str
    claimed_epsilon: float
    delta: float
    lower_bound: float
    confidence: float
    draws: int  # of either answer, beside those that chose the attack
    p_value: float
    takes_off: SignedNumbers  # what the host takes off the opened sum; nothing: it knows none of the noise

    @property
    def holds(self) -> bool:
        """Whether nothing was found that contradicts the claim."""
        return self.lower_bound <= self.claimed_epsilon and self.p_value >= FALSE_ALARM / HOST_COUNT

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as JSON."""
        found = {**vars(self), "adjacency": Adjacency.REPLACE_ONE, "holds": self.holds}
        return {**found, "takes_off": [list(each) for each in self.takes_off]}


def audit_hosts(
    terms: Terms, draws: int = 2**15, seed: int | None = None, confidence: float = 0.99
) -> tuple[HostVerdict, ...]:
    """Bound what each host, with the learner and all other owners, learns from one answer of the first owner under
    shared noise: an answer that one person moves as far as possible, or not.

    Each coordinate is a run of its own. From the opened sum the host subtracts the signed sum of its view's numbers
    that leaves least; the threshold on the rest is chosen on other runs.

    Formal guarantee: as for `Event.bound`, for all hosts together: bounds exceed the true eps with probability at most
    1 - confidence. Even views are called uneven with probability at most `FALSE_ALARM`.
    """
    terms.require_release()
    part = resolve(terms).part(terms.owners[0].name)
    noise, delta = part.training.series.mechanism, float(part.delta)
    if not isinstance(noise, SharedNoise) or not terms.noise.hosts:
        raise TermsError("privacy.noise: expected 'shared'; under these terms there is no host to audit")
    check_confidence(delta, confidence)
    rng, pieces = np.random.default_rng(seed), 1 + -(-2 * whole(draws, "draws") // BATCH_ANSWERS)
    party = WatchedVerifiedParty if terms.privacy.hosts_may_cheat else WatchedParty
    opened = partial(opened_once, party=party) if terms.noise.hosts == HOST_COUNT else opened_by_two
    opened = opened_by_pair if terms.noise.paired else opened
    runs = [opened(noise.recipe, int(noise.moved), BATCH_ANSWERS, rng) for _ in range(pieces)]
    each, claimed = 1 - (1 - confidence) / terms.noise.hosts, upper(part.training.series.spent_after(1))
    verdicts = []
    for host in range(terms.noise.hosts):
        views = [(views[host], total) for views, total in runs]
        off, bound = _proved_by_view(views, delta, each)
        uneven = min(1.0, pieces * min(view.uneven(BATCH_ANSWERS) for view, _ in views))
        counted = (pieces - 1) * BATCH_ANSWERS // 2
        name = terms.hosts[host].name
        verdicts.append(HostVerdict(name, claimed, delta, bound, confidence, counted, uneven, off))
    return tuple(verdicts)


def opened_once(
    recipe: Recipe, moved: int, size: int, rng: np.random.Generator, party: type[WatchedParty] = WatchedParty
) -> tuple[list[HostView], Words]:
    """Return (three hosts' views, the learner's opening) of `size` answers: half are 0, half `moved` grid units."""
    words = _encode_halves(moved, size)
    ends, views = wires(), [HostView(host) for host in range(HOST_COUNT)]
    keys, seeds = [rng.bytes(KEY_BYTES) for _ in range(HOST_COUNT)], (rng.bytes(KEY_BYTES), rng.bytes(KEY_BYTES))
    shares = [expand_seed(seeds[0], size), expand_seed(seeds[1], size), last_share(words, seeds)]
    tasks = []
    for view, end in zip(views, ends, strict=True):
        host = view.host
        made = party(end, (keys[host], keys[(host + 1) % HOST_COUNT]), view, size)
        answer = Replicated(shares[host], shares[(host + 1) % HOST_COUNT])
        tasks.append(partial(_noisy_shares, made, view, tabled_recipe(recipe.law, recipe.exponent), answer))
    totals = run_in_threads(*tasks, wires=ends)
    return views, open_words([opening_of(total) for total in totals])


def opened_by_two(recipe: Recipe, moved: int, size: int, rng: np.random.Generator) -> tuple[list[HostView], Words]:
    """Return the same for two hosts, each of which adds its own whole noise to its share."""
    words, seeds = _encode_halves(moved, size), (rng.bytes(KEY_BYTES),)
    shape, last = Shape(recipe.law, recipe.exponent, size), last_share(words, seeds)
    views, openings = [], []
    for host, (share, sent) in enumerate(((expand_seed(seeds[0], size), seeds[0]), (last, to_bytes(last)))):
        views.append(HostView(host, {"answer": share}))
        hosted = WatchedShares(views[host], SeededWords(rng.bytes(KEY_BYTES)))
        bundle = ShareBundle("", 1, "", "", 1, shape, (sent, b""))
        openings.append(Opening(*hosted.opened(hosted.sums(NO_RECORD, [bundle], shape, 0.0), NO_RECORD.to_text())))
    return views, open_words(openings)


def opened_by_pair(recipe: Recipe, moved: int, size: int, rng: np.random.Generator) -> tuple[list[HostView], Words]:
    """Return the same for two hosts that draw one noise together."""
    words, seeds, ends = _encode_halves(moved, size), (rng.bytes(KEY_BYTES),), wires(hosts=2)
    last, shape = last_share(words, seeds), Shape(recipe.law, recipe.exponent, size)
    views = [HostView(0, {"answer": expand_seed(seeds[0], size)}), HostView(1, {"answer": last})]
    split = tabled_recipe(recipe.law, recipe.exponent)
    tasks = [
        partial(_paired_share, end, view, split, rng.bytes(KEY_BYTES), sent, shape)
        for end, view, sent in zip(ends, views, (seeds[0], to_bytes(last)), strict=True)
    ]
    return views, open_words(run_in_threads(*tasks, wires=ends))


class OneNoise(Pool):
    """A pool that holds one noise, whatever its number."""

    def __init__(self, noise: Words) -> None:
        super().__init__({})
        self._noise = noise

    def take(self, session: str, number: int, shape: Shape, patience: float) -> Words:
        return self._noise


def _paired_share(
    channel: Channel, view: HostView, recipe: TabledRecipe, seed: bytes, sent: bytes, shape: Shape
) -> Opening:
    """Draw with the other host, and return this host's part of the sum as `PairedShares` makes it."""
    keys, low = SeededWords(seed + b"keys"), seed + b"low"
    pair = agree_pair(WatchedChannel(channel, view), lambda size: keys(-(-size // 8)).tobytes()[:size])
    view.received[:] = 0  # public keys: no uniform bytes
    noise = draw_paired(pair, recipe, shape.size, SeededWords(low))
    view.words |= {"noise": noise, "own low part": recipe.draw_low(shape.size, SeededWords(low)).view(np.uint64)}
    hosted = PairedShares(view.host, OneNoise(noise))
    bundle = ShareBundle("", 1, "", "", 1, shape, (sent, b""))
    return Opening(*hosted.opened(hosted.sums(NO_RECORD, [bundle], shape, 0.0), NO_RECORD.to_text()))


def _encode_halves(moved: int, size: int) -> Words:
    """Encode answers, the first half 0, the second `moved` grid units."""
    return np.where(np.arange(size) < size // 2, 0, moved).astype(np.int64).view(np.uint64)


def _noisy_shares(party: Party, view: HostView, recipe: TabledRecipe, answer: Replicated) -> Replicated:
    noise = draw(party, recipe, len(answer.first))
    shares = {"answer": answer, "noise": noise}
    for name, held in shares.items():
        view.words[f"{name}, first"], view.words[f"{name}, second"] = held.first, held.second
    return answer + noise


def _proved_by_view(
    views: Sequence[tuple[HostView, Words]], delta: float, confidence: float
) -> tuple[SignedNumbers, float]:
    """Return (what the host subtracts, the epsilon proved): both chosen on the first run, counted on the others."""
    view, opened = views[0]
    off = min(view.sums(), key=lambda each: float(np.median(np.abs(view.left(opened, each)))))
    first, *others = (np.split(view.left(opened, off), 2) for view, opened in views)
    event = best_event(first[0], first[1], delta, confidence)
    sides = [np.concatenate([other[side] for other in others]) for side in (0, 1)]
    return off, event.bound(event.hits(sides[0]), event.hits(sides[1]), len(sides[0]), delta, confidence)


def opened_match(plan: MatchPlan, tables: Sequence[KeyedRows], rng: np.random.Generator) -> Words | RefusedTableError:
    """Return the moments that three hosts in threads would open of these tables, without noise, or why they refused
    one. Tables have as many rows as they have."""
    shapes = tuple(replace(shape, rows=len(table.keys)) for table, shape in zip(tables, plan.shapes, strict=True))
    shares = []
    for table in tables:
        words, seeds = pack_rows(table), (rng.bytes(KEY_BYTES), rng.bytes(KEY_BYTES))
        parts = [*(expand_seed(seed, words.size) for seed in seeds), last_share(words.reshape(-1), seeds, bits=True)]
        shares.append([each.reshape(words.shape) for each in parts])
    keys, ends, tasks = [rng.bytes(KEY_BYTES) for _ in range(HOST_COUNT)], wires(), []
    for host, end in enumerate(ends):
        held = [Replicated(each[host], each[(host + 1) % HOST_COUNT]) for each in shares]
        party = Party(end, (keys[host], keys[(host + 1) % HOST_COUNT]))
        tasks.append(partial(Match(held, replace(plan, shapes=shapes)).run, party))
    found = run_in_threads(*tasks, wires=ends)
    refusals = [each for each in found if isinstance(each, RefusedTableError)]
    return refusals[0] if refusals else open_words([opening_of(each) for each in found if isinstance(each, Replicated)])
