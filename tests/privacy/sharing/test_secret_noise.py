"""The noise has the recipe's law, and no host can tell."""

import dataclasses

import numpy as np
import pytest
from noise_laws import law_of, p_value
from three_hosts import all_three, joined, make_keys, numbers_of, parties, planes_drawn, with_all_keys

from parley.errors import ExchangeError, SettingError
from parley.privacy.mechanisms.shared_noise import Law
from parley.privacy.mechanisms.tabled_recipe import TabledRecipe, tabled_recipe
from parley.privacy.sharing import conversion, secret_noise
from parley.privacy.sharing.party import Party, run_in_threads
from parley.privacy.sharing.ring import Replicated
from parley.privacy.sharing.secret_noise import draw, make_noise_plan

LAPLACE, GAUSSIAN = tabled_recipe("laplace", 3), tabled_recipe("gaussian", 3)


def opened(recipe: TabledRecipe, size: int, seed: object) -> np.ndarray:
    return joined(all_three(make_keys(seed), lambda host: draw(host, recipe, size)), xor=False).view(np.int64)


@pytest.mark.parametrize("recipe", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_law_of_a_million_numbers_in_the_clear(recipe: TabledRecipe) -> None:
    drawn = in_the_clear(recipe, 10**6)
    assert p_value(drawn, *law_of(recipe)) > 0.001
    assert abs(np.mean(drawn.astype(float) ** 2) / recipe.recipe.variance - 1) < 6 * np.sqrt(5 / drawn.size)


@pytest.mark.parametrize("recipe", [tabled_recipe(law, exponent) for law in Law for exponent in (3, 12, 48)])
def test_the_circuit_gives_the_numbers_of_the_definition(recipe: TabledRecipe) -> None:
    """Drawn by the protocol from the same random words: bit for bit the same, and what two hosts together know."""
    size = 20_000 if recipe.recipe.exponent == 3 else 130
    drawn = opened(recipe, size, "two")
    assert drawn.tolist() == with_all_keys(recipe, make_keys("two"), size)


def in_the_clear(recipe: TabledRecipe, size: int) -> np.ndarray:
    """Numbers by the definition, from a generator's random bits."""
    rng = np.random.default_rng(7)
    return np.concatenate(
        [
            numbers_of(recipe, rng.integers(0, 2, size=(planes_drawn(recipe), 20_000), dtype=np.uint64))
            for _ in range(size // 20_000)
        ]
    )


def changed_table(recipe: TabledRecipe, **changes: object) -> TabledRecipe:
    return dataclasses.replace(recipe, top=dataclasses.replace(recipe.top, **changes))


FIRST_DIGITS = LAPLACE.digits[0]
MUTANTS = {
    "no alias": changed_table(GAUSSIAN, thresholds=(2**64 - 1,) * 128),
    "aliases of 0": changed_table(LAPLACE, aliases=(0,) * 128),
    "a low part less": dataclasses.replace(LAPLACE, digits=LAPLACE.digits[:1]),
    "no minus": dataclasses.replace(LAPLACE, digits=(FIRST_DIGITS, FIRST_DIGITS)),
    "a digit too high": dataclasses.replace(
        LAPLACE, digits=(dataclasses.replace(FIRST_DIGITS, exponent=1), LAPLACE.digits[1])
    ),
    "half the step": dataclasses.replace(GAUSSIAN, recipe=dataclasses.replace(GAUSSIAN.recipe, step=4)),
    "another offset": dataclasses.replace(GAUSSIAN, recipe=dataclasses.replace(GAUSSIAN.recipe, offset=-60)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_recipes_are_told(name: str) -> None:
    mutant = MUTANTS[name]
    right = LAPLACE if mutant.recipe.law == Law.LAPLACE else GAUSSIAN
    assert p_value(opened(mutant, 30_000, "law"), *law_of(right)) < 1e-6


def test_a_number_without_sign_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    make_noise_plan.cache_clear()

    def plain(builder, columns, magnitude, sign, exponent):
        secret_noise._add(columns, magnitude, exponent)
        return 0

    monkeypatch.setattr(secret_noise, "_add_signed", plain)
    assert p_value(opened(GAUSSIAN, 20_000, "law"), *law_of(GAUSSIAN)) < 1e-6
    make_noise_plan.cache_clear()


def test_batches_are_drawn_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_noise, "BATCH_COORDINATES", 64)
    drawn = opened(LAPLACE, 150, "two")
    assert drawn.size == 150
    assert len({tuple(drawn[k : k + 20]) for k in (0, 64, 128)}) == 3
    assert list(drawn[:64]) == with_all_keys(LAPLACE, make_keys("two"), 64)


RUNS, SIZE = 50, 128


def views(recipe: TabledRecipe, host: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise [runs, size] and the bits that one host receives [runs, bits], its own two keys being the same
    in all runs."""
    noise, received = [], []
    for run in range(RUNS):
        keys = list(make_keys("fixed"))
        keys[(host + 2) % 3] = make_keys(f"fresh {run}")[0]
        hosts, channels = parties((keys[0], keys[1], keys[2]))
        shares = run_in_threads(*[lambda h=h: draw(h, recipe, SIZE) for h in hosts])
        noise.append(joined(shares, xor=False).view(np.int64).astype(float))
        received.append(np.frombuffer(b"".join(payload[8:] for payload in channels[host].received), dtype=np.uint8))
    return np.array(noise), np.unpackbits(np.array(received), axis=1)


def full_variance(noise: np.ndarray, recipe: TabledRecipe) -> bool:
    """Of each coordinate over the runs: the mean square of its deviations, averaged over coordinates."""
    variance = noise.var(axis=0, ddof=1).mean()
    return bool(abs(variance / recipe.recipe.variance - 1) < 5 * np.sqrt(6 / noise.size))


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
@pytest.mark.parametrize("recipe", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_one_host_knows_nothing(recipe: TabledRecipe, host: int) -> None:
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
    noise, _ = views(LAPLACE, 0)
    assert not full_variance(noise, LAPLACE)


def test_messages_without_masks_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Party, "zero_bits", lambda self, *shape: np.zeros(shape, dtype=np.uint64))
    noise, bits = views(LAPLACE, 1)
    assert not uniform(bits)
    assert unrelated(noise, bits)


def test_what_two_hosts_are_shown_has_a_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum that hosts 0 and 2 are shown tells nothing of the noise, unless a mask is left out."""
    honest = conversion.masked_inputs

    def without_masks(party: Party, words: int) -> tuple[Replicated, Replicated]:
        masks, planes = honest(party, words)
        return masks.map(np.zeros_like), planes.map(np.zeros_like)

    for masked in (True, False):
        if not masked:
            monkeypatch.setattr(secret_noise, "masked_inputs", without_masks)
        shares = all_three(make_keys("masks"), lambda host: draw(host, LAPLACE, 1000))
        assert list(shares[0].first) == list(shares[2].second)
        shown = np.abs(shares[0].first.view(np.int64).astype(float))
        assert (np.median(shown) > 2.0**60) == masked
        assert (shown.max() < 2.0**12) == (not masked)


def test_hosts_with_different_sizes_stop() -> None:
    hosts, _ = parties(make_keys("sizes"))
    ends = [host._channel._channel for host in hosts]
    with pytest.raises(ExchangeError, match="message"):
        run_in_threads(*[lambda h=h: draw(h, LAPLACE, 200 if h.index else 100) for h in hosts], wires=ends)
    with pytest.raises(ExchangeError, match="new keys"):
        draw(hosts[0], LAPLACE, 100)


def test_a_draw_left_half_way_spends_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts, _ = parties(make_keys("half"))
    ends = [host._channel._channel for host in hosts]
    monkeypatch.setattr(secret_noise, "unmask", lambda *_: bytearray(2**62))
    with pytest.raises(MemoryError):
        run_in_threads(*[lambda h=h: draw(h, LAPLACE, 100) for h in hosts], wires=ends)
    with pytest.raises(ExchangeError, match="new keys"):
        draw(hosts[1], LAPLACE, 100)


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(SettingError, match="size"):
        draw(parties(make_keys("none"))[0][0], LAPLACE, 0)
