"""What is minimised: cost, record gradients with a bound, curvature and the non-private optimum."""

from parley.objectives.linear_regression import LinearRegression
from parley.objectives.linear_svm import LinearSVM
from parley.objectives.logistic_regression import LogisticRegression
from parley.objectives.margin import MarginObjective, RecordBound
from parley.objectives.optimum import optimum
from parley.terms import Model

__all__ = ["LinearRegression", "LinearSVM", "LogisticRegression", "MarginObjective", "RecordBound", "make", "optimum"]

_KINDS: dict[str, type[MarginObjective]] = {
    "linear-regression": LinearRegression,
    "linear-svm": LinearSVM,
    "logistic-regression": LogisticRegression,
}


def make(model: Model) -> MarginObjective:
    """The objective that the terms name.

    >>> make(Model(kind="linear-svm", target="fraud")).regularisation
    1.0
    """
    return _KINDS[model.kind](regularisation=model.penalty)
