"""What a user would do without anybody: boosted trees of the public sample alone, their size by cross-validation."""

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import GridSearchCV

from common.books import Book
from parley.validate import Floats

SIZES = {"max_leaf_nodes": [4, 8, 16], "learning_rate": [0.03, 0.1], "max_iter": [50, 100, 200]}


def boosted_public(book: Book, public: pd.DataFrame, test: pd.DataFrame) -> Floats:
    """What trees of the public rows say of the test rows [n]: numbers, or chances of class 1. They take names and gaps
    themselves."""
    both = pd.concat([public, test])
    for column in book.names:
        both[column] = both[column].astype(object).where(both[column].notna(), "?").astype(str).astype("category")
    X, y = both.drop(columns=book.target), both[book.target].to_numpy(dtype=np.float64)
    kind = HistGradientBoostingClassifier if book.classes else HistGradientBoostingRegressor
    model = kind(categorical_features="from_dtype", random_state=0, min_samples_leaf=10)
    scoring = "neg_log_loss" if book.classes else "neg_mean_squared_error"
    found = GridSearchCV(model, SIZES, scoring=scoring, cv=4).fit(X[: len(public)], y[: len(public)])
    rest = X[len(public) :]
    return np.asarray(found.predict_proba(rest)[:, 1] if book.classes else found.predict(rest))


def log_loss(y: Floats, chance: Floats) -> float:
    """The mean log-loss of chances of class 1, classes being 0 and 1."""
    chance = np.clip(chance, 1e-9, 1 - 1e-9)
    return -float(np.mean(y * np.log(chance) + (1 - y) * np.log1p(-chance)))
