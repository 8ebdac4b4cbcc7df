"""Figure 8.6 of Z, 100 trials of four methods as a batch: seconds, and how many times longer one trial at a time takes
- here, and for FedAvg in Flower's simulation engine.

    python benchmarks/federated_inference.py [--trials 100] [--single 3] [--flower flower-env/bin/python]

One trial at a time is measured on `--single` trials of each method and multiplied. Flower needs an environment of its
own: python3 -m venv flower-env && flower-env/bin/pip install "flwr[simulation]". It gets the same tables, steps, clip
and noise; first without noise, where both have to end at the same model.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from parley.learning.owners import gather
from parley.owner.owner import Owner
from parley.protocol.setup import Setup
from parley_lab.papers.zawacki2024.federated_inference import (
    FIGURES,
    METHODS,
    Figure,
    followed,
    per_update,
    rounds_of,
    terms_of,
    trace,
)

SPLITS, SAME = 4, 1e-6  # how far apart the two models may end: Parley's is never quite without noise
HUSHED, PURE = (
    1e10,
    {"mechanism": "laplace", "delta": 0.0},
)  # an epsilon whose noise no digit of that shows; Gaussian noise has none
FEDAVG = METHODS[0]
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_DEDUP_LOGS": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--single", type=int, default=3)
    parser.add_argument("--flower", metavar="PYTHON", help="an interpreter that can import flwr and ray")
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
            f"{method.name:<9} {line.last.mean():.1f} ± {line.error:.1f} %   batch {wall:.1f} s ({used:.1f} s of one "
            f"core)   one by one {single:.0f} s   ratio {single / used:.1f}",
            flush=True,
        )
    print(f"all four: {together:.0f} s of one core as a batch, {apart:.0f} s one by one, ratio {apart / together:.1f}")
    if given.flower is None:
        print("Flower's simulation engine: not compared; give an interpreter that has it by --flower")
    else:
        with_flower(figure, given.flower, given.single, given.trials)


def with_flower(figure: Figure, python: str, single: int, many: int) -> None:
    """The same FedAvg job in Flower: seconds of a trial beside ours, one at a time and in a batch of `many`; what the
    engine takes to start is not counted."""
    task, rounds = figure.draw(np.random.default_rng([0, 0])), rounds_of(figure, FEDAVG)[0]
    silent = terms_of(figure, FEDAVG, task, rounds, [HUSHED] * len(task.clients)).changed(privacy=PURE)
    ours = followed(silent, task, 1, 0)[1][0]
    theirs, _ = in_flower(python, job(figure, setup_of(silent, task), 1, 0.0), task)
    apart = float(np.abs(theirs[0].reshape(-1) - ours).max())
    if not apart <= SAME:
        raise SystemExit(f"without noise Flower's model and ours differ by {apart:.2g}: not the same job")
    terms = terms_of(figure, FEDAVG, task, rounds, per_update(figure, FEDAVG, len(task.clients)))
    noisy, took = setup_of(terms, task), []
    deviations = {part.training.series.mechanism.variance**0.5 for part in noisy.parts.values()}
    for replicates in (1, many):
        began = time.perf_counter()
        followed(terms, task, replicates, 0)
        took.append((time.perf_counter() - began) / replicates)
    began = time.perf_counter()
    _, seconds = in_flower(python, job(figure, noisy, single, max(deviations)), task)
    whole, one = time.perf_counter() - began, float(np.mean(seconds))
    print(
        f"FedAvg in Flower's simulation engine: {one:.1f} s a trial of {rounds} rounds ({whole - sum(seconds):.0f} s "
        f"to start it)"
    )
    print(f"  the same model without noise: they differ by {apart:.1g} at most")
    print(
        f"  ours: {took[0]:.3g} s one at a time, {took[1]:.3g} s in a batch: {one / took[0]:.0f} and "
        f"{one / took[1]:.0f} times less"
    )


def setup_of(terms: Any, task: Any) -> Setup:
    owners = [Owner(name, table) for name, table in zip(task.names, task.clients, strict=True)]
    return gather(terms, owners, 1, 0)[1][0].setup


def job(figure: Figure, setup: Setup, trials: int, deviation: float) -> dict[str, Any]:
    """What Flower's clients and server are told, beside the tables."""
    local = setup.local_update
    bound = next(iter(setup.parts.values())).training.question.bound
    assert bound is not None
    settings = {"clip": bound.value, "step": local.step, "radius": local.radius, "local_steps": local.steps}
    settings |= {"rounds": setup.terms.learning.horizon, "trials": trials, "deviation": deviation, "seed": 1}
    return {"settings": settings, "setup": setup}


def in_flower(python: str, told: dict[str, Any], task: Any) -> tuple[Any, list[float]]:
    """(models [trials, classes, p], seconds of each trial)."""
    setup, arrays = told["setup"], {}
    for place, (name, table) in enumerate(zip(task.names, task.clients, strict=True)):
        design = setup.preparation.design(table, name)
        arrays |= {f"X{place}": design.X, f"Y{place}": np.eye(len(setup.preparation.classes))[design.y.astype(int)]}
    settings = json.dumps(told["settings"] | {"clients": len(task.clients)})
    program = Path(__file__).parent / "common" / "flower_fedavg.py"
    with tempfile.TemporaryDirectory() as scratch:
        given, out = Path(scratch) / "job.npz", Path(scratch) / "out.npz"
        np.savez(given, settings=np.array(settings), **arrays)
        environment = os.environ | QUIET | {"FLWR_HOME": scratch}
        done = subprocess.run(
            [python, program, given, out], check=False, capture_output=True, text=True, env=environment
        )
        if done.returncode:
            raise SystemExit(f"Flower's run failed:\n{done.stderr[-2000:]}")
        found = np.load(out)
        return found["theta"], found["seconds"].tolist()


if __name__ == "__main__":
    main()
