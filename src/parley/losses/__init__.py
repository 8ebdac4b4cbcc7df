"""What is minimised: losses of records, and objectives that combine them with tables."""

from collections.abc import Callable

from parley.losses.loss import Limits, RecordBound
from parley.losses.objective import EmpiricalRisk, Objective
from parley.losses.objectives.classes import LeastSquaresClasses, OneVsAll, SoftmaxRegression
from parley.losses.objectives.linear_regression import LinearRegression
from parley.losses.objectives.margin import LinearSVM, LogisticRegression, PoissonRegression
from parley.losses.objectives.survival import Survival
from parley.terms import Model

__all__ = [
    "KINDS",
    "EmpiricalRisk",
    "LeastSquaresClasses",
    "Limits",
    "LinearRegression",
    "LinearSVM",
    "LogisticRegression",
    "Objective",
    "OneVsAll",
    "PoissonRegression",
    "RecordBound",
    "SoftmaxRegression",
    "Survival",
    "make",
]

KINDS: dict[str, Callable[..., EmpiricalRisk]] = {
    "linear-regression": LinearRegression,
    "linear-svm": LinearSVM,
    "logistic-regression": LogisticRegression,
    "softmax-regression": SoftmaxRegression,
    "one-vs-all": OneVsAll,
    "least-squares-classes": LeastSquaresClasses,
    "poisson-regression": PoissonRegression,
    "survival": Survival,
}


def make(model: Model) -> EmpiricalRisk:
    """Return the objective that the terms name.

    >>> make(Model(kind="linear-svm", target="fraud")).regularisation
    1.0
    """
    return KINDS[model.kind](regularisation=model.penalty)
