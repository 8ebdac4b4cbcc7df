"""Whole runs: every algorithm stays below its claim, the attack has power, and every mutant is caught."""

import numpy as np
import pytest
from federated import FAMILY, family_terms
from mutants import MUTANTS
from samples import BOUNDS, GAUSSIAN, STATISTICS, make_terms

import parley
from parley.audit.attacker import with_one_other_owner
from parley.audit.canary import compressed
from parley.audit.runs import RunAudit, audit_owner
from parley.data import Design
from parley.errors import SettingError
from parley.losses import RecordBound, make
from parley.terms import Model

CLASSES = {"model__categories": {"y": ["p", "q", "r"]}}
SGD = {"learning__algorithm": "private-sgd", "learning__horizon": None, "learning__batches": 2, "learning__epochs": 1}
LAPLACE = {"privacy__mechanism": "laplace", "privacy__delta": None}
PEOPLE = {"privacy__person": "who", "privacy__records_per_person": 3}


def hosted(**privacy):
    return parley.Terms.from_dict(
        {
            "model": {"kind": "linear-regression", "target": "y", "features": ["x0", "x1"], "radius": 5.0},
            "learning": {"horizon": 2, "step": 0.2},
            "privacy": {"clip": 4.0, "delta": 1e-6, "noise": "shared", **privacy},
            "hosts": [{"name": name} for name in ("a", "b", "h")],
            "owners": [{"name": name, "records": 100, "epsilon": 1.0} for name in "ab"],
        }
    )


# terms, runs by either table, and less than they proved with any of three seeds; 0: no power at this size
RUNS = {
    "laplace, one round": (make_terms(100, 80, learning__horizon=1), 8000, 0.8),
    "laplace, ten rounds": (make_terms(100, 80), 20_000, 0.3),
    "gaussian": (make_terms(100, 80, **GAUSSIAN), 20_000, 0.2),
    "geometric": (make_terms(100, 80, privacy__mechanism="geometric", learning__horizon=2), 8000, 0.7),
    "bounds": (make_terms(100, 80, privacy__clip=None, model__bounds=BOUNDS, learning__horizon=1), 8000, 0.0),
    "held-out rows": (make_terms(100, 80, model__holdout=0.3, learning__horizon=2), 8000, 0.7),
    "people": (make_terms(100, 80, **PEOPLE, learning__horizon=1), 8000, 0.8),
    "one noise, laplace": (hosted(), 8000, 0.7),
    "one noise, gaussian": (hosted(mechanism="gaussian"), 20_000, 0.1),
    "many owners": (make_terms(100, 80, 60, 40, learning__horizon=1), 8000, 0.8),
    "statistics": (make_terms(100, 80, **STATISTICS), 8000, 0.3),
    "batches": (make_terms(100, 80, **SGD, **GAUSSIAN), 8000, 0.05),
    "secret draws": (make_terms(30, **SGD, **GAUSSIAN, learning__sampling="poisson"), 200, 0.0),
    "waiting for nobody": (
        make_terms(100, 80, learning__algorithm="gradient-descent", learning__staleness=3, learning__decay=0.0),
        8000,
        0.2,
    ),
    "gossip": (make_terms(100, 80, 60, learning__algorithm="gossip", learning__topology="ring"), 16_000, 0.2),
    "fedinfer": (make_terms(100, 80, learning__algorithm="fedinfer", learning__step=None, **GAUSSIAN), 4000, 0.0),
    "linear-svm": (make_terms(100, 80, model__kind="linear-svm", learning__horizon=2), 4000, 0.2),
    "logistic-regression": (make_terms(100, 80, model__kind="logistic-regression", learning__horizon=2), 4000, 0.2),
    "softmax-regression": (
        make_terms(100, model__kind="softmax-regression", **CLASSES, learning__horizon=2),
        2000,
        0.1,
    ),
    "survival": (
        make_terms(100, model__kind="survival", model__event="e", model__periods=[1.0, 2.0], learning__horizon=2),
        2000,
        0.3,
    ),
    "poisson-regression": (
        make_terms(100, model__kind="poisson-regression", model__bounds={**BOUNDS, "y": [0, 10]}, learning__horizon=2),
        2000,
        0.2,
    ),
    **{name: (family_terms(name, 100, 80, **LAPLACE, learning__horizon=2), 4000, 0.2) for name in FAMILY},
}


@pytest.mark.parametrize("case", RUNS)
def test_no_run_is_shown_to_cost_more_than_it_claims_and_attacks_have_power(case):
    terms, runs, least = RUNS[case]
    verdict = audit_owner(terms, "a", runs, seed=1, confidence=1 - 0.01 / len(RUNS))  # 99 % for all together
    assert verdict.holds
    assert not verdict.noise_repeats
    assert least <= verdict.lower_bound <= verdict.claimed_epsilon == 1
    assert (verdict.runs, verdict.delta, verdict.adjacency) == (runs, terms.privacy.delta, "replace-one")


def test_a_linear_term_in_the_cost():
    terms = make_terms(
        20,
        learning__algorithm="objective-perturbation",
        learning__horizon=None,
        learning__step=None,
        model__kind="logistic-regression",
        model__features=["x0"],
        model__radius=None,
    )
    assert audit_owner(terms, "a", 100, seed=1).holds  # so few runs prove nothing; that it runs is what is seen


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_are_caught(mutant):
    terms = make_terms(100, 80, learning__horizon=2, **(PEOPLE if mutant == "person limit ignored" else {}))
    assert audit_owner(terms, "a", 3000, seed=1).holds
    with MUTANTS[mutant]():
        verdict = audit_owner(terms, "a", 3000, seed=1)
    assert not verdict.holds
    assert verdict.noise_repeats == (mutant in ("fixed seed", "one noise for two questions", "debit without noise"))
    assert verdict.to_json()["lower_bound"] is None or verdict.lower_bound > 1


@pytest.mark.parametrize("epsilon", [1e-4, 30.0])
def test_budgets_that_hide_everything_or_nothing_raise_no_false_alarm(epsilon):
    verdict = audit_owner(make_terms(100, epsilon=epsilon, learning__horizon=2), "a", 2000, seed=1)
    assert verdict.holds
    assert not verdict.noise_repeats


def test_the_tables_differ_in_one_person_and_only_the_limit_counts():
    audit = RunAudit.make(make_terms(50, 40, **PEOPLE, model__holdout=0.2), "a")
    a, b = audit.attacker.a.train, audit.attacker.b.train
    assert len(a) == len(b) == 40
    assert len(a.rows) == len(b.rows) == 3
    assert a.places.tolist() == b.places.tolist()
    assert len(audit.attacker.others["b"].train.rows) == 0


def test_rows_without_a_target_need_no_visit():
    """Answers about the compressed table are those about the whole one."""
    rng = np.random.default_rng(0)
    weight = (rng.random(30) < 0.2).astype(float)
    X, y = rng.normal(size=(30, 3)) * weight[:, None], np.where(rng.random(30) < 0.5, 1.0, -1.0)
    whole, theta = Design(X, y, weight), rng.normal(size=(4, 3))
    small = compressed(whole)
    bound = RecordBound(0.3, "l2", clips=True)
    for kind in ("linear-svm", "logistic-regression", "linear-regression"):
        objective = make(Model(kind=kind, target="y"))
        for limit in (bound, None):
            expected = objective.mean_gradient(whole, theta, limit)
            np.testing.assert_allclose(objective.mean_gradient(small, theta, limit), expected, atol=1e-14)
    np.testing.assert_allclose(small.statistics[0], whole.statistics[0], atol=1e-14)
    assert np.array_equal(small.in_memory().X, whole.X)
    places = np.arange(3, 25)
    assert np.array_equal(small.batch(places).in_memory().X, whole.X[places])
    assert small.drawn(places).rows.secret
    assert compressed(whole.where(weight == 0)).sum(lambda block: block.X.sum(axis=0)).tolist() == [0, 0, 0]


def test_others_stand_together_and_nonsense_is_refused():
    terms = make_terms(100, 80, 60, 40)
    few = with_one_other_owner(terms, "c")
    assert [(part.name, part.records) for part in few.owners] == [("a", 220), ("c", 60)]
    with pytest.raises(SettingError, match="runs"):
        audit_owner(terms, "a", 10)
