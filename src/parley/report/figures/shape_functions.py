"""What each column, or pair of columns, adds to a prediction, and survival curves of rows. Pictures have no noise: they
are as private as the rows."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import MaxNLocator

from parley.durable import require_folder
from parley.errors import SettingError
from parley.learning.outcome.model import JointModel, JointSurvivalModel
from parley.learning.outcome.shapes import Axis, PairShape, ShapeFunction, Shapes
from parley.numerals import counted, percent
from parley.report.figures.colours import ALONE, INK, MUTED, SERIES_COLOURS, TOGETHER
from parley.report.figures.picture import Picture, decorate, first_names, headed, lettered, require_figure_name, save
from parley.terms import Model
from parley.validate import Floats

PAIR_PANELS_PER_ROW = 3  # panels of pairs in a row
MAX_PAIR_NAME_WIDTH = 14  # letters of a name beside such a panel
COLOURS = LinearSegmentedColormap.from_list("adds", [ALONE, "white", TOGETHER])
PANELS_PER_ROW = 4  # panels in a row
MAX_PANELS = 24  # panels
MAX_NAMES_SHOWN = 10  # of a column that are shown: those that add or take most over all rows
MAX_NAME_WIDTH = 16  # letters of a name
OUTCOME_UNITS = {"count": "log of the rate", "survival": "log odds of each period", "classes": "score of a class"}
_SMALL_TEXT_STYLE: dict[str, Any] = {"fontsize": 6.5, "ha": "right", "va": "bottom"}


def shape_functions(model: JointModel, runs: Floats | None = None) -> Picture:
    """Draw one panel per column on one scale, those that move predictions most first: steps for numbers, dots for names
    and gaps. The effect of noise is shaded if several runs or a posterior show it. Crossed pairs follow below; pairs of
    boosted trees are left out."""
    shapes = model.shapes(runs)
    if shapes is None:
        raise SettingError(
            "this model has no separate effect of each column; use a model of bins, or boosted trees that use one "
            "column each"
        )
    shown = sorted(shapes, key=lambda shape: -shape.spread)[:MAX_PANELS]
    target = model.preparation_.model.target
    down, below = -(-len(shown) // PANELS_PER_ROW), -(-len(shapes.pairs) // PAIR_PANELS_PER_ROW)
    figure = Picture(11.5, 2.5 * down + 3.2 * below + 0.6, _words(target, shown, len(shapes.columns)))
    above: Any = figure
    if below:
        parts: Any = figure.subfigures(2, 1, height_ratios=[2.5 * down + 0.6, 3.2 * below])
        above = parts[0]
        draw_pairs(parts[1], shapes.pairs)
    panels = above.subplots(down, min(PANELS_PER_ROW, len(shown)), sharey=True, squeeze=False).ravel()
    panels[0].set_ylim(*_reach(shown))
    for panel, shape in zip(panels, shown, strict=False):
        _draw(decorate(panel), shape)
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    if shapes.classes:
        marks = [
            panels[0].plot([], [], color=SERIES_COLOURS[place % len(SERIES_COLOURS)])[0]
            for place in range(len(shapes.classes))
        ]
        above.legend(marks, shapes.classes, loc="outside upper right", ncols=8, frameon=False, fontsize=8)
    title = f"What each column adds to {lettered(target)}"
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontweight="bold", fontsize=11)
    above.supylabel(f"contribution to the prediction ({unit_words(model.preparation_.model)})", color=INK, fontsize=9)
    figure.supxlabel(shapes_words(shapes, len(shapes.columns) - len(shown)), color=MUTED, fontsize=8)
    return figure


def _words(target: str, shown: list[ShapeFunction], columns: int) -> str:
    most = first_names((shape.column for shape in shown), 6)
    return (
        f"The figure shows what each column adds to the prediction of {target}. {len(shown)} of {columns} columns are "
        f"shown, on a common scale. The columns with the largest effect on predictions are: {most}."
    )


def unit_words(model: Model) -> str:
    """Return the unit in which columns add up."""
    if model.predicts == "two classes":
        return "log odds" if model.smooth else "margin"
    return OUTCOME_UNITS.get(model.predicts, model.target)


def shapes_words(shapes: Shapes, left_out: int = 0) -> str:
    """Say in a sentence or two what 0 is, what is shaded, and what is not shown."""
    sentences = [] if shapes.centred is None else [f"Zero: the mean {shapes.centred}."]
    sentences.append(
        "The figure has no bands, because one run does not show the effect of noise." if shapes.about is None else ""
    )
    sentences[-1] = sentences[-1] or f"Shaded: {shapes.about}."
    if left_out:
        sentences.append(f"The figure omits the {counted(left_out, 'column')} with the smallest effect.")
    return " ".join(sentences)


def draw_pairs(figure: Any, pairs: Sequence[PairShape]) -> None:
    """Draw one panel per pair on one colour scale, with a cell for each pair of bins, the first column's below. For
    several classes a cell shows the range over classes; it is empty without public rows."""
    down = -(-len(pairs) // PAIR_PANELS_PER_ROW)
    panels = figure.subplots(down, min(PAIR_PANELS_PER_ROW, len(pairs)), squeeze=False).ravel()
    tables = [pair.values if pair.values.ndim == 2 else np.ptp(pair.values, axis=0) for pair in pairs]
    reach = max(float(np.abs(table[pair.shares > 0]).max()) for table, pair in zip(tables, pairs, strict=True)) or 1.0
    drawn = None
    for panel, pair, table in zip(panels, pairs, tables, strict=False):
        occupied = [(pair.shares.sum(axis=1 - side) > 0) for side in (0, 1)]
        cells = np.where(pair.shares > 0, table, np.nan)[occupied[0]][:, occupied[1]]
        drawn = panel.pcolormesh(cells.T, cmap=COLOURS, vmin=-reach, vmax=reach, edgecolors="white", linewidth=0.5)
        first, second = ([each for each, kept in zip(_bins(axis), some, strict=True) if kept]
                         for axis, some in zip(pair.axes, occupied, strict=True))  # fmt: skip
        panel.set_xticks(np.arange(len(first)) + 0.5, first, rotation=60, ha="right", fontsize=6.5)
        panel.set_yticks(np.arange(len(second)) + 0.5, second, fontsize=6.5)
        panel.tick_params(colors=MUTED, length=0)
        panel.spines[:].set_visible(False)
        title = " × ".join(lettered(axis.column, MAX_PAIR_NAME_WIDTH) for axis in pair.axes)
        panel.set_title(title, loc="left", color=INK, fontsize=9)
    for panel in panels[len(pairs) :]:
        panel.set_axis_off()
    scale = figure.colorbar(drawn, ax=panels.tolist(), shrink=0.8, aspect=30)
    scale.ax.tick_params(labelsize=7, colors=MUTED)
    scale.outline.set_visible(False)


def _draw(panel: Axes, shape: ShapeFunction) -> None:
    panel.axhline(0.0, color=MUTED, linewidth=0.6)
    panel.set_title(lettered(shape.column), loc="left", color=INK, fontsize=9)
    panel.tick_params(labelsize=7)
    several = shape.values.reshape(-1, shape.values.shape[-1])
    bands = [None] * len(several) if shape.band is None else shape.band.reshape(2, *several.shape).swapaxes(0, 1)
    for place, (values, band) in enumerate(zip(several, bands, strict=True)):
        colour, beside = (
            SERIES_COLOURS[place % len(SERIES_COLOURS)],
            (place - (len(several) - 1) / 2) / (len(several) + 1),
        )
        draw = _numbers if shape.numbers else _names
        draw(panel, shape, values, band, colour if len(several) > 1 else TOGETHER, beside)


def _numbers(panel: Axes, shape: ShapeFunction, values: Floats, band: Floats | None, colour: str, _: float) -> None:
    """Draw a column of numbers as steps or lines; expected gaps are a dotted line."""
    steps, line = shape.numbers, len(shape.knots) > 0
    if band is not None and line:
        panel.fill_between(shape.knots, *band[:, :steps], color=colour, alpha=0.2, linewidth=0)
    elif band is not None:
        panel.stairs(band[1, :steps], shape.cuts, baseline=band[0, :steps], fill=True, color=colour, alpha=0.2)
    if line:
        panel.plot(shape.knots, values[:steps], color=colour, linewidth=1.5, marker=".", markersize=4)
    else:
        panel.stairs(values[:steps], shape.cuts, color=colour, linewidth=1.5, baseline=None)
    panel.xaxis.set_major_locator(MaxNLocator(4))
    if _needs_log_scale(ends := shape.knots if line else shape.cuts):
        panel.set_xscale("symlog", linthresh=max(ends[1], 1.0))
    if len(shape.names) and shape.shares[steps] > 0:
        alone = ALONE if colour == TOGETHER else colour
        panel.axhline(values[steps], color=alone, linewidth=1.0, linestyle=":")
        where: Any = ("axes fraction", "data")
        panel.annotate("missing", (0.98, values[steps]), xycoords=where, color=alone, **_SMALL_TEXT_STYLE)


def _names(panel: Axes, shape: ShapeFunction, values: Floats, band: Floats | None, colour: str, beside: float) -> None:
    """Draw a column of names, those with most effect over all rows, as dots."""
    most = np.abs(shape.values.reshape(-1, len(values))).max(axis=0) * np.sqrt(shape.shares)
    chosen = np.argsort(-most, kind="stable")[:MAX_NAMES_SHOWN]
    shown = np.sort(chosen[shape.shares[chosen] > 0])
    at = np.arange(len(shown)) + beside
    if band is not None:
        panel.vlines(at, band[0, shown], band[1, shown], color=colour, alpha=0.35, linewidth=4)
    panel.vlines(at, 0.0, values[shown], color=colour, linewidth=1.0)
    panel.plot(at, values[shown], "o", color=colour, markersize=4)
    panel.set_xticks(
        range(len(shown)), [lettered(shape.names[place], MAX_NAME_WIDTH) for place in shown], rotation=60, ha="right"
    )
    panel.tick_params(axis="x", labelsize=6.5)
    panel.set_xlim(-0.6, len(shown) - 0.4)


def _reach(shapes: list[ShapeFunction]) -> tuple[float, float]:
    """Return the ends of the scale: all values, and as much of the bands as stays readable."""
    values = np.concatenate([[0.0], *(shape.values.ravel() for shape in shapes)])
    bands = np.concatenate([[0.0], *(shape.band.ravel() for shape in shapes if shape.band is not None)])
    low, high = float(values.min()), float(values.max())
    span = max(high - low, 1e-300)
    low, high = max(min(low, bands.min()), low - span / 2), min(max(high, bands.max()), high + span / 2)
    return low - 0.05 * span, high + 0.05 * span


def _needs_log_scale(cuts: Floats) -> bool:
    """Whether steps grow enough to need a logarithm."""
    widths = np.diff(cuts)
    return len(widths) > 0 and bool(cuts[0] >= 0 and widths[-1] > 50 * widths[0])


def _bins(axis: Axis) -> list[str]:
    """Name the bins of a column."""
    return [
        *(f"{low:.4g} – {high:.4g}" for low, high in pairwise(axis.cuts)),
        *(lettered(n, MAX_PAIR_NAME_WIDTH) for n in axis.names),
    ]


MAX_CURVES = 60  # curves of single rows


def require_drawing(model: JointModel, path: Path) -> None:
    """Refuse a model that cannot be drawn, and a file that cannot be written."""
    if not isinstance(model, JointSurvivalModel) and model.shapes() is None:
        raise SettingError(
            f"--plot {path}: Parley cannot draw this model; use a model of kind survival, a model of bins, or boosted "
            "trees that use one column each"
        )
    require_figure_name(path)
    require_folder(path)


def draw(model: JointModel, rows: pd.DataFrame, path: Path) -> None:
    """Write a picture of the rows' survival curves, or of what each column adds."""
    if isinstance(model, JointSurvivalModel):
        time, event = model.preparation_.model.outcome_columns
        save(survival_curves(model.periods_, model.predict_survival(rows), time, event), path)
    else:
        save(shape_functions(model), path)


def survival_curves(ends: Floats, alive: Floats, time: str, event: str) -> Picture:
    """Draw the curves [n, periods] of up to `MAX_CURVES` rows, evenly spaced by final survival, and the mean of all."""
    title = f"Survival: until {lettered(event)}"
    left = f" On average, {percent(float(alive[:, -1].mean()))} survive until {ends[-1]:g}." if len(alive) else ""
    figure = Picture(
        7.2,
        4.0,
        f"{title}. The figure shows survival curves of {counted(len(alive), 'row')} by {time}.{left}",
    )
    axes = decorate(figure.add_subplot())
    begin, moments = np.ones((len(alive), 1)), np.append(0.0, ends)
    curves = np.hstack([begin, alive])
    order = np.argsort(alive[:, -1], kind="stable") if len(alive) else np.empty(0, dtype=np.int64)
    chosen = order[np.unique(np.linspace(0, len(order) - 1, min(MAX_CURVES, len(order))).round().astype(int))]
    for place, row in enumerate(curves[chosen]):
        label = f"{len(chosen)} of {len(alive):,} rows" if not place else None
        axes.plot(moments, row, color=TOGETHER, alpha=0.25, linewidth=0.9, label=label)
    if len(alive):
        axes.plot(moments, curves.mean(axis=0), color=INK, linewidth=2.2, marker="o", markersize=4, label="mean of all")
        axes.legend(frameon=False, labelcolor=INK, loc="lower left")
    else:
        axes.text(0.5, 0.5, "no rows", transform=axes.transAxes, ha="center", color=MUTED)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(0, 1.02 * moments[-1])
    axes.set_xlabel(lettered(time))
    axes.set_ylabel("probability that the event has not happened yet")
    headed(axes, title)
    return figure
