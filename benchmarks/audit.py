"""What the audit proves, and where its power ends: mechanisms by ten million draws of each value, and whole runs with
a worst-case canary.

    python benchmarks/audit.py [--draws 10000000] [--runs 200000] [--seed 0]

All bounds hold together at 99 %. Wanted of claims of 1: none is exceeded; Laplace and Gaussian draws prove more than
0.8, with half their noise more than 1; runs with Gaussian noise, or with Laplace noise in up to ten rounds, more than
0.5. What Laplace noise in a hundred rounds proves is printed.
"""

import argparse
import time
from dataclasses import replace
from fractions import Fraction

import parley
from parley.audit import audit_owner, lower_bound, release_of
from parley.privacy.mechanisms import Gaussian, Geometric, GridGeometric, Laplace, Stable

DELTA = 1e-5
MECHANISMS = {
    "laplace": (Laplace.calibrate(Fraction(1), 1.0), 1.0, 0.0, 0.8),
    "gaussian": (Gaussian.calibrate(Fraction(1), DELTA, 1.0), 1.0, DELTA, 0.8),
    "geometric": (Geometric.calibrate(Fraction(1), 2), 2.0, 0.0, 0.8),
    "grid geometric": (GridGeometric.calibrate(Fraction(1), 1.0), 1.0, 0.0, 0.8),
    "stable, alpha 1": (Stable.calibrate(Fraction(1), 1.0, 1.0), 1.0, 0.0, 0.0),
}


# rounds, noise, and what runs have to prove, for draws and runs of the usual numbers
RUNS = {
    "laplace, 1 round": (1, {"mechanism": "laplace"}, 0.5),
    "laplace, 10 rounds": (10, {"mechanism": "laplace"}, 0.5),
    "gaussian, 10 rounds": (10, {"mechanism": "gaussian", "delta": DELTA}, 0.5),
    "gaussian, 100 rounds": (100, {"mechanism": "gaussian", "delta": DELTA}, 0.5),
    "laplace, 100 rounds": (100, {"mechanism": "laplace"}, 0.0),
}
ENOUGH = 10_000_000, 200_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=ENOUGH[0])
    parser.add_argument("--runs", type=int, default=ENOUGH[1])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    powerful = options.draws >= ENOUGH[0] and options.runs >= ENOUGH[1]
    confidence = 1 - 0.01 / (len(MECHANISMS) + len(RUNS))
    wrong = []
    for name, (mechanism, shift, delta, least) in MECHANISMS.items():
        began = time.perf_counter()
        scale = "sigma" if isinstance(mechanism, Gaussian) else "scale"
        half = replace(mechanism, **{scale: getattr(mechanism, scale) / 2})
        sound, broken = (
            lower_bound(release_of(each), [0.0], [shift], options.draws, delta, confidence, options.seed)
            for each in (mechanism, half)
        )
        print(
            f"{name:21} {sound:.3f} of 1; half the noise {broken:.3f}; {time.perf_counter() - began:.0f} s", flush=True
        )
        if sound > 1 or (powerful and not least < sound <= 1 < broken):
            wrong.append(name)
    for name, (rounds, privacy, least) in RUNS.items():
        began = time.perf_counter()
        verdict = audit_owner(terms_of(rounds, privacy), "a", options.runs, options.seed, confidence)
        print(f"{name:21} {verdict.lower_bound:.3f} of 1; {time.perf_counter() - began:.0f} s", flush=True)
        if not verdict.holds or (powerful and not verdict.lower_bound >= least):
            wrong.append(name)
    if wrong:
        raise SystemExit(f"not as wanted: {', '.join(wrong)}")


def terms_of(rounds: int, privacy: dict[str, object]) -> parley.Terms:
    """A linear regression of two owners that each promise 1."""
    return parley.Terms.from_dict(
        {
            "model": {"kind": "linear-regression", "target": "y", "features": ["x0", "x1", "x2"], "radius": 5.0},
            "learning": {"horizon": rounds, "step": 0.2},
            "privacy": {"clip": 4.0, **privacy},
            "owners": [{"name": name, "records": 1000, "epsilon": 1.0} for name in "ab"],
        }
    )


if __name__ == "__main__":
    main()
