"""What comes out of a run: the model, its quality and its cost. Names are imported on first use, to load fast."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parley.learning.outcome.model import (
        JointClassifier,
        JointLogisticClassifier,
        JointModel,
        JointRegressor,
        JointSoftmaxClassifier,
        load_model,
    )
    from parley.learning.outcome.personal import alone, refine
    from parley.learning.outcome.result import OwnerOutcome, Result
    from parley.learning.outcome.verdict import score

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

_HOME = {"alone": "personal", "refine": "personal", "OwnerOutcome": "result", "Result": "result", "score": "verdict"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'parley.learning.outcome' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"parley.learning.outcome.{_HOME.get(name, 'model')}"), name)
    return value
