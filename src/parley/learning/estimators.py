"""scikit-learn estimators with a `fit`: one owner, its own table, the same training underneath.

For people who want a private linear model of one table, and for everything in scikit-learn that takes an estimator.
"""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import validate_data

from parley.learning.train import train
from parley.ledger import Ledger
from parley.outcome.model import (
    JointClassifier,
    JointLogisticClassifier,
    JointModel,
    JointRegressor,
    JointSoftmaxClassifier,
    discreet,
)
from parley.outcome.result import Result
from parley.owner import Owner
from parley.terms import Terms
from parley.validate import Floats


class _PrivateEstimator(JointModel):
    """Training on one table.

    Formal guarantee: if `random_state` is None, `theta_` is epsilon-DP (replace-one; the number of rows and the set of class labels are
    public). The fit is then a release like an owner's between organisations: exact noise (`SafeNoise`), every answer debited from a
    ledger before it is used, and `released_` is true. That ledger lasts as long as the fit: each further fit costs epsilon again, and
    nobody counts them. Where they must be counted, use `Owner` with a `Ledger` that is kept, and `train`.

    With a seed the run is a study: its noise can be drawn again by whoever knows the seed, so its model guarantees nothing, and
    `released_` is false.
    """

    kind: ClassVar[str]

    def __init__(
        self,
        epsilon: float = 1.0,
        clip: float = 10.0,
        radius: float = 10.0,
        horizon: int = 100,
        step: float | Literal["auto"] = "auto",
        regularisation: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.clip = clip
        self.radius = radius
        self.horizon = horizon
        self.step = step
        self.regularisation = regularisation
        self.random_state = random_state

    def _train(self, X: Floats, y: Any, **model: Any) -> Self:
        columns = [f"x{j}" for j in range(X.shape[1])]
        table = pd.DataFrame(X, columns=columns).assign(y=y)
        terms = Terms.from_dict(
            {
                "model": {
                    "kind": self.kind,
                    "target": "y",
                    "features": columns,
                    "intercept": True,
                    "radius": self.radius,
                    "regularisation": self.regularisation,
                    **model,
                },
                "learning": {"horizon": self.horizon, "step": self.step},
                "privacy": {"clip": self.clip},
                "owners": [{"name": "owner", "records": len(table), "epsilon": self.epsilon}],
            },
            source=type(self).__name__,
        )
        result = _study(terms, table, self.random_state) if self.random_state is not None else _release(terms, table)
        return self._take(result.model.preparation_, result.theta[0], result.terms_hash, result.released)

    def _rows(self, X: Any) -> Floats:
        return self._positional_rows(X)


def _study(terms: Terms, table: pd.DataFrame, seed: int) -> Result:
    return train(terms, [Owner("owner", table)], seed=seed, measure=False)


def _release(terms: Terms, table: pd.DataFrame) -> Result:
    """The walk of a release, with books that are closed when it is over."""
    with TemporaryDirectory() as folder, closing(Ledger(Path(folder) / "fit.ledger", terms.owners[0].epsilon)) as ledger:
        owner = Owner("owner", table, ledger=ledger)
        owner.accept(terms)
        return train(terms, [owner], measure=False)


class PrivateLinearRegression(_PrivateEstimator, JointRegressor):
    """Linear regression of one table under differential privacy.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 2)); y = X @ [1.0, -2.0] + 0.5
    >>> model = PrivateLinearRegression(epsilon=1.0, clip=8.0, radius=3.0, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    kind = "linear-regression"

    def fit(self, X: Any, y: Any) -> Self:
        """Train on rows X [n, features] and numbers y [n]."""
        with discreet():
            X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        return self._train(X, y)


class _PrivateClassifier(_PrivateEstimator):
    classes_: Any

    def fit(self, X: Any, y: Any) -> Self:
        """Train on rows X [n, features] and two classes y [n]."""
        X, y = self._checked(X, y)
        if len(self.classes_) > 2:
            raise ValueError(f"Only binary classification is supported. The type of the target is {type_of_target(y)}.")
        return self._train(X, (y == self.classes_[1]).astype(np.float64))

    def _checked(self, X: Any, y: Any) -> tuple[Floats, Any]:
        """Rows and classes as scikit-learn wants them; `classes_` is set."""
        with discreet():
            X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        return X, y

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class PrivateLinearSVC(_PrivateClassifier, JointClassifier):
    """Linear support vector machine of one table under differential privacy."""

    kind = "linear-svm"


class PrivateLogisticRegression(_PrivateClassifier, JointLogisticClassifier):
    """Logistic regression of one table under differential privacy."""

    kind = "logistic-regression"


class PrivateSoftmaxRegression(_PrivateClassifier, JointSoftmaxClassifier):
    """Softmax regression of one table, with any number of classes, under differential privacy."""

    kind = "softmax-regression"

    def fit(self, X: Any, y: Any) -> Self:
        """Train on rows X [n, features] and classes y [n]."""
        X, y = self._checked(X, y)
        places = [str(place) for place in range(len(self.classes_))]
        return self._train(X, np.array(places)[np.searchsorted(self.classes_, y)], categories={"y": places})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        return tags
