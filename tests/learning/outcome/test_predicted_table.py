import numpy as np
import pandas as pd
import pytest
from samples import iris_table, make_terms, patients, regression_table

import parley
from parley.errors import DataError, SettingError
from parley.learning.outcome.predicted_table import predictions, require_table_name, summary, write_table


def trained(table, **model):
    terms = make_terms(
        len(table),
        epsilon=50.0,
        learning__horizon=20,
        learning__step=0.5,
        privacy__clip=20.0,
        **{f"model__{key}": value for key, value in model.items()},
    )
    return parley.train(terms, [parley.Owner("a", table)], seed=1).model


def test_numbers_come_in_the_targets_own_units_behind_the_columns_as_they_are(tmp_path):
    table = regression_table(400)
    shifted = table.assign(y=1000 + 100 * table["y"])
    shifted.to_csv(tmp_path / "public.csv", index=False)
    model = trained(shifted, public=str(tmp_path / "public.csv"), intercept=True)
    shifted.drop(columns="y").assign(note="kept").to_csv(tmp_path / "rows.csv", index=False)
    found = predictions(model, tmp_path / "rows.csv")
    assert list(found.columns) == ["x0", "x1", "x2", "note", "predicted_y"]
    assert np.corrcoef(found["predicted_y"], shifted["y"])[0, 1] > 0.9
    assert found["predicted_y"].mean() == pytest.approx(1000, abs=30)
    for name in ("out.csv", "out.parquet"):
        write_table(found, tmp_path / name)
    again = pd.read_parquet(tmp_path / "out.parquet")["predicted_y"]
    np.testing.assert_array_equal(again, found["predicted_y"])
    assert pd.read_csv(tmp_path / "out.csv")["predicted_y"].to_numpy() == pytest.approx(again.to_numpy())
    assert summary(model, found)["rows"] == 400


def test_classes_come_by_their_names_with_probabilities():
    table = patients(500, 1, "here").drop(columns="patient_id")
    categories = {"job": ["nurse", "clerk", "baker"], "smoker": ["yes", "no"], "outcome": ["diseased", "healthy"]}
    two = trained(
        table,
        kind="logistic-regression",
        target="outcome",
        positive="diseased",
        features=["age", "job", "smoker"],
        bounds={"age": [10, 90]},
        categories=categories,
        coding="one-hot",
        missing="fill",
    )
    found = predictions(two, table)
    assert set(found["predicted_outcome"]) <= {"diseased", "healthy"}
    np.testing.assert_array_equal(found["predicted_outcome"] == "diseased", found["probability_diseased"] > 0.5)
    assert sum(summary(two, found)["classes"].values()) == 500
    flowers = iris_table()
    several = trained(
        flowers,
        kind="softmax-regression",
        target="species",
        features=[*flowers.columns[:4]],
        bounds=None,
        categories={"species": ["setosa", "versicolor", "virginica"]},
    )
    found = predictions(several, flowers.drop(columns="species"))
    chances = found[[f"probability_{name}" for name in ("setosa", "versicolor", "virginica")]]
    assert chances.sum(axis=1).to_numpy() == pytest.approx(np.ones(150))


def test_what_would_be_overwritten_is_refused(tmp_path):
    table = regression_table(50)
    model = trained(table)
    with pytest.raises(DataError, match="predicted_y"):
        predictions(model, table.assign(predicted_y=0.0))
    table.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(SettingError, match="this file is an input"):
        require_table_name(tmp_path / "rows.csv", tmp_path / "rows.csv")
    with pytest.raises(SettingError, match=r"\.csv, \.parquet"):
        require_table_name(tmp_path / "rows.txt")


def test_numbers_are_cut_to_the_declared_range_of_the_target():
    table = regression_table(400)
    model = trained(table, bounds={"y": [-0.5, 0.5]})
    found, raw = predictions(model, table)["predicted_y"], model.predict(table)
    assert (np.abs(raw) > 0.5).any()
    np.testing.assert_array_equal(found, np.clip(raw, -0.5, 0.5))
    cut = table["y"].clip(-0.5, 0.5)
    assert np.mean((found - cut) ** 2) < np.mean((raw - cut) ** 2)
