"""What the audit proves, and where its power ends: mechanisms by ten million draws of each table, and whole runs of
every algorithm.

    python benchmarks/audit.py [--draws 10000000] [--seed 0]

All bounds hold together at 99 %. Wanted: none above the claimed 1; Laplace and Gaussian above 0.8; those with half
their noise above 1.
"""

import argparse
import time
from dataclasses import replace
from fractions import Fraction

from parley.audit import lower_bound, release_of
from parley.privacy.mechanisms import Gaussian, Geometric, GridGeometric, Laplace, Stable

DELTA = 1e-5
MECHANISMS = {
    "laplace": (Laplace.calibrate(Fraction(1), 1.0), 1.0, 0.0, 0.8),
    "gaussian": (Gaussian.calibrate(Fraction(1), DELTA, 1.0), 1.0, DELTA, 0.8),
    "geometric": (Geometric.calibrate(Fraction(1), 2), 2.0, 0.0, 0.8),
    "grid geometric": (GridGeometric.calibrate(Fraction(1), 1.0), 1.0, 0.0, 0.8),
    "stable, alpha 1": (Stable.calibrate(Fraction(1), 1.0, 1.0), 1.0, 0.0, 0.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    confidence = 1 - 0.01 / (2 * len(MECHANISMS))
    wrong = []
    for name, (mechanism, shift, delta, least) in MECHANISMS.items():
        began = time.perf_counter()
        scale = "sigma" if isinstance(mechanism, Gaussian) else "scale"
        half = replace(mechanism, **{scale: getattr(mechanism, scale) / 2})
        sound, broken = (
            lower_bound(release_of(each), [0.0], [shift], options.draws, delta, confidence, options.seed)
            for each in (mechanism, half)
        )
        seconds = time.perf_counter() - began
        print(
            f"{name:16} claims 1, at least {sound:.3f}; with half its noise {broken:.3f}; {seconds:.0f} s", flush=True
        )
        if not (least < sound <= 1 < broken):
            wrong.append(name)
    if wrong:
        raise SystemExit(f"not as wanted: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
