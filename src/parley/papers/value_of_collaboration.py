"""W: Wu, Farokhi, Smith and Kaafar, "The Value of Collaboration in Convex Machine Learning with Differential Privacy", figures 2 to 11.

Each figure is measured again and has the forecast drawn through it, made from the public pilot before any run. Rows are shuffled first, so
that pilot and owners follow one law as the theorems assume; `as_filed` keeps the order of the file, as W did, and shows what drift does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from parley.data import split_consecutive
from parley.decisions.forecasting.expectation import expect
from parley.decisions.forecasting.pilot import open_pilot
from parley.errors import SettingError
from parley.learning.algorithms.algorithm import Progress
from parley.learning.grid import Cell, study, vary, with_settings
from parley.learning.train import train
from parley.owner.owner import Owner
from parley.papers.figures import collaboration
from parley.papers.markets import Market, card_market, loan_market
from parley.validate import Floats

FIGURES = {2: "loans", 3: "loans", 4: "loans", 5: "loans", 6: "loans", 7: "cards", 8: "cards", 9: "cards", 10: "cards", 11: "cards"}
HEADLINE = {"loans": (350_000, 10.0), "cards": (30_000, 1.0)}  # published: psi below 0.1 with three banks of this size and budget
BUDGETS = (0.1, 1.0, 10.0)
SMALL, EAGER, SHY = 1000, 10.0, 0.1


@dataclass(frozen=True, eq=False)
class Reproduction:
    """Figures by their number in W, the tables behind them, and published beside measured and forecast."""

    figures: dict[int, Figure] = field(default_factory=dict)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    findings: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def reproduce(
    numbers: Sequence[int],
    folder: Path | None,
    scratch: Path,
    runs: int = 100,
    points: int = 10,
    jobs: int = 1,
    as_filed: bool = False,
    progress: Progress = lambda done, total: None,
) -> Reproduction:
    """These figures of W, from the real data in `folder` or else from synthetic markets."""
    for number in numbers:
        if number not in FIGURES:
            raise SettingError(f"--figure {number}: expected one from 2 to 11")
    result = Reproduction()
    for name, make in (("loans", loan_market), ("cards", card_market)):
        wanted = [number for number in numbers if FIGURES[number] == name]
        if wanted:
            bench = _Bench(make(folder, scratch, as_filed), runs, points, jobs, progress)
            _note(result, bench)
            for number in wanted:
                _DRAW[(number - 2) % 5](result, bench, number)
    return result


@dataclass(frozen=True, eq=False)
class _Bench:
    """A market with the settings of its runs."""

    market: Market
    runs: int
    points: int
    jobs: int
    progress: Progress

    @property
    def largest(self) -> int:
        """The most records each of three banks can have."""
        return min(HEADLINE[self.market.name][0], self.market.rows // 3)

    @property
    def sizes(self) -> list[int]:
        return [int(n) for n in np.unique(np.round(np.geomspace(SMALL, self.largest, self.points)).astype(int))]

    @property
    def budgets(self) -> list[float]:
        return [float(f"{e:.4g}") for e in np.geomspace(0.1, 10, self.points)]

    @property
    def forecast_runs(self) -> int:
        """Of a pilot run: as many as are measured, within reason."""
        return min(96, max(6, self.runs))

    def measured(self, cells: list[Cell]) -> pd.DataFrame:
        """The cells' runs, with the forecast for each beside them."""
        table = study(cells, self.market.table, self.runs, seed=0, jobs=self.jobs, progress=self.progress)
        known = open_pilot(self.market.terms)
        here = known.landscape()
        expected = [expect(known.under(cell.terms), here) for cell in cells]
        without_noise = [each.bias() / each.unit for each in expected]
        return table.assign(forecast=[each.fitness(0, self.forecast_runs) for each in expected], without_noise=without_noise)


def _note(result: Reproduction, bench: _Bench) -> None:
    market = bench.market
    kind = "real data" if market.real else "SYNTHETIC data: the real ones are not at hand"
    result.notes.append(f"{market.name}: {kind}, {market.rows:,} rows; three banks of at most {bench.largest:,} records")


def _paths(result: Reproduction, bench: _Bench, number: int) -> None:
    """Figures 2 and 7: relative fitness against rounds, for three budgets; and the headline."""
    n = bench.largest
    headline = HEADLINE[bench.market.name][1]
    owners = _owners(bench.market, n)
    known = open_pilot(bench.market.terms)
    here = known.landscape()
    measured: dict[float, Floats] = {}
    forecast: dict[float, Floats] = {}
    for cell in vary(bench.market.terms, records=[n], epsilon=BUDGETS):
        epsilon = float(cell.labels["epsilon"])
        measured[epsilon] = np.asarray(train(cell.terms, owners, bench.runs, seed=0, progress=bench.progress).path)
        forecast[epsilon] = expect(known.under(cell.terms), here).outcome(0, bench.forecast_runs)[0]
    title = f"{bench.market.name.capitalize()}: three banks x {n:,} records"
    result.figures[number] = collaboration.paths(measured, forecast, title)
    _finding(
        result,
        f"{bench.market.name}: mean ψ, 3 x {n:,} records, ε = {headline:g}",
        f"< 0.1 (3 x {HEADLINE[bench.market.name][0]:,})",
        float(measured[headline][-1].mean()),
        float(forecast[headline][-1]),
    )


def _surface(result: Reproduction, bench: _Bench, number: int) -> None:
    """Figures 3 and 8: relative fitness over size and budget."""
    table = bench.measured(vary(bench.market.terms, records=bench.sizes, epsilon=bench.budgets))
    result.tables[f"figure-{number}"] = table
    title = f"{bench.market.name.capitalize()}: what size and budget buy"
    result.figures[number] = collaboration.surface(table, title)
    ratio = table["forecast"] / table["mean"]
    low, high = (float(q) for q in np.quantile(ratio, [0.1, 0.9]))
    result.findings.append(
        [f"{bench.market.name}: forecast/measured over the surface, 10 % to 90 %", "–", f"{low:.2f} to {high:.2f}", "1"]
    )


def _against_budget(result: Reproduction, bench: _Bench, number: int) -> None:
    """Figures 4 and 9: log-log slope in the budget."""
    sizes = [bench.sizes[-1] // 9, bench.sizes[-1] // 3, bench.sizes[-1]]
    _slopes(result, bench, number, vary(bench.market.terms, records=sizes, epsilon=bench.budgets), "epsilon", "records")


def _against_size(result: Reproduction, bench: _Bench, number: int) -> None:
    """Figures 5 and 10: log-log slope in the size."""
    _slopes(result, bench, number, vary(bench.market.terms, records=bench.sizes, epsilon=BUDGETS), "records", "epsilon")


def _slopes(result: Reproduction, bench: _Bench, number: int, cells: list[Cell], x: str, group: str) -> None:
    table = bench.measured(cells)
    result.tables[f"figure-{number}"] = table
    words = "budget" if x == "epsilon" else "size"
    result.figures[number] = collaboration.slopes(
        table, x, group, f"{bench.market.name.capitalize()}: relative fitness against {words}"
    )
    _finding(
        result,
        f"{bench.market.name}: slope in ln {'ε' if x == 'epsilon' else 'n'} of what noise adds to ψ",
        "-2",
        noise_slope(table, x, group, "mean"),
        noise_slope(table, x, group, "forecast"),
    )


def noise_slope(table: pd.DataFrame, x: str, group: str, column: str) -> float:
    """The common slope of ln psi in ln x, one intercept a group, of what noise adds where it rules but has not blown up the run.

    That is above five times what would remain without noise, and below 3, beyond which clips bend the path.
    """
    rows = table[(table[column] > 5 * table["without_noise"]) & (table[column] < 3)]
    rows = rows[rows.groupby(group)[x].transform("count") > 1]
    if len(rows) < 2:
        return float("nan")
    logs = pd.DataFrame({"x": np.log(rows[x].astype(float)), "y": np.log(rows[column] - rows["without_noise"])})
    across, up = (logs - logs.groupby(rows[group]).transform("mean")).to_numpy(dtype=np.float64).T
    return float(across @ up / (across @ across))


def _scenarios(result: Reproduction, bench: _Bench, number: int) -> None:
    """Figures 6 and 11: banks 2 and 3 small or large, shy or eager, against size and budget of bank 1."""
    points = max(3, bench.points // 2)
    large = min(30_000, bench.market.rows // 4)
    sizes = [int(n) for n in np.round(np.geomspace(SMALL, bench.market.rows - 2 * large, points))]
    budgets = [float(f"{e:.4g}") for e in np.geomspace(0.1, 10, points)]
    tables = {}
    for others, budget in product((SMALL, large), (SHY, EAGER)):
        name = f"others {'small' if others == SMALL else 'large'}, {'shy' if budget == SHY else 'eager'}"
        cells = []
        for n, epsilon in product(sizes, budgets):
            each = {"records": (n, others, others), "epsilon": (epsilon, budget, budget)}
            cells.append(Cell(with_settings(bench.market.terms, each), {"records": n, "epsilon": epsilon}))
        tables[name] = bench.measured(cells)
    result.tables[f"figure-{number}"] = pd.concat([table.assign(scenario=name) for name, table in tables.items()])
    result.figures[number] = collaboration.scenarios(tables, f"{bench.market.name.capitalize()}: with whom it pays to learn")


def _owners(market: Market, n: int) -> list[Owner]:
    parts = split_consecutive(market.table, [n] * len(market.terms.owners))
    return [Owner(part.name, table) for part, table in zip(market.terms.owners, parts, strict=True)]


def _finding(result: Reproduction, what: str, published: str, measured: float, forecast: float) -> None:
    result.findings.append([what, published, f"{measured:.3g}", f"{forecast:.3g}"])


_DRAW: tuple[Callable[[Reproduction, _Bench, int], None], ...] = (_paths, _surface, _against_budget, _against_size, _scenarios)
