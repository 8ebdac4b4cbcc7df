"""A table with a model's predictions: numbers in the target's own units, names of classes, probabilities."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from parley.data import read_table
from parley.data.sources import Table
from parley.data.table import require_columns
from parley.durable import replacing
from parley.errors import DataError, SettingError
from parley.learning.outcome.model import JointClassifier, JointModel, JointRegressor, JointSurvivalModel

TABLE_SUFFIXES = (".csv", ".parquet")


def predictions(model: JointModel, rows: Table) -> pd.DataFrame:
    """Return the table with `predicted_TARGET` (a number within its declared range) and, where the model has them,
    `probability_CLASS`, `std_TARGET` (the prediction's deviation), or `hazard_END` and `survival_END` for each period.

    The rows need the features' columns, not the target's. A row's prediction depends on that row and the model alone.
    """
    frame, target = read_table(rows), model.preparation_.model.target
    if isinstance(rows, str | Path):
        require_columns(frame, model.preparation_.features, str(rows))
    columns: dict[str, Any] = {f"predicted_{target}": _clip_to_target_range(model, model.predict(frame))}
    if model.posterior_ is not None and isinstance(model, JointRegressor):
        columns[f"std_{target}"] = model.predict(frame, return_std=True)[1]
    if isinstance(model, JointClassifier) and hasattr(model, "predict_proba"):
        chances = model.predict_proba(frame)
        columns |= {f"probability_{name}": chances[:, place] for place, name in enumerate(model.classes_)}
    if isinstance(model, JointSurvivalModel):
        ends = [int(end) if end == int(end) else end for end in model.periods_]
        for curve_name, each in (("hazard", model.predict_hazard(frame)), ("survival", model.predict_survival(frame))):
            columns |= {f"{curve_name}_{end}": each[:, place] for place, end in enumerate(ends)}
    for column in columns:
        if column in frame.columns:
            raise DataError(
                f"the table already has a column {column!r}, the name of a column of predictions; rename the table's "
                "column"
            )
    return pd.concat([frame, pd.DataFrame(columns)], axis=1)


def _clip_to_target_range(model: JointModel, predicted: Any) -> Any:
    """Clip predicted numbers to the target's declared range, which never increases an error."""
    ends = target_range(model)
    return predicted if ends is None else np.clip(predicted, *ends)


def target_range(model: JointModel) -> tuple[float, float] | None:
    """Return the target's declared range; None unless a number is predicted."""
    terms = model.preparation_.model
    return terms.bounds.get(terms.target) if terms.predicts == "number" else None


def require_table_name(path: Path, *read: Path) -> None:
    """Refuse a file name without a table format's ending, or the name of an input file."""
    if path.suffix.lower() not in TABLE_SUFFIXES:
        raise SettingError(f"{path}: expected a file name that ends in one of {', '.join(TABLE_SUFFIXES)}")
    if path.exists() and any(each.exists() and path.samefile(each) for each in read):
        raise SettingError(f"{path}: this file is an input; write the predictions to another file")


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a table in the format of the file's ending."""
    require_table_name(path)
    with replacing(path) as file:
        if path.suffix.lower() == ".csv":
            frame.to_csv(file, index=False)
        else:
            frame.to_parquet(file, index=False)


def summary(model: JointModel, frame: pd.DataFrame) -> dict[str, Any]:
    """Summarise the predictions of all rows. Computed without noise: as private as the rows."""
    target = model.preparation_.model.target
    predicted = frame[f"predicted_{target}"].to_numpy()
    content: dict[str, Any] = {
        "rows": len(frame),
        "target": target,
        "kind": model.preparation_.model.kind,
        "released": model.released_,
        "terms_hash": model.terms_hash_,
    }
    if isinstance(model, JointClassifier):
        counts = Counter(str(each) for each in predicted)
        return content | {"classes": {str(name): counts[str(name)] for name in model.classes_}}
    ends = [float(value) for value in (np.min(predicted), np.max(predicted))] if len(frame) else [None, None]
    return content | {"mean": float(np.mean(predicted)) if len(frame) else None, "least": ends[0], "largest": ends[1]}
