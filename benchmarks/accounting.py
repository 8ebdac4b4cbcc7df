"""Accounting beside its rivals: 10,000 sampled releases, and how fast stable noise is drawn.

prv-accountant (Gopi, Lee, Wutschitz 2021) computes add/remove eps of the sampled Gaussian to a stated error; here the
same number of sampled releases of stable noise is accounted for, replace-one, by the loss distribution of one
coordinate and by the bound for every direction. Opacus is compared where it is installed (extra `torch`).

    python benchmarks/accounting.py
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from parley.privacy.accounting import compose, stable_epsilon
from parley.privacy.events import GaussianEvent
from parley.privacy.mechanisms import stable_law

STEPS, RATE, SIGMA, DELTA = 10_000, 0.01, 1.0, 1e-5


def timed(work: Callable[[], object]) -> tuple[object, float]:
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(f"{STEPS:,} releases, Poisson rate {RATE}, delta {DELTA}")
    stable_law._law(1.9)  # tables of the density are made once a process
    seconds = {}
    for error in (0.1, 0.01):
        seconds[error] = prv(error)
    one, alone = timed(
        lambda: stable_epsilon(1.9, SIGMA / 2**0.5, DELTA, 1.0, spread=1, compositions=STEPS, sampling=RATE)
    )
    print(f"  parley, stable alpha 1.9, one coordinate      eps {one.low:.4f}..{one.high:.4f}   {alone:7.2f} s")
    every, both = timed(lambda: stable_epsilon(1.9, SIGMA / 2**0.5, DELTA, 1.0, compositions=STEPS, sampling=RATE))
    print(f"  parley, stable alpha 1.9, every direction     eps {every.low:.4f}..{every.high:.4f}   {both:7.2f} s")
    event = GaussianEvent(SIGMA / 2, sampling=RATE, count=STEPS)
    gauss, own = timed(lambda: compose([event], DELTA, "pld"))
    print(f"  parley, Gaussian, replace-one                 eps {gauss.low:.4f}..{gauss.high:.4f}   {own:7.2f} s")
    for error, value in seconds.items():
        if value is not None:
            ratios = f"{value / alone:.1f} x the time of one coordinate, {value / both:.1f} x of every direction"
            print(f"  prv-accountant at error {error}: {ratios}")
    opacus()

    rng, size = np.random.default_rng(0), 10_000_000
    _, laplace = timed(lambda: rng.laplace(size=size))
    for alpha in (1.0, 1.5, 1.9, 2.0):
        _, drawn = timed(lambda a=alpha: stable_law.sample(a, 1.0, size, rng))
        print(f"  {size:,} stable draws, alpha {alpha}: {drawn:.2f} s, {drawn / laplace:.1f} x NumPy's Laplace")


def prv(error: float) -> float | None:
    try:
        from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant
    except ImportError:
        print("  prv-accountant is not installed: pip install 'parley-dp[bench]'")
        return None

    def work() -> tuple[float, float, float]:
        mechanism = PoissonSubsampledGaussianMechanism(sampling_probability=RATE, noise_multiplier=SIGMA)
        accountant = PRVAccountant(prvs=[mechanism], max_self_compositions=[STEPS], eps_error=error, delta_error=1e-10)
        return accountant.compute_epsilon(delta=DELTA, num_self_compositions=[STEPS])

    (low, _, high), seconds = timed(work)
    print(f"  prv-accountant, Gaussian, add/remove, error {error:<4} eps {low:.4f}..{high:.4f}   {seconds:7.2f} s")
    return seconds


def opacus() -> None:
    try:
        from opacus.accountants import PRVAccountant
    except ImportError:
        print("  Opacus is not installed: pip install 'parley-dp[torch]'")
        return
    accountant = PRVAccountant()
    accountant.history = [(SIGMA, RATE, STEPS)]
    value, seconds = timed(lambda: accountant.get_epsilon(DELTA))
    print(f"  Opacus (PRV), Gaussian, add/remove            eps {value:.4f}   {seconds:7.2f} s")


if __name__ == "__main__":
    main()
