"""Dynamic mode decomposition without delays."""

import numpy as np
import pytest

from parley.errors import DataError, SettingError
from parley.tasks.dynamics import DMD, DMDc


def test_modes_and_eigenvalues_of_two_oscillations():
    time, space = np.arange(80), np.linspace(-3, 3, 40)
    field = np.outer(np.cos(0.3 * time) * 0.98**time, 1 / np.cosh(space)) + np.outer(
        np.sin(0.3 * time) * 0.98**time, space
    )
    found = DMD(rank=2).fit(field)
    assert np.sort_complex(found.eigenvalues_) == pytest.approx(0.98 * np.exp([-0.3j, 0.3j]), abs=1e-9)
    assert found.predict(field)[:-1] == pytest.approx(field[1:], abs=1e-9)
    assert found.dynamic_modes_.shape == (40, 2)


def test_agrees_with_the_library_of_the_field():
    pydmd = pytest.importorskip("pydmd", reason="PyDMD is not installed")
    rng = np.random.default_rng(1)
    A, B = rng.normal(size=(4, 4)) / 4, rng.normal(size=(4, 2))
    u, x = rng.normal(size=(60, 2)), np.zeros((60, 4))
    for k in range(59):
        x[k + 1] = A @ x[k] + B @ u[k]
    peer = pydmd.DMDc(svd_rank=-1).fit(x.T, u[:-1].T)
    ours = DMDc().fit(x, u)
    assert ours.Ad_ == pytest.approx(A, abs=1e-10)
    assert ours.Bd_ == pytest.approx(peer.B, abs=1e-10)


def test_refusals():
    with pytest.raises(SettingError, match="DMDc"):
        DMD().fit(np.eye(4), np.ones((4, 1)))
    with pytest.raises(DataError, match="vary too little"):
        DMD().fit(np.ones((10, 2)))
