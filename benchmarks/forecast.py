"""Does the forecast hold? Each claim beside the truth, found by training.

1. Quadratic costs: 20 random instances (n 1e3 to 1e6, eps 0.05 to 20, 1 to 20 owners, condition 1 to 1e4), the forecast
in standard errors of the mean over so many runs that the standard error is at most 1 %.
2. Classifiers on the real card data: 20 random pilots of 10,000 rows, the truth against the stated 90 % interval.
3. The planner against 100 rounds with the automatic step, on the real card and loan data at equal total epsilon.
4. How long a forecast takes whose columns are leaves of public trees: 3,000 public rows, 100 trees of 8 leaves, and
what of it is growing trees: those of ten folds, and boosted ones for whoever asks nobody. Then the same with as many
threads of linear algebra as there are cores, as it was before, and the ratio of both. Measured on one core: 15 CPU-s, a
third of the 44 that it took when every version of the sample was decomposed in full.

    python benchmarks/forecast.py [--part quadratic|classifiers|planner|trees]

Real data lie in PARLEY_DATA; parts 2 and 3 use synthetic markets, and say so, without.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd

import parley
from parley.data import split_consecutive, tree_growing
from parley.data.blocks import Remembered
from parley.data.forest import Forest
from parley.decisions.knowledge import baselines
from parley.decisions.outlook.forecast import Forecast, forecast
from parley.decisions.outlook.remedies import compare_noise
from parley.learning.study_grid import with_settings
from parley.protocol import tree_folds
from parley.validate import Floats
from parley_lab.papers.options import data_folder
from parley_lab.papers.wu2019.markets import PILOT_ROWS, card_market, loan_market


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=["quadratic", "classifiers", "planner", "trees"])
    part = parser.parse_args().part
    if part in (None, "quadratic"):
        quadratic()
    with tempfile.TemporaryDirectory() as scratch:
        if part in (None, "classifiers"):
            classifiers(Path(scratch))
        if part in (None, "planner"):
            planner(Path(scratch))
        if part in (None, "trees"):
            trees(Path(scratch))


def quadratic() -> None:
    print(
        f"{'owners':>6} {'records':>9} {'epsilon':>13} {'cond':>7} {'T':>4} {'forecast':>10} {'mean':>10} {'s.e.':>6} "
        f"{'off by':>8}"
    )
    worst = 0.0
    for seed in range(20):
        terms, tables, pooled, condition = quadratic_case(seed)
        expected = parley.forecast(terms, pilot=pooled, resamples=1)
        owners = [parley.Owner(part.name, table) for part, table in zip(terms.owners, tables, strict=True)]
        runs = np.empty(0)
        while runs.size < 2000 or not runs.std(ddof=1) / np.sqrt(runs.size) <= 0.01 * runs.mean():
            more = parley.train(terms, owners, replicates=2000, seed=1000 * seed + runs.size, whole_path=False)
            runs = np.append(runs, more.path[-1])
        error = runs.std(ddof=1) / np.sqrt(runs.size)
        off = (expected.relative_fitness.mean - runs.mean()) / error
        worst = max(worst, abs(off))
        budgets = [part.epsilon for part in terms.owners]
        print(
            f"{len(owners):6d} {sum(map(len, tables)):9,d} {min(budgets):6.3g}-{max(budgets):<6.3g} {condition:7.0f} "
            f"{terms.learning.horizon:4d} {expected.relative_fitness.mean:10.4g} {runs.mean():10.4g} "
            f"{error / runs.mean():6.2%} "
            f"{off:6.2f}se{'' if expected.method == 'exact-moments' else ' ' + expected.method}"
        )
    print(f"largest difference: {worst:.2f} standard errors\n")


def quadratic_case(seed: int) -> tuple[parley.Terms, list[pd.DataFrame], pd.DataFrame, float]:
    """A random regression whose clip is out of reach; the pooled table is its own pilot, so that only the forecast is
    on trial."""
    rng = np.random.default_rng(seed)
    count, p = int(rng.integers(1, 21)), int(rng.integers(2, 6))
    sizes = np.maximum(1000, 10 ** rng.uniform(3, 6) / count * rng.uniform(0.3, 1.7, count)).astype(int)
    epsilons = np.round(10 ** rng.uniform(np.log10(0.05), np.log10(20), count), 3)
    condition = float(10 ** rng.uniform(0, 4))
    spread = condition ** -np.linspace(0, 0.5, p)
    truth = rng.normal(size=p)
    columns = [f"x{j}" for j in range(p)]

    def table(n: int) -> pd.DataFrame:
        X = rng.uniform(-1, 1, (n, p)) * spread
        return pd.DataFrame(X, columns=columns).assign(y=X @ truth + rng.uniform(-0.5, 0.5, n))

    tables = [table(int(n)) for n in sizes]
    pooled = pd.concat(tables, ignore_index=True)
    # The noise may drive theta to where gradients grow; short runs and small steps keep them below the clip.
    strength = float(np.sum(sizes) / np.sqrt(np.sum(epsilons**-2.0)))
    horizon = int(np.clip(strength / 60, 2, 60))
    content = {
        "model": {"kind": "linear-regression", "target": "y", "features": columns},
        "learning": {"horizon": horizon, "step": float(f"{min(0.9, strength / 400):.3g}")},
        "privacy": {"clip": 25.0},
        "owners": [
            {"name": f"o{i}", "records": int(n), "epsilon": float(e)}
            for i, (n, e) in enumerate(zip(sizes, epsilons, strict=True))
        ],
    }
    return parley.Terms.from_dict(content), tables, pooled, condition


def classifiers(scratch: Path) -> None:
    market = card_market(data_folder(), scratch)
    whole = pd.concat([market.table, pd.read_parquet(str(market.terms.model.public))], ignore_index=True)
    print(f"cards ({'real' if market.real else 'SYNTHETIC'}): 3 x 30,000 records, 100 rounds")
    inside = 0
    for draw in range(20):
        rng = np.random.default_rng(draw)
        kind = ("linear-svm", "logistic-regression")[draw % 2]
        epsilon = float(f"{10 ** rng.uniform(-1, 1):.3g}")
        order = rng.permutation(len(whole))
        pilot, rest = whole.iloc[order[:PILOT_ROWS]], whole.iloc[order[PILOT_ROWS : PILOT_ROWS + 90_000]]
        pilot.to_parquet(scratch / f"pilot-{draw}.parquet")
        content = with_settings(market.terms, {"records": 30_000, "epsilon": epsilon}).model_dump()
        content["model"] |= {
            "kind": kind,
            "regularisation": 1.0 if kind == "linear-svm" else 0.01,
            "public": str(scratch / f"pilot-{draw}.parquet"),
        }
        terms = parley.Terms.from_dict(content)
        interval = parley.forecast(terms, seed=draw).relative_fitness
        truth = measured(terms, rest, 24)
        inside += interval.low <= truth <= interval.high
        width = (interval.high - interval.low) / interval.mean
        print(
            f"  {kind:20s} eps {epsilon:5.3g}: 90 % {interval.low:9.4g} to {interval.high:9.4g} (width {width:4.0%}), "
            f"truth {truth:9.4g}"
            f"{'' if interval.low <= truth <= interval.high else '   OUTSIDE'}"
        )
    print(f"inside the interval: {inside} of 20")
    drifted = card_market(data_folder(), scratch, as_filed=True)
    print(
        "a pilot of the last 10,000 rows:",
        "; ".join(parley.forecast(drifted.terms, resamples=1).warnings) or "no warning",
        "\n",
    )


def planner(scratch: Path) -> None:
    for market, n, epsilon in (
        (card_market(data_folder(), scratch), 30_000, 1.0),
        (loan_market(data_folder(), scratch), 38_000, 10.0),
    ):
        terms = with_settings(market.terms, {"records": n, "epsilon": epsilon})
        before = measured(terms, market.table, 40)
        print(f"{market.name} ({'real' if market.real else 'SYNTHETIC'}): 3 x {n:,} records, eps = {epsilon:g}")
        print(f"  100 rounds, automatic step: psi {before:.4g}")
        for delta in (None, 1e-6):
            began = time.perf_counter()
            proposal = parley.plan(terms, delta=delta)
            seconds = time.perf_counter() - began
            best = proposal.best
            after = measured(proposal.terms, market.table, 40)
            kind = "pure eps" if delta is None else f"delta = {delta:g}"
            print(
                f"  {kind}: {best.label}, T = {best.horizon}: forecast {best.relative_fitness:.4g}, measured "
                f"{after:.4g}: "
                f"{before / after:.1f} x better (planned in {seconds:.0f} s)"
            )


def trees(scratch: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 8)).round(2)
    waves = pd.DataFrame(X, columns=[f"x{j}" for j in range(8)])
    noise = 0.1 * rng.normal(size=len(X))
    waves.assign(y=np.sin(3 * X[:, 0]) * X[:, 1] + np.abs(X[:, 2]) + noise).to_csv(scratch / "waves.csv", index=False)
    content = {
        "model": {"kind": "linear-regression", "target": "y", "public": str(scratch / "waves.csv"), "columns": "trees"},
        "learning": {"algorithm": "gradient-descent", "horizon": 24, "step": 0.01, "decay": 0.0},
        "privacy": {"mechanism": "gaussian", "delta": 1e-6, "clip": 5.0},
        "owners": [{"name": "shop", "records": 24_000, "epsilon": 1.0}],
    }
    terms = parley.Terms.from_dict(content)
    took = {"in all": 0.0, "folds": 0.0, "boosted": 0.0}
    with timed(tree_folds, "grow", took, "folds"), timed(baselines, "tree_losses", took, "boosted"):
        took["in all"], width = tree_forecast(terms, forecast, Forecast.to_json, compare_noise)
    rest = took["in all"] - took["folds"] - took["boosted"]
    print(
        f"leaves of public trees, {width} columns: {took['in all']:.1f} CPU-s, of which growing trees of folds "
        f"{took['folds']:.1f}, boosted trees {took['boosted']:.1f}, all else {rest:.1f}"
    )
    before, _ = tree_forecast(terms, *(work.__wrapped__ for work in (forecast, Forecast.to_json, compare_noise)))
    print(f"  with threads of linear algebra {before:.1f} CPU-s: {before / took['in all']:.2f} times as many")


def tree_forecast(
    terms: parley.Terms,
    forecast: Callable[[parley.Terms], Forecast],
    to_json: Callable[[Forecast], object],
    compare: Callable[[Forecast], object],
) -> tuple[float, int]:
    """(CPU seconds of a forecast that remembers no trees, how many columns it has)."""
    tree_growing._grown_cache, baselines._remembered_losses = Remembered[Forest](64), Remembered[Floats](128)
    began = time.process_time()
    result = forecast(terms)
    to_json(result)
    compare(result)
    return time.process_time() - began, result.expected.pilot.source.width


@contextmanager
def timed(module: ModuleType, name: str, took: dict[str, float], label: str) -> Iterator[None]:
    """Adds the processor time that this function of a module takes to `took`."""
    plain = getattr(module, name)

    def clocked(*given: object, **more: object) -> object:
        began = time.process_time()
        found = plain(*given, **more)
        took[label] += time.process_time() - began
        return found

    setattr(module, name, clocked)
    try:
        yield
    finally:
        setattr(module, name, plain)


def measured(terms: parley.Terms, table: pd.DataFrame, runs: int) -> float:
    parts = split_consecutive(table, [part.records for part in terms.owners])
    owners = [parley.Owner(part.name, rows) for part, rows in zip(terms.owners, parts, strict=True)]
    return float(parley.train(terms, owners, replicates=runs, seed=1, whole_path=False).path.mean())


if __name__ == "__main__":
    main()
