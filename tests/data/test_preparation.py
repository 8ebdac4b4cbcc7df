import hashlib

import numpy as np
import pandas as pd
import pytest
from samples import BOUNDS, class_table, make_terms, regression_table

from parley.data import fit_preparation, synthetic_lending
from parley.errors import DataError
from parley.terms import Terms


def lending_terms(tmp_path, records=500, **model):
    synthetic_lending(800, seed=3).to_parquet(tmp_path / "public.parquet")
    base = {"kind": "linear-regression", "target": "int_rate", "public": str(tmp_path / "public.parquet")}
    owners = [{"name": "a", "records": records, "epsilon": 1.0}]
    return Terms.from_dict({"model": base | model, "privacy": {"clip": 10.0}, "owners": owners})


def test_replacing_one_row_changes_one_row_of_the_design(tmp_path):
    terms = lending_terms(tmp_path, components=5, features=["fico", "dti", "home_ownership", "purpose", "annual_inc"])
    table = synthetic_lending(500, seed=1)
    other = table.copy()
    other.iloc[17] = synthetic_lending(1, seed=99).iloc[0]
    preparation, _ = fit_preparation(terms)
    (a, _), (b, _) = preparation.designs(table, terms, "a"), preparation.designs(other, terms, "a")
    changed = np.flatnonzero((np.abs(a.X - b.X) > 1e-12).any(axis=1) | (a.y != b.y))
    assert changed.tolist() == [17]


def test_scales_bounds_and_components_come_from_the_public_sample_alone(tmp_path):
    terms = lending_terms(tmp_path, components=3, features=["fico", "dti", "annual_inc"])
    first, public = fit_preparation(terms, example=synthetic_lending(500, seed=1))
    second, _ = fit_preparation(terms, example=synthetic_lending(500, seed=2))
    np.testing.assert_array_equal(first.rotation, second.rotation)
    np.testing.assert_allclose(first.rotation.T @ first.rotation, np.eye(3), atol=1e-12)
    covariance = np.cov(public.X, rowvar=False)
    np.testing.assert_allclose(covariance - np.diag(np.diag(covariance)), 0, atol=1e-10)
    assert (np.diff(np.diag(covariance)) <= 0).all()


def test_private_values_are_clipped_to_the_bounds(tmp_path):
    terms = lending_terms(tmp_path, features=["fico", "dti"], bounds={"fico": [650, 750]})
    table = synthetic_lending(500, seed=1).astype({"fico": float})
    table.loc[0, ["fico", "dti", "int_rate"]] = [10**6, 1e9, 1e9]
    preparation, _ = fit_preparation(terms)
    design, _ = preparation.designs(table, terms, "a")
    assert (np.abs(design.X) <= preparation.feature_bound).all()
    assert (np.abs(design.y) <= preparation.target_bound).all()
    assert design.X[0, 0] == pytest.approx((750 - preparation.centre[0]) / preparation.scale[0])


def test_without_public_data_or_declared_bounds_nothing_is_bounded_or_scaled():
    preparation, public = fit_preparation(make_terms(100))
    assert preparation.feature_bound is None
    assert public is None
    table = regression_table(100)
    np.testing.assert_array_equal(preparation.matrix(table, "a"), table[["x0", "x1", "x2"]])
    bounded, _ = fit_preparation(make_terms(100, model__bounds=BOUNDS))
    np.testing.assert_allclose(bounded.feature_bound, 1.0)


def test_features_left_out_mean_every_numeric_column_but_target_and_person():
    table = regression_table(50).assign(who=range(50), city=pd.Categorical(["x"] * 50))
    terms = make_terms(50, model__features=None, privacy__person="who")
    preparation, _ = fit_preparation(terms, table)
    assert preparation.features == ("x0", "x1", "x2")


def test_an_odd_cell_does_not_drop_a_feature_silently():
    table = regression_table(50).astype({"x1": object})
    table.loc[3, "x1"] = "n.k."
    terms = make_terms(50, model__features=None)
    preparation, _ = fit_preparation(terms, table)
    assert preparation.features == ("x0", "x1", "x2")
    with pytest.raises(DataError, match="column 'x1', row 4: expected a number"):
        preparation.designs(table, terms, "a")


def test_bounds_and_categories_of_unknown_columns_are_refused():
    with pytest.raises(DataError, match=r"model\.bounds\.x9: the column is neither a feature nor the target"):
        fit_preparation(make_terms(10, model__bounds={"x9": [0, 1]}))


def test_records_must_equal_the_rows_found():
    preparation, _ = fit_preparation(make_terms(100))
    with pytest.raises(DataError, match="the terms state 100 records, but the table has 99"):
        preparation.designs(regression_table(99), make_terms(100), "a")


def test_people_with_many_rows_are_cut_to_k_before_counting():
    table = regression_table(90).assign(who=np.repeat(range(30), 3))
    terms = make_terms(60, privacy__person="who", privacy__records_per_person=2)
    preparation, _ = fit_preparation(terms, table)
    design, _ = preparation.designs(table, terms, "a")
    assert len(design) == 60
    with pytest.raises(DataError, match="90 before keeping"):
        preparation.designs(table, make_terms(90, privacy__person="who", privacy__records_per_person=2), "a")


def test_rows_are_held_out_by_place_not_by_content():
    terms = make_terms(200, model__holdout=0.25)
    preparation, _ = fit_preparation(terms)
    table = regression_table(200).assign(x0=np.arange(200.0))
    one, held = preparation.designs(table, terms, "a")
    two, _ = preparation.designs(table.assign(y=-table["y"], x1=0.0), terms, "a")
    assert (len(one), len(held)) == (150, 50)
    np.testing.assert_array_equal(one.X[:, 0], two.X[:, 0])
    assert set(one.X[:, 0]) | set(held.X[:, 0]) == set(range(200))


def test_classes_are_minus_one_and_one_and_carry_their_weights():
    terms = make_terms(40, model__kind="logistic-regression", model__class_weight={"1": 10.0})
    preparation, _ = fit_preparation(terms)
    table = class_table(40)
    design, _ = preparation.designs(table, terms, "a")
    assert set(design.y) == {-1.0, 1.0}
    np.testing.assert_array_equal(design.weight, np.where(table["y"] == 1, 10.0, 1.0))
    np.testing.assert_array_equal(design.X[:, -1], 1.0)
    with pytest.raises(DataError, match="row 4: the value is not a class; expected 1 or 0"):
        preparation.designs(table.assign(y=table["y"].where(table.index != 3, 2)), terms, "a")


def test_a_text_column_without_a_list_of_categories_is_refused(tmp_path):
    table = regression_table(20).assign(x0="secret")
    preparation, _ = fit_preparation(make_terms(20))
    with pytest.raises(DataError, match=r"list them under model\.categories\.x0") as caught:
        preparation.designs(table, make_terms(20), "a")
    assert "secret" not in str(caught.value)
    declared = make_terms(20, model__categories={"x0": ["secret", "open"]})
    preparation, _ = fit_preparation(declared)
    design, _ = preparation.designs(table, declared, "a")
    assert (design.X[:, 0] == 0).all()


def test_the_public_sample_can_be_pinned_by_its_hash(tmp_path):
    terms = lending_terms(tmp_path, features=["fico"])
    digest = hashlib.sha256((tmp_path / "public.parquet").read_bytes()).hexdigest()
    fit_preparation(lending_terms(tmp_path, features=["fico"], public_sha256=digest))
    with pytest.raises(DataError, match="SHA-256 differs"):
        fit_preparation(lending_terms(tmp_path, features=["fico"], public_sha256="0" * 64))
    assert terms.hash != lending_terms(tmp_path, features=["fico"], public_sha256=digest).hash


def test_more_components_than_features_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"model\.components = 3: expected at most 2"):
        fit_preparation(lending_terms(tmp_path, components=3, features=["fico", "dti"]))


def test_a_constant_public_column_does_not_divide_by_zero(tmp_path):
    pd.DataFrame({"x0": [2.0] * 5, "x1": range(5), "y": range(5)}).to_csv(tmp_path / "p.csv", index=False)
    terms = make_terms(3, model__features=["x0", "x1"], model__public=str(tmp_path / "p.csv"))
    preparation, design = fit_preparation(terms)
    assert np.isfinite(design.X).all()
    assert preparation.scale[0] == 1.0
