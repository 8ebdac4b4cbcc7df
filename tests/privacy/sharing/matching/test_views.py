"""What a host sees of a match can be made up from its own keys and shares, and from what the match may tell: that no
table was refused, and how many tags are equal. So it tells nothing else.

The simulator runs the host's own code against nobody: words arrive at random, and tags are random words in a random
order, some of them equal. Real views, with this host's keys and shares fixed and the third key drawn afresh, must look
the same: each message's bits, where equal tags stand, and how many there are.
"""

from collections import Counter
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from matched_tables import people, shape_of, table
from scipy.stats import chi2
from three_hosts import make_keys, parties

from parley.privacy.sharing.matching import aes
from parley.privacy.sharing.matching import match as match_module
from parley.privacy.sharing.matching.dummies import count_law
from parley.privacy.sharing.matching.keyed_rows import matching_rows
from parley.privacy.sharing.matching.match import match, share_moments
from parley.privacy.sharing.matching.packed_rows import pack_rows
from parley.privacy.sharing.party import Party, run_in_threads, wires
from parley.privacy.sharing.ring import Replicated, digest

LAW = count_law(2.0, 0.05)
ROWS, COMMON, RUNS = 4, 2, 60
RNG = np.random.default_rng(3)
POOL = people(2 * ROWS, RNG)
TABLES = [table(POOL[:ROWS], 1, 5, RNG), table(POOL[ROWS - COMMON : 2 * ROWS - COMMON], 1, 5, RNG)]


class View:
    """What a host received, message by message, and the tags that were opened."""

    def __init__(self) -> None:
        self.messages: list[np.ndarray] = []
        self.tags: list[np.ndarray] = []


class Alone(Party):
    """A host that hears random words, and of openings what the simulator says."""

    def __init__(self, index: int, keys: tuple[bytes, bytes], view: View, rng: np.random.Generator) -> None:
        super().__init__(wires()[index], keys)
        self._view, self._rng, self._opened = view, rng, 0

    def _send(self, to: int, words: np.ndarray) -> None:
        pass

    def _receive(self, source: int, size: int) -> np.ndarray:
        self._view.messages.append(self._rng.integers(0, 2**64, size=size, dtype=np.uint64))
        return self._view.messages[-1]

    def _hear(self, *messages: np.ndarray) -> None:
        self._view.messages += [np.asarray(each).reshape(-1) for each in messages]

    def hold_same(self, words: Replicated) -> bool:
        one = np.ones(1, dtype=np.uint64)
        self._hear(np.frombuffer(digest(words.second), dtype="<u8"), one, one)
        return True

    def reveal_to_holders(self, words: Replicated) -> np.ndarray | None:
        if self.index == 1:
            return None
        lacking = self._receive(0, words.first.size).reshape(words.first.shape)
        self._hear(np.frombuffer(digest(lacking), dtype="<u8"))
        return words.first ^ words.second ^ lacking

    def reveal(self, words: Replicated) -> np.ndarray:
        self._opened += 1
        if self._opened <= 2 * len(TABLES):
            opened = np.full(words.first.shape, 1, dtype=np.uint64)  # keys rise, and no row is too large
        else:
            opened = made_up_tags(self._rng)
        lacking = opened ^ words.first ^ words.second
        self._hear(lacking, np.frombuffer(digest(lacking), dtype="<u8"))
        return opened


def made_up_tags(rng: np.random.Generator) -> np.ndarray:
    equal = COMMON + int(rng.choice(LAW.dummies + 1, p=np.array(LAW.chances) / 2**64))
    rows = ROWS + LAW.dummies
    one, other = (rng.integers(0, 2**64, size=(rows, 2), dtype=np.uint64) for _ in range(2))
    other[:equal] = one[:equal]
    return np.concatenate([rng.permutation(each) for each in (one, other)])


def task(host: Party, shares: list[Replicated]) -> None:
    share_moments(host, match(host, shares, [shape_of(each) for each in TABLES], LAW), 1 << 5)


def fixed_shares(host: int) -> list[Replicated]:
    """The two shares of each table that this host holds, whatever the tables are."""
    rng = np.random.default_rng(100 + host)
    sizes = [pack_rows(each).shape for each in TABLES]
    return [Replicated(*rng.integers(0, 2**64, size=(2, *size), dtype=np.uint64)) for size in sizes]


def real_view(host: int, seed: int) -> View:
    keys, own = list(make_keys("own")), fixed_shares(host)
    keys[(host + 2) % 3] = make_keys(("third", seed))[0]
    shares: list[list[Replicated]] = [[] for _ in range(3)]
    for mine, rows in zip(own, TABLES, strict=True):
        parts = {host: mine.first, (host + 1) % 3: mine.second}
        parts[(host + 2) % 3] = pack_rows(rows) ^ mine.first ^ mine.second
        for place in range(3):
            shares[place].append(Replicated(parts[place], parts[(place + 1) % 3]))
    hosts, channels = parties((keys[0], keys[1], keys[2]))
    view, honest = View(), hosts[host].reveal

    def reveal(words: Replicated) -> np.ndarray:
        opened = honest(words)
        if opened.ndim == 2:
            view.tags = np.split(opened, [ROWS + LAW.dummies])
        return opened

    hosts[host].reveal = reveal
    run_in_threads(*[lambda h=h: task(h, shares[h.index]) for h in hosts])
    view.messages = [np.frombuffer(each, dtype="<u8", offset=8) for each in channels[host].received]
    return view


@cache
def simulated_view(host: int, seed: int) -> View:
    keys, view = make_keys("own"), View()
    alone = Alone(host, (keys[host], keys[(host + 1) % 3]), view, np.random.default_rng((host, seed)))
    honest = alone.reveal

    def reveal(words: Replicated) -> np.ndarray:
        opened = honest(words)
        if opened.ndim == 2:
            view.tags = np.split(opened, [ROWS + LAW.dummies])
        return opened

    alone.reveal = reveal
    task(alone, fixed_shares(host))
    return view


def bits(messages: list[np.ndarray]) -> np.ndarray:
    """The bits of one message over the runs [runs, bits]: of its first 64 words."""
    words = np.stack([each[:64] for each in messages])
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=1)


def told_apart(host: int, mutate: Callable[[], None] = lambda: None) -> str | None:
    """What tells real views from made-up ones, if anything does."""
    made_up = [simulated_view(host, seed) for seed in range(RUNS)]
    mutate()
    real = [real_view(host, seed) for seed in range(RUNS)]
    for number, pair in enumerate(
        zip(*(zip(*(v.messages for v in views), strict=True) for views in (real, made_up)), strict=True)
    ):
        one, other = (bits(list(messages)) for messages in pair)
        if one.shape != other.shape:
            return f"size of message {number}"
        seen, due = one.sum(axis=0, dtype=float), other.sum(axis=0, dtype=float)
        both = seen + due
        spread = both * (2 * RUNS - both) / (2 * RUNS)
        varies = spread > 0
        statistic = ((seen - due)[varies] ** 2 / spread[varies]).sum()
        if np.any(seen[~varies] != due[~varies]) or chi2.sf(statistic, max(1, varies.sum())) < 1e-7:
            return f"bits of message {number}"
    places = np.zeros(ROWS + LAW.dummies)
    counts = Counter[int]()
    for view in real:
        rows = matching_rows(view.tags)
        counts[len(rows[0]) - COMMON] += 1
        places[rows[0]] += 1
    tags = np.concatenate([np.unique(np.concatenate(view.tags), axis=0) for view in real])
    if len(np.unique(tags, axis=0)) < len(tags):
        return "tags that come again"
    due = np.array(LAW.chances) / 2**64 * RUNS
    seen = np.array([counts[k] for k in range(len(due))])
    if seen.sum() < RUNS or chi2.sf(((seen - due) ** 2 / due).sum(), len(due) - 1) < 1e-4:
        return "how many tags are equal"
    # of a real row and of a dummy alike
    if chi2.sf(((places - places.mean()) ** 2 / places.mean()).sum(), len(places) - 1) < 1e-5:
        return "where equal tags stand"
    return None


@pytest.fixture(autouse=True)
def one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """AES of one round: as many kinds of messages, and quick."""
    monkeypatch.setattr(aes, "ROUNDS", 1)


@pytest.mark.parametrize("host", range(3))
def test_a_view_tells_no_more_than_it_may(host: int) -> None:
    assert told_apart(host) is None


def unmasked(party: Party, x: Replicated, y: Replicated) -> Replicated:
    return party.complete((x.first & (y.first ^ y.second)) ^ (x.second & y.first))


def test_a_missing_mask_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = told_apart(0, lambda: monkeypatch.setattr(Party, "conjunction", unmasked))
    assert found is not None
    assert found.startswith("bits of message")


def test_products_without_a_part_of_zero_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Party, "zero_words", lambda party, *shape: np.zeros(shape, dtype=np.uint64))
    assert told_apart(1) is not None


def test_an_order_that_a_host_knows_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the shuffle by the two others, host 0 knows where each row stands."""
    honest = Party.shuffled
    monkeypatch.setattr(Party, "shuffled", lambda party, rows, pair: rows if pair == 1 else honest(party, rows, pair))
    views = [real_view(0, seed) for seed in range(40)]
    places = Counter(tuple(sorted(matching_rows(view.tags)[0].tolist())) for view in views)
    assert len(places) <= LAW.dummies + 1  # a set of places for each number of equal dummies


def test_a_shuffle_without_a_fresh_share_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def bare(party: Party, rows: Replicated, pair: int) -> Replicated:
        words = party._words
        party._words = lambda which, purpose, shape: words(which, purpose, shape) * np.uint64(purpose == 3)
        try:
            return Party._shuffle(party, rows, pair)
        finally:
            del party._words

    found = told_apart(0, lambda: monkeypatch.setattr(Party, "shuffled", bare))
    assert found is not None


def test_dummies_that_are_left_out_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = match_module.draw_dummies

    def equal(party, law, tables):
        made = honest(party, law, tables)
        same = [key.map(lambda side: side.copy()) for key in made.keys]
        return type(made)((same[0], same[0]), made.same)

    found = told_apart(2, lambda: monkeypatch.setattr(match_module, "draw_dummies", equal))
    assert found == "how many tags are equal"


def test_tags_under_a_key_that_is_known_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = match_module.encrypt

    def fixed(party, blocks, key):
        return honest(party, blocks, key.map(np.zeros_like))

    found = told_apart(1, lambda: monkeypatch.setattr(match_module, "encrypt", fixed))
    assert found == "tags that come again"
