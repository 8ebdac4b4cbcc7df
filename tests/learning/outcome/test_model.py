import json

import numpy as np
import pytest
from samples import class_table, make_terms, regression_table
from sklearn.exceptions import NotFittedError

import parley
from parley.data import synthetic_lending
from parley.errors import DataError, ModelError
from parley.learning.outcome import JointClassifier, JointLogisticClassifier, JointRegressor
from parley.terms import Terms


def lending_result(tmp_path, **model):
    synthetic_lending(2000, seed=1).to_parquet(tmp_path / "public.parquet")
    table = synthetic_lending(3000, seed=2)
    content = {
        "model": {
            "kind": "linear-regression",
            "target": "int_rate",
            "features": ["fico", "dti", "home_ownership", "term"],
            "public": str(tmp_path / "public.parquet"),
            "intercept": True,
            **model,
        },
        "privacy": {"clip": 20.0},
        "owners": [{"name": "a", "records": 3000, "epsilon": 50.0}],
    }
    return parley.train(Terms.from_dict(content), [parley.Owner("a", table)], seed=1), table


@pytest.mark.parametrize("extra", [{}, {"components": 3}, {"whitening": "public"}, {"whitening": "public-curvature"}])
def test_a_saved_model_predicts_the_same(tmp_path, extra):
    result, table = lending_result(tmp_path, **extra)
    result.model.save(tmp_path / "model.json")
    loaded = parley.load_model(tmp_path / "model.json")
    assert isinstance(loaded, JointRegressor)
    np.testing.assert_array_equal(loaded.predict(table), result.model.predict(table))
    assert loaded.terms_hash_ == result.terms_hash
    assert "public.parquet" not in (tmp_path / "model.json").read_text()


def test_predictions_come_in_the_targets_own_units(tmp_path):
    result, table = lending_result(tmp_path)
    predicted = result.model.predict(table)
    assert result.model.score(table, table["int_rate"]) > 0.6
    assert np.square(predicted - table["int_rate"]).mean() == pytest.approx(result.cost, rel=0.01)


def test_classifiers_have_classes_margins_and_where_it_makes_sense_probabilities():
    for kind, expected in (("linear-svm", JointClassifier), ("logistic-regression", JointLogisticClassifier)):
        terms = make_terms(2000, epsilon=50.0, model__kind=kind, privacy__clip=5.0, learning__horizon=50)
        table = class_table(2000)
        model = parley.train(terms, [parley.Owner("a", table)], seed=1).model
        assert type(model) is expected
        assert model.score(table[["x0", "x1", "x2"]], table["y"]) > 0.8
        np.testing.assert_array_equal(model.predict(table), (model.decision_function(table) > 0).astype(int))
        assert hasattr(model, "predict_proba") == (kind == "logistic-regression")
    probability = model.predict_proba(table)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert (probability[table["y"] == 1, 1].mean()) > 0.6


def test_a_loaded_classifier_keeps_its_classes(tmp_path):
    from parley.learning.estimators import PrivateLinearSVC

    table = class_table(1000)
    X, y = table[["x0", "x1", "x2"]].to_numpy(), table["y"].to_numpy() + 1
    model = PrivateLinearSVC(epsilon=100.0, random_state=0).fit(X, y)
    model.save(tmp_path / "m.json")
    loaded = parley.load_model(tmp_path / "m.json")
    assert loaded.classes_.tolist() == [1, 2]
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.released_ is False


def test_estimators_go_by_place_and_joint_models_by_name():
    from parley.learning.estimators import PrivateLinearRegression

    frame = regression_table(500)[["x1", "x0", "x2"]]
    model = PrivateLinearRegression(epsilon=50.0, random_state=0).fit(frame, regression_table(500)["y"])
    by_place = model.preparation_.transform(frame.to_numpy()) @ model.theta_
    np.testing.assert_allclose(model.predict(frame), by_place)
    joint = parley.train(make_terms(300), [parley.Owner("a", regression_table(300))], seed=1).model
    with pytest.raises(DataError, match="'x1' is missing"):
        joint.predict(regression_table(5).drop(columns="x1"))


def test_no_cell_is_quoted_in_an_error():
    model = parley.train(make_terms(50), [parley.Owner("a", regression_table(50))], seed=1).model
    with pytest.raises(ValueError, match="expected a number in every cell") as caught:
        model.predict(np.array([["Jane Doe", "1", "2"]], dtype=object))
    assert "Jane" not in str(caught.value)


def test_tables_and_arrays_are_both_taken():
    model = parley.train(make_terms(300), [parley.Owner("a", regression_table(300))], seed=1).model
    table = regression_table(10, seed=3)
    shuffled = table[["y", "x2", "x0", "x1"]]
    np.testing.assert_allclose(model.predict(shuffled), model.predict(table[["x0", "x1", "x2"]].to_numpy()))
    with pytest.raises(ValueError, match="features"):
        model.predict(np.zeros((2, 5)))


def test_an_unfitted_model_says_so():
    with pytest.raises(NotFittedError):
        JointRegressor().predict(np.zeros((1, 2)))


@pytest.mark.parametrize("damage", ["text", "format", "theta", "missing"])
def test_a_damaged_file_is_one_sentence(tmp_path, damage):
    path = tmp_path / "model.json"
    parley.train(make_terms(50), [parley.Owner("a", regression_table(50))], seed=1).model.save(path)
    content = json.loads(path.read_text())
    if damage == "text":
        path.write_text("{")
    elif damage == "format":
        path.write_text(json.dumps(content | {"format": "other"}))
    elif damage == "theta":
        path.write_text(json.dumps(content | {"theta": [1.0]}))
    else:
        path.unlink()
    with pytest.raises(ModelError, match=r"model\.json"):
        parley.load_model(path)
