"""Figure 8.6 of Z, 100 trials of four methods as a batch: seconds, and how many times longer one trial at a time takes.

    python benchmarks/federated_inference.py [--trials 100] [--single 3]

One trial at a time is measured on `--single` trials of each method and multiplied.
"""

import argparse
import time

from parley.reproduce.federated_inference import FIGURES, METHODS, trace

SPLITS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--single", type=int, default=3)
    given = parser.parse_args()
    figure, together, apart = FIGURES["8.6"], 0.0, 0.0
    for method in METHODS:
        began, cpu = time.perf_counter(), time.process_time()
        line = trace(figure, method, given.trials, SPLITS)
        wall, used = time.perf_counter() - began, time.process_time() - cpu
        cpu = time.process_time()
        for trial in range(given.single):
            trace(figure, method, 1, 1, seed=trial)
        single = (time.process_time() - cpu) / given.single * given.trials
        together, apart = together + used, apart + single
        print(
            f"{method.name:<9} {line.last.mean():.1f} ± {line.error:.1f} %   batch {wall:.1f} s ({used:.1f} s of one core)   "
            f"one by one {single:.0f} s   ratio {single / used:.1f}",
            flush=True,
        )
    print(f"all four: {together:.0f} s of one core as a batch, {apart:.0f} s one by one, ratio {apart / together:.1f}")
    print("Flower's simulation engine: not compared, it (flwr with ray) is no part of the environment that the benchmarks run in")


if __name__ == "__main__":
    main()
