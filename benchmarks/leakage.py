"""Records read off gradients: how far they are misread, by the epsilon of all answers together.

    python benchmarks/leakage.py [--runs 41] [--plot leakage.png]

Three attacks on a logistic regression of six features and a constant: one record off one gradient, three records off
six mean gradients, and a learner's record off two of its questions, by an owner that knows its 39 others. An error of 1
is what reading nothing has. Wanted: below 1e-6 without noise, at least 0.5 at an epsilon of 1.
"""

import argparse
from fractions import Fraction
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from parley.data import Design
from parley.data.design import summation_slack
from parley.losses import RecordBound, make
from parley.privacy.mechanisms import Bounded, FastNoise, Laplace
from parley.report.figures import picture
from parley.report.figures.colours import ALONE, INK, LIMIT, MUTED, TOGETHER
from parley.report.figures.curves import EPSILON
from parley.report.figures.picture import decorate
from parley.terms import Model
from parley.validate import Floats
from parley_lab.attacks.leakage import alone, learners_gradient, read_record
from parley_lab.attacks.several_records import leak_several

RISK = make(Model(kind="logistic-regression", target="y"))
BOUND = RecordBound(20.0, "l1", clips=True)  # no record reaches it
EPSILONS = (*np.geomspace(0.1, 1e7, 17).tolist(), np.inf)
LEARNERS, LENGTH = 40, 0.5  # rows of the owner that learns, as many as the other has; length of its step
COLOURS = (TOGETHER, ALONE, MUTED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=41, help="tables of which each error is the median")
    parser.add_argument("--plot", type=Path, default=None)
    options = parser.parse_args()
    found = {
        name: np.array([np.median([attack(eps, seed) for seed in range(options.runs)]) for eps in EPSILONS])
        for name, attack in {
            "one record, one gradient": one,
            "three records, six mean gradients": several,
            "a learner's record, two questions": learner,
        }.items()
    }
    print(f"{'epsilon':>10}" + "".join(f"{name:>36}" for name in found))
    for place, epsilon in enumerate(EPSILONS):
        print(f"{epsilon:10.3g}" + "".join(f"{errors[place]:36.3g}" for errors in found.values()))
    if options.plot is not None:
        picture.save(drawn(found), options.plot)
    wrong = [name for name, errors in found.items() if not errors[-1] < 1e-6 or not errors[1] > 0.5]
    if wrong:
        raise SystemExit(f"not as wanted: {', '.join(wrong)}")


def table(records: int, seed: int) -> tuple[Design, np.random.Generator]:
    """Records of six features and the constant."""
    rng = np.random.default_rng(seed)
    X = np.hstack([rng.uniform(-3, 3, (records, 6)), np.ones((records, 1))])
    return Design(X, rng.choice([-1.0, 1.0], records), np.ones(records)), rng


def noisy(rows: Design, theta: Floats, epsilon: float, seed: int) -> Floats:
    """The mean gradient at theta [p] as it is released."""
    exact = RISK.mean_gradient(rows, theta, BOUND)
    if not np.isfinite(epsilon):
        return exact
    sensitivity = BOUND.sensitivity(len(rows), summation_slack(len(rows), rows.width))
    mechanism = Laplace.calibrate(Fraction(epsilon), sensitivity)
    return mechanism.release(Bounded(exact, sensitivity, "l1"), FastNoise(seed))


def one(epsilon: float, seed: int) -> float:
    """One record, alone in its table."""
    rows, rng = table(1, seed)
    theta = 0.1 * rng.normal(size=7)
    return _misread(noisy(rows, theta, epsilon, seed), theta, rows.X[0])


def several(epsilon: float, seed: int) -> float:
    """Three records off six answers, which share the epsilon."""
    rows, rng = table(3, seed)
    return leak_several(RISK, rows, 0.7 * rng.normal(size=(6, 7)), BOUND, epsilon, seed)


def learner(epsilon: float, seed: int) -> float:
    """A learner's own answer has noise of this epsilon; the other owner sees its next question."""
    rows, rng = table(LEARNERS, seed)
    before, rest = 0.1 * rng.normal(size=7), 0.5 * rng.normal(size=7)
    after = before - LENGTH * (0.5 * noisy(rows, before, epsilon, seed) + rest)
    own = learners_gradient(RISK, before, after, LENGTH, 0.5, rest)
    return _misread(alone(RISK, own, rows.cut(slice(1, None)), before), before, rows.X[0])


def _misread(gradient: Floats, theta: Floats, x: Floats) -> float:
    found = read_record(RISK.loss, gradient, theta)  # type: ignore[arg-type]
    return 1.0 if found is None else float(np.linalg.norm(found.x - x) / np.linalg.norm(x))


def drawn(found: dict[str, Floats]) -> Figure:
    """Errors by epsilon, on logarithmic axes; without noise at the right edge."""
    figure = Figure(figsize=(7.2, 4.4), layout="constrained", facecolor="white")
    axes = decorate(figure.subplots())
    for colour, (name, errors) in zip(COLOURS, found.items(), strict=True):
        axes.plot(EPSILONS[:-1], errors[:-1], color=colour, linewidth=1.8, marker="o", markersize=4, label=name)
    axes.axhline(1, color=LIMIT, linestyle="--", linewidth=1.2, label="reading nothing")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(f"{EPSILON} of all answers together")
    axes.set_ylabel("how far features are misread, |read - x|/|x|")
    axes.set_title("Records off gradients", loc="left", color=INK, fontweight="bold")
    axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    return figure


if __name__ == "__main__":
    main()
