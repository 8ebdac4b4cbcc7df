"""Boosted trees of one table: at declared cut points, or grown on a public sample and fitted again with noise."""

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
from parley.learning.estimators.linear import OWNER, fit_table
from parley.learning.outcome.model import JointModel, discreet
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

Ends = tuple[float, float]
Sample = tuple[Any, Any]


class _PrivateBoosted(BaseEstimator):  # type: ignore[misc]
    """Trees of one table. Fitted names: `model_`, which is what `parley.train` gives, `released_`, `n_features_in_`.

    Without a public sample trees look at one column each, which is cut into equal steps between bounds. With one, trees
    are grown on it, and private rows move their leaf values, beginning at the public ones. A missing cell (NaN) has a
    leaf of its own, or lies at the public median with a column that says so.

    Parameters
    ----------
    epsilon, delta
        What a fit may tell about a person, at most; `delta` = 0 means Laplace noise, without a public sample alone.
    bounds
        (low, high), or one such pair for each column, known from elsewhere than the rows; what lies beyond counts as
        the end. Left out they are the public sample's, without one (-3, 3), which suits columns standardised by public
        means and deviations.
    public
        Rows (X, y) that everybody may see.
    n_estimators
        How many trees; without a public sample at least one for the level and one for each column.
    max_leaf_nodes, min_samples_leaf, learning_rate
        How trees are grown on the public sample.
    max_bins, max_depth
        Without one: into how many steps a column is cut, and whether trees look at pairs, too (2).
    random_state
        A seed makes it a study; None, a release.

    Formal guarantee: if `random_state` is None, `model_` is (epsilon, delta)-DP (replace-one; the number of rows, the
    set of class labels and the public sample are public). Like every fit of this room it is a release whose ledger
    lasts as long as the fit; with a seed it is a study, which guarantees nothing, and `released_` is false.
    """

    grown: ClassVar[str]  # the kind of model whose columns are leaves of public trees
    boosted: ClassVar[str]  # the kind without a public sample

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bounds: Ends | Sequence[Ends] | None = None,
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
        """Fit rows X [n, features] and targets y [n] as terms have them; `model`: keys of theirs for the target."""
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
        owners = [{"name": OWNER, "records": records, "epsilon": self.epsilon}]
        noise = {"mechanism": "gaussian", "delta": self.delta} if self.delta else {"mechanism": "laplace"}
        privacy = {**noise, **content.pop("privacy", {})}
        return Terms.from_dict({**content, "privacy": privacy, "owners": owners}, source=type(self).__name__)

    def _boosted(self, model: dict[str, Any], features: int) -> dict[str, Any]:
        """Terms of trees at declared cut points."""
        trees = {"kind": self.boosted, "bins": self.max_bins, "depth": self.max_depth}
        return {"model": {**model, **trees}, "learning": {"horizon": max(self.n_estimators, 1 + features)}}

    def _grown(self, model: dict[str, Any], records: int) -> dict[str, Any]:
        """Terms of trees that are grown on the public sample."""
        size = {"count": self.n_estimators, "leaves": self.max_leaf_nodes, "smallest": self.min_samples_leaf}
        trees = {"columns": "trees", "trees": {**size, "rate": self.learning_rate}}
        if not self.delta:
            raise SettingError(
                "delta: expected a number above 0 with a public sample, because each record is in one leaf of every "
                "tree"
            )
        rounds = int(np.clip(records * self.epsilon / RECORD_EPSILON_PER_ROUND, 1, MAX_ROUNDS))
        learning = {"algorithm": "gradient-descent", "horizon": rounds, "step": "auto", "decay": 0.0}
        return {"model": {"kind": self.grown, **model, **trees}, "learning": learning}

    def _declared(self, features: list[str]) -> dict[str, list[float]]:
        """The bounds of every column; none where the public sample gives them."""
        if self.bounds is None:
            return {} if self.public is not None else {column: list(STANDARDISED_BOUNDS) for column in features}
        ends = np.asarray(self.bounds, dtype=np.float64)
        if ends.shape not in ((2,), (len(features), 2)):
            raise SettingError(f"bounds: expected (low, high), or {len(features)} such pairs, one for each column")
        return {c: each.tolist() for c, each in zip(features, np.broadcast_to(ends, (len(features), 2)), strict=True)}

    def _sample(self) -> tuple[Floats, NDArray[Any]] | None:
        """The public rows [m, features] and their targets [m], checked by scikit-learn."""
        if self.public is None:
            return None
        try:
            X, y = self.public
        except (TypeError, ValueError):
            raise SettingError("public: expected a pair (X, y) of rows and their targets") from None
        X = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan")
        y = column_or_1d(y)
        if X.shape != (len(y), self.n_features_in_):
            raise SettingError(f"public: expected rows of {self.n_features_in_} columns, and a target for each")
        return X, y

    def _said(self, method: str, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        with discreet():
            rows = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        return np.asarray(getattr(self.model_, method)(rows))

    def shapes(self) -> Shapes | None:
        """What each column adds, where trees look at one column each; None where they look at several."""
        check_is_fitted(self)
        return self.model_.shapes()

    def save(self, path: str | Path) -> None:
        """Write the model as JSON, for `parley.load_model`: numbers and names, nothing executable."""
        check_is_fitted(self)
        self.model_.save(path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class PrivateBoostedClassifier(ClassifierMixin, _PrivateBoosted):  # type: ignore[misc]
    """Boosted trees of two classes under differential privacy; with a `public` sample of any number of classes.

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
        with discreet():
            X, y = validate_data(self, X, y, dtype=np.float64, ensure_all_finite="allow-nan")
        check_classification_targets(y)
        public = self._sample()
        self.classes_ = np.unique(y if public is None else np.concatenate([y, public[1]]))
        if len(self.classes_) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        if len(self.classes_) > 2 and public is None:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {type_of_target(y)}; with a "
                "public sample there may be more classes."
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
        """The predicted class of each row [n]."""
        return self._said("predict", X)

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class for each row [n, classes]."""
        return self._said("predict_proba", X)

    def decision_function(self, X: Any) -> Floats:
        """The margin [n], above zero for the second class; of several classes a score each [n, classes]."""
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
        The ends within which targets count, known from elsewhere than the rows; left out they are the public sample's,
        without one (-3, 3).

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
        bounds: Ends | Sequence[Ends] | None = None,
        target_bounds: Ends | None = None,
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
        with discreet():
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
        """Predicted targets [n], in their own units."""
        return self._said("predict", X)


def _table(X: Floats, y: NDArray[Any]) -> pd.DataFrame:
    """Rows and targets as terms name them."""
    columns = [f"x{place}" for place in range(X.shape[1])]
    return pd.DataFrame(np.clip(X, -LARGEST, LARGEST), columns=columns).assign(**{TARGET: y})
