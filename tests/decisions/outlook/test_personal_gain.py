"""The forecast of personal models against simulated consortia whose differences are known."""

import itertools

import numpy as np
import pytest

from parley.decisions.outlook.personal_gain import Owners

RECORDS = np.array([40.0, 120.0, 400.0])
CURVATURE = np.array([4.0, 2.0, 1.0, 0.5])
SIGMA2, PRIVACY = 1.0, 0.02
CONSORTIA = 3000


def simulated(tau2: float, weight: float, seed: int) -> np.ndarray:
    """Excess costs [consortia, owners] of personal models pulled with this strength k h. Rows of a fixed design, so
    that an own estimate is normal with variance sigma^2/(n lambda/2): the curvature of a squared loss is twice its
    second moments."""
    rng = np.random.default_rng(seed)
    shape = (CONSORTIA, 3, 4)
    own = 0.7 + np.sqrt(tau2) * rng.standard_normal(shape)
    spread = np.sqrt(SIGMA2 / (RECORDS[:, None] * CURVATURE / 2))
    estimate = own + spread * rng.standard_normal(shape)
    joint = np.einsum("l,clj->cj", RECORDS / RECORDS.sum(), estimate) + np.sqrt(PRIVACY) * rng.standard_normal(
        (CONSORTIA, 4)
    )
    a = weight / (weight + RECORDS[:, None] * CURVATURE)
    personal = (1 - a) * estimate + a * joint[:, None]
    return 0.5 * (personal - own) ** 2 @ CURVATURE


def known() -> Owners:
    return Owners(CURVATURE, RECORDS, SIGMA2 / (CURVATURE / 2), np.full(4, PRIVACY), np.full(4, 0.7))


@pytest.mark.parametrize("ratio", [0.0, 0.5, 2.0])
def test_the_expected_cost_is_that_of_simulated_consortia(ratio):
    """Between-owner variance so many times the within of the middle owner. The forecast takes the best weight; so does
    the simulation, of those that the forecast looks at. A mutant that forgets that own rows are in the joint model too
    fails."""
    tau2 = ratio * SIGMA2 / (120 * CURVATURE.mean() / 2)
    owners = known()
    said = owners.personal(np.full(4, tau2))
    strengths = np.array([0.0, *np.geomspace(0.1, 1e6, 15)]) * CURVATURE.mean()
    runs = np.array([simulated(tau2, weight, seed=1) for weight in strengths])
    best = runs.mean(axis=1).argmin(axis=0)
    for place in range(3):
        costs = runs[best[place], :, place]
        assert abs(costs.mean() - said[place]) < 3 * costs.std() / np.sqrt(CONSORTIA)
    if ratio == 0:
        a = strengths[best[2]] / (strengths[best[2]] + RECORDS[2] * CURVATURE)
        own, away = owners.scatter / RECORDS[2], owners.scatter / RECORDS.sum() + PRIVACY
        forgetful = 0.5 * ((1 - a) ** 2 * own + a**2 * away) @ CURVATURE
        assert abs(runs[best[2], :, 2].mean() - forgetful) > 3 * runs[best[2], :, 2].std() / np.sqrt(CONSORTIA)


def test_joining_adds_less_the_more_owners_differ_and_never_costs():
    owners = known()
    gains = [owners.alone(np.full(4, t)) - owners.personal(np.full(4, t)) for t in (0.0, 0.01, 0.1, 1.0, 100.0)]
    assert all((first >= second - 1e-12).all() for first, second in itertools.pairwise(gains))
    assert (gains[-1] >= 0).all()
    assert gains[0][0] > 0.01
    assert owners.together(np.full(4, 100.0)).min() > owners.alone(np.full(4, 100.0)).max()
