"""Scores by row and by person, where people have several rows, beside what the same model is worth to new people.

300 made-up people with six rows each: 60 answers that a person gives once, five numbers that change from row to row,
and a target with an effect of the person's own. 5,000 new people tell how good each model is.

    python benchmarks/held_out_people.py [--runs 20]
"""

import argparse

import numpy as np
import pandas as pd

import parley

PEOPLE, ROWS, ANSWERS, NUMBERS, NEW = 300, 6, 60, 5, 5000
COLUMNS = [f"x{place}" for place in range(ANSWERS + NUMBERS)]


def table(rng: np.random.Generator, people: int, rows: int) -> pd.DataFrame:
    who = rng.permutation(np.repeat(np.arange(people), rows))
    X = np.column_stack([rng.choice([-1.0, 1.0], (people, ANSWERS))[who], rng.uniform(-1, 1, (len(who), NUMBERS))])
    y = 0.3 * X[:, -2 * NUMBERS :].sum(axis=1) + rng.normal(0, 1.0, people)[who] + rng.normal(0, 0.3, len(who))
    return pd.DataFrame(X, columns=COLUMNS).assign(y=y.clip(-5, 5), who=[f"p{place}" for place in who])


def agreed(epsilon: float, by: dict[str, str]) -> parley.Terms:
    bounds = {column: [-1, 1] for column in COLUMNS} | {"y": [-5, 5]}
    model = {"kind": "linear-regression", "target": "y", "features": COLUMNS, "bounds": bounds, "holdout": 0.2, **by}
    content = {
        "model": model,
        "learning": {"algorithm": "gradient-descent", "horizon": 50, "average": "tail", "decay": 0.0, "step": 0.3},
        "privacy": {"mechanism": "gaussian", "delta": 1e-6, "clip": 4.0, "person": "who", "records_per_person": ROWS},
        "owners": [{"name": "a", "records": PEOPLE * ROWS, "epsilon": epsilon}],
    }
    return parley.Terms.from_dict(content)


def scores(epsilon: float, by: dict[str, str], run: int) -> tuple[float, float]:
    """r2 on held-out rows, and on new people."""
    rng = np.random.default_rng([45, run])
    owner, new = parley.Owner("a", table(rng, PEOPLE, ROWS)), table(rng, NEW, 1)
    result = parley.train(agreed(epsilon, by), [owner], seed=run)
    error = float(np.mean((new["y"] - result.model.predict(new)) ** 2))
    return result.quality.metrics["r2"], 1 - error / float(new["y"].var())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    for epsilon in (10.0, 30.0, 1e6):
        for held_out, by in (("row", {}), ("person", {"holdout_by": "person"})):
            found = np.array([scores(epsilon, by, run) for run in range(runs)])
            (scored, new), off = found.mean(axis=0), (found[:, 0] - found[:, 1]).std(ddof=1) / runs**0.5
            print(f"eps {epsilon:g}, by {held_out}: r2 {scored:.3f}, on new people {new:.3f}, apart +- {off:.3f}")
