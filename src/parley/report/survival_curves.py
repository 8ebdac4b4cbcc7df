"""Survival curves of the rows of a table, as a picture. Drawn from the rows without noise: as private as they are."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from parley.durable import require_folder
from parley.errors import SettingError
from parley.learning.outcome.model import JointModel, JointSurvivalModel
from parley.report.figures import INK, TOGETHER, decorate, require_figure_name, save
from parley.validate import Floats

MOST = 60  # curves of single rows


def require_curves(model: JointModel, path: Path) -> None:
    """Refuse a model that has no survival curves, and a file that cannot be written."""
    if not isinstance(model, JointSurvivalModel):
        raise SettingError(f"--plot {path}: expected a model of kind survival: no other has curves to draw")
    require_figure_name(path)
    require_folder(path)


def draw_curves(model: JointModel, rows: pd.DataFrame, path: Path) -> None:
    """Write a picture of the rows' survival curves."""
    if isinstance(model, JointSurvivalModel):
        terms = model.preparation_.model
        save(survival_curves(model.periods_, model.predict_survival(rows), terms.target, str(terms.event)), path)


def survival_curves(ends: Floats, alive: Floats, time: str, event: str) -> Figure:
    """The curves [n, periods] of up to `MOST` rows, evenly chosen by who survives, and the mean of all."""
    figure = Figure(figsize=(7.2, 4.0), layout="constrained", facecolor="white")
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
        axes.legend(frameon=False, labelcolor=INK)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(0, 1.02 * moments[-1])
    axes.set_xlabel(time)
    axes.set_ylabel("probability that it has not happened yet")
    axes.set_title(f"Survival: until {event}", loc="left", color=INK, fontweight="bold")
    return figure
