"""What comes out of a run: the model, how good it is, what was spent."""

from parley.outcome.model import (
    JointClassifier,
    JointLogisticClassifier,
    JointModel,
    JointRegressor,
    JointSoftmaxClassifier,
    load_model,
)
from parley.outcome.personal import alone, refine
from parley.outcome.result import OwnerOutcome, Result
from parley.outcome.verdict import score

__all__ = [
    "JointClassifier",
    "JointLogisticClassifier",
    "JointModel",
    "JointRegressor",
    "JointSoftmaxClassifier",
    "OwnerOutcome",
    "Result",
    "alone",
    "load_model",
    "refine",
    "score",
]
