"""100 replicates x 100 rounds x 3 owners of linear regression: replicates as an axis beside the plain loop over runs
and rounds.

Floor of the batched clipped round: 2 matrix products of 2 n R p flops and one pass over the [R, n] derivatives. The
plain loop is NumPy at its best for one run at a time; it is timed on a few runs and scaled up, since all of them would
take minutes.

    python benchmarks/replicates.py [--rows 250000] [--replicates 100] [--horizon 100]
"""

import argparse
import time

import numpy as np
import pandas as pd

import parley

PLAIN_RUNS = 2  # timed in full; the rest is the same work again


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--horizon", type=int, default=100)
    options = parser.parse_args()
    n, R, T, p = options.rows, options.replicates, options.horizon, 10
    tables = {name: table(n, p, seed) for seed, name in enumerate("abc")}
    owners = [parley.Owner(name, frame) for name, frame in tables.items()]

    seconds = {}
    for label, clip in (("statistics (bounds)", None), ("clipped, batched BLAS", 20.0)):
        terms = make_terms(n, p, T, clip)
        for owner in owners:
            owner.accept(terms)  # reading and preparing the tables is not what is compared
            owner.agreement(terms.hash).tables.train.statistics  # noqa: B018
        began = time.perf_counter()
        parley.train(terms, owners, replicates=R, seed=1, measure=False)
        seconds[label] = time.perf_counter() - began
    plain = plain_loop(tables, T, PLAIN_RUNS) / PLAIN_RUNS * R
    flops = 4.0 * 3 * n * R * p * T
    print(f"{R} runs x {T} rounds x 3 owners x {n:,} rows x {p} features")
    print(f"  plain loop over runs and rounds      {plain:9.2f} s   (measured on {PLAIN_RUNS} runs)")
    for label, value in seconds.items():
        print(f"  {label:36s} {value:9.2f} s   {plain / value:8.0f} x")
    rate = blas_rate()
    clipped = seconds["clipped, batched BLAS"]
    print(
        f"  clipped run: {flops / clipped / 1e9:.1f} Gflop/s; this machine's dgemm on square matrices: "
        f"{rate / 1e9:.1f} Gflop/s"
    )


def table(n: int, p: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, p))
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(p)]).assign(
        y=X @ np.linspace(1, -1, p) + rng.uniform(-1, 1, n)
    )


def make_terms(n: int, p: int, horizon: int, clip: float | None) -> parley.Terms:
    bounds = {f"x{j}": [-1, 1] for j in range(p)} | {"y": [-6, 6]}
    return parley.Terms.from_dict(
        {
            "model": {"kind": "linear-regression", "target": "y", "radius": 5.0, "bounds": bounds},
            "learning": {"horizon": horizon, "step": 0.3},
            "privacy": {} if clip is None else {"clip": clip},
            "owners": [{"name": name, "records": n, "epsilon": 1.0} for name in "abc"],
        }
    )


def plain_loop(tables: dict[str, pd.DataFrame], horizon: int, runs: int) -> float:
    """What one would write without replicates: for each run, for each round, for each owner - clipped gradient, noise,
    step."""
    data = []
    for frame in tables.values():
        X, y = np.ascontiguousarray(frame.drop(columns="y").to_numpy()), frame["y"].to_numpy()
        data.append((X, y, 20.0 / np.abs(X).sum(axis=1)))
    rng = np.random.default_rng(0)
    n, p = data[0][0].shape
    scale = 2 * 20.0 * horizon / n
    began = time.perf_counter()
    for _ in range(runs):
        theta = bar = np.zeros(p)
        s = horizon**-0.5
        for k in range(1, horizon + 1):
            total = np.zeros(p)
            for X, y, limit in data:
                derivative = 2 * (X @ theta - y)
                np.clip(derivative, -limit, limit, out=derivative)
                total += (X.T @ derivative / n + rng.laplace(scale=scale, size=p)) / len(data)
            bar = (k - 1) / (s + k) * bar + (s + 1) / (s + k) * theta
            theta = np.clip(theta - 0.3 / k**0.5 * total, -5, 5)
    return time.perf_counter() - began


def blas_rate(size: int = 1500) -> float:
    a = np.random.default_rng(0).normal(size=(size, size))
    a @ a
    began = time.perf_counter()
    for _ in range(3):
        a @ a
    return 3 * 2 * size**3 / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
