"""One noise for all: its laws, what finitely many bits cost, how it is calibrated, and what a study makes of it."""

import itertools
import math
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2, norm

import parley
from parley.errors import AbortedRound, GuaranteeError, TermsError
from parley.privacy.accounting.shared_calibration import Span, Spans, bits_delta, shared_law
from parley.privacy.mechanisms import Bounded
from parley.privacy.mechanisms.shared_noise import (
    LADDER_LENGTH,
    MAX_DISTANCE,
    MAX_EXPONENT,
    UNIFORM_TERMS,
    Recipe,
    draw_plainly,
    make_recipe,
)
from parley.privacy.sharing.ring import Shares, expand_seed

DIGITS = Context(prec=60)
UNIT = 10**50


def weights(deviation: int, reach: int) -> np.ndarray:
    """e^(-x^2/(2 s^2)) for x from -reach to reach, as whole numbers of 10^-50."""
    half = [int((-Decimal(x * x) / (2 * deviation**2)).exp(DIGITS) * UNIT) for x in range(reach + 1)]
    return np.array(half[:0:-1] + half, dtype=object)


def smoothed(pmf: np.ndarray, n: int) -> np.ndarray:
    """The pmf convolved with all the uniform laws, times n^k."""
    for _ in range(UNIFORM_TERMS):
        sums = np.concatenate([[0], np.cumsum(np.concatenate([pmf, np.zeros(n - 1, dtype=object)]))])
        pmf = sums[1:] - np.concatenate([np.zeros(n, dtype=object), sums[1:-n]])
    return pmf


def gaussian_pmf(recipe: Recipe) -> np.ndarray:
    """Of N Y + U, Y by the ladder's own thresholds, as floats; centred."""
    above = np.array([1.0, *(t / 2**64 for t in recipe.ladder), 0.0])
    size = above[:-1] - above[1:]
    top = np.concatenate([size[:0:-1] / 2, size[:1], size[1:] / 2])
    spread = np.zeros((len(top) - 1) * recipe.step + 1)
    spread[:: recipe.step] = top
    for _ in range(UNIFORM_TERMS):
        spread = np.convolve(spread, np.full(recipe.step, 1 / recipe.step))
    return spread


def laplace_pmf(recipe: Recipe) -> np.ndarray:
    """Of the weighted sum of its bits, centred."""
    pmf = np.ones(1)
    for threshold, weight in recipe.singles:
        p, step = threshold / 2**64, abs(weight)
        longer = np.zeros(len(pmf) + step)
        longer[: len(pmf)] += pmf * (1 - p if weight > 0 else p)
        longer[step:] += pmf * (p if weight > 0 else 1 - p)
        pmf = longer
    return pmf


@pytest.mark.parametrize("exponent", [3, 4])
def test_the_smoothed_law_is_the_discrete_gaussian_but_for_the_ripple(exponent: int) -> None:
    """Exactly, in whole numbers of 60 digits: the total variation is below the bound, and the bound is not far above
    it."""
    from parley.privacy.mechanisms.shared_noise import _smoothing_bound

    n, reach = 2**exponent, 140
    top = weights(10, reach)
    coarse = np.zeros(2 * reach * n + 1, dtype=object)
    coarse[::n] = top
    fine = weights(10 * n, reach * n)
    a, b = smoothed(coarse, n), smoothed(fine, n)
    distance = sum(abs(int(x) * int(b.sum()) - int(y) * int(a.sum())) for x, y in zip(a, b, strict=True))
    exact = float(Fraction(distance, 2 * int(a.sum()) * int(b.sum())))
    assert exact <= _smoothing_bound(exponent) <= 100 * exact + 1e-21


def test_no_recipe_is_further_from_its_law_than_the_accounting_says() -> None:
    for law, exponent in itertools.product(("laplace", "gaussian"), (3, 4, 7, 20, MAX_EXPONENT)):
        recipe = make_recipe(law, exponent)
        assert recipe.distance <= MAX_DISTANCE
        assert recipe.reach < 2**62


def test_the_bits_make_the_laplace_law() -> None:
    recipe = make_recipe("laplace", 4)
    pmf = laplace_pmf(recipe)
    k = np.arange(len(pmf)) - len(pmf) // 2
    law = np.tanh(1 / 32) * np.exp(-np.abs(k) / 16)
    assert np.abs(pmf - law).sum() < 1e-13
    assert np.isclose(pmf @ k.astype(float) ** 2, recipe.variance, rtol=1e-12)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_studies_draw_the_same_law(law: str) -> None:
    """Chi-square of a million draws in cells of equal probability; half the scale fails."""
    recipe = make_recipe(law, 4)
    pmf = laplace_pmf(recipe) if law == "laplace" else gaussian_pmf(recipe)
    drawn = draw_plainly(recipe, (1_000_000,), np.random.default_rng(11))
    assert _chi_square(pmf, drawn) > 1e-4
    assert _chi_square(pmf, drawn // 2) < 1e-12


def _chi_square(pmf: np.ndarray, drawn: np.ndarray) -> float:
    edges = np.searchsorted(np.cumsum(pmf), np.linspace(0, 1, 41)[1:-1])
    cell = np.searchsorted(edges, np.clip(drawn + len(pmf) // 2, 0, len(pmf) - 1))
    expected = np.bincount(np.searchsorted(edges, np.arange(len(pmf))), weights=pmf, minlength=40) * len(drawn)
    found = np.bincount(cell, minlength=40)
    return float(chi2.sf(((found - expected) ** 2 / expected).sum(), 39))


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_neighbouring_sums_are_as_close_as_was_promised(law: str) -> None:
    """The exact hockey-stick divergence between the noise and the noise moved as far as one person moves a sum; half
    the noise fails."""
    epsilon, delta = Fraction(1, 2), Fraction(1, 10**5)
    found = shared_law(law, epsilon, delta, 1, 1, Spans.from_spans([Span(1000, 2e-3, 1.0, 1.0)]))
    pmf = laplace_pmf(found.recipe) if law == "laplace" else gaussian_pmf(found.recipe)

    def divergence(shift: int) -> float:
        return float(np.maximum(pmf[shift:] - math.exp(float(epsilon)) * pmf[:-shift], 0).sum() + pmf[:0].sum())

    moved = math.floor(found.moved)
    assert moved > 200  # the grid is fine
    assert divergence(moved) <= (1e-12 if law == "laplace" else float(delta))
    assert divergence(2 * moved) > 100 * float(delta)
    # and no more noise than is needed: the loss of grid and smoothing together is below one percent
    if law == "gaussian":
        assert divergence(math.ceil(1.02 * moved)) > float(delta)


def test_no_pair_of_answers_moves_the_encoded_sum_further_than_the_noise_covers() -> None:
    """Neighbours as far apart as allowed, placed where rounding hurts most, at all magnitudes."""
    rng = np.random.default_rng(3)
    for size, law, records, scale in itertools.product(
        (1, 3, 50), ("laplace", "gaussian"), (1, 17, 10**6), (1e-30, 1.0, 1e30)
    ):
        sensitivity, extent = 2 * scale / records, scale
        found = shared_law(
            law,
            Fraction(1),
            Fraction(1, 10**6),
            10,
            size,
            Spans.from_spans([Span(records, sensitivity, extent, scale)]),
        )
        noise = found.over(records, sensitivity)
        for _ in range(50):
            direction = rng.normal(size=size) * rng.choice([1e-3, 1.0], size=size)
            order = 1 if found.norm == "l1" else 2
            direction /= np.linalg.norm(direction, order)
            centre = rng.uniform(-1, 1, size) * extent / max(size, 1)
            centre = np.round(centre * noise.factor) / noise.factor + 0.5 / noise.factor * rng.choice(
                [0.999999, 1, 1.000001], size=size
            )
            pair = [Bounded(centre + side * direction * sensitivity / 2, sensitivity, found.norm) for side in (-1, 1)]
            moved = np.linalg.norm(np.subtract(*(noise.encode(b).view(np.int64).astype(float) for b in pair)), order)
            assert moved <= found.moved


def test_records_with_several_owners_move_the_sum_as_often() -> None:
    one, three = (
        shared_law("laplace", Fraction(1), Fraction(0), 1, 4, Spans.from_spans([Span(100, 0.02, 1.0, 1.0)]), k)
        for k in (1, 3)
    )
    ratio = (three.recipe.scale / three.units) / (one.recipe.scale / one.units)
    assert ratio == pytest.approx(3, rel=0.01)


def test_bits_are_paid_from_delta() -> None:
    assert bits_delta(Fraction(1), 10**6) == pytest.approx(float((1 + math.e) * MAX_DISTANCE * 10**6), rel=1e-6)
    with pytest.raises(TermsError, match=r"privacy\.delta: expected at least"):
        assert parley.protocol.setup.resolve(_terms(delta=1e-16, epsilon=(1.0, 2.0))).parts


def test_an_answer_is_shared_in_parts_that_say_nothing_alone() -> None:
    words, key, content = np.arange(5, dtype=np.uint64), b"k" * 32, "ab" * 32
    shares = Shares.from_words(words, key, content)
    assert np.array_equal(expand_seed(shares.seeds[0], 5) + expand_seed(shares.seeds[1], 5) + shares.last, words)
    assert np.array_equal(Shares.from_record(shares.record, words, key, content).last, shares.last)
    assert not np.array_equal(Shares.from_words(words, key, content).last, shares.last)  # a nonce of its own
    for changed in ((words + np.uint64(1), key, content), (words, b"l" * 32, content), (words, key, "ac" * 32)):
        with pytest.raises(AbortedRound, match="This round is aborted"):
            Shares.from_record(shares.record, *changed)
    kept = shares.record.tobytes()
    assert len(kept) == 64  # a nonce and a tag: neither seeds nor the third share
    assert not any(seed in kept for seed in shares.seeds)


def test_a_person_at_several_owners_is_in_the_rounds_of_each() -> None:
    """Random bits are paid for every opening that a person can be in."""
    terms = _terms(epsilon=(12.0,) * 4).changed(learning={"participation": 0.25, "horizon": 40})
    alone, everywhere = (terms.changed(privacy={"shared_records": copies}) for copies in (1, 4))
    spent = [Fraction(str(1e-6)) - parley.protocol.setup.resolve(each).law().delta for each in (alone, everywhere)]
    assert float(spent[1] / spent[0]) == pytest.approx(4, rel=1e-6)


def test_what_was_shared_is_never_an_answer(tmp_path: Path) -> None:
    terms = _terms()
    ledger = parley.Ledger(tmp_path / "a.ledger", 5, "1e-5")
    owner = parley.Owner("bank-0", parley.data.synthetic_lending(400, seed=1), ledger=ledger)
    owner.accept(terms)
    query = parley.protocol.queries.GradientQuery.ask(terms.hash, "learner", 1, np.zeros(3))
    first, account = owner.contribute(query)
    again, same = owner.contribute(query)
    assert account.spent == same.spent > 0
    assert first.shares is not None
    assert again.shares is not None
    assert first.shares.seeds == again.shares.seeds
    with pytest.raises(GuaranteeError, match="the owner sends shares instead of a released answer"):
        owner.answer(query)


def _terms(delta: float = 1e-6, epsilon: tuple[float, ...] = (1.0, 3.0), **privacy: object) -> parley.Terms:
    owners = [{"name": f"bank-{i}", "records": 400, "epsilon": e} for i, e in enumerate(epsilon)]
    return parley.Terms.from_dict(
        {
            "model": {
                "kind": "linear-regression",
                "target": "int_rate",
                "features": ["fico", "dti"],
                "intercept": True,
                "radius": 30.0,
                "bounds": {"fico": [600, 850], "dti": [0, 45], "int_rate": [5, 31]},
            },
            "learning": {"algorithm": "gradient-descent", "horizon": 5},
            "privacy": {"clip": 40.0, "mechanism": "gaussian", "delta": delta, "noise": "shared", **privacy},
            "owners": owners,
            "hosts": [{"name": name} for name in ("bank-0", "bank-1", "notary")],
        }
    )


def _owners(terms: parley.Terms) -> list[parley.Owner]:
    book = parley.data.synthetic_lending(400 * len(terms.owners), seed=1)
    return [parley.Owner(part.name, book.iloc[400 * i : 400 * i + 400]) for i, part in enumerate(terms.owners)]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_study_has_the_noise_that_the_aggregation_says(mechanism: str) -> None:
    """Owners' sums with one noise: mean and variance of the first answer over replicates, in standard errors; everybody
    pays the least."""
    terms = _terms(mechanism=mechanism)
    terms = terms.changed(learning={"horizon": 1})
    runs = 20_000
    noisy = parley.train(terms, _owners(terms), replicates=runs, seed=2, measure=False)
    loud = terms.changed(everyone={"epsilon": 20.0})
    still = parley.train(loud, _owners(loud), replicates=400, seed=3, measure=False)
    step = noisy.theta - still.theta.mean(axis=0)
    setup = parley.protocol.setup.resolve(terms)
    variance = parley.protocol.aggregation.aggregation_of(terms).noise(setup).all_together
    from parley.learning.algorithms.algorithm import step_size

    deviation = step_size(setup) * math.sqrt(variance)
    kurtosis = 6 if mechanism == "laplace" else 3
    assert np.abs(step.mean(axis=0)).max() < 5 * deviation * math.sqrt(2 / 400)
    inside = np.abs(noisy.theta).max(axis=0) < 30.0  # the box did not bind
    assert inside.all()
    assert np.abs(step.var(axis=0) / deviation**2 - 1).max() < 4 * math.sqrt((kurtosis - 1) / runs)
    assert [owner.epsilon_spent for owner in noisy.owners] == [1.0, 1.0]


def test_a_single_answer_is_never_released_and_each_owners_noise_is_never_added_up() -> None:
    terms = _terms()
    owner = _owners(terms)[0].simulate(1, 1)
    owner.accept(terms)
    query = parley.protocol.queries.GradientQuery.ask(terms.hash, "learner", 1, np.zeros((1, 3)))
    with pytest.raises(GuaranteeError, match="the owner sends shares instead of a released answer"):
        owner.answer(query)
    each = parley.Terms.from_dict(
        {**terms.changed(privacy={"noise": "each-owner"}, hosts=()).model_dump(exclude_none=True)}
    )
    other = _owners(each)[0].simulate(1, 1)
    other.accept(each)
    with pytest.raises(GuaranteeError, match="each owner draws its own noise"):
        other.contribute(parley.protocol.queries.GradientQuery.ask(each.hash, "learner", 1, np.zeros((1, 3))))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"privacy": {"delta": 0.0, "mechanism": "laplace"}}, "privacy.delta: expected a number above 0"),
        ({"hosts": ["a"]}, "hosts: privacy.noise = 'shared' needs the names of 2 or 3 different hosts"),
        ({"hosts": ["a", "b", "b"]}, "hosts: privacy.noise = 'shared' needs the names of 2 or 3 different hosts"),
        ({"privacy": {"noise": "each-owner"}}, "hosts: allowed only with privacy.noise = 'shared'"),
    ],
)
def test_terms_say_who_draws(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(TermsError, match=sentence):
        _terms().changed(**change)  # type: ignore[arg-type]


def test_hosts_are_part_of_what_is_agreed_and_older_terms_keep_their_hash() -> None:
    terms = _terms()
    assert terms.hash != terms.changed(hosts=("x", "y", "z")).hash
    assert '"hosts"' not in terms.changed(privacy={"noise": "each-owner"}, hosts=()).canonical


def test_ladder_reaches_where_thresholds_end() -> None:
    recipe = make_recipe("gaussian", 8)
    assert len(recipe.ladder) == LADDER_LENGTH
    assert recipe.ladder[-1] == 1
    assert 2 * norm.sf(LADDER_LENGTH / 10) < 2.0**-62
