"""Public numbers are compared themselves: rounding is borne, other directions are not."""

import numpy as np
import pytest
from kernels import balanced_terms

from parley.data.public_numbers import TOLERANCE, PublicNumbers
from parley.protocol.setup import resolve


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    return resolve(balanced_terms(tmp_path_factory.mktemp("public"), components=4)).numbers


def moved(own, name, by, place=0):
    """The same with one entry elsewhere."""
    array = own.arrays[name].copy()
    array.flat[place] += by
    return PublicNumbers({**own.arrays, name: array}, own.names)


@pytest.mark.parametrize(
    "name", ["low", "high", "centre", "scale", "target_bounds", "target_centre", "rotation", "component_high", "bound"]
)
def test_rounding_is_borne_and_nothing_else(own, name):
    size = 1.0 if name == "rotation" else max(1.0, float(np.abs(own.arrays[name]).max()))
    assert own.difference(moved(own, name, 1e-9 * size)) is None
    told = own.difference(moved(own, name, 1e-2 * size))
    assert told is not None
    assert told.startswith(name)


def test_a_difference_says_which_number_and_how_far(own):
    place = np.ravel_multi_index((2, 1), own.arrays["rotation"].shape)
    told = own.difference(moved(own, "rotation", 0.5, place))
    here = own.arrays["rotation"][2, 1]
    assert told.startswith(f"rotation[3, 2] is {here + 0.5:.6g} there and {here:.6g} here")


def test_what_is_borne_is_measured_in_a_columns_own_unit():
    """A centre of a billion with a spread of one: a thousandth of that spread is no rounding, though tiny beside the
    centre."""
    arrays = {"centre": np.array([1e9]), "scale": np.array([1.0]), "target_scale": np.ones(1)}
    one = PublicNumbers(arrays, {})
    assert one.difference(PublicNumbers({**arrays, "centre": np.array([1e9 + 1e-6])}, {})) is None
    assert one.difference(PublicNumbers({**arrays, "centre": np.array([1e9 + 0.1])}, {})) is not None
    near = {"centre": np.array([1e-18]), "scale": np.array([1.0]), "target_scale": np.ones(1)}
    assert PublicNumbers(near, {}).difference(PublicNumbers({**near, "centre": np.array([-1e-18])}, {})) is None


def test_an_honest_party_at_a_rounding_edge_is_not_refused(own):
    """Numbers that a rounding to any number of digits would tell apart."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        assert own.difference(own.with_data(own.data * (1 + rng.uniform(-1, 1, own.data.size) * 1e-13))) is None


def test_not_a_number_is_no_rounding(own):
    assert own.difference(moved(own, "rotation", np.nan)) is not None
    assert own.difference(moved(own, "scale", np.inf)) is not None


def test_ends_that_nobody_knows_are_the_same_everywhere():
    arrays = {"low": np.array([-np.inf]), "scale": np.ones(1), "target_scale": np.ones(1)}
    assert PublicNumbers(arrays, {}).difference(PublicNumbers(dict(arrays), {})) is None
    assert PublicNumbers(arrays, {}).difference(PublicNumbers({**arrays, "low": np.array([0.0])}, {})) is not None


def test_other_names_and_other_shapes_are_told(own):
    assert "columns" in own.difference(PublicNumbers(own.arrays, {**own.names, "columns": "0" * 64}))
    fewer = PublicNumbers({**own.arrays, "rotation": own.arrays["rotation"][:, :2]}, own.names)
    assert "rotation" in own.difference(fewer)
    assert (
        own.difference(PublicNumbers({k: v for k, v in own.arrays.items() if k != "rotation"}, own.names)) is not None
    )


def test_the_numbers_travel_as_one_list_and_come_back(own):
    back = own.with_data(own.data.copy())
    assert back.shapes == own.shapes
    for name, array in own.arrays.items():
        np.testing.assert_array_equal(back.arrays[name], array)


def test_the_tolerance_is_what_the_documents_say():
    assert TOLERANCE == 1e-6
