"""Grids of studies: relative fitness by size, budget, horizon and scenario, as one tidy table. Cells share a seed
(common random numbers). joblib runs groups of cells of the same sizes, and can spread them over machines with
`joblib.parallel_config(backend="dask")`, or Ray after `ray.util.joblib.register_ray()`."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import joblib
import pandas as pd
from joblib.parallel import get_active_backend

from parley.data import split_consecutive
from parley.errors import SettingError
from parley.learning.algorithms.algorithm import Progress
from parley.learning.train import train
from parley.owner.owner import Owner
from parley.terms import Terms
from parley.validate import whole

Row = tuple[int, dict[str, float | str]]  # its cell's place in the grid, and the line of the table


@dataclass(frozen=True)
class Cell:
    """One cell of the grid: its terms, and its labels in the table."""

    terms: Terms
    labels: Mapping[str, float | str] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(part.records for part in self.terms.owners)


def vary(terms: Terms, **settings: Sequence[float]) -> list[Cell]:
    """Return all combinations of these settings: `records` and `epsilon` (the same for every owner), `horizon`, `step`,
    `local_steps`, `clip`.

    Parameters
    ----------
    terms
        Terms to vary.
    settings
        Values of each setting, by name.

    Returns
    -------
    list of Cell
        Terms and labels of each combination, for `study`.

    Examples
    --------
    >>> from parley.terms import Terms
    >>> terms = Terms.from_dict({"model": {"kind": "linear-svm", "target": "y"}, "privacy": {"clip": 1.0},
    ...                          "owners": [{"name": "a", "records": 10, "epsilon": 1.0}]})
    >>> [dict(cell.labels) for cell in vary(terms, epsilon=[0.1, 1.0], horizon=[50])]
    [{'epsilon': 0.1, 'horizon': 50}, {'epsilon': 1.0, 'horizon': 50}]
    """
    return [Cell(with_settings(terms, dict(zip(settings, point, strict=True))), dict(zip(settings, point, strict=True)))
            for point in itertools.product(*settings.values())]  # fmt: skip


def with_settings(terms: Terms, settings: Mapping[str, float | Sequence[float]]) -> Terms:
    """Return the terms with some settings changed; `records` and `epsilon` take one value, or one for each owner."""
    sections = {"records": "owners", "epsilon": "owners", "horizon": "learning", "step": "learning", "clip": "privacy"}
    sections["local_steps"] = "learning"
    learning, privacy = dict[str, Any](), dict[str, Any]()
    owners: dict[str, dict[str, Any]] = {part.name: {} for part in terms.owners}
    homes = {"owners": list(owners.values()), "learning": [learning], "privacy": [privacy]}
    for name, value in settings.items():
        if name not in sections:
            raise SettingError(f"{name}: expected one of {', '.join(sections)}")
        places = homes[sections[name]]
        values = value if isinstance(value, Sequence) else [value] * len(places)
        if len(values) != len(places):
            raise SettingError(
                f"{name}: expected one number, or a list of {len(places)}, found a list of {len(values)}"
            )
        for place, each in zip(places, values, strict=True):
            place[name] = each
    return terms.changed(learning=learning, privacy=privacy, owners=owners)


def study(
    cells: Iterable[Cell],
    market: pd.DataFrame,
    replicates: int = 100,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress = lambda done, total: None,
) -> pd.DataFrame:
    """Run every cell on consecutive blocks of `market` (W section IV). It looks at all tables: a study, not a release.

    Parameters
    ----------
    cells
        Cells from `vary`.
    market
        Rows dealt out to the owners, in their order.
    replicates
        Runs of each cell.
    seed
        Seed of their noise.
    jobs
        Number of processes.
    progress
        Called with (done, total).

    Returns
    -------
    DataFrame
        One row per cell: its labels, and mean, median and quartiles of relative fitness.

    Examples
    --------
    >>> import parley
    >>> terms = Terms.from_dict({
    ...     "model": {"kind": "linear-regression", "target": "int_rate", "features": ["fico"],
    ...               "bounds": {"fico": [600, 850], "int_rate": [5, 31]}, "radius": 10.0},
    ...     "learning": {"horizon": 2},
    ...     "privacy": {"clip": 1e4},
    ...     "owners": [{"name": "bank", "records": 100, "epsilon": 1.0}],
    ... })
    >>> study(vary(terms, epsilon=[0.1, 1.0]), parley.data.synthetic_lending(100), replicates=2)["epsilon"].tolist()
    [0.1, 1.0]
    """
    whole(replicates, "replicates")
    groups: dict[tuple[int, ...], list[tuple[int, Cell]]] = {}
    for place, cell in enumerate(cells):
        groups.setdefault(cell.sizes, []).append((place, cell))
    largest = max((sum(sizes) for sizes in groups), default=0)
    if not largest:
        raise SettingError("cells: expected at least one cell")
    if largest > len(market):
        raise SettingError(f"cells: the table has {len(market)} rows, but the cells need {largest}")
    total = sum(len(group) for group in groups.values())
    tasks = (
        joblib.delayed(_run)(group, market.iloc[: sum(sizes)], replicates, seed) for sizes, group in groups.items()
    )
    rows: list[Row] = []
    for finished in _in_parallel(tasks, whole(jobs, "jobs")):
        rows.extend(finished)
        progress(len(rows), total)
    return pd.DataFrame([row for _, row in sorted(rows, key=lambda pair: pair[0])])


def _in_parallel(tasks: Iterable[Any], jobs: int) -> Iterator[list[Row]]:
    """Yield results as they finish if joblib's backend allows it (Ray's does not), else all at the end."""
    backend, _ = get_active_backend()
    when = "generator_unordered" if backend.supports_return_generator else "list"
    yield from joblib.Parallel(n_jobs=jobs, return_as=when)(tasks)


def _run(group: list[tuple[int, Cell]], market: pd.DataFrame, replicates: int, seed: int) -> list[Row]:
    first = group[0][1]
    parts = split_consecutive(market, list(first.sizes))
    owners = [Owner(part.name, table) for part, table in zip(first.terms.owners, parts, strict=True)]
    rows = []
    for place, cell in group:
        result = train(cell.terms, owners, replicates=replicates, seed=seed, whole_path=False)
        fitness = result.relative_fitness or {}
        row: dict[str, float | str] = {**cell.labels, "replicates": replicates, "seconds": result.seconds}
        rows.append((place, row | {name: fitness.get(name, float("nan")) for name in ("mean", "median", "q25", "q75")}))
    return rows
