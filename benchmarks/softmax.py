"""Digits of real MNIST at (ε = 1, δ = 1e-5) in all, one owner: softmax regression beside ten logistic regressions, one
against the rest.

    python benchmarks/softmax.py [ROUNDS 60]

Both ask for clipped gradients on all 60,000 images with Gaussian noise. The ten classifiers share the budget: each gets
the noise of ten times as many releases. Needs mnist.npz in PARLEY_DATA (default ../shared/data).
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd

import parley
from parley.privacy.mechanisms.gaussian import gaussian_epsilon, gaussian_ratio

DATA = Path(os.environ.get("PARLEY_DATA", Path(__file__).parents[2] / "shared" / "data")) / "mnist.npz"
PIXELS = [f"p{j}" for j in range(784)]
EPSILON, DELTA, STEP = 1.0, 1e-5, 40.0  # the step by hand: images are far from the worst that their bounds allow


def terms_for(kind: str, rounds: int, epsilon: float, step: float, **model: object) -> parley.Terms:
    return parley.Terms.from_dict(
        {
            "model": {"kind": kind, "target": "digit", "features": PIXELS, **model},
            "learning": {"algorithm": "averaged-subgradient", "horizon": rounds, "step": step},
            "privacy": {"mechanism": "gaussian", "delta": DELTA, "clip": 1.0},
            "owners": [{"name": "post", "records": 60_000, "epsilon": epsilon}],
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", nargs="?", type=int, default=60)
    rounds = parser.parse_args().rounds
    digits = np.load(DATA)
    train, test = (digits[f"x_{part}"].reshape(-1, 784) / 255.0 for part in ("train", "test"))
    truth = digits["y_test"]
    table = pd.DataFrame(train, columns=PIXELS)
    owner = table.assign(digit=digits["y_train"].astype(str))
    began = time.perf_counter()
    terms = terms_for("softmax-regression", rounds, EPSILON, STEP, categories={"digit": [str(d) for d in range(10)]})
    result = parley.train(terms, [parley.Owner("post", owner)], seed=0, measure=False)
    accuracy = float(np.mean(result.model.predict(test) == truth.astype(str)))
    print(f"softmax, {rounds} rounds: accuracy {accuracy:.4f}  ({time.perf_counter() - began:.0f} s)")
    # Ten agreements, each with the noise of 10 T releases: together they are (EPSILON, DELTA)-DP, each alone a smaller
    # epsilon.
    multiplier = gaussian_ratio(EPSILON, DELTA) * (10 * rounds) ** 0.5
    share = gaussian_epsilon(multiplier / rounds**0.5, DELTA)
    began, margins = time.perf_counter(), []
    for digit in range(10):
        one = parley.Owner("post", table.assign(digit=(digits["y_train"] == digit).astype(int)))
        each = parley.train(terms_for("logistic-regression", rounds, share, STEP), [one], seed=digit, measure=False)
        margins.append(each.model.decision_function(test))
    accuracy = float(np.mean(np.argmax(margins, axis=0) == truth))
    print(
        f"logistic, one against the rest, {rounds} rounds each: accuracy {accuracy:.4f}  "
        f"({time.perf_counter() - began:.0f} s)"
    )


if __name__ == "__main__":
    main()
