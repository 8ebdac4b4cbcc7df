"""A saved model as a picture: survival curves of the rows of a table, or what each column adds."""

from pathlib import Path

import pandas as pd

from parley.durable import require_folder
from parley.errors import SettingError
from parley.learning.outcome.model import JointModel, JointSurvivalModel
from parley.report.figures.picture import require_figure_name, save
from parley.report.figures.shape_functions import shape_functions
from parley.report.figures.survival_curves import survival_curves


def require_drawing(model: JointModel, path: Path) -> None:
    """Refuse a model of which there is nothing to draw, and a file that cannot be written."""
    if not isinstance(model, JointSurvivalModel) and model.shapes() is None:
        raise SettingError(
            f"--plot {path}: expected a model of kind survival, which has curves, or one of bins or boosted trees, "
            "whose columns add up"
        )
    require_figure_name(path)
    require_folder(path)


def draw(model: JointModel, rows: pd.DataFrame, path: Path) -> None:
    """Write a picture of the rows' survival curves, else of what each column adds."""
    if isinstance(model, JointSurvivalModel):
        terms = model.preparation_.model
        save(survival_curves(model.periods_, model.predict_survival(rows), terms.target, str(terms.event)), path)
    else:
        save(shape_functions(model), path)
