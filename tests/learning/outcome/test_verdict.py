from dataclasses import astuple, replace

import numpy as np
import pandas as pd
import pytest
from samples import class_table, make_terms, regression_table

import parley
from parley.errors import ModelError
from parley.learning.outcome import tree_study
from parley.learning.outcome.correction import rows_with_trees
from parley.learning.outcome.model import make_model
from parley.learning.outcome.personal import alone_and_personal_models, personal_model, refine
from parley.learning.outcome.verdict import Estimate, score
from parley.report.words import verdict as words


def model_of(agreement, theta):
    """A joint model of these parameters."""
    setup = agreement.setup
    return make_model(setup.preparation, theta, setup.hash, released=True)


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
    with pytest.raises(ModelError, match="hold out no rows for scoring"):
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


LINE = np.linspace(1.5, -1.5, 24)


def crossed(rows: int, seed: int, kind: str = "linear-regression", columns: int = 3, noise: float = 0.5):
    """Customers whom no line parts: what one column says, the sign of another one turns; and a line beside it."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, columns))
    rows_with_trees = 3 * np.sign(X[:, 0]) * X[:, 1] + X @ LINE[:columns]
    y = rows_with_trees + noise * rng.normal(size=rows) if kind == "linear-regression" else np.sign(rows_with_trees)
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(columns)]).assign(y=y)


@pytest.fixture
def one_size(monkeypatch):
    """Trees of one size; here it is not asked which."""
    monkeypatch.setattr(tree_study, "DEPTH", 2)
    monkeypatch.setattr(tree_study, "ITERATIONS", (20,))


@pytest.mark.parametrize("kind", ["linear-regression", "logistic-regression", "linear-svm"])
def test_trees_are_no_credit_to_joining_and_no_reproach(kind, one_size):
    """Beside a joint model of no use, trees stand on both sides: the gain is small beside what they save. What refine
    makes of that model is scored alike."""
    terms = make_terms(400, model__kind=kind, model__holdout=0.25)
    owner = parley.Owner("a", crossed(400, 3, kind))
    agreement = owner.prepare(terms)
    useless = np.random.default_rng(5).normal(size=agreement.setup.parameters)
    verdict, held_out = score(terms, owner, model_of(agreement, useless)), agreement.tables.held_out.in_memory()
    assert "trees" in verdict.to_json()["alone_model"]
    assert "trees" in verdict.to_json()["personal_model"]
    linear = agreement.setup.risk.record_losses(held_out, personal_model(agreement, useless).theta).mean()
    assert abs(verdict.personal_gain.mean) < 0.15 * (linear - verdict.cost_alone)
    refined = score(terms, owner, refine(model_of(agreement, useless), terms, owner)[0])
    assert refined.costs["personal"] == verdict.costs["personal"]
    for one, other in (
        (refined.costs["alone"], verdict.costs["alone"]),
        (refined.personal_gain, verdict.personal_gain),
    ):
        assert astuple(one) == pytest.approx(astuple(other), rel=1e-9)


def test_an_owner_with_trees_gains_by_a_joint_model_that_knows_the_line_and_loses_nothing_by_a_useless_one(one_size):
    """Means over owners of 240 rows, judged on 2,160 others; a mutant that judges the model alone on rows that it was
    made of finds a loss either way."""
    names, found, joints = [f"x{i}" for i in range(len(LINE))], [], np.array([LINE, -3 * LINE])
    terms = make_terms(2400, model__holdout=0.9, model__features=names)
    for seed in range(10):
        owner = parley.Owner("a", crossed(2400, seed, columns=len(LINE), noise=1.5))
        agreement = owner.prepare(terms)
        risk, train, held_out = agreement.setup.risk, agreement.tables.train, agreement.tables.held_out
        alone, personal = alone_and_personal_models(agreement, joints, train.X)

        def cost(model, rows, risk=risk):
            return risk.record_losses(*rows_with_trees(risk, rows.in_memory(), model.theta, model.trees, rows.X)).mean()

        useful, useless = (cost(each, held_out) for each in personal)
        own = cost(alone, held_out)
        found.append([own - useful, own - useless, cost(alone, train) - useless, own])
    useful, _, mutant, _ = np.mean(found, axis=0) / (np.std(found, axis=0, ddof=1) / np.sqrt(len(found)))
    assert useful > 2
    _, useless, _, own = np.mean(found, axis=0)
    assert abs(useless) < 0.01 * own  # the last way leads to the model alone, but for 1/z^2 of it
    assert mutant < -5


@pytest.mark.parametrize("rows", [120, 400])
def test_who_joins_nobody_gains_exactly_nothing(rows, one_size):
    terms = make_terms(rows, model__holdout=0.25)
    owner = parley.Owner("a", crossed(rows, 3))
    verdict = score(terms, owner, model_of(owner.prepare(terms), np.zeros(3)))
    assert verdict.personal_gain == Estimate(0.0, 0.0, 0.0)
    assert verdict.alone_model == verdict.personal_model
    assert ("trees" in verdict.alone_model) == (rows == 400)
    assert words.headline(verdict).startswith("Joining changes nothing on a's own rows")


def test_a_model_that_is_worse_than_the_mean_for_everybody_is_called_of_no_use():
    """At so small an epsilon the joint model is noise; its cost stands beside that of the owner's own mean, and what
    joining costs is said with one sign."""
    terms = make_terms(4000, 400, epsilon=0.001, model__holdout=0.25, learning__horizon=30, learning__step=0.7)
    owners = [parley.Owner("a", regression_table(4000, seed=1)), parley.Owner("b", regression_table(400, seed=2))]
    verdict = score(terms, owners[1], parley.train(terms, owners, seed=1).model)
    tables = owners[1].prepare(terms).tables
    mean = np.mean((tables.held_out.y - tables.train.in_memory().y.mean()) ** 2)
    assert verdict.same_for_all.mean == pytest.approx(float(mean), rel=1e-4)
    useless = "Models that are worse than always predicting the mean are useless: together"
    assert useless in " ".join(words.explained(verdict))
    assert words.SAME_PEOPLE_WARNING not in words.explained(verdict)
    several = replace(verdict, rows_per_person=3)
    assert words.SAME_PEOPLE_WARNING in words.explained(several)
    assert words.SAME_PEOPLE_WARNING in words.owners_sentence([verdict, several])
    said = "For 1 owner, the joint model is useless, because always predicting the mean costs no more."
    better = replace(verdict, costs={**verdict.costs, "together": Estimate(0.0, 0.0, 0.0)})
    assert said in words.owners_sentence([verdict, better])
    assert "useless" not in words.owners_sentence([better])
    worse = replace(verdict, personal_gain=Estimate(-0.2, -0.3, -0.1))
    assert "With the personal model, joining costs b 0.2 per row (90% interval: 0.1 to 0.3)." in words.headline(worse)
