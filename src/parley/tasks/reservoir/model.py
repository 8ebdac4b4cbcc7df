"""An echo-state network as a fitted model: predicts every sample of a recording from those up to it, and is saved as
JSON."""

from typing import Any

import pandas as pd

from parley.data import Preparation, read_table
from parley.learning.outcome.model import JointRegressor
from parley.tasks.reservoir.recordings import ReservoirPreparation, reservoir_preparation
from parley.validate import Floats


class EchoStateRegressor(JointRegressor):
    """A read-out of the reservoir that the terms fix. A table has a column of recordings, and samples in the order of
    time; an array is one recording."""

    preparation_: ReservoirPreparation

    def _take_coefficients(self, split: int) -> None:
        self.coef_, self.intercept_ = self.theta_[:-1], float(self.theta_[-1])

    def _scores(self, X: Any) -> Floats:
        self._require_theta()
        return self._rows(X) @ self.theta_

    def _rows(self, X: Any) -> Floats:
        if isinstance(X, pd.DataFrame):
            return self.preparation_.states(read_table(X), "table")
        return self.preparation_.one_recording(self._positional(X))


def echo_state_model(preparation: Preparation, theta: Floats, terms_hash: str, released: bool) -> EchoStateRegressor:
    """The fitted model of this read-out [p]."""
    return EchoStateRegressor()._take(reservoir_preparation(preparation.model), theta, terms_hash, released)
