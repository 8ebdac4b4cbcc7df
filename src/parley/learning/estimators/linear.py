"""Linear models of one table. Objectives are convex; only the typical norm of a row must be known beforehand."""

import math
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from parley.learning.outcome.model import (
    JointClassifier,
    JointLogisticClassifier,
    JointModel,
    JointPoissonRegressor,
    JointRegressor,
    JointSoftmaxClassifier,
    hide_cell_values,
)
from parley.learning.outcome.result import Result
from parley.learning.prediction import learn_model
from parley.owner.ledger import Ledger
from parley.owner.owner import Owner
from parley.protocol.task import RunSettings
from parley.terms import Terms
from parley.terms.rules import named_algorithm
from parley.validate import LARGEST, Floats, positive

OWNER_NAME = "owner"  # the owner's name in the terms


def fit_table(terms: Terms, table: pd.DataFrame, seed: int | None) -> Result:
    """Train on this table: a release debited from a temporary ledger, or a study if there is a seed."""
    if seed is not None:
        return learn_model(terms, [Owner(OWNER_NAME, table)], RunSettings(seed=seed, measure=False))
    epsilon, delta = terms.owners[0].epsilon, terms.privacy.delta
    with (
        TemporaryDirectory() as folder,
        closing(Ledger(Path(folder) / "fit.ledger", epsilon, lifetime_delta=delta or None, remembered=False)) as ledger,
    ):
        owner = Owner(OWNER_NAME, table, ledger=ledger)
        owner.accept(terms)
        return learn_model(terms, [owner], RunSettings(measure=False))


class _PrivateEstimator(JointModel):
    """Base of the linear estimators of one table.

    Parameters
    ----------
    epsilon
        Privacy budget of one fit.
    norm
        Typical largest L2 norm of a row of X, known without looking at the rows; longer rows are shortened to it.
        Default: the root of twice the number of features, for features standardised by public means and deviations.
        Features are scaled internally so that the norm becomes that root.
    radius
        Largest absolute coefficient of the scaled features.
    regularisation
        Weight of the penalty.
    algorithm
        Default: objective perturbation for logistic and softmax regression, one release of second moments for linear
        regression, averaged subgradients otherwise. The first two have no rounds and no steps.
    clip, horizon, step
        For algorithms with rounds (`clip` also for second moments); see `docs/terms.md`.
    random_state
        A seed makes the fit a study; None makes it a release.

    Formal guarantee: if `random_state` is None, `theta_` is epsilon-DP (replace-one; the number of rows and the set of
    class labels are public), whatever norm the rows have. The fit is then a release: its noise is exact (`SafeNoise`),
    every answer is debited from a ledger before it is used, and `released_` is true. The ledger lasts as long as the
    fit. Each further fit costs epsilon again, and nothing counts the fits; to count them, use `train` with an `Owner`
    whose `Ledger` is kept. With a seed the fit is a study: anyone who knows the seed can redraw the noise, so the model
    guarantees nothing and `released_` is false.
    """

    kind: ClassVar[str]
    usual: ClassVar[str] = "objective-perturbation"  # the algorithm where nobody names one

    def __init__(
        self,
        epsilon: float = 1.0,
        norm: float | None = None,
        radius: float = 10.0,
        regularisation: float = 0.0,
        algorithm: str | None = None,
        clip: float | None = None,
        horizon: int = 100,
        step: float | Literal["auto"] = "auto",
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.norm = norm
        self.radius = radius
        self.regularisation = regularisation
        self.algorithm = algorithm
        self.clip = clip
        self.horizon = horizon
        self.step = step
        self.random_state = random_state

    def _train(
        self, X: Floats, y: Any, unit: float = 1.0, beside: Mapping[str, Floats] | None = None, **model: Any
    ) -> Self:
        """Fit; `unit` divides a numeric target, `exposures` holds columns that belong to the target."""
        columns, algorithm = [f"x{j}" for j in range(X.shape[1])], self.algorithm or self.usual
        scale = 1.0 if self.norm is None else positive(self.norm, "norm") / math.sqrt(2 * len(columns))
        with np.errstate(over="ignore", under="ignore"):
            table = pd.DataFrame(np.clip(X / scale, -LARGEST, LARGEST), columns=columns)
        steps = {"horizon": self.horizon, "step": self.step} if named_algorithm(algorithm).iterative else {}
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
                "learning": {"algorithm": algorithm, **steps},
                "privacy": {"clip": self._usual_clip(algorithm, len(columns)) if self.clip is None else self.clip},
                "owners": [{"name": OWNER_NAME, "records": len(table), "epsilon": self.epsilon}],
            },
            source=type(self).__name__,
        )
        table = table.assign(y=y if unit == 1 else np.clip(y / unit, -LARGEST, LARGEST), **(beside or {}))
        result = fit_table(terms, table, self.random_state)
        prepared = result.model.preparation_
        prepared = replace(prepared, scale=prepared.scale * scale, target_scale=prepared.target_scale * unit)
        return self._take(prepared, result.theta[0], result.terms_hash, result.released)

    def _usual_clip(self, algorithm: str, features: int) -> float:
        """Return the norm of the gradient, or of the second moments, of a row of typical norm with its constant."""
        if algorithm == "objective-perturbation":
            return math.sqrt((2 * features + 1) * (2 if self.kind == "softmax-regression" else 1))
        if algorithm == "sufficient-statistics":
            numbers, square = features + 2, features + 2.0  # and the target; the squared norm of z
            # of a normal vector of that length, all products z_i z_j, i <= j
            return square * (2 / math.pi * numbers + 1) / 2
        return 10.0

    def _rows(self, X: Any) -> Floats:
        return self._positional_rows(X)


class PrivateLinearRegression(_PrivateEstimator, JointRegressor):
    """Linear regression of one table under differential privacy.

    Parameters
    ----------
    target_norm
        Typical largest absolute target, known without looking at the rows; targets are divided by it internally.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 2)); y = X @ [1.0, -2.0] + 0.5
    >>> model = PrivateLinearRegression(epsilon=1.0, target_norm=3.0, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.99
    True
    """

    kind = "linear-regression"
    usual = "sufficient-statistics"

    def __init__(
        self,
        epsilon: float = 1.0,
        norm: float | None = None,
        target_norm: float = 1.0,
        radius: float = 10.0,
        regularisation: float = 0.0,
        algorithm: str | None = None,
        clip: float | None = None,
        horizon: int = 100,
        step: float | Literal["auto"] = "auto",
        random_state: int | None = None,
    ) -> None:
        super().__init__(epsilon, norm, radius, regularisation, algorithm, clip, horizon, step, random_state)
        self.target_norm = target_norm

    def fit(self, X: Any, y: Any) -> Self:
        """Train on rows X [n, features] and numbers y [n]."""
        with hide_cell_values():
            X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        return self._train(X, y, positive(self.target_norm, "target_norm"))


class PrivatePoissonRegressor(_PrivateEstimator, JointPoissonRegressor):
    """Poisson regression of one table under differential privacy.

    Parameters
    ----------
    largest_count, exposures, usual_rate
        The largest count, the (smallest, largest) exposure and the typical count per unit of exposure, known without
        looking at the rows. Counts and exposures beyond these bounds are cut.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20000, 2)); y = rng.poisson(np.exp(X @ [0.5, -0.3]))
    >>> PrivatePoissonRegressor(epsilon=2.0, random_state=0).fit(X, y).score(X, y) > 0.15
    True
    """

    kind = "poisson-regression"
    usual = "averaged-subgradient"

    def __init__(
        self,
        epsilon: float = 1.0,
        norm: float | None = None,
        largest_count: float = 10.0,
        exposures: tuple[float, float] = (0.1, 1.0),
        usual_rate: float = 1.0,
        radius: float = 10.0,
        regularisation: float = 0.0,
        algorithm: str | None = None,
        clip: float | None = None,
        horizon: int = 100,
        step: float | Literal["auto"] = "auto",
        random_state: int | None = None,
    ) -> None:
        super().__init__(epsilon, norm, radius, regularisation, algorithm, clip, horizon, step, random_state)
        self.largest_count = largest_count
        self.exposures = exposures
        self.usual_rate = usual_rate

    def fit(self, X: Any, y: Any, exposure: Any = None) -> Self:
        """Train on rows X [n, features] and counts y [n]; `exposure` [n] defaults to one unit each."""
        with hide_cell_values():
            X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        if (y < 0).any():
            raise ValueError("Negative values in y: counts are 0 or more")
        bounds: dict[str, Any] = {"y": [0.0, positive(self.largest_count, "largest_count")]}
        centres = {"y": positive(self.usual_rate, "usual_rate")}
        if exposure is None:
            return self._train(X, y, bounds=bounds, centres=centres)
        with hide_cell_values():
            exposures = {"exposure": check_array(exposure, dtype=np.float64, ensure_2d=False)}
            check_consistent_length(X, exposures["exposure"])
        bounds["exposure"] = [float(end) for end in self.exposures]
        return self._train(X, y, beside=exposures, exposure="exposure", bounds=bounds, centres=centres)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


class _PrivateClassifier(_PrivateEstimator):
    classes_: Any

    def fit(self, X: Any, y: Any) -> Self:
        """Train on rows X [n, features] and two classes y [n]."""
        X, y = self._checked(X, y)
        if len(self.classes_) > 2:
            raise ValueError(f"Only binary classification is supported. The type of the target is {type_of_target(y)}.")
        return self._train(X, (y == self.classes_[1]).astype(np.float64))

    def _checked(self, X: Any, y: Any) -> tuple[Floats, Any]:
        """Validate rows and classes with scikit-learn and set `classes_`."""
        with hide_cell_values():
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
    """Linear support vector machine of one table under differential privacy.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3)); y = X @ [2.0, -1.0, 0.0] > 0.5
    >>> PrivateLinearSVC(epsilon=2.0, random_state=0).fit(X, y).score(X, y) > 0.8
    True
    """

    kind = "linear-svm"
    usual = "averaged-subgradient"


class PrivateLogisticRegression(_PrivateClassifier, JointLogisticClassifier):
    """Logistic regression of one table under differential privacy.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3)); y = X @ [2.0, -1.0, 0.0] + rng.logistic(size=2000) > 0.5
    >>> PrivateLogisticRegression(epsilon=1.0, random_state=0).fit(X, y).score(X, y) > 0.8
    True
    """

    kind = "logistic-regression"


class PrivateSoftmaxRegression(_PrivateClassifier, JointSoftmaxClassifier):
    """Softmax regression of one table, with any number of classes, under differential privacy.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2)); y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    >>> PrivateSoftmaxRegression(epsilon=2.0, random_state=0).fit(X, y).score(X, y) > 0.7
    True
    """

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
