"""The continuous plant behind a sampled one."""

import numpy as np
import pytest
from scipy.linalg import expm

from parley.errors import DataError
from parley.tasks.dynamics.delay import continuous


def test_no_warning_hangs_on_the_last_bits():
    """SciPy warns of a logarithm that misses by 2e-13, which a few of these do and others on another machine; warnings
    are errors here."""
    rng, told = np.random.default_rng(0), 0
    for _ in range(300):
        sampled = rng.normal(size=(2, 2))
        try:
            found = continuous(sampled, 0.5)
        except DataError:
            told += 1
            continue
        np.testing.assert_allclose(expm(0.5 * found), sampled, atol=1e-9 * np.abs(sampled).max())
    assert 0 < told < 300  # those with negative eigenvalues


def test_a_logarithm_that_is_none_is_said(monkeypatch):
    monkeypatch.setattr("parley.tasks.dynamics.delay.logm", lambda matrix: np.full_like(matrix, np.nan))
    with pytest.raises(DataError, match="cannot compute the logarithm"):
        continuous(np.array([[0.5, 0.1], [0.0, 0.4]]), 1.0)
