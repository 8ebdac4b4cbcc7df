"""Members told from others without any model: what an attack on one has to beat (Das, Zhang and Tramèr 2024)."""

import numpy as np
from numpy.typing import NDArray

from parley.data import Design

FOLDS = 5


def blind_area(rows: Design, member: NDArray[np.bool_], seed: int) -> float:
    """The area under the curve of a logistic regression that tells members [rows] from others by their features and
    targets alone, on rows that it was not fitted to: 0.5 where both are of one law."""
    # a library that others need not wait for
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    seen = np.column_stack([rows.X, rows.y, rows.X * rows.y[:, None]])
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    told = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    return float(cross_val_score(told, seen, member, scoring="roc_auc", cv=folds).mean())
