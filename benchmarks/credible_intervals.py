"""How often FedInfer's 90 % intervals hold the population's coefficients, over new noise and new records.

    python benchmarks/credible_intervals.py [--runs 2000] [--mechanism gaussian]

Three owners, 2,000 rows each, five features, one release; bounds that clip nobody. Every run draws its own tables.
"""

import argparse
import time

import numpy as np
import pandas as pd

import parley

SLOPES = np.array([0.5, -0.3, 0.2, 0.0, 0.4])
EPSILONS = (0.5, 1.0, 3.0)
FEATURES = list("abcde")


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
    return pd.DataFrame(X, columns=FEATURES).assign(y=X @ SLOPES + rng.uniform(-0.5, 0.5, 2000))


def covered(epsilon: float, mechanism: str, runs: int) -> tuple[float, float, float]:
    """(share of intervals that hold their coefficient, share of runs whose moments were repaired, median deviation of a coefficient)."""
    terms, hits, repaired, widths = terms_of(epsilon, mechanism), 0.0, 0, []
    for seed in range(runs):
        rng = np.random.default_rng([11, seed])
        owners = [parley.Owner(part.name, table(rng)) for part in terms.owners]
        result = parley.train(terms, owners, seed=seed, measure=False)
        intervals, posterior = result.intervals, result.model.posterior_
        assert intervals is not None
        assert posterior is not None
        hits += float(np.mean([i.low <= true <= i.high for i, true in zip(intervals, SLOPES, strict=True)]))
        repaired += posterior.repaired
        widths.append(np.mean([i.std for i in intervals]))
    return hits / runs, repaired / runs, float(np.median(widths))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--mechanism", nargs="*", default=["gaussian", "laplace"])
    given = parser.parse_args()
    for mechanism in given.mechanism:
        for epsilon in EPSILONS:
            began = time.perf_counter()
            share, repaired, width = covered(epsilon, mechanism, given.runs)
            print(
                f"{mechanism:<9} epsilon {epsilon:<4} covered {100 * share:.1f} %   repaired {100 * repaired:.0f} %   "
                f"deviation {width:.3f}   {time.perf_counter() - began:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
