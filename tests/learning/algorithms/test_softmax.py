"""Several classes through everything: a study, a release with a score, a run between organisations, a forecast, a
plan."""

import json

import numpy as np
import pytest
from samples import IRIS, SPECIES, iris_table

import parley
from parley.learning.deployed import learn, prepare_run
from parley.learning.outcome import JointSoftmaxClassifier
from parley.network.exchange.federation import Federation
from parley.network.exchange.remote import LocalOwner
from parley.owner.ledger import Ledger


@pytest.fixture(scope="module")
def flowers():
    return iris_table()


def iris_terms(epsilon=3.0, learner="learner", clip=4.0, rows=(50, 50, 50), **sections):
    content = {
        "model": {
            "kind": "softmax-regression",
            "target": "species",
            "features": [*IRIS],
            "bounds": IRIS,
            "categories": {"species": SPECIES},
            "holdout": 0.2,
            "radius": 10.0,
        },
        "learning": {"horizon": 30, "step": 0.3, "learner": learner},
        "privacy": {"clip": clip, "score_epsilon": 0.5},
        "owners": [{"name": "abc"[i], "records": n, "epsilon": epsilon} for i, n in enumerate(rows)],
    }
    for name, changes in sections.items():
        content[name] = {k: v for k, v in (content[name] | changes).items() if v is not None}
    return parley.Terms.from_dict(content)


def parts(flowers):
    return {name: flowers.iloc[50 * i : 50 * (i + 1)] for i, name in enumerate("abc")}


def test_a_study_with_a_large_budget_finds_the_flowers(flowers):
    terms = iris_terms(epsilon=1e6, clip=60.0, learning={"horizon": 300, "step": 1.0})
    result = parley.train(
        terms, [parley.Owner(name, rows) for name, rows in parts(flowers).items()], replicates=3, seed=1
    )
    assert result.metrics["accuracy"] > 0.9
    assert set(result.metrics) == {"accuracy", "balanced_accuracy", "log_loss", "auc"}
    assert result.path[-1].mean() < 0.5 * result.path[0].mean()
    assert result.optimal_metrics["accuracy"] > 0.9
    assert result.scores.pooled.figures["accuracy"].value == pytest.approx(result.metrics["accuracy"], abs=0.1)
    json.dumps(result.to_json(), allow_nan=False)


@pytest.mark.parametrize("privacy", [{}, {"mechanism": "gaussian", "delta": 1e-6}], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("algorithm", ["averaged-subgradient", "federated-averaging"])
def test_three_owners_release_between_machines_and_predict_names(flowers, tmp_path, privacy, algorithm):
    more = {} if algorithm == "averaged-subgradient" else {"step": "auto", "local_steps": 3}
    terms = iris_terms(learning={"algorithm": algorithm, "horizon": 6, **more}, privacy=privacy)
    owners = [
        parley.Owner(name, rows, ledger=Ledger(tmp_path / name, lifetime=3.0, lifetime_delta=privacy.get("delta", 0.0)))
        for name, rows in parts(flowers).items()
    ]
    for owner in owners:
        owner.accept(terms)
    run = prepare_run(terms, tmp_path / "kept", tmp_path / "model.json")
    federation = Federation(run.setup, [LocalOwner(owner) for owner in owners], 20.0, lambda sentence: None)
    federation.fetch_statements()
    result, unheard = learn(run, federation, run.begin(resume=False))
    federation.close()
    assert unheard == []
    assert [outcome.epsilon_spent for outcome in result.owners] == [3.0, 3.0, 3.0]
    for owner in owners:
        assert owner.ledger.account(terms.hash).spent == 3
        owner.ledger.verify()
    np.testing.assert_array_equal(parley.train(terms, owners).theta, result.theta)
    assert set(result.scores.pooled.figures) == {"accuracy", "balanced_accuracy"}
    model = parley.load_model(tmp_path / "model.json")
    assert isinstance(model, JointSoftmaxClassifier)
    assert model.released_
    assert model.classes_.tolist() == SPECIES
    assert (model.coef_.shape, model.intercept_.shape) == ((3, 4), (3,))
    np.testing.assert_array_equal(model.theta_, result.theta[0])
    assert {*model.predict(flowers)} <= {*SPECIES}
    probability = model.predict_proba(flowers)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(flowers), np.array(SPECIES)[probability.argmax(axis=1)])
    prepared = result.model.preparation_.matrix(flowers, "rows")
    np.testing.assert_allclose(
        model.decision_function(flowers), prepared[:, :4] @ model.coef_.T + model.intercept_, rtol=1e-9, atol=1e-9
    )


def test_a_forecast_runs_the_algorithm_on_the_pilot_and_meets_what_training_gives(flowers):
    """Every owner's table is the pilot, so only the noise is on trial: within 15 %, as few runs of the pilot allow."""
    terms = iris_terms(epsilon=30.0, rows=(150, 150, 150), model={"holdout": 0.0}, privacy={"score_epsilon": None})
    expected = parley.forecast(terms, pilot=flowers, resamples=2)
    assert expected.method == "pilot-run"
    owners = [parley.Owner(name, flowers) for name in "abc"]
    runs = parley.train(terms, owners, replicates=400, seed=5, whole_path=False).path[-1]
    assert expected.relative_fitness.mean == pytest.approx(runs.mean(), rel=0.15)
    single = iris_terms(epsilon=30.0, rows=(150,), model={"holdout": 0.0}, privacy={"score_epsilon": None})
    assert parley.plan(single, pilot=flowers).terms.model == single.model


def test_numbers_may_be_classes_too(flowers):
    """Digits as numbers in the table, named in the terms as text."""
    table = flowers.assign(species=flowers["species"].map({name: i for i, name in enumerate(SPECIES)}))
    terms = iris_terms(
        epsilon=1e5, rows=(150,), model={"categories": {"species": ["0", "1", "2"]}}, learning={"horizon": 200}
    )
    named = iris_terms(epsilon=1e5, rows=(150,), learning={"horizon": 200})
    by_number = parley.train(terms, [parley.Owner("a", table)], seed=1)
    by_name = parley.train(named, [parley.Owner("a", flowers)], seed=1)
    np.testing.assert_array_equal(by_number.theta, by_name.theta)
    assert {*by_number.model.predict(table)} <= {"0", "1", "2"}


def test_a_class_that_nobody_agreed_on_is_refused_by_its_place_not_its_name(flowers):
    terms = iris_terms(rows=(150,), model={"categories": {"species": ["setosa", "versicolor"]}})
    with pytest.raises(parley.errors.DataError, match="not one of the agreed classes") as caught:
        parley.Owner("a", flowers).prepare(terms)
    assert "virginica" not in str(caught.value)
    with pytest.raises(parley.errors.DataError, match="must not depend on private rows"):
        parley.Owner("a", flowers).prepare(iris_terms(rows=(150,), model={"categories": None}))
