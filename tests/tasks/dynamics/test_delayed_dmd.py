"""Matrices and delays found again from samples."""

import numpy as np
import pytest

from parley.errors import DataError, SettingError
from parley.tasks.dynamics import DelayedDMD, Plant
from parley.tasks.dynamics.delay import Layout, Regression, triangular
from parley_lab.papers.zawacki2024.delayed_control import PERIOD, PUBLISHED, ROTOR


def random_plant(seed: int) -> tuple[Plant, np.random.Generator]:
    """Stable, of order 2 to 6, sampled faster than twice per oscillation, no mode gone within a period,
    controllable."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    while True:
        A = rng.normal(size=(n, n)) / np.sqrt(n)
        A -= (np.linalg.eigvals(A).real.max() + rng.uniform(0.05, 0.5)) * np.eye(n)
        B = rng.normal(size=(n, m))
        reach = np.hstack([np.linalg.matrix_power(A, k) @ B for k in range(n)])
        if (np.abs(np.linalg.eigvals(A).imag) < np.pi).all() and np.linalg.cond(reach) < 1e6:
            return Plant.of(A, B, rng.uniform(0, 4), 1.0), rng


def driven(plant: Plant, rng: np.random.Generator, samples: int):
    inputs = rng.normal(size=(samples, plant.B.shape[1]))
    return plant.simulate(np.zeros(len(plant.A)), inputs)[:-1], inputs


@pytest.mark.parametrize("seed", range(0, 100, 4))
def test_without_noise_the_delay_comes_back(seed):
    plant, rng = random_plant(seed)
    found = DelayedDMD(max_delay=4).fit(*driven(plant, rng, 200), 1.0)
    assert found.delay_ == pytest.approx(plant.delays[0], rel=1e-6)
    assert pytest.approx(plant.A, abs=1e-5) == found.A_
    assert pytest.approx(plant.B, abs=1e-5) == found.B_


@pytest.mark.parametrize("whole", [0, 1, 2, 3])
def test_whole_delays_are_found_exactly(whole):
    plant = ROTOR.delayed(whole * PERIOD)
    found = DelayedDMD(max_delay=3).fit(*driven(plant, np.random.default_rng(whole), 80), PERIOD)
    assert found.delay_ == pytest.approx(whole * PERIOD, abs=1e-8)


@pytest.mark.parametrize("delay", PUBLISHED)
def test_published_blocks_come_out_of_samples(delay):
    plant = ROTOR.delayed(delay * PERIOD)
    found = DelayedDMD(max_delay=3).fit(*driven(plant, np.random.default_rng(5), 80), PERIOD)
    blocks = np.hstack(list(found.input_blocks_[1:3]))
    published = np.array(PUBLISHED[delay])
    if delay == 1.5:
        assert blocks[0, 3] == pytest.approx(1.97, abs=5e-3)  # 1.70 in print
        published[0, 3] = blocks[0, 3]
    assert blocks == pytest.approx(published, abs=6e-3)
    assert found.input_blocks_[0] == pytest.approx(0, abs=1e-9)


def test_each_input_may_have_its_own_delay():
    plant = Plant.of([[-0.1, 1.0], [-1.0, -0.2]], [[1.0, 0.3], [0.2, 1.0]], [0.4, 2.7], 1.0)
    x, u = driven(plant, np.random.default_rng(2), 120)
    found = DelayedDMD(max_delay=4, delays="each").fit(x, u, 1.0)
    assert found.delay_ == pytest.approx([0.4, 2.7], rel=1e-9)
    assert found.delay_std_.shape == (2,)


def test_several_trajectories_are_one_regression():
    plant = ROTOR.delayed(2.5)
    rng = np.random.default_rng(3)
    pairs = [driven(plant, rng, 25) for _ in range(4)]
    found = DelayedDMD(max_delay=3).fit([x for x, _ in pairs], [u for _, u in pairs], PERIOD)
    assert found.delay_ == pytest.approx(2.5, rel=1e-9)
    glued = DelayedDMD(max_delay=3).fit(np.vstack([x for x, _ in pairs]), np.vstack([u for _, u in pairs]), PERIOD)
    assert abs(glued.delay_ - 2.5) > 1e-6  # what lies across a seam is no motion of the plant


def noisy_runs(runs: int, method: str, samples: int = 600, share: float = 0.03):
    rows = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        damped = Plant.of([[-0.3, 1.1], [-1.1, -0.3]], [[1, -1], [-1, 2]], 2.5, PERIOD)
        x, u = driven(damped, rng, samples)
        x = x + rng.normal(size=x.shape) * share * x.std(axis=0)
        found = DelayedDMD(max_delay=3, method=method).fit(x, u, PERIOD)
        low, high = found.delay_interval(0.9)
        rows.append((found.delay_ - 2.5, low <= 2.5 <= high, found.A_[0, 0] + 0.3))
    return np.array(rows)


def test_intervals_cover_under_measurement_noise():
    rows = noisy_runs(60, "instruments")
    covered = rows[:, 1].mean()
    assert abs(covered - 0.9) < 3 * np.sqrt(0.9 * 0.1 / len(rows))
    assert abs(rows[:, 0].mean()) < 3.5 * rows[:, 0].std() / np.sqrt(len(rows))


def test_plain_least_squares_is_biased_where_instruments_are_not():
    loud = {
        method: noisy_runs(20, method, samples=1500, share=0.2)[:, 2] for method in ("instruments", "least-squares")
    }
    error = {method: abs(bias.mean()) / (bias.std() / np.sqrt(len(bias))) for method, bias in loud.items()}
    assert error["instruments"] < 3.5
    assert error["least-squares"] > 6


def test_standard_errors_count_that_neighbouring_residuals_hang_together():
    """Leaving out the products at distance one would state larger errors of A than there are."""
    rng = np.random.default_rng(4)
    damped = Plant.of([[-0.05, 1.1], [-1.1, -0.05]], [[1, -1], [-1, 2]], 2.5, PERIOD)
    x, u = driven(damped, rng, 2000)
    x = x + rng.normal(size=x.shape) * 0.05 * x.std(axis=0)
    layout = Layout(2, 2, 3)
    regression = Regression.from_factor(layout, triangular(layout.rows(x, u)), len(x))
    e = x[5:] - np.hstack([x[4:-1], *(u[4 - j : len(u) - 1 - j] for j in range(4))]) @ regression.coefficients.T
    X = layout.rows(x, u)[:, layout.regressors]
    independent = np.kron(e.T @ e / len(e), np.linalg.inv(X.T @ X))
    ratio = np.diag(regression.covariance)[:2] / np.diag(independent)[:2]
    assert (ratio < 0.8).all()  # the noise of x[k] enters twice with opposite signs, and partly cancels


def test_predict_and_simulate_go_on_from_the_samples():
    plant = ROTOR.delayed(2.5)
    x, u = driven(plant, np.random.default_rng(6), 60)
    found = DelayedDMD(max_delay=3).fit(x, u, PERIOD)
    assert found.predict(x, u)[:-1] == pytest.approx(x[4:], abs=1e-8)
    assert found.simulate([0, 0], u)[:-1] == pytest.approx(x, abs=1e-7)


def test_rank_keeps_the_leading_modes():
    plant = ROTOR.delayed(2.5)
    x, u = driven(plant, np.random.default_rng(7), 80)
    basis = np.linalg.qr(np.random.default_rng(8).normal(size=(5, 2)))[0]
    found = DelayedDMD(max_delay=3, rank=2).fit(x @ basis.T, u, PERIOD)
    assert found.delay_ == pytest.approx(2.5, rel=1e-8)
    assert found.simulate(np.zeros(5), u)[:-1] == pytest.approx(x @ basis.T, abs=1e-7)
    with pytest.raises(DataError, match="vary too little"):
        DelayedDMD(max_delay=3).fit(x @ basis.T, u, PERIOD)


@pytest.mark.parametrize("dull", ["constant", "one sine", "nothing"])
def test_inputs_that_are_not_rich_enough_are_refused(dull):
    time = np.arange(100.0)[:, None]
    u = {"constant": np.ones((100, 1)), "one sine": np.sin(0.3 * time), "nothing": np.zeros((100, 1))}[dull]
    plant = Plant.of([[-0.1, 1.0], [-1.0, -0.1]], [[0.0], [1.0]], 0.5, 1.0)
    with pytest.raises(DataError, match=r"vary too little: the data matrix has rank \d+ of 5"):
        DelayedDMD(max_delay=2).fit(plant.simulate([1, 0], u)[:-1], u, 1.0)


def test_what_cannot_be_a_sampled_plant_is_refused():
    u = np.random.default_rng(9).normal(size=(60, 1))
    x = np.zeros((60, 1))
    for k in range(59):
        x[k + 1] = -0.5 * x[k] + u[k]  # a negative eigenvalue
    with pytest.raises(DataError, match="sample faster"):
        DelayedDMD(max_delay=2).fit(x, u, 1.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"max_delay": 0}, "max_delay"), ({"max_delay": 1.5}, "max_delay"), ({"max_delay": 2, "delays": "both"}, "delays"),
     ({"max_delay": 2, "method": "magic"}, "method"), ({"max_delay": 2, "rank": 3}, "rank")],
)  # fmt: skip
def test_settings_out_of_range(settings, words):
    x, u = driven(ROTOR.delayed(2.5), np.random.default_rng(1), 60)
    with pytest.raises(SettingError, match=words):
        DelayedDMD(**settings).fit(x, u, PERIOD)


def test_tables_that_do_not_fit():
    x, u = driven(ROTOR.delayed(2.5), np.random.default_rng(1), 60)
    with pytest.raises(DataError, match="equal length"):
        DelayedDMD(3).fit(x[:-1], u, PERIOD)
    with pytest.raises(DataError, match="NaN"):
        DelayedDMD(3).fit(np.where(x == x[3], np.nan, x), u, PERIOD)
    with pytest.raises(DataError, match="Record at least"):
        DelayedDMD(3).fit(x[:12], u[:12], PERIOD)
