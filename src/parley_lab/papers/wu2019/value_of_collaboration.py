"""W: Wu, Farokhi, Smith and Kaafar, "The Value of Collaboration in Convex Machine Learning with Differential Privacy",
figures 2 to 11.

Each figure is measured again and has the forecast drawn through it, made from the public pilot before any run. Rows are
shuffled first, so that pilot and owners follow one law as the theorems assume; `as_filed` keeps the order of the file,
as W did, and shows what drift does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from parley.data import split_consecutive
from parley.decisions.expectation.expectation import expect
from parley.decisions.knowledge.pilot import open_pilot
from parley.learning.study_grid import Cell, study, vary, with_settings
from parley.learning.train import train
from parley.owner.owner import Owner
from parley.validate import Floats
from parley_lab.papers.document import Progress, Shown
from parley_lab.papers.wu2019.markets import Market, card_market, loan_market

# published: psi below 0.1 with three banks of this size and budget
HEADLINE_CASES = {"loans": (350_000, 10.0), "cards": (30_000, 1.0)}
BUDGETS = (0.1, 1.0, 10.0)
STEP_MULTIPLES = {"loans": (1.0, 2.0, 3.0, 5.0), "cards": (1.0, 3.0)}  # of the automatic step: W prints none
FALL_BUDGETS = (1.0, 10.0)  # between which W says by how much psi falls
PUBLISHED_FALL = {"loans": "about 100 (3 x 250,000)", "cards": "–"}
SMALL, EAGER, SHY = 1000, 10.0, 0.1
EMPTY_CONTENT: Mapping[str, Any] = MappingProxyType({})
FLOOR, BURST = 5.0, 3.0  # a cell counts for the slope above so many times what noise leaves, and below this psi


@dataclass(eq=False)
class Markets:
    """Both markets, from the real data in `folder` or else synthetic, opened when a figure needs one; and the settings
    of the runs."""

    folder: Path | None
    scratch: Path
    runs: int = 100
    points: int = 10
    jobs: int = 1
    as_filed: bool = False
    _open: Market | None = field(default=None, init=False)

    def market(self, word: str) -> Market:
        """That of a figure: loans up to 6, cards from 7 on. The other one is closed."""
        name, make = ("loans", loan_market) if int(word) <= 6 else ("cards", card_market)
        if self._open is None or self._open.name != name:
            self._open = make(self.folder, self.scratch, self.as_filed)
        return self._open

    @property
    def budgets(self) -> list[float]:
        """The budgets along one side of a surface."""
        return _budgets(self.points)

    def sizes(self, market: Market) -> list[int]:
        """The sizes along the other side."""
        return [int(n) for n in np.unique(np.round(np.geomspace(SMALL, _largest(market), self.points)).astype(int))]

    @property
    def forecast_runs(self) -> int:
        """Of a pilot run: as many as are measured, within reason."""
        return min(96, max(6, self.runs))

    def measured(self, market: Market, cells: list[Cell], progress: Progress) -> pd.DataFrame:
        """The cells' runs, with the forecast for each beside them."""
        table = study(cells, market.table, self.runs, seed=0, jobs=self.jobs, progress=progress)
        known = open_pilot(market.terms)
        here = known.landscape()
        expected = [expect(known.under(cell.terms), here) for cell in cells]
        without_noise = [each.bias() / each.unit for each in expected]
        return table.assign(
            forecast=[each.fitness(0, self.forecast_runs) for each in expected], without_noise=without_noise
        )


def _largest(market: Market) -> int:
    """The most records each of three banks can have."""
    return min(HEADLINE_CASES[market.name][0], market.rows // 3)


def _budgets(points: int) -> list[float]:
    return [float(f"{e:.4g}") for e in np.geomspace(0.1, 10, points)]


def _shown(
    market: Market,
    word: str,
    drawn: tuple[object, ...],
    table: pd.DataFrame | None,
    *findings: Sequence[str],
    content: Mapping[str, Any] = EMPTY_CONTENT,
) -> Shown:
    kind = "real data" if market.real else "SYNTHETIC data: the real ones are not at hand"
    note = f"{market.name}: {kind}, {market.rows:,} rows; three banks of at most {_largest(market):,} records"
    files = {} if table is None else {f"figure-{word}": table}
    return Shown({word: content} if content else {}, [], drawn, files, [note], findings, market.real)


def paths(bench: Markets, word: str, progress: Progress) -> Shown:
    """Figures 2 and 7: relative fitness against rounds, for three budgets and two lengths of the step; the headline."""
    market = bench.market(word)
    n, headline = _largest(market), HEADLINE_CASES[market.name]
    family = {times: _paths_at(bench, market, times, progress) for times in STEP_MULTIPLES[market.name]}
    measured, forecast = family[1.0]
    title = f"{market.name.capitalize()}: three banks x {n:,} records"
    what = f"{market.name}: mean ψ, 3 x {n:,} records, ε = {headline[1]:g}"
    ends = float(measured[headline[1]][-1].mean()), float(forecast[headline[1]][-1])
    found = [[what, f"< 0.1 (3 x {headline[0]:,})", *(f"{end:.3g}" for end in ends)]]
    falls = {times: [_fall(paths) for paths in both] for times, both in family.items()}
    for times, fall in falls.items():
        step = "automatic step" if times == 1 else f"{times:g} times that step"
        what = f"{market.name}: mean ψ at ε = {FALL_BUDGETS[0]:g} over that at ε = {FALL_BUDGETS[1]:g}, {step}"
        found.append([what, PUBLISHED_FALL[market.name], *(f"{each:.3g}" for each in fall)])
    content = {
        "ends": [float(measured[epsilon][-1].mean()) for epsilon in BUDGETS],
        "headline": {"epsilon": headline[1], "records": n, "measured": ends[0], "forecast": ends[1]},
        "falls": {f"{times:g}": fall[0] for times, fall in falls.items()},
    }
    longer = {times: paths for times, (paths, _) in family.items() if times != 1}
    shown = _shown(market, word, (measured, forecast, title, longer), None, *found, content=content)
    return replace(
        shown, notes=[*shown.notes, "W does not print the constant of its step: each figure is one of a family"]
    )


def _paths_at(
    bench: Markets, market: Market, times: float, progress: Progress
) -> tuple[dict[float, Floats], dict[float, Floats]]:
    """(measured, forecast) by budget, with so many times the automatic step."""
    n = _largest(market)
    owners, step = _owners(market, n), open_pilot(market.terms).algorithm.step_length
    terms = market.terms if times == 1 or step is None else market.terms.changed(learning={"step": times * step})
    known = open_pilot(terms)
    landscape = known.landscape()
    measured: dict[float, Floats] = {}
    forecast: dict[float, Floats] = {}
    for cell in vary(terms, records=[n], epsilon=BUDGETS):
        epsilon = float(cell.labels["epsilon"])
        measured[epsilon] = np.asarray(train(cell.terms, owners, bench.runs, seed=0, progress=progress).path)
        forecast[epsilon] = expect(known.under(cell.terms), landscape).outcome(0, bench.forecast_runs)[0]
    return measured, forecast


def _fall(paths: Mapping[float, Floats]) -> float:
    """By how much the last mean psi falls between the two larger budgets."""
    return float(np.divide(*(paths[epsilon][-1].mean() for epsilon in FALL_BUDGETS)))


def surface(bench: Markets, word: str, progress: Progress) -> Shown:
    """Figures 3 and 8: relative fitness over size and budget."""
    market = bench.market(word)
    table = bench.measured(market, vary(market.terms, records=bench.sizes(market), epsilon=bench.budgets), progress)
    low, high = (float(q) for q in np.quantile(table["forecast"] / table["mean"], [0.1, 0.9]))
    found = [f"{market.name}: forecast/measured over the surface, 10 % to 90 %", "–", f"{low:.2f} to {high:.2f}", "1"]
    return _shown(market, word, (table, f"{market.name.capitalize()}: what size and budget buy"), table, found)


def against_budget(bench: Markets, word: str, progress: Progress) -> Shown:
    """Figures 4 and 9: log-log slope in the budget."""
    market = bench.market(word)
    most = bench.sizes(market)[-1]
    cells = vary(market.terms, records=[most // 9, most // 3, most], epsilon=bench.budgets)
    return _slopes(market, word, bench.measured(market, cells, progress), "epsilon", "records")


def against_size(bench: Markets, word: str, progress: Progress) -> Shown:
    """Figures 5 and 10: log-log slope in the size."""
    market = bench.market(word)
    cells = vary(market.terms, records=bench.sizes(market), epsilon=BUDGETS)
    return _slopes(market, word, bench.measured(market, cells, progress), "records", "epsilon")


def _slopes(market: Market, word: str, table: pd.DataFrame, x: str, group: str) -> Shown:
    """The slope of what noise adds, in the cells where it rules, and that of psi in all of them."""
    title = f"{market.name.capitalize()}: relative fitness against {'budget' if x == 'epsilon' else 'size'}"
    name, columns = "ε" if x == "epsilon" else "n", ("mean", "forecast")
    kept = [int(noise_rules(table, column).sum()) for column in columns]
    ruled = [noise_slope(table, x, group, column) for column in columns]
    every = [_slope(table, np.log(table[column].to_numpy(dtype=np.float64)), x, group) for column in columns]
    counts = f"{kept[0]} of {len(table)} cells"
    found = [
        [f"{market.name}: slope in ln {name} of what noise adds to ψ, {counts}", "-2", *(f"{e:.3g}" for e in ruled)],
        [f"{market.name}: slope in ln {name} of ψ, all cells", "-2", *(f"{e:.3g}" for e in every)],
    ]
    content = {"slope": ruled[0], "cells": kept[0], "of": len(table), "slope_of_all": every[0]}
    shown = _shown(market, word, (table, x, group, title), table, *found, content=content)
    dropped = (
        f"The first slope leaves out cells where ψ is above {BURST:g} (clips bind) or below {FLOOR:g} times what "
        "remains without noise; the second leaves out none"
    )
    return replace(shown, notes=[*shown.notes, dropped])


def noise_rules(table: pd.DataFrame, column: str) -> "pd.Series[bool]":
    """In which cells noise rules but has not blown up the run: above five times what would remain without noise, and
    below 3, beyond which clips change the path."""
    return (table[column] > FLOOR * table["without_noise"]) & (table[column] < BURST)


def noise_slope(table: pd.DataFrame, x: str, group: str, column: str) -> float:
    """The common slope of ln psi in ln x, one intercept a group, of what noise adds where it rules."""
    rows = table[noise_rules(table, column)]
    rows = rows[rows.groupby(group)[x].transform("count") > 1]
    if len(rows) < 2:
        return float("nan")
    return _slope(rows, np.log((rows[column] - rows["without_noise"]).to_numpy(dtype=np.float64)), x, group)


def _slope(rows: pd.DataFrame, y: Floats, x: str, group: str) -> float:
    """The common slope of y in ln x, one intercept a group."""
    logs = pd.DataFrame({"x": np.log(rows[x].astype(float)), "y": y}, index=rows.index)
    across, up = (logs - logs.groupby(rows[group]).transform("mean")).to_numpy(dtype=np.float64).T
    return float(across @ up / (across @ across))


def scenarios(bench: Markets, word: str, progress: Progress) -> Shown:
    """Figures 6 and 11: banks 2 and 3 small or large, shy or eager, against size and budget of bank 1."""
    market, points = bench.market(word), max(3, bench.points // 2)
    large = min(30_000, market.rows // 4)
    sizes = [int(n) for n in np.round(np.geomspace(SMALL, market.rows - 2 * large, points))]
    tables = {}
    for others, budget in product((SMALL, large), (SHY, EAGER)):
        name = f"others {'small' if others == SMALL else 'large'}, {'shy' if budget == SHY else 'eager'}"
        cells = []
        for n, epsilon in product(sizes, _budgets(points)):
            each = {"records": (n, others, others), "epsilon": (epsilon, budget, budget)}
            cells.append(Cell(with_settings(market.terms, each), {"records": n, "epsilon": epsilon}))
        tables[name] = bench.measured(market, cells, progress)
    together = pd.concat([table.assign(scenario=name) for name, table in tables.items()])
    return _shown(market, word, (tables, f"{market.name.capitalize()}: with whom it pays to learn"), together)


def _owners(market: Market, n: int) -> list[Owner]:
    parts = split_consecutive(market.table, [n] * len(market.terms.owners))
    return [Owner(part.name, table) for part, table in zip(market.terms.owners, parts, strict=True)]
