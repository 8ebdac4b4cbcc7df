import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from parley.aggregation import weighted_mean
from parley.queries import Answer


@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(-1e6, 1e6)), min_size=1, max_size=8))
def test_it_is_the_mean_over_all_records(parts):
    answers = [Answer("q", str(i), n, np.full((2, 3), v)) for i, (n, v) in enumerate(parts)]
    expected = sum(n * v for n, v in parts) / sum(n for n, _ in parts)
    np.testing.assert_allclose(weighted_mean(answers), expected, rtol=1e-9, atol=1e-6)
