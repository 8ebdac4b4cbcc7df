"""Gossip: the weights of a graph, and the longest step that it bears."""

import numpy as np
import pandas as pd
import pytest
from federated import different_tables, quiet_run
from gossiping import GRAPHS, NAMES, PATH, SIZES, gossip_terms, radius_of, weights_of

import parley
from parley.errors import SettingError
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.algorithms.gossip import Gossip, largest_stable_step, metropolis, spectral_gap
from parley.losses import LinearRegression
from parley.terms.topology import edges

TABLES = different_tables(SIZES)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 9])
@pytest.mark.parametrize("name", ["ring", "grid", "star", "complete"])
def test_weights_are_doubly_stochastic_and_mix(name, count):
    names = tuple(f"o{k}" for k in range(count))
    joined = edges(name, names)
    W = metropolis(names, joined)
    np.testing.assert_allclose(W, W.T)
    np.testing.assert_allclose(W.sum(axis=0), 1)
    assert (W >= -1e-12).all()
    assert spectral_gap(W) > 0
    assert len({frozenset(pair) for pair in joined}) == len(joined)


def test_a_grid_of_nine_has_three_rows():
    joined = {frozenset(pair) for pair in edges("grid", "abcdefghi")}
    assert len(joined) == 12
    assert {frozenset("ae"), frozenset("cd")}.isdisjoint(joined)
    assert {frozenset("eb"), frozenset("ed"), frozenset("ef"), frozenset("eh")} <= joined


SHARES = [np.ones(6), np.array([3.0, 0.6, 0.6, 0.6, 0.6, 0.6]), np.array([0.1, 0.1, 0.1, 0.1, 0.1, 5.5])]


@pytest.mark.parametrize("largest", SHARES, ids=str)
@pytest.mark.parametrize("name", ["ring", "grid", "star"])
def test_no_frequency_is_worse_than_the_one_of_the_bound(name, largest):
    """1/largest + step Re G(z) >= 0 on the unit circle, G = (z - 1) W^2 (z - W)^-2: the closed form is the least step
    over all of them."""
    W, root = weights_of(name, 6), np.sqrt(largest)
    found = []
    for angle in np.linspace(1e-3, np.pi, 400):
        z = np.exp(1j * angle)
        inverse = np.linalg.inv(z * np.eye(6) - W)
        G = (z - 1) * W @ W @ inverse @ inverse
        found.append(1 / np.linalg.eigvalsh(root[:, None] * -np.real(G) * root)[-1])
    assert min(found) == pytest.approx(largest_stable_step(W, largest), rel=1e-9)
    assert min(found) == pytest.approx(found[-1], rel=1e-9)


@pytest.mark.parametrize("largest", SHARES, ids=str)
@pytest.mark.parametrize("name", ["ring", "grid", "star", "pairs"])
def test_steps_below_the_bound_never_grow_whatever_owners_cost(name, largest):
    """Hessians of two directions that do not commute, many of them at their bound or at nothing, climbed towards
    growth."""
    W, rng = weights_of(GRAPHS[name] if name != "pairs" else tuple(map(tuple, PATH)), 6), np.random.default_rng(0)
    step = 0.999 * largest_stable_step(W, largest)

    def hessians(angles, ends):
        turned = np.stack([np.cos(angles), np.sin(angles)], -1)
        other = np.stack([-np.sin(angles), np.cos(angles)], -1)
        parts = [ends[k, :, None, None] * (v[:, :, None] * v[:, None, :]) for k, v in enumerate((turned, other))]
        return largest[:, None, None] * (parts[0] + parts[1])

    for _ in range(8):
        at = rng.uniform(0, np.pi, 6), rng.choice([0.0, 0.3, 1.0], (2, 6), p=[0.2, 0.2, 0.6])
        worst = radius_of(W, hessians(*at), step)
        for _ in range(25):
            near = at[0] + 0.3 * rng.normal(size=6), np.clip(at[1] + 0.3 * rng.normal(size=(2, 6)), 0, 1)
            if (found := radius_of(W, hessians(*near), step)) > worst:
                at, worst = near, found
        assert worst <= 1 + 1e-7
    if (largest == 1).all():  # where all are alike the bound is sharp
        assert radius_of(W, np.ones((6, 1, 1)), step * 1.01) > 1


@pytest.mark.parametrize(("name", "shares"), [("ring", SHARES[0]), ("grid", SHARES[1]), ("star", SHARES[2])], ids=str)
def test_costs_that_are_not_quadratic_settle_with_such_a_step(name, shares):
    """Each owner's derivative grows as its bound up to 1 and is flat beyond: convex, and its curvature jumps."""
    graph = edges(name, NAMES[:6])
    W, centres = metropolis(NAMES[:6], graph), np.array([-3.0, 1.0, 0.5, 4.0, -1.0, 2.0])
    rule = Gossip(LinearRegression(), 1, None, 0.9 * largest_stable_step(W, shares), NAMES[:6], (50,) * 6, graph)
    state = rule.start(np.array([10.0]))
    for _ in range(1500):
        points = rule.points(state)
        gradients = [shares[k] * np.clip(points[n] - centres[k], -1, 1) for k, n in enumerate(NAMES[:6])]
        state = rule.update(
            state,
            np.zeros(1),
            [parley.protocol.queries.Answer("", n, 50, s) for n, s in zip(NAMES[:6], gradients, strict=True)],
        )
    assert abs(np.sum([shares[k] * np.clip(state.theta - centres[k], -1, 1) for k in range(6)])) < 1e-6
    assert rule.consensus_error(state) < 1e-6


def test_the_automatic_step_is_what_the_graph_bears(tmp_path):
    def step(name, **changes):
        return make_algorithm(parley.Owner("a", TABLES["a"]).prepare(gossip_terms(name, **changes)).setup).step

    whole = step("complete")
    assert step("ring") == whole  # owners of about the same size within declared bounds
    uneven = gossip_terms("star", 4, 4, 4, 4, 4, 400)
    rule = make_algorithm(parley.protocol.setup.resolve(uneven))
    assert rule.step == pytest.approx(whole * largest_stable_step(rule.weights, rule.scale), rel=1e-5)
    assert rule.step < 0.7 * whole
    table = pd.concat(TABLES.values())
    table.to_csv(tmp_path / "public.csv", index=False)
    public = parley.protocol.setup.resolve(
        gossip_terms("ring", model__public=str(tmp_path / "public.csv"), model__bounds=None)
    )
    curvature = public.objective.curvature(public.public)
    excess = min(4.0, public.objective.largest_curvature(public.preparation) / curvature)
    assert excess > 1.5
    largest = np.minimum(6, excess * make_algorithm(public).scale)
    assert make_algorithm(public).step == pytest.approx(
        min(1, largest_stable_step(weights_of("ring", 6), largest)) / curvature, rel=1e-4
    )
    assert step("ring", learning__step=0.05) == 0.05  # what terms say is not touched


def test_a_run_that_diverges_is_one_sentence():
    terms = gossip_terms("ring", model__radius=None, privacy__clip=1e50, learning__step=40.0, learning__horizon=400)
    with pytest.raises(SettingError, match=r"learning\.step: the run diverged in round"):
        quiet_run(terms, TABLES)
