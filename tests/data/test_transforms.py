"""Transforms take every finite number, keep the order, and give a number the same image wherever it stands."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.data.encoding import INVERSES, TRANSFORMS
from parley.terms.keys import TRANSFORM_DOMAINS

DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
REFERENCES = {
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "signed-log1p": lambda x: np.sign(x) * np.log1p(np.abs(x)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_they_are_what_they_are_called(name):
    least = TRANSFORM_DOMAINS.get(name, (-1e50, True))[0]
    x = np.concatenate([np.geomspace(1e-50, 1e50, 2001), np.linspace(max(least, -0.999) + 1e-9, 5, 1001)])
    x = np.concatenate([x, -x]) if name == "signed-log1p" else x
    np.testing.assert_allclose(TRANSFORMS[name](x), REFERENCES[name](x), rtol=4e-15, atol=1e-15)
    back = INVERSES[name](TRANSFORMS[name](x[np.abs(x) > 1e-3]))
    np.testing.assert_allclose(back, x[np.abs(x) > 1e-3], rtol=1e-11)


@pytest.mark.parametrize("name", TRANSFORMS)
@settings(max_examples=200, deadline=None)
@given(values=st.lists(DOUBLES, min_size=1, max_size=40))
def test_every_double_has_an_image_which_no_other_number_moves(name, values):
    x = np.array(values)
    with np.errstate(over="ignore"):
        image = TRANSFORMS[name](x)
        alone = np.array([TRANSFORMS[name](np.array([v]))[0] for v in values])
    assert np.isfinite(image).all()
    np.testing.assert_array_equal(image, alone)
    order = np.argsort(x, kind="stable")
    assert (np.diff(image[order]) >= -1e-12).all()
