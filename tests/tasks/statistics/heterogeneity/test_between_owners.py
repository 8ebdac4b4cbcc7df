"""The variance between owners from one noisy gradient of each, against answers drawn with a known one."""

from dataclasses import replace

import numpy as np
import pytest

from parley.tasks.statistics.heterogeneity.run import BetweenOwners, OwnersAnswers

OWNERS, ROWS, NOISE = 20, 300, 0.08
SPREAD = np.geomspace(4, 0.3, 4)


def drawn(multiple, peaked, rng, owners=OWNERS, rows=ROWS):
    """Answers as they come out if owners differ by so many times the variance of an own estimate. Directions are turned
    at random."""
    axes = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    root = axes * np.sqrt(SPREAD)
    own = np.sqrt((multiple + 1) / rows) * rng.normal(size=(owners, 4)) @ root.T
    noise = rng.laplace(scale=NOISE / np.sqrt(2), size=own.shape) if peaked else NOISE * rng.normal(size=own.shape)
    return OwnersAnswers(
        1.3 + own + noise, np.full(owners, float(rows)), np.full(owners, NOISE**2), root @ root.T, peaked
    )


@pytest.mark.parametrize("peaked", [False, True])
@pytest.mark.parametrize("multiple", [0.0, 2.0])
def test_the_interval_covers_and_without_the_known_noise_it_would_not(multiple, peaked):
    """100 consortia: at least 82 of the 90 % intervals cover (four standard errors below 90 would be 78), the mean is
    near the truth. Who forgets to subtract the noise's variance finds differences where there are none."""
    rng = np.random.default_rng(7)
    known = [drawn(multiple, peaked, rng) for _ in range(100)]
    found = [answers.between() for answers in known]
    covered = sum(each.low <= multiple <= each.high for each in found)
    assert covered >= 82
    means = np.array([each.mean for each in found])
    if multiple:
        assert covered <= 98
        assert abs(means.mean() - multiple) < 4 * means.std() / 10 + 0.05
    forgetful = [replace(answers, noise=np.full(OWNERS, 1e-12)).between() for answers in known[:40]]
    assert sum(each.low <= multiple <= each.high for each in forgetful) < 20


def test_owners_of_different_sizes_count_by_what_they_tell():
    rng = np.random.default_rng(3)
    records = rng.integers(50, 5000, 25).astype(float)
    found = []
    for _ in range(40):
        noise = (30 / records) ** 2
        own = np.sqrt(3 / np.median(records) + 1 / records)[:, None] * rng.normal(size=(25, 4)) * np.sqrt(SPREAD)
        answers = own + np.sqrt(noise)[:, None] * rng.normal(size=(25, 4))
        found.append(OwnersAnswers(answers, records, noise, np.diag(SPREAD), peaked=False).between())
    means = np.array([each.mean for each in found])
    assert abs(means.mean() - 3) < 4 * means.std() / np.sqrt(40)
    assert sum(each.low <= 3 <= each.high for each in found) >= 29
    assert all(each.rows == np.median(records) for each in found)


def test_more_noise_makes_it_less_certain_and_alike_answers_are_no_difference():
    rng = np.random.default_rng(0)
    clear = drawn(4.0, False, rng, owners=40)
    loud = replace(clear, answers=clear.answers + 1.0 * rng.normal(size=clear.answers.shape), noise=clear.noise + 1.0)
    a, b = clear.between(), loud.between()
    assert a.low > 0
    assert b.high - b.low > 3 * (a.high - a.low)
    alike = replace(clear, answers=np.full_like(clear.answers, 0.3)).between()
    assert (alike.mean, alike.low, alike.high) == (0.0, 0.0, 0.0)


def test_it_is_said_in_words():
    said = BetweenOwners(2.0, 1.2, 3.4, 300.0).sentence()
    assert (
        said
        == "Owners differ clearly: the variance between owners is 2 times the variance of an owner's own estimate from "
        "300 rows (90%: 1.2 to 3.4)."
    )
    assert "hardly" in BetweenOwners(0.0, 0.0, 0.1, 300.0).sentence()
    assert "much" in BetweenOwners(20.0, 9.0, 44.0, 300.0).sentence()


@pytest.mark.parametrize("unit", [1e-40, 1.0, 1e40])
def test_units_do_not_count(unit):
    plain = drawn(2.0, True, np.random.default_rng(1))
    scaled = OwnersAnswers(
        plain.answers * unit, plain.records, plain.noise * unit**2, plain.covariance * unit**2, plain.peaked
    )
    a, b = plain.between(), scaled.between()
    assert (b.mean, b.low, b.high) == pytest.approx((a.mean, a.low, a.high), rel=1e-6)
    drowned = replace(plain, noise=np.full(OWNERS, 1e80)).between()
    assert (drowned.low, drowned.mean) == (0.0, 0.0)
