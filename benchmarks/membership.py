"""Who was in the table? An over-fitted model without privacy, and one of the same rows at epsilon = 1.

    python benchmarks/membership.py [--models 2000] [--seed 0] [--plot membership.png]

Wanted: without privacy an area under the curve of more than 0.7; at epsilon = 1 no attack beyond what that allows, and
all lower bounds below it, at 99 % together.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import parley
from parley.audit.attacks.membership import Membership, infer_members
from parley.audit.attacks.shadow import TrainedByTerms, without_privacy
from parley.losses import make
from parley.report.figures import picture
from parley.report.figures.audit_figures import membership_figure
from parley.report.words.membership import attack_rows, most_area

ROWS, COLUMNS, EPSILON = 200, 50, 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=2000, help="shadow models, and as many that are counted")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, default=None)
    options = parser.parse_args()
    table, terms = population(options.seed), agreed()
    private = TrainedByTerms.make(terms, "a", table, replicates=4, seed=options.seed)
    design = private.setup.preparation.design(table, "population")
    plain = without_privacy(make(terms.model), terms.model.predicts, design)
    found = {
        "Without privacy": infer_members(plain, ROWS, None, 0.0, options.models, options.models, options.seed),
        f"At ε = {EPSILON:g}": infer_members(
            private, ROWS, private.claimed, 0.0, options.models, options.models, options.seed
        ),
    }
    for title, each in found.items():
        print(f"{title}, {each.shadows} shadow models, {each.targets} counted, {each.seconds:.0f} s")
        for row in attack_rows(each):
            print("  " + "".join(f"{cell:>26}" for cell in row))
    if options.plot is not None:
        picture.save(membership_figure(found), options.plot)
    require(*found.values())


def population(seed: int) -> pd.DataFrame:
    """Two overlapping classes and more columns than so few rows can bear."""
    rng = np.random.default_rng(seed)
    X = np.clip(rng.normal(size=(ROWS, COLUMNS)), -3, 3)
    y = X @ rng.normal(size=COLUMNS) / COLUMNS**0.5 + rng.normal(size=ROWS) > 0
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(COLUMNS)]).assign(y=y.astype(int))


def agreed() -> parley.Terms:
    """A logistic regression in ten rounds."""
    return parley.Terms.from_dict(
        {
            "model": {
                "kind": "logistic-regression",
                "target": "y",
                "features": [f"x{j}" for j in range(COLUMNS)],
                "regularisation": 1e-3,
            },
            "learning": {"horizon": 10, "step": 0.5},
            "privacy": {"clip": 20.0},
            "owners": [{"name": "a", "records": ROWS, "epsilon": EPSILON}],
        }
    )


def require(plain: Membership, private: Membership) -> None:
    """End with what is not as wanted."""
    wrong = []
    if not plain.strongest.auc.low > 0.7:
        wrong.append("without privacy")
    if not private.holds or any(each.auc.high > most_area(EPSILON, 0.0) for each in private.inferences):
        wrong.append("with it")
    if wrong:
        raise SystemExit(f"not as wanted: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
