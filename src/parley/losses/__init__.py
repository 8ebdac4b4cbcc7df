"""What is minimised: cost, record gradients with a bound, and where they exist curvature and the non-private optimum."""

from parley.losses.least_squares_classes import LeastSquaresClasses
from parley.losses.linear_regression import LinearRegression
from parley.losses.linear_svm import LinearSVM
from parley.losses.logistic_regression import LogisticRegression
from parley.losses.objective import Limits, Objective, RecordBound
from parley.losses.one_vs_all import OneVsAll
from parley.losses.softmax_regression import SoftmaxRegression
from parley.terms import Model

__all__ = [
    "KINDS",
    "LeastSquaresClasses",
    "Limits",
    "LinearRegression",
    "LinearSVM",
    "LogisticRegression",
    "Objective",
    "OneVsAll",
    "RecordBound",
    "SoftmaxRegression",
    "make",
]

KINDS: dict[str, type[Objective]] = {
    "linear-regression": LinearRegression,
    "linear-svm": LinearSVM,
    "logistic-regression": LogisticRegression,
    "softmax-regression": SoftmaxRegression,
    "one-vs-all": OneVsAll,
    "least-squares-classes": LeastSquaresClasses,
}


def make(model: Model) -> Objective:
    """The objective that the terms name.

    >>> make(Model(kind="linear-svm", target="fraud")).regularisation
    1.0
    """
    return KINDS[model.kind](regularisation=model.penalty)
