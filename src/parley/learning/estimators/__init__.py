"""scikit-learn estimators: a private model of one owner's table, trained by the same code as joint models."""

from parley.learning.estimators.boosted import PrivateBoostedClassifier, PrivateBoostedRegressor
from parley.learning.estimators.linear import (
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateSoftmaxRegression,
)

__all__ = [
    "PrivateBoostedClassifier",
    "PrivateBoostedRegressor",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivatePoissonRegressor",
    "PrivateSoftmaxRegression",
]
