"""The noise of many owners in one draw, beside drawing each owner's: what a round's noise costs, and what a pilot
forecast costs.

    python benchmarks/noise_groups.py [10000]

Both ways run in turn in one process, and the ratio of their processor times is printed. The floor of a round is one
draw of noise for the mean: a normal number, or two gamma numbers for Laplace noise, for each coordinate of each
replicate. The last table is whole forecasts by pilot runs; their floor is the same forecast for one owner, because all
owners answer from the same pilot rows.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import parley
from parley.data import synthetic_lending
from parley.decisions.knowledge.pilot import open_pilot
from parley.privacy.mechanisms import Bounded, FastNoise
from parley.protocol.aggregation import noise_groups, weighted_mean
from parley.protocol.queries import Answer
from parley.validate import Floats

REPLICATES, NUMBERS = 96, 6
FEATURES = ["loan_amnt", "annual_inc", "dti", "fico", "revol_util"]


def terms_of(owners: int, mechanism: str, equal: bool, public: str) -> parley.Terms:
    """A clip that binds, so that the algorithm is run on the pilot."""
    rng = np.random.default_rng(7)
    parts = [
        {"name": f"bank-{i}", "records": 1000 if equal else int(rng.integers(500, 3000)), "epsilon": 2.0}
        for i in range(owners)
    ]
    delta = {"delta": 1e-6} if mechanism == "gaussian" else {}
    model = {
        "kind": "linear-regression",
        "target": "int_rate",
        "features": FEATURES,
        "intercept": True,
        "public": public,
    }
    return parley.Terms.from_dict(
        {
            "model": model,
            "learning": {"algorithm": "averaged-subgradient", "horizon": 50},
            "privacy": {"clip": 3.0, "mechanism": mechanism, **delta},
            "owners": parts,
        }
    )


def seconds(work: Callable[[], object], least: float = 0.2) -> float:
    """Processor time of one call."""
    work()
    began, calls = time.process_time(), 0
    while time.process_time() - began < least:
        work()
        calls += 1
    return (time.process_time() - began) / calls


def rounds(owners: int, mechanism: str, equal: bool, public: str) -> tuple[float, float, float]:
    """(floor, at once, one by one): seconds for the noise of one round."""
    stages = {
        name: part.training for name, part in open_pilot(terms_of(owners, mechanism, equal, public)).setup.parts.items()
    }
    noise, value = FastNoise(0), np.zeros((REPLICATES, NUMBERS))
    asked = [(group, noise.combined(group.weights)) for group in noise_groups(stages)]

    def together() -> Floats:
        return weighted_mean([Answer("", "", group.records, group.release(value, its)) for group, its in asked])

    def apart() -> Floats:
        answers = []
        for stage in stages.values():
            law = stage.series.mechanism
            answers.append(
                Answer("", "", stage.question.records, law.release(Bounded(value, law.sensitivity, law.norm), noise))
            )
        return weighted_mean(answers)

    rng = np.random.default_rng(0)
    floor = {
        "gaussian": lambda: rng.normal(size=value.shape),
        "laplace": lambda: rng.standard_gamma(owners, size=value.shape) - rng.standard_gamma(owners, size=value.shape),
    }
    return seconds(floor[mechanism]), seconds(together), seconds(apart)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("owners", nargs="?", type=int, default=10_000)
    largest = parser.parse_args().owners
    with tempfile.TemporaryDirectory() as folder:
        public = str(Path(folder) / "public.parquet")
        synthetic_lending(2000, seed=1).to_parquet(public)
        print(f"noise of one round, {REPLICATES} replicates of {NUMBERS} numbers, in milliseconds of processor time")
        print(f"{'owners':>8} {'noise':>9} {'sizes':>7} {'floor':>8} {'at once':>8} {'one by one':>11} {'ratio':>8}")
        for owners in (largest // 100, largest // 10, largest):
            for mechanism, equal in (("laplace", True), ("laplace", False), ("gaussian", False)):
                floor, together, apart = rounds(owners, mechanism, equal, public)
                sizes = "equal" if equal else "differ"
                print(
                    f"{owners:8,} {mechanism:>9} {sizes:>7} {1e3 * floor:8.3f} {1e3 * together:8.3f} "
                    f"{1e3 * apart:11.2f} "
                    f"{apart / together:7.0f}x"
                )
        print("\nforecasts by pilot runs, 50 rounds, in seconds of processor time, and in those of one owner's")
        alone = None
        for owners in (1, largest // 100, largest // 10, largest):
            terms = terms_of(owners, "laplace", True, public)
            began = time.process_time()
            result = parley.forecast(terms)
            spent = time.process_time() - began
            alone = spent if alone is None else alone
            print(f"{owners:8,} owners {spent:7.2f} s {spent / alone:6.1f}x   by {result.method}")


if __name__ == "__main__":
    main()
