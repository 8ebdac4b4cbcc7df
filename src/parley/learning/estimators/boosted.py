"""Boosted trees of one table: at declared cut points, or grown on a public sample and refitted with noise."""

import math
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from parley.errors import SettingError
from parley.learning.estimators.linear import OWNER_NAME, fit_table
from parley.learning.outcome.model import JointModel, hide_cell_values
from parley.learning.outcome.shapes import Shapes
from parley.terms import Terms
from parley.validate import LARGEST, Floats

STANDARDISED_BOUNDS: tuple[float, float] = (
    -3.0,
    3.0,
)  # where columns lie that were standardised by public means and deviations
TARGET = "y"
# How often a public sample's trees are moved: the way that noise goes with them grows with the rounds, and shrinks with
# the rows and epsilon (looked at on three tables, of 1,000 to 24,000 rows)
MAX_ROUNDS, RECORD_EPSILON_PER_ROUND = 100, 300.0

Interval = tuple[float, float]
Sample = tuple[Any, Any]


class _PrivateBoosted(BaseEstimator):  # type: ignore[misc]
    """Base of the boosted trees of one table. Fitted names: `model_` (as `parley.train` returns it), `released_`,
    `n_features_in_`.

    Without a public sample, each tree looks at one column (or a pair), cut into equal steps between its bounds. With
    one, trees are grown on it, and private rows move their leaf values, starting from the public ones. A missing cell
    (NaN) has its own leaf, or becomes the public median plus an indicator column.

    Parameters
    ----------
    epsilon, delta
        Privacy budget of one fit. `delta` = 0 means Laplace noise, and is only possible without a public sample.
    bounds
        (low, high), or one pair per column, known without looking at the rows; values beyond count as the end.
        Default: the public sample's bounds, or (-3, 3) without a sample, for columns standardised by public numbers.
    public
        Public rows (X, y).
    n_estimators
        Number of trees; without a public sample at least one for the level and one for each column.
    max_leaf_nodes, min_samples_leaf, learning_rate
        How trees are grown on the public sample.
    max_bins, max_depth
        Without a public sample: steps per column, and whether trees also look at pairs of columns (2).
    random_state
        A seed makes the fit a study; None makes it a release.

    Formal guarantee: if `random_state` is None, `model_` is (epsilon, delta)-DP (replace-one; the number of rows, the
    set of class labels and the public sample are public). The release's ledger lasts as long as the fit. With a seed
    the fit is a study, which guarantees nothing, and `released_` is false.
    """

    grown: ClassVar[str]  # the kind of model whose columns are leaves of public trees
    boosted: ClassVar[str]  # the kind without a public sample

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bounds: Interval | Sequence[Interval] | None = None,
        public: Sample | None = None,
        n_estimators: int = 100,
        max_leaf_nodes: int = 8,
        min_samples_leaf: int = 10,
        learning_rate: float = 0.05,
        max_bins: int = 48,
        max_depth: int = 1,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.public = public
        self.n_estimators = n_estimators
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.learning_rate = learning_rate
        self.max_bins = max_bins
        self.max_depth = max_depth
        self.random_state = random_state

    def _train(self, X: Floats, y: NDArray[Any], public: tuple[Floats, NDArray[Any]] | None, **model: Any) -> Self:
        """Fit rows X [n, features] and targets y [n] as the terms code them; `model` holds further `[model]` keys."""
        table = _table(X, y)
        features = [column for column in table.columns if column != TARGET]
        bounds = {**self._declared(features), **model.pop("bounds", {})}
        model = {"target": TARGET, "features": features, "missing": "fill", "bounds": bounds, **model}
        if public is None:
            return self._take(self._terms(len(table), self._boosted(model, len(features))), table)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "public.parquet"
            _table(*public).to_parquet(path)
            return self._take(self._terms(len(table), self._grown({**model, "public": str(path)}, len(table))), table)

    def _take(self, terms: Terms, table: pd.DataFrame) -> Self:
        result = fit_table(terms, table, self.random_state)
        self.model_: JointModel = result.model
        self.released_ = result.released
        return self

    def _terms(self, records: int, content: dict[str, Any]) -> Terms:
        owners = [{"name": OWNER_NAME, "records": records, "epsilon": self.epsilon}]
        noise = {"mechanism": "gaussian", "delta": self.delta} if self.delta else {"mechanism": "laplace"}
        privacy = {**noise, **content.pop("privacy", {})}
        return Terms.from_dict({**content, "privacy": privacy, "owners": owners}, source=type(self).__name__)

    def _boosted(self, model: dict[str, Any], features: int) -> dict[str, Any]:
        """Return the terms of trees at declared cut points."""
        trees = {"kind": self.boosted, "bins": self.max_bins, "depth": self.max_depth}
        return {"model": {**model, **trees}, "learning": {"horizon": max(self.n_estimators, 1 + features)}}

    def _grown(self, model: dict[str, Any], records: int) -> dict[str, Any]:
        """Return the terms of trees grown on the public sample."""
        size = {"count": self.n_estimators, "leaves": self.max_leaf_nodes, "smallest": self.min_samples_leaf}
        trees = {"columns": "trees", "trees": {**size, "rate": self.learning_rate}}
        if not self.delta:
            raise SettingError(
                "delta: expected a number above 0, because training with a public sample uses Gaussian noise"
            )
        rounds = int(np.clip(records * self.epsilon / RECORD_EPSILON_PER_ROUND, 1, MAX_ROUNDS))
        learning = {"algorithm": "gradient-descent", "horizon": rounds, "step": "auto", "decay": 0.0}
        return {"model": {"kind": self.grown, **model, **trees}, "learning": learning}

    def _declared(self, features: list[str]) -> dict[str, list[float]]:
        """Return the bounds of every column; empty where the public sample gives them."""
        if self.bounds is None:
            return {} if self.public is not None else {column: list(STANDARDISED_BOUNDS) for column in features}
        ends = np.asarray(self.bounds, dtype=np.float64)
        if ends.shape not in ((2,), (len(features), 2)):
            raise SettingError(f"bounds: expected (low, high), or {len(features)} such pairs, one for each column")
        return {c: each.tolist() for c, each in zip(features, np.broadcast_to(ends, (len(features), 2)), strict=True)}

    def _sample(self) -> tuple[Floats, NDArray[Any]] | None:
        """Return the public sample, checked by scikit-learn."""
        if self.public is None:
            return None
        try:
            X, y = self.public
        except (TypeError, ValueError):
            raise SettingError("public: expected a pair (X, y) of rows and their targets") from None
        X = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan")
        y = column_or_1d(y)
        if X.shape != (len(y), self.n_features_in_):
            raise SettingError(f"public: expected rows of {self.n_features_in_} columns, and a target for each row")
        return X, y

    def _said(self, method: str, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        with hide_cell_values():
            rows = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        return np.asarray(getattr(self.model_, method)(rows))

    def shapes(self) -> Shapes | None:
        """Return each column's contribution; None if trees look at several columns."""
        check_is_fitted(self)
        return self.model_.shapes()

    def save(self, path: str | Path) -> None:
        """Write the model as JSON for `parley.load_model`; nothing in it is executable."""
        check_is_fitted(self)
        self.model_.save(path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class PrivateBoostedClassifier(ClassifierMixin, _PrivateBoosted):  # type: ignore[misc]
    """Boosted trees under differential privacy for two classes, or more with a `public` sample.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2)); y = (np.abs(X[:, 0]) + 0.3 * rng.normal(size=5000) > 0.7)
    >>> PrivateBoostedClassifier(epsilon=1.0, random_state=0).fit(X, y).score(X, y) > 0.8
    True
    """

    grown, boosted = "logistic-regression", "boosted-classification"

    def fit(self, X: Any, y: Any) -> Self:
        """Train on rows X [n, features] and classes y [n]."""
        with hide_cell_values():
            X, y = validate_data(self, X, y, dtype=np.float64, ensure_all_finite="allow-nan")
        check_classification_targets(y)
        public = self._sample()
        self.classes_ = np.unique(y if public is None else np.concatenate([y, public[1]]))
        if len(self.classes_) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        if len(self.classes_) > 2 and public is None:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {type_of_target(y)}. To "
                "train on more than two classes, give a public sample."
            )
        several = len(self.classes_) > 2
        names = [str(place) for place in range(len(self.classes_))]

        def placed(found: NDArray[Any]) -> NDArray[Any]:
            places = np.searchsorted(self.classes_, found)
            return np.array(names)[places] if several else places.astype(np.float64)

        known = None if public is None else (public[0], placed(public[1]))
        model = {"kind": "softmax-regression", "categories": {TARGET: names}} if several else {}
        self._train(X, placed(y), known, **model)
        self.model_.classes_ = self.classes_
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted class of each row [n]."""
        return self._said("predict", X)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class for each row [n, classes]."""
        return self._said("predict_proba", X)

    def decision_function(self, X: Any) -> Floats:
        """Return the margin [n], positive for the second class, or the scores [n, classes] of more than two classes."""
        return self._said("decision_function", X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.public is not None
        return tags


class PrivateBoostedRegressor(RegressorMixin, _PrivateBoosted):  # type: ignore[misc]
    """Boosted trees of a number under differential privacy.

    Parameters
    ----------
    target_bounds
        (low, high) of the target, known without looking at the rows. Default: the public sample's, or (-3, 3) without.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2)); y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=5000)
    >>> PrivateBoostedRegressor(epsilon=1.0, random_state=0).fit(X, y).score(X, y) > 0.7
    True
    """

    grown, boosted = "linear-regression", "boosted-regression"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bounds: Interval | Sequence[Interval] | None = None,
        target_bounds: Interval | None = None,
        public: Sample | None = None,
        n_estimators: int = 100,
        max_leaf_nodes: int = 8,
        min_samples_leaf: int = 10,
        learning_rate: float = 0.05,
        max_bins: int = 48,
        max_depth: int = 1,
        random_state: int | None = None,
    ) -> None:
        growing = (n_estimators, max_leaf_nodes, min_samples_leaf, learning_rate, max_bins, max_depth)
        super().__init__(epsilon, delta, bounds, public, *growing, random_state)
        self.target_bounds = target_bounds

    def fit(self, X: Any, y: Any) -> Self:
        """Train on rows X [n, features] and numbers y [n]."""
        with hide_cell_values():
            X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_all_finite="allow-nan")
        public = self._sample()
        ends = self.target_bounds if self.target_bounds is not None or public is not None else STANDARDISED_BOUNDS
        bounds = {} if ends is None else {TARGET: [float(end) for end in ends]}
        known = None if public is None else (public[0], public[1].astype(np.float64))
        return self._train(X, np.clip(y, -LARGEST, LARGEST), known, bounds=bounds)

    def _grown(self, model: dict[str, Any], records: int) -> dict[str, Any]:
        clip = 2 * math.sqrt(self.n_estimators)  # the gradient at an error of one deviation of the public targets
        content = super()._grown({**model, "intercept": True}, records)
        return {**content, "privacy": {"clip": clip}}

    def predict(self, X: Any) -> Floats:
        """Return predicted targets [n], in their own units."""
        return self._said("predict", X)


def _table(X: Floats, y: NDArray[Any]) -> pd.DataFrame:
    columns = [f"x{place}" for place in range(X.shape[1])]
    return pd.DataFrame(np.clip(X, -LARGEST, LARGEST), columns=columns).assign(**{TARGET: y})
