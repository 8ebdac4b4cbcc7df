"""The federated family: where each of them ends without noise, that they are the published ones, and that owners
remember nothing."""

import numpy as np
import pytest
from federated import EXACT, FAMILY, UNEQUAL, different_tables, family_terms, moments, optimum, quiet_run
from samples import class_table

import parley
from parley.protocol.setup import resolve

TABLES = different_tables()
LONG = {"privacy__clip": None, "learning__horizon": 200, "learning__local_steps": 12}


def steps_of(terms):
    """rho_l and s_l of every owner."""
    setup = resolve(terms)
    return {
        part.name: (setup.local_update_of(part.name).step, setup.local_update_of(part.name).steps)
        for part in terms.owners
    }


def weighted_end(tables, weights, ridge=0.0):
    """Where sum W_l (H_l theta - b_l) = 0, H_l with the penalty."""
    found = moments(tables)
    left = sum(weights[name] @ (H + ridge * np.eye(3)) for name, (_, H, _) in found.items())
    return np.linalg.solve(left, sum(weights[name] @ b for name, (_, _, b) in found.items()))


def closed_form(name, terms):
    """The fixed point of the three that miss the optimum, from the owners' second moments."""
    ridge, mu, weights = terms.model.penalty, terms.learning.proximal or 0.0, {}
    for owner, (rho, s) in steps_of(terms).items():
        p, H, _ = moments(TABLES)[owner]
        A = H + (ridge + mu) * np.eye(3)
        far = (np.eye(3) - np.linalg.matrix_power(np.eye(3) - rho * A, s)) @ np.linalg.inv(A)
        weights[owner] = p * far / (rho * s if name == "fednova" else 1.0)
    return weighted_end(TABLES, weights, ridge)


@pytest.mark.parametrize("ridge", [0.0, 0.2])
@pytest.mark.parametrize("own", [None, UNEQUAL], ids=["equal", "unequal"])
@pytest.mark.parametrize("name", ["federated-averaging", "fedprox", "fednova"])
def test_without_noise_they_end_at_their_closed_form_fixed_points(name, own, ridge):
    terms = family_terms(name, own=own, model__regularisation=ridge, **LONG)
    end, _ = quiet_run(terms, TABLES)
    np.testing.assert_allclose(end, closed_form(name, terms), rtol=0, atol=1e-8)
    assert np.abs(end - optimum(TABLES, ridge)).max() > 1e-3  # which is not the optimum


@pytest.mark.parametrize("ridge", [0.0, 0.2])
@pytest.mark.parametrize("own", [None, UNEQUAL], ids=["equal", "unequal"])
@pytest.mark.parametrize("name", EXACT)
def test_without_noise_corrected_steps_end_at_the_optimum(name, own, ridge):
    end, _ = quiet_run(family_terms(name, own=own, model__regularisation=ridge, **LONG), TABLES)
    np.testing.assert_allclose(end, optimum(TABLES, ridge), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", EXACT)
def test_owners_that_take_turns_end_at_the_optimum_too(name):
    """What an owner released last stands in for it."""
    terms = family_terms(name, learning__participation=0.7, **LONG | {"learning__horizon": 600})
    end, asked = quiet_run(terms, TABLES)
    assert {len(questions) for questions in asked.asked} == {2}
    np.testing.assert_allclose(end, optimum(TABLES), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", EXACT)
def test_costs_that_are_not_quadratic_end_at_their_optimum_too(name):
    """Logistic regression with class weights of its owners' own: where the joint gradient vanishes."""
    tables = {
        n: class_table(80 + 40 * i, seed=i).assign(x0=lambda t, i=i: t["x0"] * (0.3 + 0.3 * i))
        for i, n in enumerate("ab")
    }
    settings = {"model__kind": "logistic-regression", "model__bounds": {f"x{j}": [-4, 4] for j in range(3)}}
    terms = family_terms(name, 80, 120, model__regularisation=0.3, **settings, **LONG | {"learning__local_steps": 40})
    end, asked = quiet_run(terms, tables)
    designs = [agreement.tables.train for agreement in asked.agreements.values()]
    best = asked.agreements["a"].setup.objective.optimum(designs, 5.0)
    np.testing.assert_allclose(end, best, rtol=0, atol=1e-7)


def test_the_bias_of_fednova_falls_with_the_step_and_that_of_averaging_unequal_steps_does_not():
    longest = resolve(family_terms("fednova")).local_update.step
    bias = {}
    for name in ("fednova", "federated-averaging"):
        bias[name] = [
            np.abs(
                closed_form(name, family_terms(name, own=UNEQUAL, learning__step=float(longest / halved)))
                - optimum(TABLES)
            ).max()
            for halved in (4, 8, 16, 32, 64)
        ]
    ratios = np.array(bias["fednova"][:-1]) / bias["fednova"][1:]
    assert abs(ratios[-1] - 2) < 0.02
    assert (np.abs(np.diff(ratios)) < 0.2).all()
    assert bias["federated-averaging"][-1] > 0.9 * bias["federated-averaging"][0] > 0.05


def published_scaffold(terms, tables, option):
    """As published: clients that keep their control variates, all of them asked, weighted by records."""
    found, steps, theta = moments(tables), steps_of(terms), np.zeros(3)
    own, server = {name: np.zeros(3) for name in tables}, np.zeros(3)
    for _ in range(terms.learning.horizon // terms.learning.rounds_per_step):
        moved, fresh = np.zeros(3), {}
        for name, (p, H, b) in found.items():
            y, (rho, s) = theta, steps[name]
            for _ in range(s):
                y = y - rho * (H @ y - b - own[name] + server)
            moved += p * (y - theta)
            fresh[name] = H @ theta - b if option == 1 else own[name] - server + (theta - y) / (rho * s)
        theta, own = theta + moved, fresh
        server = sum(found[name][0] * own[name] for name in tables)
    return theta


def published_fedlin(terms, tables):
    found, steps, theta = moments(tables), steps_of(terms), np.zeros(3)
    for _ in range(terms.learning.horizon // 2):
        joint, moved = sum(p * (H @ theta - b) for p, H, b in found.values()), np.zeros(3)
        for name, (p, H, b) in found.items():
            w, (rho, s) = theta, steps[name]
            for _ in range(s):
                w = w - rho * ((H @ w - b) - (H @ theta - b) + joint)
            moved += p * (w - theta)
        theta = theta + moved
    return theta


def published_fedsplit(terms, tables):
    """With exact proxes."""
    found, mu, z = moments(tables), terms.learning.proximal, {name: np.zeros(3) for name in tables}
    for _ in range(terms.learning.horizon):
        x = sum(found[name][0] * z[name] for name in z)
        for name, (_, H, b) in found.items():
            prox = np.linalg.solve(H + mu * np.eye(3), b + mu * (2 * x - z[name]))
            z[name] = z[name] + 2 * (prox - x)
    return sum(found[name][0] * z[name] for name in z)


@pytest.mark.parametrize(
    ("name", "published", "more"),
    [
        ("scaffold", lambda terms: published_scaffold(terms, TABLES, 2), {}),
        ("scaffold, gradients", lambda terms: published_scaffold(terms, TABLES, 1), {}),
        ("fedlin", lambda terms: published_fedlin(terms, TABLES), {}),
        ("fedsplit", lambda terms: published_fedsplit(terms, TABLES), {"learning__local_steps": 600}),
    ],
)
def test_they_are_the_published_ones_with_memory_at_the_learner_instead_of_the_owners(name, published, more):
    own = UNEQUAL if name != "fedsplit" else None
    terms = family_terms(name, own=own, **LONG | {"learning__horizon": 6} | more)
    end, _ = quiet_run(terms, TABLES)
    np.testing.assert_allclose(end, published(terms), rtol=0, atol=1e-11)
    assert np.abs(end - optimum(TABLES)).max() > 1e-4  # still on its way


def test_fedlin_goes_equally_far_and_owners_may_have_steps_of_their_own():
    found = steps_of(family_terms("fedlin", own=UNEQUAL))
    assert len({round(rho * s, 12) for rho, s in found.values()}) == 1
    assert {s for _, s in found.values()} == {6, 20, 12}
    own = steps_of(family_terms("fedlin", own=UNEQUAL | {"c": {"local_steps": 12, "step": 0.05}}))
    assert own["c"] == (0.05, 12)
    assert own["b"] == found["b"]


@pytest.mark.parametrize("own", [None, UNEQUAL], ids=["equal", "unequal"])
@pytest.mark.parametrize("name", FAMILY)
def test_replicates_are_an_axis(name, own):
    """Four runs at once from four starts, each to the last bits the run by itself."""
    terms = family_terms(name, own=own, learning__horizon=6, privacy__clip=0.8, model__radius=0.9)
    starts = np.random.default_rng(1).uniform(-0.9, 0.9, (4, 3))
    together, _ = quiet_run(terms, TABLES, start=starts)
    for start, end in zip(starts, together, strict=True):
        np.testing.assert_allclose(quiet_run(terms, TABLES, start=start)[0], end, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", FAMILY)
def test_a_study_takes_the_same_steps_with_noise(name):
    """Very large budgets: the study's replicates lie around the run without noise; usual ones: not."""
    laplace = {"privacy__mechanism": "laplace", "privacy__delta": 0.0}
    terms = family_terms(name, own=UNEQUAL, epsilon=1e7, learning__horizon=6, **laplace)
    owners = [parley.Owner(n, t) for n, t in TABLES.items()]
    quiet, _ = quiet_run(terms, TABLES)
    study = parley.train(terms, owners, replicates=5, seed=2)
    assert study.path.shape == (6, 5)
    np.testing.assert_allclose(study.theta, np.broadcast_to(quiet, (5, 3)), atol=1e-3)
    noisy = parley.train(terms.changed(everyone={"epsilon": 1.0}), owners, replicates=5, seed=2)
    assert np.abs(noisy.theta - quiet).max() > 0.01
    assert [each.epsilon_spent for each in noisy.owners] == [1.0] * 3
