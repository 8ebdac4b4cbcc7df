"""Models of diffprivlib for one table, by an interpreter that has it: `python diffprivlib_models.py ROWS.npz
SETTINGS.json OUT.npz`.

Its logistic regression is objective perturbation (Chaudhuri et al. 2011), its linear regression the functional
mechanism (Zhang et al. 2012): pure eps, one row replaced by another; the norm of a row or the ranges of the columns are
given to it. No import of Parley here.
"""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np


def fitted(X: Any, y: Any, setting: dict[str, Any], classes: bool, seed: int) -> Any:
    """One model [p], the constant last."""
    from diffprivlib.models import LinearRegression, LogisticRegression

    if classes:
        # The constant is a feature like the others, so that a row's norm says everything; rows beyond it are scaled
        # down.
        model = LogisticRegression(
            epsilon=setting["epsilon"],
            data_norm=setting["norm"],
            C=setting["C"],
            fit_intercept=False,
            max_iter=1000,
            random_state=seed,
        )
        return model.fit(X, y).coef_[0]
    ends = np.array(setting["ends"])
    model = LinearRegression(
        epsilon=setting["epsilon"],
        bounds_X=(-ends, ends),
        bounds_y=(-setting["most"], setting["most"]),
        random_state=seed,
    )
    model.fit(X[:, :-1], y)
    return np.append(model.coef_, model.intercept_)


def main() -> None:
    warnings.simplefilter("ignore")
    arrays = np.load(sys.argv[1])
    asked = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    models = [
        [
            fitted(arrays["X"], arrays["y"], setting, asked["classes"], asked["seed"] + run)
            for run in range(asked["runs"])
        ]
        for setting in asked["settings"]
    ]
    np.savez(sys.argv[3], theta=np.array(models))


if __name__ == "__main__":
    main()
