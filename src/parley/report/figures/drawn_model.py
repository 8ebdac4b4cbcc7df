"""A saved model as a picture: survival curves of the rows of a table, or what each column adds. Drawn from the rows
without noise: as private as they are."""

from pathlib import Path

import numpy as np
import pandas as pd

from parley.durable import require_folder
from parley.errors import SettingError
from parley.learning.outcome.model import JointModel, JointSurvivalModel
from parley.numerals import percent
from parley.report.figures.colours import INK, MUTED, TOGETHER
from parley.report.figures.lettering import lettered
from parley.report.figures.picture import Picture, decorate, headed, require_figure_name, save
from parley.report.figures.shape_functions import shape_functions
from parley.validate import Floats

MOST = 60  # curves of single rows


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


def survival_curves(ends: Floats, alive: Floats, time: str, event: str) -> Picture:
    """The curves [n, periods] of up to `MOST` rows, evenly chosen by who survives, and the mean of all."""
    title = f"Survival: until {lettered(event)}"
    left = percent(float(alive[:, -1].mean())) if len(alive) else "nobody"
    figure = Picture(
        7.2, 4.0, f"{title}. Curves of {len(alive):,} rows by {time}; on average {left} are left at {ends[-1]:g}."
    )
    axes = decorate(figure.add_subplot())
    begin, moments = np.ones((len(alive), 1)), np.append(0.0, ends)
    curves = np.hstack([begin, alive])
    order = np.argsort(alive[:, -1], kind="stable") if len(alive) else np.empty(0, dtype=np.int64)
    chosen = order[np.unique(np.linspace(0, len(order) - 1, min(MOST, len(order))).round().astype(int))]
    for place, row in enumerate(curves[chosen]):
        said = f"{len(chosen)} of {len(alive):,} rows" if not place else None
        axes.plot(moments, row, color=TOGETHER, alpha=0.25, linewidth=0.9, label=said)
    if len(alive):
        axes.plot(moments, curves.mean(axis=0), color=INK, linewidth=2.2, marker="o", markersize=4, label="mean of all")
        axes.legend(frameon=False, labelcolor=INK, loc="lower left")
    else:
        axes.text(0.5, 0.5, "no rows", transform=axes.transAxes, ha="center", color=MUTED)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(0, 1.02 * moments[-1])
    axes.set_xlabel(lettered(time))
    axes.set_ylabel("probability that it has not happened yet")
    headed(axes, title)
    return figure
