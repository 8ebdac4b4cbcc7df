"""Logistic regression: the smooth classifier of two classes."""

from dataclasses import dataclass, field

import numpy as np

from parley.data import Preparation
from parley.losses.loss import Logistic
from parley.losses.objective_perturbation import LinearTermLaw, Perturbable
from parley.losses.objectives.margin import MarginObjective
from parley.validate import Floats


@dataclass(frozen=True)
class LogisticRegression(MarginObjective, Perturbable):
    """Its margin is the log-odds of class 1."""

    loss: Logistic = field(default=Logistic(), kw_only=True)

    def perturbation(self, preparation: Preparation) -> tuple[LinearTermLaw, Floats]:
        return LinearTermLaw(2, several=False), np.ones((1, 1))
