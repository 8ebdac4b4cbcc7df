"""How often FedInfer's 90 % intervals hold the population's coefficients, over new noise and new records.

    python benchmarks/credible_intervals.py [--runs 2000] [--mechanism gaussian]

Three owners, 2,000 rows each, five features, one release; bounds that clip nobody. Every run draws its own tables.
Stable noise is no mechanism of terms: there owners' questions are answered by the mechanism itself, for studies, at the
same pure epsilon, once and in four releases of a quarter each.
"""

import argparse
import time
from fractions import Fraction

import numpy as np
import pandas as pd

import parley
from parley.learning.algorithms.stable_inference import StableAnswers, infer_stable
from parley.privacy.mechanisms import FastNoise, Stable
from parley.protocol.queries import StatisticsQuery

COEFFICIENTS = np.array([0.5, -0.3, 0.2, 0.0, 0.4])
EPSILONS = (0.5, 1.0, 3.0)
FEATURES = list("abcde")
STABLE = ((1.2, 1), (1.7, 1), (1.7, 4))  # alpha, releases


def terms_of(epsilon: float, mechanism: str) -> parley.Terms:
    bounds = {**{name: [-1, 1] for name in FEATURES}, "y": [-2, 2]}
    return parley.Terms.from_dict(
        {
            "model": {"kind": "linear-regression", "target": "y", "features": FEATURES, "bounds": bounds},
            "learning": {"algorithm": "fedinfer"},
            "privacy": {"mechanism": mechanism, "delta": 1e-5 if mechanism == "gaussian" else 0.0},
            "owners": [{"name": name, "records": 2000, "epsilon": epsilon} for name in ("one", "two", "three")],
        }
    )


def table(rng: np.random.Generator) -> pd.DataFrame:
    X = rng.uniform(-1, 1, (2000, 5))
    return pd.DataFrame(X, columns=FEATURES).assign(y=X @ COEFFICIENTS + rng.uniform(-0.5, 0.5, 2000))


def covered(epsilon: float, mechanism: str, runs: int) -> tuple[float, float, float]:
    """(share of intervals that hold their coefficient, share of runs whose moments were repaired, median deviation of a
    coefficient)."""
    terms, hits, repaired, widths = terms_of(epsilon, mechanism), 0.0, 0, []
    for seed in range(runs):
        rng = np.random.default_rng([11, seed])
        owners = [parley.Owner(part.name, table(rng)) for part in terms.owners]
        result = parley.train(terms, owners, seed=seed, measure=False)
        intervals, posterior = result.intervals, result.model.posterior_
        assert intervals is not None
        assert posterior is not None
        hits += float(np.mean([i.low <= true <= i.high for i, true in zip(intervals, COEFFICIENTS, strict=True)]))
        repaired += posterior.repaired
        widths.append(np.mean([i.std for i in intervals]))
    return hits / runs, repaired / runs, float(np.median(widths))


def stable_covered(epsilon: float, alpha: float, times: int, runs: int) -> tuple[float, float, float]:
    """The same figures under stable noise, `times` releases that cost epsilon together; the last: half an interval's
    median width."""
    terms, hits, repaired, widths = terms_of(epsilon, "laplace"), 0.0, 0, []
    for seed in range(runs):
        rng, answers = np.random.default_rng([11, seed]), []
        for place, part in enumerate(terms.owners):
            party = parley.Owner(part.name, table(rng)).simulate(seed, 1)
            setup = party.resolve(terms)
            agreement = party.accept(setup)
            question = agreement.part.training.question
            bounded = question.bounded(StatisticsQuery.ask(setup.hash, "learner", 1), agreement.tables)
            mechanism = Stable.calibrate(Fraction(str(epsilon)) / times, question.sensitivity, alpha)
            noise = FastNoise(np.random.default_rng([seed, place]))
            values = np.stack([mechanism.release(bounded, noise) for _ in range(times)])
            answers.append(StableAnswers(values, mechanism.scale, question.records))
        model = infer_stable(answers, alpha, len(FEATURES))
        low, high = np.moveaxis(model.intervals()[0], -1, 0)
        hits += float(np.mean((low <= COEFFICIENTS) & (high >= COEFFICIENTS)))
        repaired += model.repaired
        widths.append(float(np.mean(high - low)) / 2)
    return hits / runs, repaired / runs, float(np.median(widths))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--mechanism", nargs="*", default=["gaussian", "laplace", "stable"])
    given = parser.parse_args()
    for mechanism in given.mechanism:
        for epsilon in EPSILONS:
            for alpha, times in STABLE if mechanism == "stable" else ((None, 1),):
                began = time.perf_counter()
                if alpha is None:
                    name, word, found = mechanism, "deviation", covered(epsilon, mechanism, given.runs)
                else:
                    name, word, found = (
                        f"stable {alpha:g}, {times}x",
                        "half width",
                        stable_covered(epsilon, alpha, times, given.runs),
                    )
                share, repaired, width = found
                print(
                    f"{name:<15} epsilon {epsilon:<4} covered {100 * share:.1f} %   repaired {100 * repaired:.0f} %   "
                    f"{word} {width:.3f}   {time.perf_counter() - began:.0f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
