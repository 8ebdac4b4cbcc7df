"""Algorithms, the loop around them, and what comes out."""

from parley.learning.model import JointClassifier, JointLogisticClassifier, JointModel, JointRegressor, load_model
from parley.learning.result import OwnerOutcome, Result
from parley.learning.train import alone, train

__all__ = [
    "JointClassifier",
    "JointLogisticClassifier",
    "JointModel",
    "JointRegressor",
    "OwnerOutcome",
    "Result",
    "alone",
    "load_model",
    "train",
]
