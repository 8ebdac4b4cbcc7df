"""Delayed dynamics: how often intervals of the delay cover, beside PyDMD's DMDc without delay, and every random plant
without noise.

python benchmarks/identification.py [--part peer|plants|coverage|owners] [--runs 500]    (PyDMD comes with the extra
`bench`)
"""

import argparse
import time

import numpy as np
import pandas as pd
from scipy.linalg import helmert

import parley
from parley.tasks.dynamics import DelayedDMD, DMDc, Plant
from parley.tasks.dynamics.run import identify_together
from parley_lab.papers.zawacki2024.delayed_control import PERIOD, ROTOR


def coverage(delay: float, runs: int, samples: int = 2000, share: float = 0.01) -> None:
    """The rotor with noise of 1 % of each state's spread on what is measured."""
    plant = ROTOR.delayed(delay * PERIOD)
    errors, covered = [], []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        inputs = rng.normal(size=(samples, 2))
        states = plant.simulate([0, 0], inputs)[:-1]
        states += rng.normal(size=states.shape) * share * states.std(axis=0)
        found = DelayedDMD(max_delay=3).fit(states, inputs, PERIOD)
        low, high = found.delay_interval(0.9)
        errors.append(found.delay_ / PERIOD - delay)
        covered.append(low <= delay * PERIOD <= high)
    print(
        f"r = {delay} T, {runs} runs: within 0.02 T {np.mean(np.abs(errors) < 0.02):.1%}, in its 90 % interval "
        f"{np.mean(covered):.1%}, mean error {np.mean(errors):+.4f} T, spread {np.std(errors):.4f} T"
    )


def plants(count: int) -> None:
    """Random stable controllable plants of order 2 to 6, no noise."""
    worst, refused = 0.0, 0
    for seed in range(count):
        rng = np.random.default_rng(seed)
        n, m = int(rng.integers(2, 7)), int(rng.integers(1, 4))
        A = rng.normal(size=(n, n))
        while (np.abs(np.linalg.eigvals(A).imag) >= np.pi).any():
            A = rng.normal(size=(n, n))
        A -= (np.linalg.eigvals(A).real.max() + rng.uniform(0.05, 0.5)) * np.eye(n)
        plant = Plant.of(A, rng.normal(size=(n, m)), rng.uniform(0, 4), 1.0)
        inputs = rng.normal(size=(300, m))
        try:
            found = DelayedDMD(max_delay=4).fit(plant.simulate(np.zeros(n), inputs)[:-1], inputs, 1.0)
        except Exception as error:
            refused += 1
            print(f"plant {seed}: {error}")
            continue
        worst = max(worst, abs(found.delay_ / plant.delays[0] - 1))
    print(f"{count} plants without noise: worst relative error of the delay {worst:.1e}, refused {refused}")


def peer(samples: int = 2000, repeats: int = 20) -> None:
    """PyDMD's DMDc on data without delay: the same matrices, and how long each takes."""
    try:
        from pydmd import DMDc as Peer
    except ModuleNotFoundError:
        print("PyDMD is not installed: pip install 'parley-dp[bench]'")
        return
    # PyDMD's own example of DMDc: Helmert's matrix, as many inputs as states; longer, so that the data determine both
    # matrices.
    rng = np.random.default_rng(1)
    A, B = helmert(10, full=True), rng.uniform(-0.5, 0.5, size=(10, 10))
    inputs, states = rng.uniform(-0.5, 0.5, size=(samples, 10)), np.full((samples, 10), 0.25)
    for k in range(samples - 1):
        states[k + 1] = A @ states[k] + B @ inputs[k]
    took = {}
    for name, fit in (
        ("ours", lambda: DMDc().fit(states, inputs)),
        ("PyDMD", lambda: Peer(svd_rank=-1, opt=False).fit(states.T, inputs[:-1].T)),
    ):
        fit()
        begun = time.perf_counter()
        for _ in range(repeats):
            found = fit()
        took[name] = (time.perf_counter() - begun) / repeats, found
    theirs = took["PyDMD"][1]
    basis = theirs.basis if theirs.basis is not None else np.eye(10)
    full = basis @ theirs.operator.as_numpy_array @ basis.T
    ours = took["ours"][1]
    print(
        f"DMDc, {samples} samples of 10 states: |A - A'| {np.abs(ours.Ad_ - full).max():.1e}, |B - B'| "
        f"{np.abs(ours.Bd_ - theirs.B).max():.1e}"
    )
    print(
        f"ours {took['ours'][0] * 1e3:.2f} ms, PyDMD {took['PyDMD'][0] * 1e3:.2f} ms: ratio "
        f"{took['PyDMD'][0] / took['ours'][0]:.2f}"
    )


def owners(trajectories: int = 300, samples: int = 40, replicates: int = 40) -> None:
    """Error of the delay under differential privacy against the number of owners and epsilon, each noise beside one
    noise."""
    plant = Plant.of([[-0.1, 1.1], [-1.1, -0.1]], [[1, -1], [-1, 2]], 2.5, PERIOD)
    tables = [recordings(plant, trajectories, samples, seed) for seed in range(32)]
    print("root mean square error of the delay in periods (in brackets: stated standard error); true delay 1.25")
    print(f"{'eps':>5} {'owners':>7} {'own noise':>20} {'one noise':>20} {'ratio':>6}")
    for epsilon in (1.0, 3.0, 10.0):
        for count in (2, 8, 32):
            found = [
                study(tables[:count], trajectories, samples, epsilon, noise, replicates)
                for noise in ("each-owner", "shared")
            ]
            cells = [
                f"{error:.3f} ({stated:.3f})" + (f" {lost:.0%} lost" if lost else "") for error, stated, lost in found
            ]
            print(f"{epsilon:5g} {count:7d} {cells[0]:>20} {cells[1]:>20} {found[0][0] / found[1][0]:6.1f}")


def recordings(plant: Plant, runs: int, samples: int, seed: int) -> pd.DataFrame:
    """Runs under random switching, 1 % noise, all stepped together."""
    rng = np.random.default_rng(seed)
    A_d, blocks = plant.sampled(2)
    u = rng.choice([-1.0, 1.0], size=(runs, samples, 2))
    held, x = np.concatenate([np.zeros((runs, 2, 2)), u], axis=1), np.zeros((runs, samples, 2))
    for k in range(samples - 1):
        x[:, k + 1] = x[:, k] @ A_d.T + np.concatenate([held[:, k + 2], held[:, k + 1], held[:, k]], axis=1) @ blocks.T
    x += 0.01 * x.std() * rng.normal(size=x.shape)
    frame = pd.DataFrame(np.concatenate([x, u], axis=2).reshape(-1, 4), columns=["x1", "x2", "u1", "u2"])
    return frame.assign(run=np.repeat(np.arange(runs), samples))


def study(
    tables: list[pd.DataFrame], runs: int, samples: int, epsilon: float, noise: str, replicates: int
) -> tuple[float, float, float]:
    content = {
        "model": {
            "kind": "delayed-dynamics", "states": ["x1", "x2"], "inputs": ["u1", "u2"], "trajectory": "run",
            "period": PERIOD, "max_delay": 3, "samples": samples,
            "bounds": {"x1": [-16, 16], "x2": [-16, 16], "u1": [-1, 1], "u2": [-1, 1]},
        },
        "learning": {"algorithm": "identification"},
        "privacy": {"mechanism": "gaussian", "delta": 1e-6, "clip": 4.0, "noise": noise},
        "owners": [{"name": f"plant-{k}", "records": runs, "epsilon": epsilon} for k in range(len(tables))],
        "hosts": [{"name": f"host-{k}"} for k in range(3)] if noise == "shared" else [],
    }  # fmt: skip
    terms = parley.Terms.from_dict(content)
    parties = [parley.Owner(f"plant-{k}", table) for k, table in enumerate(tables)]
    result = identify_together(terms, parties, replicates=replicates, seed=1)
    errors, stated = [], []
    for release in result.releases:
        try:
            found = release.identify()
        except parley.errors.DataError:
            continue
        errors.append(found.plant.delays[0] / PERIOD - 1.25)
        stated.append(found.delay_std[0] / PERIOD)
    return float(np.sqrt(np.mean(np.square(errors)))), float(np.median(stated)), 1 - len(errors) / replicates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["peer", "plants", "coverage", "owners"])
    parser.add_argument("--runs", type=int, default=500)
    given = parser.parse_args()
    parts = {
        "peer": peer,
        "plants": lambda: plants(100),
        "coverage": lambda: [coverage(delay, given.runs) for delay in (1.25, 1.5)],
        "owners": owners,
    }
    for name, part in parts.items():
        if given.part in (None, name):
            part()


if __name__ == "__main__":
    main()
