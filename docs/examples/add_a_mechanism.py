"""Add a mechanism: Laplace noise whose released numbers are rounded to a coarse grid, so that they are short to read.

A mechanism is noise of a known law; its series says how it is calibrated for all answers of an agreement and what k of
them cost. Rounding is post-processing, so everything that is proved for Laplace noise holds.

In the package: terms/catalogue.py, privacy/accounting/series.py, privacy/mechanisms/rounded_laplace.py (new)
"""

from typing import Any

import numpy as np

import parley
from parley.privacy.accounting.series import SERIES, PureSeries
from parley.privacy.mechanisms import Laplace
from parley.terms.catalogue import MECHANISMS, MechanismFacts


class RoundedLaplace(Laplace):
    """Laplace noise, then the nearest multiple of an eighth of its scale (a power of two, so that nothing is rounded
    twice).

    Formal guarantee: that of `Laplace`; the grid follows from the scale, which is public.
    """

    def release(self, bounded, noise):
        grid = 2.0 ** np.floor(np.log2(self.scale / 8))
        return np.rint(super().release(bounded, noise) / grid) * grid


class RoundedSeries(PureSeries):
    """Costs add up as they do for Laplace noise."""

    @classmethod
    def calibrated(cls, *budget_and_size: Any) -> RoundedLaplace:
        plain = super().calibrated(*budget_and_size)
        return RoundedLaplace(plain.scale, plain.sensitivity)


MECHANISMS["rounded-laplace"] = MechanismFacts(approximate=False)  # terms may name it
SERIES["rounded-laplace"] = RoundedSeries

book = parley.data.synthetic_lending(4000, seed=1)
terms = parley.Terms.from_dict(
    {
        "model": {
            "kind": "linear-regression",
            "target": "int_rate",
            "features": ["fico", "dti"],
            "intercept": True,
            "radius": 30.0,
        },
        "learning": {"horizon": 20, "step": 1e-6},
        "privacy": {"clip": 2e4, "mechanism": "rounded-laplace"},
        "owners": [{"name": "bank", "records": 4000, "epsilon": 1.0}],
    }
)
result = parley.train(terms, [parley.Owner("bank", book)], replicates=4, seed=0)
assert result.owners[0].epsilon_spent == 1.0
