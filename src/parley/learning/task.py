"""Prediction: the task of the trunk."""

from collections.abc import Sequence
from typing import Any

from parley.protocol.task import RunSettings, Task, register
from parley.terms import Terms


class Prediction(Task):
    """Owners learn to predict a column of their tables from the others."""

    predicts = True

    def run(self, terms: Terms, owners: Sequence[Any], settings: RunSettings) -> Any:
        from parley.learning.prediction import learn_model  # an owner that serves learns nothing

        return learn_model(terms, owners, settings)


register(Prediction())
