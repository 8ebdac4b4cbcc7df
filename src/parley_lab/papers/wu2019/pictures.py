"""Figures of how collaboration pays: measured relative fitness with the forecast drawn through it (after W figures 2 to
11)."""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from parley.report.figures.colours import ALONE, GRID, INK, MUTED
from parley.report.figures.curves import EPSILON
from parley.validate import Floats

SERIES_COLOURS = ("#0b4f58", "#2a9d8f", "#e9a23b", "#c8543c")


def paths(
    measured: Mapping[float, Floats],
    forecast: Mapping[float, Floats],
    title: str,
    longer: Mapping[float, Mapping[float, Floats]],
) -> Figure:
    """Relative fitness against rounds for several budgets: quartile bands, medians, and the forecast mean dashed;
    dotted, medians with `longer` steps."""
    figure, axes = _canvas(1)
    for colour, (epsilon, path) in zip(SERIES_COLOURS, measured.items(), strict=False):
        rounds = np.arange(1, len(path) + 1)
        q25, median, q75 = np.quantile(path, [0.25, 0.5, 0.75], axis=1)
        axes[0].fill_between(rounds, q25, q75, color=colour, alpha=0.25, linewidth=0)
        axes[0].plot(rounds, median, color=colour, linewidth=2, label=f"ε = {epsilon:g}")
        axes[0].plot(rounds, forecast[epsilon], color=INK, linewidth=1.1, linestyle=(0, (4, 3)))
        for path in (each[epsilon] for each in longer.values()):
            axes[0].plot(rounds, np.median(path, axis=1), color=colour, linewidth=1.1, linestyle=":")
    for times in longer:
        axes[0].plot([], [], color=MUTED, linewidth=1.1, linestyle=":", label=f"{times:g} times the step")
    axes[0].plot([], [], color=INK, linewidth=1.1, linestyle=(0, (4, 3)), label="forecast (mean)")
    axes[0].set_yscale("log")
    axes[0].set_xlim(1, len(next(iter(measured.values()))))
    _label(axes[0], "round", "relative fitness ψ")
    axes[0].legend(frameon=False, labelcolor=INK, fontsize=9)
    figure.suptitle(title, x=0.02, ha="left", color=INK, fontweight="bold", fontsize=12)
    return figure


def surface(table: pd.DataFrame, title: str) -> Figure:
    """Relative fitness over size and budget: colours and white contours as measured, dashed contours as forecast."""
    figure, axes = _canvas(1)
    mesh = _surface(axes[0], table, "records", "epsilon", _norm([table]))
    _label(axes[0], "records of each owner", f"{EPSILON} of each owner")
    _colourbar(figure, mesh, axes)
    figure.suptitle(title, x=0.02, ha="left", color=INK, fontweight="bold", fontsize=12)
    return figure


def scenarios(tables: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """One surface a scenario, over the first owner's size and budget, on one colour scale."""
    figure, axes = _canvas(len(tables), width=3.1 * len(tables) + 0.8)
    norm = _norm(tables.values())
    for place, (axis, (name, table)) in enumerate(zip(axes, tables.items(), strict=True)):
        mesh = _surface(axis, table, "records", "epsilon", norm)
        _label(axis, "records of bank 1", f"{EPSILON} of bank 1" if place == 0 else "")
        axis.set_title(name, fontsize=9, color=MUTED, loc="left")
    _colourbar(figure, mesh, axes)
    figure.suptitle(title, x=0.02, ha="left", color=INK, fontweight="bold", fontsize=12)
    return figure


def slopes(table: pd.DataFrame, x: str, group: str, title: str) -> Figure:
    """Relative fitness against `x` in a log-log plot, one colour a `group`: dots measured, dashed forecast, a guide of
    slope -2."""
    figure, axes = _canvas(1)
    label = {"records": "records of each owner", "epsilon": f"{EPSILON} of each owner"}
    for colour, (value, rows) in zip(SERIES_COLOURS, table.groupby(group), strict=False):
        name = f"ε = {value:g}" if group == "epsilon" else f"{value:,.0f} records each"
        axes[0].plot(rows[x], rows["mean"], "o", color=colour, markersize=6, label=name)
        axes[0].plot(rows[x], rows["forecast"], color=colour, linewidth=1.4, linestyle=(0, (4, 3)))
    span = np.array([table[x].min(), table[x].max()], dtype=float)
    anchor = float(table["mean"].max())
    axes[0].plot(span, anchor * (span / span[0]) ** -2.0, color=MUTED, linewidth=0.9, label="slope −2")
    axes[0].plot([], [], color=INK, linewidth=1.4, linestyle=(0, (4, 3)), label="forecast")
    axes[0].set_xscale("log")
    axes[0].set_yscale("log")
    axes[0].set_ylim(0.5 * float(table[["mean", "forecast"]].min().min()), 2 * anchor)
    _label(axes[0], label[x], "relative fitness ψ")
    axes[0].legend(frameon=False, labelcolor=INK, fontsize=9)
    figure.suptitle(title, x=0.02, ha="left", color=INK, fontweight="bold", fontsize=12)
    return figure


def _canvas(count: int, width: float = 6.6) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width, 4.2), layout="constrained")
    axes: list[Axes] = list(np.atleast_1d(figure.subplots(1, count, sharey=True)))
    for axis in axes:
        axis.grid(color=GRID, linewidth=0.8)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(colors=MUTED, labelsize=9)
    return figure, axes


def _label(axis: Axes, x: str, y: str) -> None:
    axis.set_xlabel(x, color=INK)
    axis.set_ylabel(y, color=INK)


def _norm(tables: Iterable[pd.DataFrame]) -> LogNorm:
    values = np.concatenate([table["mean"].to_numpy() for table in tables])
    return LogNorm(max(values.min(), 1e-4), min(values.max(), 1e3))


def _surface(axis: Axes, table: pd.DataFrame, x: str, y: str, norm: LogNorm) -> QuadMesh:
    measured = table.pivot_table(index=y, columns=x, values="mean")
    forecast = table.pivot_table(index=y, columns=x, values="forecast")
    grid = measured.columns.to_numpy(dtype=float), measured.index.to_numpy(dtype=float)
    mesh = axis.pcolormesh(*grid, measured.to_numpy(), norm=norm, cmap="viridis_r", shading="gouraud")
    levels = np.arange(-3, 3)  # in powers of ten, between which the surface is nearly plane
    lines = axis.contour(
        *grid, np.log10(measured.to_numpy()), levels=levels, colors="white", linewidths=1.4, linestyles="solid"
    )
    axis.clabel(lines, fmt=lambda power: f"{10.0**power:g}", fontsize=8)
    axis.contour(*grid, np.log10(forecast.to_numpy()), levels=levels, colors=ALONE, linewidths=1.4, linestyles="dashed")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    return mesh


def _colourbar(figure: Figure, mesh: QuadMesh, axes: list[Axes]) -> None:
    bar = figure.colorbar(mesh, ax=axes, pad=0.02)
    bar.set_label("relative fitness ψ  (dashed: forecast)", color=INK)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=MUTED, labelsize=9)
