"""The trained model: predicts from raw columns as scikit-learn models do, and is saved as readable JSON."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from parley.data import Preparation, read_table
from parley.data.forest import Forest
from parley.data.table import require_columns
from parley.data.targets import class_names
from parley.durable import write_file
from parley.errors import DataError, ModelError
from parley.learning.outcome.model_file import (
    FORMAT,
    FORMAT_WITH_TREES,
    FORMAT_WITH_WEIGHTS,
    array_of,
    forest_content,
    format_of,
    own_trees_of,
    preparation_content,
    preparation_of,
)
from parley.learning.outcome.posterior import CoefficientInterval, Posterior
from parley.learning.outcome.shapes import Shapes, additive_shapes
from parley.losses import make
from parley.losses.loss import Poisson
from parley.protocol.task import Task, task_named
from parley.terms.catalogue import MODELS
from parley.terms.outcomes import SurvivalModel
from parley.validate import Floats


class JointModel(BaseEstimator):  # type: ignore[misc]
    """Base of regressors and classifiers. Fitted names: `coef_`, `intercept_`, `theta_`, `preparation_`, `terms_hash_`.

    `coef_` refers to the prepared (scaled, rotated) features and target; `theta_` is `coef_` followed by the constant.
    """

    posterior_: Posterior | None = None  # how sure the model is, where that is known
    # of a personal model: trees that add to the scores (`correction`); `coef_` and `theta_` are without them
    trees_: Forest | None = None

    def _take(self, preparation: Preparation, theta: Floats, terms_hash: str, released: bool) -> Self:
        self.preparation_, self.theta_, self.terms_hash_, self.released_ = (
            preparation,
            np.array(theta),
            terms_hash,
            released,
        )
        self._take_coefficients(preparation.width - preparation.model.has_intercept)
        self.n_features_in_ = len(preparation.features)
        return self

    def _take_coefficients(self, split: int) -> None:
        """Set `coef_` and `intercept_` from theta, whose first `split` numbers belong to features."""
        self.coef_, self.intercept_ = self.theta_[:split], float(self.theta_[split:].sum())

    def _require_theta(self) -> None:
        if not hasattr(self, "theta_"):
            raise NotFittedError(f"this {type(self).__name__} is not trained yet; train or load a model first")

    def _scores(self, X: Any) -> Floats:
        """Return the objective's scores: margins [n], or one score for each class [n, classes]."""
        self._require_theta()
        predicted = make(self.preparation_.model).scores(self._rows(X), self.theta_)
        if self.trees_ is None:
            return predicted
        return predicted + self.trees_.added(self._plain_rows(X).T).T.reshape(predicted.shape)

    def _rows(self, X: Any) -> Floats:
        if isinstance(X, pd.DataFrame):
            return self.preparation_.matrix(read_table(X), "table")
        return self._positional_rows(X)

    def _plain_rows(self, X: Any) -> Floats:
        """Return the rows before any rotation, basis or leaves, for trees."""
        plain = self.preparation_.unturned
        return (
            plain.matrix(read_table(X), "table")
            if isinstance(X, pd.DataFrame)
            else plain.transform(self._positional(X))
        )

    def _positional_rows(self, X: Any) -> Floats:
        return self.preparation_.transform(self._positional(X))

    def _positional(self, X: Any) -> Floats:
        """Return the raw features [n, features] of an array in order."""
        with hide_cell_values():
            finite: Any = "allow-nan" if any(e.fills for e in self.preparation_.encodings) else True
            return np.asarray(validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite=finite))

    def intervals(self, level: float = 0.9) -> tuple[CoefficientInterval, ...] | None:
        """Return intervals of the population's coefficients in the columns' own units; None without a posterior."""
        return None if self.posterior_ is None else self.posterior_.intervals(self.preparation_, level)

    def _deviations(self, X: Any) -> Floats:
        """Return the standard deviations of the scores [n, q]; refused without a posterior."""
        if self.posterior_ is None:
            raise ModelError("return_std: this model has no posterior; train a model with algorithm = 'fedinfer'")
        return self.posterior_.deviations(self._rows(X))

    def shapes(self, runs: Floats | None = None) -> Shapes | None:
        """Return each column's contribution to the scores; None where columns do not add up. Models of several runs
        [runs, P], or a posterior, give bands for the noise."""
        self._require_theta()
        return additive_shapes(self.preparation_, self.theta_, runs, self.posterior_)

    def save(self, path: str | Path) -> None:
        """Write the model as JSON; nothing in it is executable."""
        self._require_theta()
        p = self.preparation_
        content = {
            "format": FORMAT if self.trees_ is None else FORMAT_WITH_TREES,
            "kind": p.model.kind,
            "terms_hash": self.terms_hash_,
            "released": self.released_,
            "classes": self.classes_.tolist() if isinstance(self, JointClassifier) else None,
            "theta": self.theta_.tolist(),
            **preparation_content(p),
        }
        if self.trees_ is not None:
            content["trees"] = forest_content(self.trees_)
        if self.posterior_ is not None:
            content["posterior"] = self.posterior_.to_json()
        write_file(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


class JointRegressor(RegressorMixin, JointModel):  # type: ignore[misc]
    """A linear model that predicts a number."""

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return predicted targets [n] for a table with the feature columns, or an array in their order. `return_std`
        adds each one's standard deviation [n], over noise and the draw of records; it needs a posterior."""
        predicted = self._scores(X) * self.preparation_.target_scale + self.preparation_.target_centre
        return (predicted, self._deviations(X)[:, 0] * self.preparation_.target_scale) if return_std else predicted


class JointPoissonRegressor(RegressorMixin, JointModel):  # type: ignore[misc]
    """A log-linear model of a count."""

    def predict_rate(self, X: Any) -> Floats:
        """Return the expected count per unit of exposure [n], at most the largest rate that the bounds allow."""
        self._require_theta()
        known = self.preparation_
        return self._relative_rates(X) * (known.target_centre if known.target_centre > 0 else 1.0)

    def predict(self, X: Any) -> Floats:
        """Return expected counts [n]. A table needs the feature and exposure columns, and exposures are cut to their
        bounds; an array gives counts per unit of exposure."""
        if not isinstance(X, pd.DataFrame) or not hasattr(self, "theta_"):
            return self.predict_rate(X)
        frame = read_table(X)
        require_columns(frame, self.preparation_.model.outcome_columns[1:], "table")
        return self._relative_rates(frame) * self.preparation_.exposure_weights(frame, "table")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return D2, the share of the Poisson deviance that the predictions explain."""
        from sklearn.metrics import d2_tweedie_score  # slow to import, and predictions do not need it

        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def _relative_rates(self, X: Any) -> Floats:
        scores = self._scores(X)
        return Poisson.within(self.preparation_).rate(scores)


class JointSurvivalModel(JointModel):
    """A logistic hazard for each period: `baseline_` [periods], and `coef_` [features], which all periods share."""

    def _take_coefficients(self, split: int) -> None:
        many = len(self.theta_) - split
        self.baseline_, self.coef_, self.intercept_ = self.theta_[:many], self.theta_[many:], 0.0

    @property
    def periods_(self) -> Floats:
        """The ends of the periods."""
        return np.array(SurvivalModel.expect(self.preparation_.model).periods)

    def predict_hazard(self, X: Any) -> Floats:
        """Return the probability of the event in each period, given survival of the earlier ones [n, periods]."""
        return np.asarray(expit(self._scores(X)))

    def predict_survival(self, X: Any) -> Floats:
        """Return the probability of no event by the end of each period [n, periods]."""
        return np.asarray(np.exp(np.cumsum(-np.logaddexp(0.0, self._scores(X)), axis=1)))

    def predict(self, X: Any) -> Floats:
        """Return the mean time [n] until the event or the last period's end; events spread evenly within periods."""
        alive = np.column_stack([np.ones(len(found := self.predict_survival(X))), found])
        return np.asarray((alive[:, :-1] + alive[:, 1:]) / 2 @ np.diff(self.periods_, prepend=0.0))


class JointClassifier(ClassifierMixin, JointModel):  # type: ignore[misc]
    """A linear model that predicts a class."""

    classes_: NDArray[Any]

    def _take(self, preparation: Preparation, theta: Floats, terms_hash: str, released: bool) -> Self:
        if not hasattr(self, "classes_"):
            self.classes_ = np.array(class_names(preparation.model, preparation.categories) or (0, 1))
        return super()._take(preparation, theta, terms_hash, released)

    def decision_function(self, X: Any) -> Floats:
        """Return the margin [n], positive for the second class."""
        return self._scores(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted class of each row [n]."""
        margin = self._scores(X)
        return np.asarray(self.classes_[(margin > 0).astype(int)])


class JointLogisticClassifier(JointClassifier):
    """A linear classifier of two classes with probabilities."""

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of the two classes [n, 2]."""
        p = expit(self._scores(X))
        return np.column_stack([1 - p, p])


class JointSoftmaxClassifier(JointClassifier):
    """A linear classifier of several classes; `coef_` [classes, features], `intercept_` [classes]."""

    def _take(self, preparation: Preparation, theta: Floats, terms_hash: str, released: bool) -> Self:
        if not hasattr(self, "classes_"):
            self.classes_ = np.array(preparation.classes)
        return super()._take(preparation, theta, terms_hash, released)

    def _take_coefficients(self, split: int) -> None:
        matrix = self.theta_.reshape(len(self.classes_), -1)
        self.coef_, self.intercept_ = matrix[:, :split], matrix[:, split:].sum(axis=1)

    def decision_function(self, X: Any) -> Floats:
        """Return the scores [n, classes]; for two classes the second score less the first [n]."""
        scores = self._scores(X)
        return scores if scores.shape[1] > 2 else np.asarray(scores[:, 1] - scores[:, 0])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted class of each row [n]."""
        best = self._scores(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class for each row [n, classes]."""
        return np.asarray(softmax(self._scores(X), axis=1))


class JointLeastSquaresClassifier(JointSoftmaxClassifier):
    """A least-squares score for each class; the largest score wins."""

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return predicted classes [n]; `return_std` adds the winning score's deviation (needs a posterior)."""
        best = self._scores(X).argmax(axis=1)
        predicted = np.asarray(self.classes_[best])
        return (predicted, self._deviations(X)[np.arange(len(best)), best]) if return_std else predicted

    def predict_proba(self, X: Any) -> Floats:
        """Return the scores clipped to [0, 1] and scaled to add up to 1 [n, classes]."""
        p = np.clip(self._scores(X), 0.0, 1.0)
        total = p.sum(axis=1, keepdims=True)
        return np.asarray(np.where(total > 0, p / np.maximum(total, np.finfo(np.float64).tiny), 1 / p.shape[1]))


class JointOneVsAllClassifier(JointSoftmaxClassifier):
    """One linear model for each class against all others."""

    def predict_proba(self, X: Any) -> Floats:
        """Return each class's own probability, scaled to add up to 1 [n, classes]."""
        p = expit(self._scores(X))
        return np.asarray(p / np.maximum(p.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny))


MODEL_CLASS_BY_TASK: dict[str, type[JointModel]] = {
    "number": JointRegressor,
    "count": JointPoissonRegressor,
    "survival": JointSurvivalModel,
    "two classes": JointClassifier,
    "classes": JointSoftmaxClassifier,
}
MODEL_CLASS_BY_KIND: dict[str, type[JointModel]] = {  # kinds that say more than their task asks
    "logistic-regression": JointLogisticClassifier,
    "one-vs-all": JointOneVsAllClassifier,
    "least-squares-classes": JointLeastSquaresClassifier,
}


def make_model(
    preparation: Preparation,
    theta: Floats,
    terms_hash: str,
    released: bool,
    posterior: Posterior | None = None,
    trees: Forest | None = None,
) -> JointModel:
    """Return the fitted model of one theta [p]. `released` says whether it is made of safe, debited answers only;
    `trees` are those of a personal model."""
    model = _task(preparation).model(preparation, theta, terms_hash, released)
    model.posterior_, model.trees_ = posterior, trees
    return model


def prediction_model(preparation: Preparation, theta: Floats, terms_hash: str, released: bool) -> JointModel:
    """Return the fitted model of a task that predicts a column from its features."""
    kind = MODEL_CLASS_BY_KIND.get(preparation.model.kind, MODEL_CLASS_BY_TASK[preparation.model.predicts])
    return kind()._take(preparation, theta, terms_hash, released)


def _task(preparation: Preparation) -> Task:
    return task_named(MODELS[preparation.model.kind].task)


def load_model(path: str | Path) -> JointModel:
    """Read a model that `save` wrote.

    Parameters
    ----------
    path
        JSON file.

    Returns
    -------
    JointModel
        A regressor or classifier with `predict`.

    Examples
    --------
    >>> import tempfile
    >>> from parley.learning.estimators import PrivateLinearRegression
    >>> X, file = np.linspace(-1, 1, 200)[:, None], Path(tempfile.mkdtemp()) / "model.json"
    >>> PrivateLinearRegression(random_state=0).fit(X, X[:, 0]).save(file)
    >>> load_model(file).coef_.shape
    (1,)
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if content["format"] != (wanted := format_of(content)):
            raise ModelError(f"{path}: expected the format {wanted!r} for a model of this kind; save the model again")
        preparation = preparation_of(content)
        if wanted == FORMAT_WITH_WEIGHTS:
            theta = _task(preparation).stored_theta(content, preparation, Path(path))
        else:
            theta = array_of(content["theta"])
        expected = _task(preparation).objective(preparation.model).parameters(preparation)
        if theta.shape != (expected,):
            raise ModelError(
                f"{path}: theta has {theta.size} numbers, but the model has {expected} parameters; save the model again"
            )
        posterior_content = content.get("posterior")  # most have none
        posterior = (
            None if posterior_content is None else Posterior.from_json(posterior_content, theta, preparation.outcomes)
        )
        trees, released = own_trees_of(content, preparation), bool(content["released"])
        model = make_model(preparation, theta, str(content["terms_hash"]), released, posterior, trees)
        if isinstance(model, JointClassifier):
            model.classes_ = np.array(content["classes"])
        return model
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    except (DataError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{path}: not a model saved by Parley ({type(error).__name__})") from None


@contextmanager
def hide_cell_values() -> Iterator[None]:
    """Hide the cell that scikit-learn quotes when it is not a number, so that no log shows it."""
    try:
        yield
    except ValueError as error:
        if "could not convert string to float" in str(error):
            raise ValueError("could not convert string to float: expected a number in every cell") from None
        raise
