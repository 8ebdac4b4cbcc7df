"""Echo-state networks: NARMA-10 and Mackey-Glass learned from recordings of several owners, beside the read-out without
noise.

Every owner has 1,000 recordings of 200 samples (the first 50 are washed out), 100 nodes, Gaussian noise at delta =
1e-6; the clip is what 200 simulated, public recordings measure at most, and a tenth more. Errors are root mean squared
ones on 500 new recordings, in units of the target's deviation (1: as good as its mean), means of 20 runs.

    python benchmarks/reservoir.py [--owners 4] [--runs 1000] [--replicates 20] [--plot FILE]
"""

import argparse

import numpy as np
import pandas as pd

import parley
from parley.protocol.setup import resolve
from parley.tasks.dynamics.reservoir.model import best_read_out, new_records, pooled_moments, recording_metrics
from parley.tasks.dynamics.reservoir.recordings import record_design
from parley.validate import Floats

SAMPLES, WASHOUT, NODES = 200, 50, 100
EPSILONS = (1.0, 3.0, 8.0)
AHEAD, DELAY, STEPS = 6, 17, 10  # of Mackey-Glass: samples foretold, its delay, steps of Euler's rule a sample


def table(u: Floats, y: Floats) -> pd.DataFrame:
    """Recordings' inputs and targets [runs, samples] as a table."""
    return pd.DataFrame({"run": np.repeat(np.arange(len(u)), u.shape[1]), "u": u.ravel(), "y": y.ravel()})


def narma(runs: int, seed: int) -> pd.DataFrame:
    """y[t+1] = 0.3 y[t] + 0.05 y[t] (y[t] + ... + y[t-9]) + 1.5 u[t] u[t-9] + 0.1 from evenly drawn u; recordings that
    run away, about one in a hundred, are drawn again."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(0.0, 0.5, (runs + runs // 10 + 20, SAMPLES))
    y = np.zeros((len(u), SAMPLES + 1))
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(9, SAMPLES):
            last = y[:, t - 9 : t + 1].sum(axis=1)
            y[:, t + 1] = 0.3 * y[:, t] + 0.05 * y[:, t] * last + 1.5 * u[:, t] * u[:, t - 9] + 0.1
    kept = np.flatnonzero(y.max(axis=1) < 1)[:runs]
    return table(u[kept], y[kept, 1:])


def mackey_glass(runs: int, seed: int) -> pd.DataFrame:
    """x' = 0.2 x(t - 17)/(1 + x(t - 17)^10) - 0.1 x from drawn beginnings; u is x, y is x six samples later."""
    rng = np.random.default_rng(seed)
    before = DELAY * STEPS
    x = np.empty((runs, before + (400 + SAMPLES + AHEAD) * STEPS))
    x[:, :before] = rng.uniform(0.5, 1.3, (runs, 1))
    for t in range(before, x.shape[1]):
        late, now = x[:, t - before], x[:, t - 1]
        x[:, t] = now + (0.2 * late / (1 + late**10) - 0.1 * now) / STEPS
    sampled = x[:, -(SAMPLES + AHEAD) * STEPS :: STEPS]
    return table(sampled[:, :SAMPLES], sampled[:, AHEAD:])


SERIES = {
    "NARMA-10": (narma, {"u": [0.0, 0.5], "y": [0.0, 1.0]}),
    "Mackey-Glass": (mackey_glass, {"u": [0.2, 1.4], "y": [0.2, 1.4]}),
}


def terms_of(bounds: dict[str, list[float]], owners: int, runs: int, epsilon: float, one: bool, clip: float | None):
    """By which so many owners learn."""
    content = {
        "model": {
            "kind": "echo-state",
            "features": ["u"],
            "target": "y",
            "bounds": bounds,
            "reservoir": {"recording": "run", "samples": SAMPLES, "washout": WASHOUT, "nodes": NODES},
        },
        "privacy": {"mechanism": "gaussian", "delta": 1e-6, "noise": "shared" if one else "each-owner"},
        "hosts": [{"name": f"host-{k}"} for k in range(3)] if one else [],
        "owners": [{"name": f"site-{k}", "records": runs, "epsilon": epsilon} for k in range(owners)],
    }
    if clip is not None:
        content["privacy"]["clip"] = clip
    return parley.Terms.from_dict(content)


def public_clip(bounds: dict[str, list[float]], pilot: pd.DataFrame) -> float:
    """What no recording of a public pilot measures, with a tenth to spare."""
    terms = terms_of(bounds, 1, 1, 1.0, False, None)
    question = resolve(terms).part("site-0").training.question
    sizes = question.record_sizes(record_design(new_records(terms.model, pilot)), np.zeros(0))
    return float(f"{1.1 * sizes.max():.2g}")


def measured(name: str, owners: int, runs: int, replicates: int) -> dict[str, list[float]]:
    """Errors by how noise is drawn, for each epsilon; `none` and `alone` have no noise."""
    make, bounds = SERIES[name]
    clip = public_clip(bounds, make(min(runs, 200), 1000))
    parties = [parley.Owner(f"site-{k}", make(runs, k)) for k in range(owners)]
    plain = terms_of(bounds, owners, runs, 1.0, False, clip)
    fresh = pooled_moments([new_records(plain.model, make(min(runs, 500), 2000))])
    exact = [party.prepare(plain).tables.train.in_memory().X for party in parties]

    def error(theta: Floats) -> float:
        return float(recording_metrics(fresh, theta)["nrmse"] or 0.0)

    found = {
        "none": [error(best_read_out(pooled_moments(exact), plain.model))],
        "alone": [error(best_read_out(pooled_moments(exact[:1]), plain.model))],
    }
    del exact
    for words, one in (("own noise", False), ("one noise", True)):
        found[words] = []
        for epsilon in EPSILONS:
            terms = terms_of(bounds, owners, runs, epsilon, one, clip)
            result = parley.train(terms, parties, replicates=replicates, seed=1, measure=False)
            found[words].append(float(np.mean([error(theta) for theta in result.theta])))
    print(f"{name}, clip {clip:g}:")
    print("| | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " | without noise | one owner alone, without noise |")
    for words in ("own noise", "one noise"):
        cells = " | ".join(f"{value:.2f}" for value in found[words])
        print(f"| {words} | {cells} | {found['none'][0]:.3f} | {found['alone'][0]:.3f} |")
    return found


def draw(found: dict[str, dict[str, list[float]]], owners: int, runs: int, file: str) -> None:
    """Errors against epsilon, a panel a series."""
    from matplotlib.figure import Figure

    from parley.report.figures.colours import ALONE, INK, LIMIT, MUTED, TOGETHER
    from parley.report.figures.picture import decorate, save

    figure = Figure(figsize=(9.6, 3.8), layout="constrained", facecolor="white")
    for axes, (name, errors) in zip(figure.subplots(1, len(found)), found.items(), strict=True):
        decorate(axes)
        for colour, words in ((ALONE, "own noise"), (TOGETHER, "one noise")):
            axes.plot(EPSILONS, errors[words], color=colour, marker="o", linewidth=1.8, label=words)
        axes.axhline(errors["none"][0], color=LIMIT, linestyle="--", linewidth=1.3, label="without noise")
        axes.axhline(1.0, color=MUTED, linestyle=":", linewidth=1.0, label="the target's mean")
        axes.set_xscale("log")
        axes.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
        axes.minorticks_off()
        axes.set_ylim(0.0, 1.08)
        axes.set_xlabel("ε of a recording, δ = 10⁻⁶")
        axes.set_ylabel("error / deviation of the target")
        axes.set_title(f"{name}: {owners} owners of {runs:,} recordings", loc="left", color=INK, fontsize=10)
        axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    save(figure, file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--owners", type=int, default=4)
    parser.add_argument("--runs", type=int, default=1000, help="recordings of an owner")
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--plot", help="where the figure goes")
    given = parser.parse_args()
    shown = {name: measured(name, given.owners, given.runs, given.replicates) for name in SERIES}
    if given.plot:
        draw(shown, given.owners, given.runs, given.plot)


if __name__ == "__main__":
    main()
