"""Alone, own noise, two hosts apart and together, three hosts: real loans at 2, 3, 10 and 30 owners, eps = 1.

Least squares from one release of statistics, as in `one_noise.py`: owners of 500 rows, 500 more held out, rows dealt at
random; errors on owners' own held-out rows, as a share of the target's variance; the clip of each kind of noise is the
one with the best forecast. Alone is ridge regression without noise, its weight found by cross-validation.

    python benchmarks/two_hosts.py [--owners 2 3 10 30] [--epsilon 1] [--splits 4] [--replicates 20]

Needs lendingclub.parquet in PARLEY_DATA (default ../shared/data).
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from one_noise import CLIPS, Market, errors, loans, ridge_errors, target_variance

import parley
from parley.decisions.expectation.expectation import expect
from parley.decisions.knowledge.pilot import open_pilot

KINDS = {"own noise": 0, "two hosts": 2, "two together": 2, "three hosts": 3}
ROWS = 500, 500  # to learn from, held out
MAX_OWNERS_SHOWN = 3  # one by one


def planned(market: Market, shape: tuple[int, int, int], epsilon: float, kind: str) -> parley.Terms:
    """Terms with so many hosts, owners among them, and the clip that the forecast likes best."""
    plain = market.terms(shape, epsilon, algorithm="sufficient-statistics", horizon=1)
    if hosts := KINDS[kind]:
        draw = "together" if kind == "two together" else None
        names = [*(part.name for part in plain.owners), "learner"][:hosts]
        plain = plain.changed(privacy={"noise": "shared", "draw": draw}, hosts=names)
    pilot = open_pilot(plain)
    return min(
        (plain.changed(privacy={"clip": clip}) for clip in CLIPS),
        key=lambda terms: expect(pilot.under(terms)).fitness(0),
    )


def row(market: Market, count: int, epsilon: float, splits: int, replicates: int) -> str:
    """One line of the table: error (forecast), share of owners that gain, for each kind of noise."""
    shape = count, *ROWS
    agreed = {kind: planned(market, shape, epsilon, kind) for kind in KINDS}
    alone, together = [], {kind: list[float]() for kind in KINDS}
    by_owner = {kind: list[Any]() for kind in ("alone", *KINDS)}
    gaining = {kind: list[float]() for kind in KINDS}
    for seed in range(splits):
        owners = market.owners(shape, "random", seed)
        own = ridge_errors(agreed["own noise"], owners)
        alone.append(float(own.mean()))
        by_owner["alone"].append(own)
        for kind, terms in agreed.items():
            result = parley.train(terms, owners, replicates=replicates, seed=seed, whole_path=False)
            found = errors(terms, owners, result.theta)
            together[kind].append(float(found.mean()))
            by_owner[kind].append(found.reshape(-1, count).mean(axis=0))
            gaining[kind].append(float(np.mean(found < own)))
    text = f"| {count} x {ROWS[0]} | {np.mean(alone):.3f} |"
    for kind, terms in agreed.items():
        said = parley.forecast(terms, resamples=20).owners[0].together / target_variance(terms)
        text += f" {np.mean(together[kind]):.3f} ({said:.3f}), {np.mean(gaining[kind]):.0%} |"
    if count <= MAX_OWNERS_SHOWN:
        for kind, each in by_owner.items():
            text += f"\n  {kind}, by owner: {', '.join(f'{error:.3f}' for error in np.mean(each, axis=0))}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--owners", type=int, nargs="+", default=[2, 3, 10, 30])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--replicates", type=int, default=20)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        market = loans(Path(scratch))
        print(f"| owners x rows | alone | {' | '.join(KINDS)} |\n|{'---|' * (len(KINDS) + 2)}")
        for count in asked.owners:
            print(row(market, count, asked.epsilon, asked.splits, asked.replicates), flush=True)


if __name__ == "__main__":
    main()
