import numpy as np
import pytest
from samples import BOUNDS, make_terms, regression_table

from parley.errors import TermsError
from parley.learning.algorithms.algorithm import step_size
from parley.protocol.setup import resolve


def auto(**overrides):
    return step_size(resolve(make_terms(50, learning__step="auto", **overrides)))


def test_a_number_in_the_terms_is_taken_as_it_is():
    assert step_size(resolve(make_terms(50, learning__step=0.123))) == 0.123


def test_with_a_public_sample_it_is_one_over_its_curvature(tmp_path):
    table = regression_table(500)
    table.to_csv(tmp_path / "public.csv", index=False)
    X = table[["x0", "x1", "x2"]].to_numpy()
    X = (X - X.mean(0)) / X.std(0)
    curvature = 2 * np.linalg.eigvalsh(X.T @ X / 500)[-1]
    assert auto(model__public=str(tmp_path / "public.csv")) == pytest.approx(1 / curvature, rel=1e-5)


def test_with_bounds_it_is_one_over_the_largest_curvature_possible():
    assert auto(model__bounds=BOUNDS) == pytest.approx(1 / 6, rel=1e-5)
    svm = {"model__kind": "linear-svm", "model__bounds": {k: BOUNDS[k] for k in ("x0", "x1", "x2")}}
    assert auto(**svm, model__class_weight={"1": 3.0}) == pytest.approx(1 / (3 * 4 + 1), rel=1e-5)


def test_with_a_box_and_a_clip_it_is_their_ratio():
    assert auto() == 5.0 / 4.0
    assert auto(learning__algorithm="gradient-descent") == 5.0 / 4.0 * 100


def test_with_nothing_to_go_by_it_asks_for_a_number():
    with pytest.raises(TermsError, match="otherwise give a number"):
        auto(model__radius=None)
