from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from samples import class_table, make_terms, regression_table

import parley
from parley.errors import ModelError
from parley.learning.outcome import boosting, correction
from parley.learning.outcome.model import make_model
from parley.learning.outcome.personal import refine
from parley.learning.outcome.verdict import Estimate, score
from parley.report.words import verdict as words


def test_the_verdict_is_about_the_owners_own_held_out_rows():
    terms = make_terms(4000, 400, epsilon=100.0, model__holdout=0.25, learning__horizon=60, learning__step=0.7)
    big, small = parley.Owner("a", regression_table(4000, seed=1)), parley.Owner("b", regression_table(400, seed=2))
    model = parley.train(terms, [big, small], seed=1).model
    verdict = score(terms, small, model)
    held = small.prepare(terms).tables.held_out
    assert verdict.rows == len(held) == 100
    assert verdict.cost_together == pytest.approx(float(np.mean((held.X @ model.theta_ - held.y) ** 2)))
    own = parley.alone(terms, small)
    assert verdict.cost_alone == pytest.approx(float(np.mean((held.X @ own - held.y) ** 2)))
    assert verdict.gain == pytest.approx(verdict.cost_alone - verdict.cost_together)
    assert verdict.to_json()["together"]["r2"] > 0.5


def test_an_owner_with_other_customers_finds_the_joint_model_worse():
    """Owner b's target runs the other way: what is good for all is bad for it, and only its own rows tell."""
    terms = make_terms(4000, 400, epsilon=100.0, model__holdout=0.25, learning__horizon=60, learning__step=0.7)
    contrary = regression_table(400, seed=2).assign(y=lambda t: -t["y"])
    owners = [parley.Owner("a", regression_table(4000, seed=1)), parley.Owner("b", contrary)]
    model = parley.train(terms, owners, seed=1).model
    assert score(terms, owners[1], model).gain < -0.1


def test_the_penalty_is_not_counted_on_new_rows():
    terms = make_terms(800, epsilon=50.0, model__kind="linear-svm", model__holdout=0.25, privacy__clip=6.0)
    owner = parley.Owner("a", class_table(800))
    model = parley.train(terms, [owner], seed=1).model
    held = owner.prepare(terms).tables.held_out
    hinge = np.maximum(0, 1 - held.y * (held.X @ model.theta_)).mean()
    assert score(terms, owner, model).cost_together == pytest.approx(float(hinge))


def test_other_terms_and_terms_without_held_out_rows_are_refused():
    terms = make_terms(100, model__holdout=0.2)
    owner = parley.Owner("a", regression_table(100))
    model = parley.train(terms, [owner], seed=1).model
    with pytest.raises(ModelError, match="other terms"):
        score(make_terms(100, model__holdout=0.3), owner, model)
    bare = make_terms(100)
    with pytest.raises(ModelError, match="nothing to score on"):
        score(bare, owner, parley.train(bare, [owner], seed=1).model)


def test_an_owner_that_has_none_of_some_class_compares_and_refines_all_the_same():
    """Its own best model has parameters for every class of the terms, whichever of them its rows show."""
    rng = np.random.default_rng(0)
    tables = {}
    for name, classes in (("a", ["low", "middle", "high"]), ("b", ["low", "middle"])):
        y = rng.integers(0, len(classes), 400)
        X = np.clip(rng.normal(0, 0.3, (400, 3)) + 0.4 * np.eye(3)[y], -1, 1)
        tables[name] = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(y=np.array(classes)[y])
    terms = make_terms(
        400,
        400,
        epsilon=50.0,
        model__kind="softmax-regression",
        model__categories={"y": ["low", "middle", "high"]},
        model__holdout=0.25,
        learning__learner="b",
        learning__horizon=40,
        learning__step=1.0,
    )
    owners = [parley.Owner(name, table) for name, table in tables.items()]
    result = parley.train(terms, owners, seed=1)
    assert result.own_model.theta_.shape == result.model.theta_.shape == (12,)
    verdict = score(terms, owners[1], result.model)
    assert 0 < verdict.alone["accuracy"] <= 1
    assert verdict.cost_alone > 0
    held_out = owners[1].prepare(terms).tables.held_out
    cost = owners[1].prepare(terms).setup.objective.cost
    assert cost(held_out, result.own_model.theta_) <= cost(held_out, result.model.theta_)


@pytest.mark.parametrize("kind", ["linear-regression", "logistic-regression", "softmax-regression"])
def test_alone_an_owner_has_trees_where_its_rows_show_them_ahead(kind, monkeypatch):
    """What trees do is no credit to joining: a personal model that has some stands beside trees alone."""
    # as many trees, and as large, as it takes; here it is not asked how many
    monkeypatch.setattr(correction, "ITERATIONS", (45,))
    monkeypatch.setattr(boosting, "LEAVES", (16,))
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (800, 3))
    y = np.sign(X[:, 0] * X[:, 1])
    if kind == "softmax-regression":
        y = np.where(y > 0, "up", np.where(X[:, 2] > 0, "low", "down"))
    table = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(y=y)
    named = {"model__categories": {"y": ["down", "low", "up"]}} if kind == "softmax-regression" else {}
    terms = make_terms(
        800, epsilon=20.0, model__kind=kind, model__holdout=0.25, learning__horizon=5, learning__step=0.3, **named
    )
    owner = parley.Owner("a", table)
    joint = parley.train(terms, [owner], seed=1).model
    verdict = score(terms, owner, joint)
    assert verdict.to_json()["alone_model"] == "boosted trees"
    assert verdict.cost_alone < 0.5 * verdict.cost_together
    assert verdict.personal_gain.high < 0
    if kind != "softmax-regression":
        own, _ = refine(joint, terms, owner)
        personal = score(terms, owner, own)
        assert own.trees_ is not None
        assert personal.cost_together < 0.5 * verdict.cost_together
        assert abs(personal.gain) < 0.1 * verdict.cost_together  # beside a ridge alone it would be most of that
        setup = owner.prepare(terms).setup
        nobody = make_model(setup.preparation, np.zeros(setup.parameters), terms.hash, released=False)
        judged = score(terms, owner, refine(nobody, terms, owner)[0])
        assert judged.gain == judged.personal_gain.mean == 0  # who joined nobody has gained nothing
        assert words.headline(judged).startswith("Joining changes nothing for a's own rows")


def test_a_model_that_is_worse_than_the_mean_for_everybody_is_called_of_no_use():
    """At so small an epsilon the joint model is noise; its cost stands beside that of the owner's own mean, and what
    joining costs is said with one sign."""
    terms = make_terms(4000, 400, epsilon=0.001, model__holdout=0.25, learning__horizon=30, learning__step=0.7)
    owners = [parley.Owner("a", regression_table(4000, seed=1)), parley.Owner("b", regression_table(400, seed=2))]
    verdict = score(terms, owners[1], parley.train(terms, owners, seed=1).model)
    tables = owners[1].prepare(terms).tables
    mean = np.mean((tables.held_out.y - tables.train.in_memory().y.mean()) ** 2)
    assert verdict.same_for_all.mean == pytest.approx(float(mean), rel=1e-4)
    assert "to everybody, so of no use here: together" in " ".join(words.explained(verdict))
    worse = replace(verdict, personal_gain=Estimate(-0.2, -0.3, -0.1))
    assert "costs it 0.2 a row with the personal model (90 %: 0.1 to 0.3)." in words.headline(worse)
