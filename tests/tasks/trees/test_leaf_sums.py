"""How far one record moves the sums in leaves: searched by optimisation, and by extreme doubles."""

from dataclasses import replace

import numpy as np
import pytest
from grove import grove_terms
from scipy.optimize import differential_evolution
from scipy.special import expit

from parley.protocol.setup import resolve
from parley.tasks.trees import question
from parley.tasks.trees.question import PlacedRows, RecordShare, leaf_means, make_structure

STRUCTURE = make_structure(resolve(grove_terms({"a": 3})).preparation)
LEAVES = STRUCTURE.leaves[1]
SHARES = [RecordShare(classes, 2.0, norm) for classes in (True, False) for norm in ("l1", "l2")]


def size(value, norm):
    return float(np.abs(value).sum() if norm == "l1" else np.linalg.norm(value))


def moved(share, first, second, theta):
    """By how much the sums of a table move if its first record (place, target, whether it has one) becomes another,
    whose other cells differ too."""
    found = []
    for other, (place, y, present) in enumerate((first, second)):
        places = np.array([[place, other, 1], [2, 2, 1]], dtype=np.uint16)
        rows = PlacedRows(places, np.array([y, 1.0]), np.array([present, True]))
        found.append(2 * leaf_means(rows, STRUCTURE, LEAVES, theta, share))
    return size(found[0] - found[1], share.norm)


def searched(share, seed=0, enough=np.inf):
    """The most that an ascent finds, or the first that is more than `enough`: scores and targets of both records free,
    in one leaf or two, with a target or without."""
    worst = 0.0
    for other in (0, 1):
        for kinds in ((True, True), (True, False)):

            def away(x, other=other, kinds=kinds):
                theta = np.zeros(STRUCTURE.parameters)
                theta[STRUCTURE.leaves[2].first], theta[STRUCTURE.leaves[2].first + 1] = x[:2]
                y = np.where(np.array(x[2:]) > 0, 1.0, -1.0) if share.classes else x[2:]
                return -moved(share, (0, y[0], kinds[0]), (other, y[1], kinds[1]), theta)

            ends = [(-40.0, 40.0)] * 4 if share.classes else [(-9.0, 9.0)] * 4
            found = differential_evolution(away, ends, seed=seed, maxiter=30, popsize=10, tol=1e-10)
            worst = max(worst, -found.fun)
            if worst > enough:
                return worst
    return worst


@pytest.mark.parametrize("share", SHARES, ids=lambda s: f"{'classes' if s.classes else 'numbers'}-{s.norm}")
def test_no_record_found_moves_the_sums_by_more_than_the_sensitivity(share):
    worst = searched(share)
    assert worst <= 2 * share.sensitivity(2)
    assert worst > 0.99 * share.unit_sensitivity  # and some nearly do


@pytest.mark.parametrize("share", SHARES, ids=lambda s: f"{'classes' if s.classes else 'numbers'}-{s.norm}")
def test_nor_does_any_of_extreme_doubles(share):
    rng = np.random.default_rng(0)
    wild = [0.0, -0.0, 5e-324, 1e-300, 0.5, 1.0, -1.0, 36.7, 709.0, 710.0, 745.2, 1e16, 1e50, -1e50, -709.9]
    for _ in range(400):
        theta = np.zeros(STRUCTURE.parameters)
        theta[:3], theta[LEAVES.first : LEAVES.first + 3] = rng.choice(wild, 3), rng.choice(wild, 3)
        targets = [-1.0, 1.0] if share.classes else wild
        records = [(int(rng.integers(3)), rng.choice(targets), bool(rng.random() < 0.8)) for _ in range(2)]
        assert moved(share, *records, theta) <= 2 * share.sensitivity(2)


@pytest.mark.parametrize(
    ("classes", "norm", "scale"), [(True, "l2", 6.0), (True, "l1", 2.0), (False, "l2", 1.5), (False, "l1", 0.5)]
)
def test_larger_curvatures_would_be_found_out(classes, norm, scale, monkeypatch):
    """The mutants: the curvature counts for more than the proof allows."""
    monkeypatch.setattr(RecordShare, "curvature_scale", property(lambda share: scale))
    share = RecordShare(classes, 2.0, norm)
    more = 2 * share.sensitivity(2) * 1.01
    assert searched(share, enough=more) > more


def test_errors_without_a_limit_would_be_found_out(monkeypatch):
    monkeypatch.setattr(question.np, "clip", lambda x, low, high: x)
    share = RecordShare(False, 2.0, "l2")
    more = 2 * share.sensitivity(2) * 1.5
    assert searched(share, enough=more) > more


def test_the_bound_of_the_proof_holds_on_a_fine_grid():
    """Classes in closed form, where 2001 x 2001 pairs of probabilities can be tried at once."""
    u, v = np.meshgrid(*2 * [np.linspace(0, 1, 2001)])
    for scale, power, most in ((4.0, 2, 4.0), (1.0, 1, 2.0)):
        same = np.abs(2 - u - v) ** power + (scale * np.abs(u * (1 - u) - v * (1 - v))) ** power
        one = u**power + (scale * u * (1 - u)) ** power
        assert same.max() <= most
        assert 2 * one.max() <= most


@pytest.mark.parametrize("classes", [True, False])
def test_means_are_sums_by_hand(classes):
    rng = np.random.default_rng(1)
    places = np.column_stack([rng.integers(11, size=5000), rng.integers(10, size=5000), rng.integers(5, size=5000)])
    y = rng.choice([-1.0, 1.0], 5000) if classes else rng.normal(0, 3, 5000)
    rows = PlacedRows(places.astype(np.uint16), y, rng.random(5000) < 0.9)
    theta, share = rng.normal(0, 1, STRUCTURE.parameters), RecordShare(classes, 1.5, "l2")
    score = theta[0] + sum(theta[each.values][places[:, j]] for j, each in enumerate(STRUCTURE.leaves[1:]))
    g = expit(score) - (y > 0) if classes else np.clip((score - y) / 1.5, -1, 1)
    h = 4 * expit(score) * (1 - expit(score)) if classes else np.ones(5000)
    for leaves in STRUCTURE.leaves:
        found = leaf_means(rows, STRUCTURE, leaves, theta, share)
        for leaf in range(leaves.size):
            there = rows.present & (leaves.leaf_of(rows.X) == leaf)
            assert found[:, leaf] == pytest.approx([g[there].sum() / 5000, h[there].sum() / 5000], abs=1e-6)


def test_sums_do_not_hang_on_the_order_of_records(monkeypatch):
    """Whole steps add up exactly, so that two orders, and blocks of any size, give the same bits."""
    rng = np.random.default_rng(2)
    rows = PlacedRows(rng.integers(10, size=(999, 3)).astype(np.uint16) % 5, rng.normal(0, 3, 999), np.ones(999, bool))
    theta, share = rng.normal(0, 1, STRUCTURE.parameters), RecordShare(False, 1.5, "l2")
    found = leaf_means(rows, STRUCTURE, LEAVES, theta, share)
    order = rng.permutation(999)
    mixed = replace(rows, X=rows.X[order], y=rows.y[order])
    monkeypatch.setattr(question, "RECORDS_PER_BLOCK", 7)
    assert np.array_equal(found, leaf_means(mixed, STRUCTURE, LEAVES, theta, share))
