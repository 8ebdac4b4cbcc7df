"""Small tables and terms that tests share."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.datasets import load_iris

import parley
from parley.data import Design
from parley.data.design import summation_slack
from parley.losses import Objective, RecordBound
from parley.privacy.mechanisms import Bounded
from parley.protocol.queries import GradientQuery, Tables
from parley.protocol.queries.gradient import GradientQuestion
from parley.validate import Floats


def data_path(name: str) -> Path:
    """Where a real dataset lies: in PARLEY_DATA (default ../shared/data); or a skip that says why."""
    folder = Path(os.environ.get("PARLEY_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (folder / name).is_file():
        pytest.skip(f"{name} is not in {folder}; set PARLEY_DATA to the folder that holds it")
    return folder / name


def real_data(name: str) -> pd.DataFrame:
    """A real dataset, or a skip that says why."""
    return pd.read_parquet(data_path(name))


def regression_table(n: int, seed: int = 0, features: int = 3) -> pd.DataFrame:
    """Features in [-1, 1], a linear target with noise, all within |y| <= 3."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, features))
    y = X @ np.linspace(0.8, -0.6, features) + 0.2 * rng.uniform(-1, 1, n)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(features)]).assign(y=y)


def row_batch(cells: Floats, names: list[str]) -> pa.RecordBatch:
    """Rows of numbers as a batch of columns: what a search that prepares a few rows at every step need not wait for."""
    return pa.RecordBatch.from_arrays([pa.array(column) for column in cells.T], names)


def class_table(n: int, seed: int = 0, features: int = 3) -> pd.DataFrame:
    """Two overlapping classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = np.clip(rng.normal(0, 1, (n, features)) + 0.7 * (2 * y[:, None] - 1), -4, 4)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(features)]).assign(y=y)


def patients(rows, seed, where):
    """A table as it is exported: numbers, names, gaps, people, and a target of names."""
    rng = np.random.default_rng(seed)
    age, income = rng.normal(50, 12, rows).round(1), np.exp(rng.normal(10, 0.5, rows)).round()
    job, smoker = rng.choice(["nurse", "clerk", "baker"], rows, p=[0.5, 0.3, 0.2]), rng.choice(["yes", "no"], rows)
    score = 0.08 * (age - 50) + 1.6 * (smoker == "yes") - 1.2 + 1.2 * (job == "baker") - 0.5 * (income / 22_000 - 1)
    outcome = np.where(rng.logistic(size=rows) < score, "diseased", "healthy")
    people = [f"P-{where}-{place}" for place in range(rows)]
    table = pd.DataFrame(
        {"patient_id": people, "age": age, "income": income, "job": job, "smoker": smoker, "outcome": outcome}
    )
    table.loc[rng.random(rows) < 0.07, "income"] = np.nan
    table.loc[rng.random(rows) < 0.05, "job"] = np.nan
    return table


# its bounds
IRIS = {"sepal length": [4.0, 8.0], "sepal width": [2.0, 4.5], "petal length": [1.0, 7.0], "petal width": [0.0, 2.5]}
SPECIES = ["setosa", "versicolor", "virginica"]


def iris_table() -> pd.DataFrame:
    """Fisher's 150 flowers in a fixed random order, their species as text."""
    flowers = load_iris()
    table = pd.DataFrame(flowers.data, columns=[*IRIS]).assign(species=np.array(SPECIES)[flowers.target])
    return table.sample(frac=1, random_state=0, ignore_index=True)


def make_terms(*sizes: int, epsilon: float = 1.0, **overrides: Any) -> parley.Terms:
    """Terms for owners a, b, ... of these sizes; overrides name section__key."""
    content: dict[str, Any] = {
        "model": {"kind": "linear-regression", "target": "y", "features": ["x0", "x1", "x2"], "radius": 5.0},
        "learning": {"horizon": 10, "step": 0.2},
        "privacy": {"clip": 4.0},
        "owners": [{"name": "abcdefgh"[i], "records": size, "epsilon": epsilon} for i, size in enumerate(sizes)],
    }
    for name, value in overrides.items():
        section, key = name.split("__")
        if value is None:
            content[section].pop(key, None)
        else:
            content[section][key] = value
    return parley.Terms.from_dict(content)


def gradient_answer(objective: Objective, design: Design, theta: Any, bound: RecordBound) -> Bounded:
    """An owner's answer to a gradient query without its noise, for any table and any bound, behind the terms' back."""
    size, slack = theta.shape[-1], summation_slack(len(design), design.width)
    question = GradientQuestion(
        parameters=size,
        records=len(design),
        size=size,
        norm=bound.norm,
        sensitivity=bound.sensitivity(len(design), slack),
        extent=bound.extent(slack),
        bound=bound,
        objective=objective,
        radius=None,
    )
    return question.bounded(GradientQuery.ask("t", "l", 1, theta), Tables(design, design.empty()), theta.shape[:-1])


BOUNDS = {"x0": [-1, 1], "x1": [-1, 1], "x2": [-1, 1], "y": [-3, 3]}

# Settings of `make_terms`: another mechanism, other kinds of questions.
GAUSSIAN = {"privacy__mechanism": "gaussian", "privacy__delta": 1e-6}
UPDATES = {
    "learning__algorithm": "federated-averaging",
    "learning__local_steps": 3,
    "learning__step": "auto",
    "model__bounds": BOUNDS,
    "model__regularisation": 0.3,
    "privacy__clip": 1.0,
}
STATISTICS = {"learning__algorithm": "sufficient-statistics", "learning__horizon": 1, "learning__step": None}
