"""scikit-learn estimators with a `fit`: one owner, its own table, the same training underneath.

For people who want a private model of one table, and for everything in scikit-learn that takes an estimator.
"""

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
