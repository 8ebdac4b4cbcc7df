"""Boosting beside exact Newton boosting by hand on the same trees, and leaf values beside closed forms."""

import numpy as np
import pytest
from grove import grove, grove_terms
from scipy.special import expit
from sklearn.tree import DecisionTreeRegressor

import parley
from parley.learning.algorithms.algorithm import State
from parley.protocol.queries import Answer
from parley.protocol.setup import resolve
from parley.tasks.trees.algorithm import BoostedTrees, Information, make_priors, posterior_mean
from parley.tasks.trees.question import make_structure

SILENT = 1e6


def flat(algorithm):
    """The same with priors that leave every leaf free, and noise that is none."""
    sizes = [each.size for each in algorithm.structure.leaves]
    vars(algorithm)["priors"] = {place: 1e4 * np.eye(size)[None] for place, size in enumerate(sizes)}
    return algorithm


def trained(terms, frames, change=lambda algorithm: algorithm, monkeypatch=None):
    """theta by an algorithm that may be changed, seeded."""
    make = BoostedTrees.make.__func__
    monkeypatch.setattr(BoostedTrees, "make", classmethod(lambda cls, setup: change(make(cls, setup))))
    owners = [parley.Owner(name, frame) for name, frame in frames.items()]
    return parley.train(terms, owners, seed=0, measure=False).theta[0]


def by_hand(terms, frame, rounds):
    """Newton boosting over the same trees: in every leaf the mean of all visits' values, each F - g/h."""
    setup = resolve(terms)
    rows, _ = setup.preparation.designs(frame, terms, "a")
    classes, G = terms.model.classifies, 2.0
    y = (rows.y > 0).astype(float) if classes else rows.y
    score = np.full(len(y), np.log(y.mean() / (1 - y.mean())) if classes else 0.0)
    if not classes:
        score += np.clip(y, -G, G).mean()
    values, curved = {}, {}
    for number in range(2, rounds + 1):
        column = (number - 2) % 3
        leaf = rows.X[:, column]
        q = expit(score)
        g = q - y if classes else np.clip(score - y, -G, G)
        h = q * (1 - q) if classes else np.ones(len(y))
        F = values.setdefault(column, np.zeros(leaf.max() + 1))
        past = curved.setdefault(column, [])
        sums = [np.bincount(leaf, weights=each, minlength=len(F)) for each in (g, h)]
        past.append((sums[1], F - sums[0] / np.mean([*(p[0] for p in past), sums[1]], axis=0)))
        mean_h = [np.mean([p[0] for p in past[: k + 1]], axis=0) for k in range(len(past))]
        new = np.average([p[1] for p in past], axis=0, weights=mean_h)
        score += (new - F)[leaf]
        values[column] = new
    return score


@pytest.mark.parametrize("classes", [True, False])
def test_without_noise_it_is_newton_boosting_by_hand(classes, monkeypatch):
    terms = grove_terms({"a": 4000}, SILENT, classes=classes)
    frame = grove(4000, 0, classes)
    theta = trained(terms, {"a": frame}, flat, monkeypatch)
    setup = resolve(terms)
    rows, _ = setup.preparation.designs(frame, terms, "a")
    found = make_structure(setup.preparation).scores(rows.X, theta)
    assert found == pytest.approx(by_hand(terms, frame, terms.learning.horizon), abs=5e-3)


def test_a_first_tree_is_scikit_learns_on_the_same_leaves(monkeypatch):
    """One numeric column, a squared loss whose limit cuts nobody: the mean of each step."""
    frame = grove(3000, 3, classes=False).dropna()[["age", "y"]]
    model = {"bounds": {"age": [0.0, 100.0], "y": [-100.0, 100.0]}, "categories": {}}
    terms = grove_terms(
        {"a": len(frame)}, SILENT, classes=False, model=model, learning={"horizon": 2}, privacy={"clip": 200.0}
    )
    theta = trained(terms, {"a": frame}, flat, monkeypatch)
    found = theta[0] + theta[1:11][np.minimum(frame["age"] // 10, 9).astype(int)]
    steps = np.minimum(frame[["age"]] // 10, 9).to_numpy()
    tree = DecisionTreeRegressor(max_leaf_nodes=10).fit(steps, frame["y"])
    assert found == pytest.approx(tree.predict(steps), abs=0.02)


def test_the_posterior_mean_is_the_closed_form():
    leaves = resolve(grove_terms({"a": 10})).part("a").training.question.structure.leaves[1]
    rng, priors = np.random.default_rng(0), make_priors(leaves, 1.0)
    known = Information(rng.gamma(1, 5, leaves.size), rng.normal(0, 3, leaves.size))
    for prior in priors:
        found = posterior_mean(prior[None], known)
        wanted = np.linalg.solve(np.diag(known.precision) + np.linalg.inv(prior), known.weighted)
        assert found == pytest.approx(wanted, rel=1e-5, abs=1e-7)


def test_priors_are_weighed_by_their_evidence():
    """By the density of what was measured, a normal number of covariance K + 1/L."""
    leaves = resolve(grove_terms({"a": 10})).part("a").training.question.structure.leaves[1]
    rng, priors = np.random.default_rng(1), make_priors(leaves, 1.0)
    L = rng.gamma(3, 5, leaves.size)
    heard = np.linalg.cholesky(priors[-1]) @ rng.normal(0, 1, leaves.size)
    known = Information(L, L * heard)
    every = priors + np.diag(1 / L)
    log = -0.5 * (np.linalg.slogdet(every)[1] + heard @ np.linalg.solve(every, heard[..., None])[..., 0].T)
    weights = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    wanted = weights @ np.stack([posterior_mean(prior[None], known) for prior in priors])
    assert posterior_mean(priors, known) == pytest.approx(wanted, rel=1e-6, abs=1e-9)


def test_two_visits_are_worth_one_of_half_the_noise():
    """What makes the number of trees matter little: under one budget twice as many visits carry twice the variance."""
    none = Information(np.zeros(3), np.zeros(3))
    g, h, F = np.array([5.0, -3.0, 0.1]), np.array([50.0, 30.0, 1.0]), np.zeros(3)
    once = none.and_visit(F, g, h, 0.0, 1e4)
    twice = none.and_visit(F, g, h, 0.0, 2e4).and_visit(F, g, h, 0.0, 2e4)
    assert twice.precision == pytest.approx(once.precision)
    assert twice.weighted == pytest.approx(once.weighted)


def test_leaves_that_are_mostly_noise_are_left_alone():
    leaves = resolve(grove_terms({"a": 10})).part("a").training.question.structure.leaves[1]
    none = Information(np.zeros(leaves.size), np.zeros(leaves.size))
    noisy = none.and_visit(np.zeros(leaves.size), np.full(leaves.size, 1e4), np.full(leaves.size, -5.0), 1.0, 1e8)
    assert np.array_equal(posterior_mean(make_priors(leaves, 1.0), noisy), np.zeros(leaves.size))


def test_owners_alike_are_one_owner_with_all_their_records(monkeypatch):
    """Without noise: three owners' sums are those of all their rows together."""
    frame = grove(3000, 5)
    parts = {"a": frame.iloc[:1000], "b": frame.iloc[1000:2000], "c": frame.iloc[2000:]}
    together = trained(grove_terms(dict.fromkeys("abc", 1000), SILENT), parts, monkeypatch=monkeypatch)
    alone = trained(grove_terms({"a": 3000}, SILENT), {"a": frame}, monkeypatch=monkeypatch)
    assert together == pytest.approx(alone, abs=5e-3)


def test_a_loud_owner_counts_for_less():
    content = grove_terms({"a": 1000, "b": 1000, "c": 10}, 1.0).changed(owners={"b": {"epsilon": 0.1}})
    weights = BoostedTrees.make(resolve(content)).weights
    assert weights[0] == 1
    assert weights[1] < 0.1
    assert weights[2] < 0.1


def test_an_owner_that_was_skipped_is_missed_by_nobody():
    algorithm = BoostedTrees.make(resolve(grove_terms({"a": 100, "b": 300})))
    value = np.zeros(2 * algorithm.structure.largest)
    sums, noise, records = algorithm._summed(value, [Answer("q", "b", 300, value)])
    assert (records, noise) == (300, algorithm.noise[1])
    assert not sums.any()


def test_a_round_that_was_aborted_costs_a_tree_and_nothing_else():
    algorithm = BoostedTrees.make(resolve(grove_terms({"a": 100})))
    start = algorithm.start(np.zeros(algorithm.structure.parameters))
    value = np.zeros(2 * algorithm.structure.largest)
    after = algorithm.update(State(3, start.theta, start.memory), value, [Answer("q", "a", 100, value)])
    assert after.round == 4
    assert np.flatnonzero(after.memory["visits"]).tolist() == [2]
