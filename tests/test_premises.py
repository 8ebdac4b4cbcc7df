"""The premises about arithmetic, on this machine as it is; with its other instructions in `test_other_kernels.py`.

Premises F1, F2, F3 and F4.
"""

import numpy as np
import premises
import pytest


@pytest.mark.parametrize("check", premises.CHECKS, ids=lambda check: check.__name__)
def test_arithmetic_is_as_the_proofs_say(check):
    check(np.random.default_rng(1))


@pytest.mark.parametrize(
    ("check", "operation", "mutant"),
    [
        (
            "one_element",
            "multiply",
            lambda a, b: np.where(np.arange(len(a)) == len(a) - 1, np.float64(np.float32(a * b)), a * b),
        ),
        ("exponentials", "exp", lambda x: np.exp2(x * np.float64(np.float32(1.4426950408889634)))),
        ("exponentials", "exp", lambda x: np.exp(x) * (1 + 2.0**-50 * (x[0] == 0))),
        ("rows_apart", "einsum", lambda how, X, Y: np.einsum(how, X, Y) * (1 + 2.0**-50 * (X[0, 0] == 1e50))),
    ],
)
def test_the_checks_find_arithmetic_that_is_not_so(check, operation, mutant, monkeypatch):
    """A tail that is rounded elsewhere, a function that is not exact enough, two whose elements hang on the first."""
    monkeypatch.setattr(premises, "np", _With(np, operation, mutant))
    with pytest.raises(AssertionError):
        getattr(premises, check)(np.random.default_rng(0))


class _With:
    """NumPy with another function in one place."""

    def __init__(self, module, name, function):
        self._module, self._name, self._function = module, name, function

    def __getattr__(self, name):
        return self._function if name == self._name else getattr(self._module, name)
