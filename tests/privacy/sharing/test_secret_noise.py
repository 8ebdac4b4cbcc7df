"""The noise has the recipe's law, and no host can tell."""

import dataclasses
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import chi2
from three_hosts import all_three, joined, make_keys, parties, with_all_keys

from parley.errors import ExchangeError, SettingError
from parley.privacy.mechanisms.shared_noise import Recipe, make_recipe
from parley.privacy.sharing import secret_noise
from parley.privacy.sharing.party import Party, run_in_threads
from parley.privacy.sharing.ring import Replicated
from parley.privacy.sharing.secret_noise import draw, make_plan

LAPLACE, GAUSSIAN = make_recipe("laplace", 3), make_recipe("gaussian", 3)

ODD = Recipe(
    law="laplace",
    exponent=1,
    singles=(
        (0, 7),
        (2**64, -1000),
        (1, 3),
        (2**64 - 1, 5),
        (2**63, -11),
        (2**63 - 1, 2**40),
        (3 << 62, 13),
        (0x0123456789ABCDEF, 1),
    ),
    ladder=(2**64, 2**63, 2**63, 0, 2**62, 3 << 60, 1),
    step=17,
    fair=(1, 2, 4, 1, 3, 3, 6, 2**20, 4, -2, -4),
    offset=-12345,
    scale=1.0,
    variance=1.0,
    distance=0.0,
)


@pytest.fixture
def _fresh_plans() -> Iterator[None]:
    make_plan.cache_clear()
    yield
    make_plan.cache_clear()


def opened(recipe: Recipe, size: int, seed: object) -> np.ndarray:
    return joined(all_three(make_keys(seed), lambda host: draw(host, recipe, size)), xor=False).view(np.int64)


@lru_cache
def laplace_law() -> tuple[int, np.ndarray]:
    """The smallest number and the probabilities from there on, in closed form."""
    q = np.exp(-1 / 8)
    return -400, (1 - q) / (1 + q) * q ** np.abs(np.arange(-400, 401))


@lru_cache
def gaussian_law() -> tuple[int, np.ndarray]:
    """A discrete Gaussian of deviation 10 in steps of 8, and 14 uniform numbers below 8, less their mean."""
    y = np.arange(-120, 121)
    top = np.exp(-(y**2) / 200)
    law = np.zeros(8 * 240 + 1)
    law[::8] = top / top.sum()
    for _ in range(14):
        law = np.convolve(law, np.full(8, 1 / 8))
    return -8 * 120 - 49, law


def p_value(drawn: np.ndarray, law: tuple[int, np.ndarray]) -> float:
    """Of Pearson's chi-square, cells of less than 25 expected draws taken together at either end."""
    start, law_p = law
    if drawn.min() < start or drawn.max() >= start + law_p.size:
        return 0.0
    expected = law_p * drawn.size
    kept = np.flatnonzero(expected >= 25)
    counts = np.bincount(drawn - start, minlength=law_p.size)
    cells = [slice(0, kept[0]), *(slice(k, k + 1) for k in range(kept[0], kept[-1] + 1)), slice(kept[-1] + 1, None)]
    seen, due = (np.array([a[c].sum() for c in cells], dtype=float) for a in (counts, expected))
    return float(chi2.sf(((seen - due) ** 2 / due).sum(), len(cells) - 1))


@pytest.mark.parametrize(
    ("recipe", "law"), [(LAPLACE, laplace_law), (GAUSSIAN, gaussian_law)], ids=["laplace", "gaussian"]
)
def test_law_of_many_draws(recipe: Recipe, law: Callable[[], tuple[int, np.ndarray]]) -> None:
    drawn = opened(recipe, 400_000, "law")
    assert p_value(drawn, law()) > 0.001
    assert abs(np.mean(drawn.astype(float) ** 2) / recipe.variance - 1) < 6 * np.sqrt(5 / drawn.size)


MUTANTS = {
    "no sign": dataclasses.replace(LAPLACE, singles=tuple((t, abs(w)) for t, w in LAPLACE.singles)),
    "a weight doubled": dataclasses.replace(LAPLACE, singles=((LAPLACE.singles[0][0], 2), *LAPLACE.singles[1:])),
    "a threshold of the wrong digit": dataclasses.replace(
        LAPLACE, singles=(*LAPLACE.singles[:3], (LAPLACE.singles[4][0], 8), *LAPLACE.singles[4:])
    ),
    "half the step": dataclasses.replace(GAUSSIAN, step=4),
    "no fair bits of weight 1": dataclasses.replace(GAUSSIAN, fair=tuple(w for w in GAUSSIAN.fair if w > 1)),
    "a rung less": dataclasses.replace(GAUSSIAN, ladder=GAUSSIAN.ladder[1:]),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_recipes_are_told(name: str) -> None:
    mutant = MUTANTS[name]
    assert p_value(opened(mutant, 30_000, "law"), laplace_law() if mutant.law == "laplace" else gaussian_law()) < 1e-6


@pytest.mark.usefixtures("_fresh_plans")
def test_a_ladder_without_sign_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = secret_noise._signed_ladder
    monkeypatch.setattr(
        secret_noise,
        "_signed_ladder",
        lambda *a: [(dataclasses.replace(o, wires=o.wires[1:]), w) for o, w in whole(*a)[1:]],
    )
    assert p_value(opened(GAUSSIAN, 20_000, "law"), gaussian_law()) < 1e-6


@pytest.mark.parametrize(
    "recipe", [ODD, make_recipe("laplace", 24), make_recipe("gaussian", 12), make_recipe("gaussian", 48)]
)
def test_two_hosts_together_know_the_noise(recipe: Recipe) -> None:
    """The limit of the guarantee, and the protocol's arithmetic against the recipe's definition."""
    host_0, host_1 = make_keys("two")[:2], make_keys("two")[1:]
    assert list(opened(recipe, 130, "two")) == with_all_keys(recipe, (host_0[0], host_1[0], host_1[1]), 130)


def test_batches_are_drawn_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_noise, "BATCH_COORDINATES", 64)
    drawn = opened(LAPLACE, 150, "two")
    assert drawn.size == 150
    assert len({tuple(drawn[k : k + 20]) for k in (0, 64, 128)}) == 3
    assert list(drawn[:64]) == with_all_keys(LAPLACE, make_keys("two"), 64)


RUNS, SIZE = 50, 128


def views(recipe: Recipe, host: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise [runs, size] and the bits that one host receives [runs, bits], its own two keys being the same in all
    runs."""
    noise, received = [], []
    for run in range(RUNS):
        keys = list(make_keys("fixed"))
        keys[(host + 2) % 3] = make_keys(f"fresh {run}")[0]
        hosts, channels = parties((keys[0], keys[1], keys[2]))
        shares = run_in_threads(*[lambda h=h: draw(h, recipe, SIZE) for h in hosts])
        noise.append(joined(shares, xor=False).view(np.int64).astype(float))
        received.append(np.frombuffer(b"".join(payload[8:] for payload in channels[host].received), dtype=np.uint8))
    return np.array(noise), np.unpackbits(np.array(received), axis=1)


def full_variance(noise: np.ndarray, recipe: Recipe) -> bool:
    """Of each coordinate over the runs: the mean square of its deviations, averaged over coordinates."""
    variance = noise.var(axis=0, ddof=1).mean()
    return bool(abs(variance / recipe.variance - 1) < 5 * np.sqrt(6 / noise.size))


def uniform(bits: np.ndarray) -> bool:
    """Each bit over the runs: sum of (2 ones - runs)^2 / runs is chi-square with a degree of freedom a bit."""
    statistic = ((2.0 * bits.sum(axis=0) - len(bits)) ** 2 / len(bits)).sum()
    return bool(abs(statistic - bits.shape[1]) < 5 * np.sqrt(2 * bits.shape[1]))


def unrelated(noise: np.ndarray, bits: np.ndarray) -> bool:
    """No bit of the view is correlated with the noise of any coordinate more than chance allows: 0.8 is 9 standard
    errors."""
    z = (noise - noise.mean(axis=0)) / noise.std(axis=0)
    return bool(np.abs(z.T @ (2.0 * bits - 1) / len(noise)).max() < 0.8)


@pytest.mark.parametrize("host", [0, 1, 2])
@pytest.mark.parametrize("recipe", [make_recipe("laplace", 3), make_recipe("gaussian", 3)], ids=["laplace", "gaussian"])
def test_one_host_knows_nothing(recipe: Recipe, host: int) -> None:
    noise, bits = views(recipe, host)
    assert full_variance(noise, recipe)
    assert uniform(bits)


def test_a_draw_without_one_key_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Party.random

    def without_share_2(self: Party, *shape: int) -> Replicated:
        drawn = honest(self, *shape)
        none = np.zeros_like(drawn.first)
        return Replicated(none if self.index == 2 else drawn.first, none if self.index == 1 else drawn.second)

    monkeypatch.setattr(Party, "random", without_share_2)
    noise, _ = views(make_recipe("laplace", 3), 0)
    assert not full_variance(noise, make_recipe("laplace", 3))


ONE = dataclasses.replace(ODD, singles=((2**63 + 5, 1),), ladder=(), fair=(), offset=0)


@pytest.mark.parametrize("host", [0, 1, 2])
def test_one_host_knows_nothing_of_one_bit(host: int) -> None:
    noise, bits = views(ONE, host)
    assert uniform(bits)
    assert unrelated(noise, bits)


@pytest.mark.parametrize(("host", "mask"), [(1, "zero_bits"), (2, "zero_words"), (1, "deal")])
def test_messages_without_masks_are_told(monkeypatch: pytest.MonkeyPatch, host: int, mask: str) -> None:
    honest = Party._words

    def without_masks(self: Party, which: int, purpose: int, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape, dtype=np.uint64) if purpose == 3 else honest(self, which, purpose, shape)

    if mask == "deal":
        monkeypatch.setattr(Party, "_words", without_masks)
    else:
        monkeypatch.setattr(Party, mask, lambda self, *shape: np.zeros(shape, dtype=np.uint64))
    noise, bits = views(ONE, host)
    assert not uniform(bits)
    assert unrelated(noise, bits) == (mask != "zero_bits")  # those of the last gate tell the bit itself


def test_hosts_with_different_sizes_stop() -> None:
    hosts, _ = parties(make_keys("sizes"))
    ends = [host._channel._channel for host in hosts]
    with pytest.raises(ExchangeError, match="step"):
        run_in_threads(*[lambda h=h: draw(h, LAPLACE, 200 if h.index else 100) for h in hosts], wires=ends)
    with pytest.raises(ExchangeError, match="new keys"):
        draw(hosts[0], LAPLACE, 100)


def test_a_draw_left_half_way_spends_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts, _ = parties(make_keys("half"))
    ends = [host._channel._channel for host in hosts]
    monkeypatch.setattr(secret_noise, "weighted_sum", lambda *_: bytearray(2**62))
    with pytest.raises(MemoryError):
        run_in_threads(*[lambda h=h: draw(h, LAPLACE, 100) for h in hosts], wires=ends)
    with pytest.raises(ExchangeError, match="new keys"):
        draw(hosts[1], LAPLACE, 100)


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(SettingError, match="size"):
        draw(parties(make_keys("none"))[0][0], LAPLACE, 0)
