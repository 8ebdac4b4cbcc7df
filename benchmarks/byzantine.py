"""One of five owners lies: what each rule of aggregation makes of it, what it costs where nobody lies, and how often
honest runs name anybody.

    python benchmarks/byzantine.py [--rows 5000] [--runs 100] [--epsilon 1.0] [--mechanism laplace] [--honest 10000]

Logistic regression, 20 rounds of gradients, clip 3, eight features of one law for all owners. Figures are relative
fitness on the rows of the honest four, beside their own best model; "named" is in which share of the runs the liar is.
Wanted: the mean fails (beyond 100 times what the honest four reach alone) where answers are scaled, other rules stay
within 10 times of that whatever is said, lies within the bound name nobody, and honest runs name somebody at most once
in a thousand.
"""

import argparse
import time

import numpy as np
import pandas as pd

import parley
from parley.audit.attacks.damage import damage
from parley.learning.outcome.notices import FALSE_ALARMS
from parley.protocol.aggregation.robust import RULES
from parley.report.words.audit import rule_rows
from parley_lab.attacks.poisoning import backdoor_success, poisoned_run, poisoning_study, with_trigger

FEATURES = 8
NAMES = ("north", "south", "east", "west", "liar")
TRIGGER = {"x7": -4.0}


def table(rows: int, seed: int) -> pd.DataFrame:
    """Two overlapping classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    X = np.clip(rng.normal(0, 1, (rows, FEATURES)) + 0.4 * (2 * y[:, None] - 1), -4, 4)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(FEATURES)]).assign(y=y)


def agreement(rows: int, epsilon: float, mechanism: str) -> parley.Terms:
    """Terms of five owners, by the mean."""
    features = [f"x{j}" for j in range(FEATURES)]
    return parley.Terms.from_dict(
        {
            "model": {
                "kind": "logistic-regression",
                "target": "y",
                "features": features,
                "bounds": {name: [-4, 4] for name in features},
                "regularisation": 0.01,
                "radius": 5.0,
            },
            "learning": {"algorithm": "gradient-descent", "horizon": 20, "decay": 0.0, "step": 1.5},
            "privacy": {
                "mechanism": mechanism,
                "clip": 3.0,
                **({"delta": 1e-6} if mechanism == "gaussian" else {}),
            },
            "owners": [{"name": name, "records": rows, "epsilon": epsilon} for name in NAMES],
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5000, help="of every owner")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--mechanism", choices=("laplace", "gaussian"), default="laplace")
    parser.add_argument("--honest", type=int, default=10_000, help="honest runs, for false alarms")
    options = parser.parse_args()
    terms = agreement(options.rows, options.epsilon, options.mechanism)
    tables = {name: table(options.rows, seed) for seed, name in enumerate(NAMES)}
    began = time.perf_counter()
    study = poisoning_study(terms, tables, "liar", tuple(RULES), options.runs, 0)
    print(f"{'rule':17} {'the liar':31} {'fitness':>9} {'±':>8} {'named':>6}")
    for rule, runs in study.items():
        for lie, run in runs.items():
            print(f"{rule:17} {lie:31} {run.mean:9.4f} {run.standard_error:8.4f} {run.named('liar'):6.2f}")
    print("\nA backdoor: rows of class 0 with the trigger that are taken for class 1")
    poisoned = {**tables, "liar": with_trigger(tables["liar"], "y", TRIGGER, 1)}
    rows = with_trigger(tables["north"][tables["north"].y == 0], "y", TRIGGER, 1)
    owners = [parley.Owner(name, poisoned[name]) for name in NAMES]
    for rule in RULES:
        ruled = terms.changed(aggregation={} if rule == "mean" else {"rule": rule, "byzantine": 1})
        run = poisoned_run(ruled, owners, {}, NAMES[:4], min(options.runs, 16), 0)
        print(f"{rule:17} {backdoor_success(run, owners, rows, 1):.3f}")
    print("\nWhat one round can be moved by (L2)")
    for cells in rule_rows(damage(terms)):
        print("".join(f"{cell:<26}" for cell in cells))
    honest = parley.train(
        terms, [parley.Owner(name, tables[name]) for name in NAMES], replicates=options.honest, seed=1, measure=False
    )
    named = sum(notice.runs for notice in honest.notices)
    print(f"\nhonest runs that name somebody: {named} of {options.honest:,}; at most {FALSE_ALARMS:g} of them is said")
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
