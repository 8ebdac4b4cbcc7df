"""Add an objective: Huber's loss, which forgives outliers, as a model of a number.

A cost of the margin theta.x needs four formulas; clipping, sensitivity, optimum, forecast and deployment follow from them.
"""

from dataclasses import dataclass

import numpy as np

import parley
from parley import losses as objectives
from parley.losses.margin import MarginObjective
from parley.terms.catalogue import MODELS, ModelFacts


@dataclass(frozen=True)
class HuberRegression(MarginObjective):
    """r^2/2 for residuals |r| <= 1, |r| - 1/2 beyond."""

    def loss(self, margin, y):
        size = np.abs(margin - y)
        return np.where(size <= 1, size**2 / 2, size - 0.5)

    def slope(self, margin, y):
        return np.clip(margin - y, -1.0, 1.0)

    def bend(self, margin, y):
        return (np.abs(margin - y) <= 1).astype(float)

    def largest_slope(self, largest_margin, target_bound):
        return 1.0


MODELS["huber-regression"] = ModelFacts("number")  # terms may name it
objectives.KINDS["huber-regression"] = HuberRegression

book = parley.data.synthetic_lending(6000, seed=1)
terms = parley.Terms.from_dict(
    {
        "model": {
            "kind": "huber-regression",
            "target": "int_rate",
            "features": ["fico", "dti"],
            "bounds": {"fico": [600, 850], "dti": [0, 45], "int_rate": [5, 31]},
            "intercept": True,
            "radius": 30.0,
        },
        "learning": {"horizon": 20, "step": 1e-5},
        "owners": [{"name": "bank", "records": 6000, "epsilon": 2.0}],
    }
)
result = parley.train(terms, [parley.Owner("bank", book)], replicates=4, seed=0)
assert result.optimal_cost < result.cost
assert parley.forecast(terms, book.head(1000), resamples=4).method == "pilot-run"
