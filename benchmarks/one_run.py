"""What a single run proves of its own epsilon, by many coins at once: one table, as many canaries as columns.

    python benchmarks/one_run.py [--columns 500] [--seeds 4]

Each bound holds at 99 %. Wanted: none exceeds its claim but one in a hundred, and with noise for twice the budget (half
of it, where it is Laplace's) a run of one round with Laplace noise proves more than is claimed.
"""

import argparse
import time

import parley
from parley.audit import audit_one_run

DELTA = 1e-5
GAUSSIAN = {"mechanism": "gaussian", "delta": DELTA}
CASES = {  # epsilon, rounds, noise, and whether noise for twice the budget must be caught
    "laplace, epsilon 1, 1 round": (1.0, 1, {"mechanism": "laplace"}, True),
    "laplace, epsilon 4, 1 round": (4.0, 1, {"mechanism": "laplace"}, False),
    "laplace, epsilon 4, 10 rounds": (4.0, 10, {"mechanism": "laplace"}, False),
    "gaussian, epsilon 1, 10 rounds": (1.0, 10, GAUSSIAN, False),
    "gaussian, epsilon 4, 10 rounds": (4.0, 10, GAUSSIAN, False),
}
ENOUGH = 300  # columns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    wrong = []
    for name, (epsilon, rounds, privacy, caught) in CASES.items():
        began = time.perf_counter()
        found = {
            factor: [
                audit_one_run(terms_of(options.columns, factor * epsilon, rounds, privacy), "a", seed=seed).lower_bound
                for seed in range(options.seeds)
            ]
            for factor in (1, 2)
        }
        sound, loud = (" ".join(f"{bound:.2f}" for bound in found[factor]) for factor in (1, 2))
        seconds = (time.perf_counter() - began) / (2 * options.seeds)
        print(f"{name:31} {sound}; noise for twice the budget {loud}; {seconds:.1f} s each", flush=True)
        if sum(bound > epsilon for bound in found[1]) > 1:
            wrong.append(name)
        if caught and options.columns >= ENOUGH and not min(found[2]) > epsilon:
            wrong.append(f"{name}, twice the budget")
    if wrong:
        raise SystemExit(f"not as wanted: {', '.join(wrong)}")


def terms_of(columns: int, epsilon: float, rounds: int, privacy: dict[str, object]) -> parley.Terms:
    """A linear regression of one owner that has a row for each column, and some more."""
    features = [f"x{place}" for place in range(columns)]
    return parley.Terms.from_dict(
        {
            "model": {"kind": "linear-regression", "target": "y", "features": features, "radius": 5.0},
            "learning": {"algorithm": "gradient-descent", "horizon": rounds, "step": 0.2},
            "privacy": {"clip": 4.0, **privacy},
            "owners": [{"name": "a", "records": columns + 50, "epsilon": epsilon}],
        }
    )


if __name__ == "__main__":
    main()
