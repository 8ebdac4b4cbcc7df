"""What a basis buys and costs: a bent relation of three columns by one release of second moments.

y = sin(3 x0) - x1^2 + x0 x2/2 plus noise of deviation 0.2, columns evenly from -1 to 1; one owner of 20,000 rows,
Gaussian noise at delta = 1e-6, r2 of 2,000 new rows, means of 20 runs.

    python benchmarks/basis.py [--rows 20000] [--replicates 20]
"""

import argparse

import numpy as np
import pandas as pd

import parley

EPSILONS = (0.3, 1.0, 3.0, 1e6)
BASES = {
    "straight": None,
    "30 points": {"points": 30, "width": 0.8},
    "30 waves": {"points": 30, "width": 0.8, "kind": "random-fourier"},
    **{f"polynomials to degree {d}": {"kind": "polynomial", "degree": d} for d in (2, 3, 4, 5)},
}


def table(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (rows, 3))
    y = np.sin(3 * x[:, 0]) - x[:, 1] ** 2 + x[:, 0] * x[:, 2] / 2 + rng.normal(0, 0.2, rows)
    return pd.DataFrame(x, columns=["x0", "x1", "x2"]).assign(y=y)


def r2(theta: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    """Of prepared rows and targets."""
    return float(1 - np.mean((y - X @ theta) ** 2) / y.var())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--replicates", type=int, default=20)
    given = parser.parse_args()
    owner, fresh = parley.Owner("a", table(given.rows, 1)), table(2000, 2)
    print("| | features | " + " | ".join("no noise" if e > 1e5 else f"ε = {e:g}" for e in EPSILONS) + " |")
    for words, basis in BASES.items():
        cells, width = [], 0
        for epsilon in EPSILONS:
            model = {
                "kind": "linear-regression",
                "target": "y",
                "features": ["x0", "x1", "x2"],
                "intercept": True,
                "bounds": {"x0": [-1, 1], "x1": [-1, 1], "x2": [-1, 1], "y": [-3, 3]},
            } | ({} if basis is None else {"basis": basis})
            content = {
                "model": model,
                "learning": {"algorithm": "fedinfer"},
                "privacy": {"mechanism": "gaussian", "delta": 1e-6},
                "owners": [{"name": "a", "records": given.rows, "epsilon": epsilon}],
            }
            terms = parley.Terms.from_dict(content)
            result = parley.train(terms, [owner], given.replicates, seed=1, measure=False)
            design = result.model.preparation_.design(fresh, "new rows")
            width = design.width - 1
            cells.append(f"{np.mean([r2(theta, design.X, design.y) for theta in result.theta]):.3f}")
        print(f"| {words} | {width} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
