"""One owner, pure epsilon, logistic regression: what is left of the cost by gradient descent, by objective
perturbation, by diffprivlib.

Excess: mean log-loss on rows that nobody trained on, above that of the best model without privacy (trained on the
owner's rows), x 1e-3. All see the same prepared features: a random public sample bounds every column at its 1 % and 99
% quantiles and standardises it.

- gradients: the planner's best choice with rounds and Laplace noise;
- perturbed: objective perturbation with the clip that the planner chose;
- estimator: PrivateLogisticRegression on the prepared features, as it comes;
- diffprivlib: its LogisticRegression with data_norm the root of the number of features, like the estimator's; in an
  environment of its own: python3 -m venv dpl && dpl/bin/pip install diffprivlib. (Of its epsilon a part goes into a
  term for the Jacobian with the norm where the proof has its square, and the constant is not penalised: what it
  promises is less than epsilon where the norm is above 1.)

    python benchmarks/objective_perturbation.py [--replicates 20] [--diffprivlib dpl/bin/python]

Needs adult.parquet and sba_loans.parquet in PARLEY_DATA (default ../shared/data).
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from one_noise import Market, adult, sba

import parley
from parley.data import Design
from parley.learning.estimators import PrivateLogisticRegression
from parley.validate import Floats

ROWS = {"adult": (28_000, 14_000), "SBA": (100_000, 50_000)}  # to learn from, to test with
EPSILONS = (0.3, 1.0, 3.0)

RIVAL = """
import sys
import numpy as np
from diffprivlib.models import LogisticRegression
held = np.load(sys.argv[1])
X, y, found = held["X"], held["y"], []
for run in range(int(held["replicates"])):
    model = LogisticRegression(
        epsilon=float(held["epsilon"]), data_norm=X.shape[1] ** 0.5, max_iter=1000, random_state=run
    ).fit(X, y)
    found.append(np.append(model.coef_[0], model.intercept_))
np.save(sys.argv[2], np.array(found))
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--diffprivlib", type=Path, help="a Python that has it")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for market in (adult(Path(scratch)), sba(Path(scratch))):
            compare(market, Path(scratch), asked.replicates, asked.diffprivlib)


def compare(market: Market, scratch: Path, replicates: int, python: Path | None) -> None:
    """Every method at every epsilon, with standard errors over its runs, and how much more the others leave than
    objective perturbation."""
    learned, tested = ROWS[market.name]
    print(
        f"{market.name}: {learned:,} rows, {len(market.model['features'])} features and a constant, {replicates} "
        f"runs; excess x 1e-3"
    )
    table = market.table.iloc[: learned + tested]
    owner = parley.Owner("owner", table.iloc[:learned])
    for epsilon in EPSILONS:
        began = time.perf_counter()
        terms = parley.Terms.from_dict(
            {
                "model": {**market.model, "radius": 20.0},
                "learning": {"algorithm": "gradient-descent", "horizon": 50},
                "privacy": {"clip": 5.0},
                "owners": [{"name": "owner", "records": learned, "epsilon": epsilon}],
            }
        )
        setup = owner.resolve(terms)
        train, test = (setup.preparation.design(part, "rows") for part in (owner.table.frame(), table.iloc[learned:]))
        best = setup.objective.optimum([train])
        least = setup.objective.cost(test, best)
        losses = {}
        for name, planned in plans(terms).items():
            models = parley.train(planned, [owner], replicates=replicates, seed=1, measure=False).theta
            losses[name] = setup.objective.cost(test, models) - least
        losses["estimator"] = setup.objective.cost(test, estimated(train, epsilon, replicates)) - least
        if python is not None:
            losses["diffprivlib"] = (
                setup.objective.cost(test, rival(python, train, epsilon, replicates, scratch)) - least
            )
        nothing = float(setup.objective.cost(test, np.zeros_like(best)) - least)
        cells = [cell(name, loss, losses["perturbed"]) for name, loss in losses.items()]
        print(
            f"  eps {epsilon:<4g} {'; '.join(cells)}; nothing {1e3 * nothing:.0f}; {time.perf_counter() - began:.0f} s",
            flush=True,
        )


def cell(name: str, loss: Floats, reference: Floats) -> str:
    """Mean and standard error, and how many times the reference that is: at least, where that cannot be told from 0."""
    mean, error = float(np.mean(loss)), float(np.std(loss) / np.sqrt(len(loss)))
    least, doubt = float(np.mean(reference)), float(2 * np.std(reference) / np.sqrt(len(reference)))
    ratio = f"{mean / least:.2f} x" if least > doubt else f"at least {mean / (least + doubt):.2f} x"
    return f"{name} {1e3 * mean:.3g} ± {1e3 * error:.2g} ({ratio})"


def plans(terms: parley.Terms) -> dict[str, parley.Terms]:
    """The planner's best choices with rounds, and without."""
    found, proposal = {}, parley.plan(terms)
    for name, once in (("gradients", False), ("perturbed", True)):
        choices = [choice for choice in proposal.choices if (choice.algorithm == "objective-perturbation") == once]
        best = min(choices, key=lambda choice: choice.relative_fitness)
        learning = {
            "algorithm": best.algorithm,
            "horizon": best.horizon,
            "step": "auto" if best.step is None else best.step,
        }
        found[name] = terms.changed(learning=learning, privacy={"clip": best.clip})
    return found


def estimated(train: Design, epsilon: float, replicates: int) -> Floats:
    """Models of the estimator with its defaults; the constant is its own."""
    fits = [
        PrivateLogisticRegression(epsilon, random_state=run).fit(train.X[:, :-1], train.y) for run in range(replicates)
    ]
    return np.array([fit.theta_ for fit in fits])


def rival(python: Path, train: Design, epsilon: float, replicates: int, scratch: Path) -> Floats:
    """Models of diffprivlib."""
    asked, answered = scratch / "asked.npz", scratch / "answered.npy"
    np.savez(asked, X=train.X[:, :-1], y=train.y, epsilon=epsilon, replicates=replicates)
    subprocess.run([python, "-c", RIVAL, asked, answered], check=True, capture_output=True)
    return np.load(answered)


if __name__ == "__main__":
    main()
