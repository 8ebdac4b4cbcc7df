"""What hiding a whole owner costs: 100 owners x 100 rows of real loans, persons and owners as the unit.

Least squares by gradient descent (mean of the last half of the rounds), Gaussian noise at (eps, delta = 1e-6); owners
of 100 rows, 200 more held out, rows dealt at random; errors on owners' own held-out rows, as a share of the target's
variance (1: as good as the mean). For each unit and kind of noise the clip and the rounds are those with the best
forecast, from the public sample alone. Alone is ridge regression without noise. (f): the forecast.

    python benchmarks/owner_unit.py [--owners 100] [--rows 100] [--epsilons 1 3 10] [--splits 2] [--replicates 20]

Needs lendingclub.parquet in PARLEY_DATA (default ../shared/data).
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from one_noise import Market, errors, loans, ridge_errors, target_variance

import parley
from parley.decisions.expectation.expectation import expect
from parley.decisions.knowledge.pilot import open_pilot
from parley.errors import ParleyError

KINDS = {"own noise": 0, "two hosts": 2, "three hosts": 3}
CLIPS = {"record": (2.0, 4.0, 8.0), "owner": (0.125, 0.25, 0.5, 1.0)}
ROUNDS = (10, 30)
HELD_OUT = 200


def planned(market: Market, shape: tuple[int, int, int], epsilon: float, unit: str, hosts: int) -> parley.Terms:
    """The terms with the clip and the rounds that the forecast likes best."""
    plain = market.terms(shape, epsilon, algorithm="gradient-descent", horizon=10, average="tail")
    if hosts:
        plain = plain.changed(privacy={"noise": "shared"}, hosts=[part.name for part in plain.owners[:hosts]])
    pilot, found = open_pilot(plain), dict[float, parley.Terms]()
    for clip in CLIPS[unit]:
        for horizon in ROUNDS:
            terms = plain.changed(privacy={"unit": unit, "clip": clip}, learning={"horizon": horizon})
            try:
                found[expect(pilot.under(terms)).fitness(0)] = terms
            except ParleyError:  # a step that diverges
                continue
    return found[min(found)]


def row(market: Market, shape: tuple[int, int, int], epsilon: float, unit: str, splits: int, replicates: int) -> str:
    """One line of the table: error (forecast) and the share of owners that gain, for each kind of noise."""
    text = f"| {epsilon:g} | {unit} |"
    for hosts in KINDS.values():
        terms = planned(market, shape, epsilon, unit, hosts)
        said = parley.forecast(terms, resamples=2)
        together, gaining = [], []
        for seed in range(splits):
            owners = market.owners(shape, "random", seed)
            result = parley.train(terms, owners, replicates=replicates, seed=seed, whole_path=False)
            found = errors(terms, owners, result.theta)
            together.append(float(found.mean()))
            gaining.append(float(np.mean(found < ridge_errors(terms, owners))))
        foreseen = said.owners[0].together / target_variance(terms)
        text += f" {np.mean(together):.3f} ({foreseen:.3f}), {np.mean(gaining):.0%}"
        text += f"; needs {said.owners_needed} |" if unit == "owner" else " |"
    return text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--owners", type=int, default=100)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0, 10.0])
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--replicates", type=int, default=20)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        market, shape = loans(Path(scratch)), (asked.owners, asked.rows, HELD_OUT)
        terms = market.terms(shape, 1.0, algorithm="gradient-descent")
        alone = [ridge_errors(terms, market.owners(shape, "random", seed)).mean() for seed in range(asked.splits)]
        print(f"{asked.owners} owners x {asked.rows} rows; alone (ridge) {np.mean(alone):.3f}\n")
        print(f"| ε | unit | {' | '.join(KINDS)} |\n|{'---|' * (len(KINDS) + 2)}")
        for epsilon in asked.epsilons:
            for unit in CLIPS:
                print(row(market, shape, epsilon, unit, asked.splits, asked.replicates), flush=True)


if __name__ == "__main__":
    main()
