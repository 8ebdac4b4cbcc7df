"""Add a loss: Huber's, which forgives outliers, as a model of a number.

A loss is three formulas of the raw prediction theta.x and the target, and what privacy needs to know of them: how large
the derivative and the curvature can be. An objective composes it with tables; clipping, sensitivity, optimum, local
updates, forecast and deployment follow.

In the package: terms/catalogue.py, losses/__init__.py, losses/objectives/huber_regression.py (new)
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

import parley
from parley import losses
from parley.losses.loss import PLAIN_FUNCTIONS, Loss
from parley.losses.objectives.margin import MarginObjective
from parley.terms.catalogue import MODELS, ModelFacts


@dataclass(frozen=True)
class Huber(Loss):
    """r^2/2 for residuals |r| <= width, width (|r| - width/2) beyond."""

    width: float = 1.0

    def loss(self, raw, y):
        size = np.abs(raw - y)
        return np.where(size <= self.width, size**2 / 2, self.width * (size - self.width / 2))

    def gradient(self, raw, y, elementary=PLAIN_FUNCTIONS):
        return np.clip(raw - y, -self.width, self.width)

    def hessian(self, raw, y):
        return (np.abs(raw - y) <= self.width).astype(float)

    def largest_derivative(self, reach, target_bound):
        return min(self.width, reach + target_bound)


MODELS["huber-regression"] = ModelFacts("number")  # terms may name it
losses.KINDS["huber-regression"] = partial(MarginObjective, loss=Huber())

book = parley.data.synthetic_lending(6000, seed=1)
settings = {
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
terms = parley.Terms.from_dict(settings)
result = parley.train(terms, [parley.Owner("bank", book)], replicates=4, seed=0)
assert result.optimal_cost < result.cost
assert parley.forecast(terms, book.head(1000), resamples=4).method == "pilot-run"

# Its derivative never falls and rises by at most 1 a unit, so owners may take local steps on it, too.
steps = {"algorithm": "federated-averaging", "local_steps": 3, "horizon": 20}
local = parley.Terms.from_dict(settings | {"learning": steps})
assert np.isfinite(parley.train(local, [parley.Owner("bank", book)], replicates=4, seed=0).cost).all()
