"""The three classification tasks of Z's chapter 8, split among clients as Z says: two Gaussians, Fisher's flowers,
biopsies from Wisconsin.

Columns are brought to [-1, 1] by numbers that are taken to be public. Z expands the features by a linear and a constant
kernel on random points, whose span is that of the columns and a constant: that is the model here, but for the flowers.
Least squares on their columns tells 85 % of them at best, less than Z has; so theirs are ten Gaussian bumps at random
points (`model.basis`), which tell 93 %.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_iris

from parley.validate import Floats

TEST_SHARE = 0.3  # of the rows are kept for testing: its δ, 1/105 and 1/398, say that 70 % are learned from
BUMP_BASIS = {"points": 10, "width": 1.0, "seed": 1}
BOX_RADIUS = 5.0  # of the box for gradient methods: the best models lie well within

Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Task:
    """One draw of a task: every client's table, the test table, and what terms say about the model."""

    clients: tuple[pd.DataFrame, ...]
    test: pd.DataFrame
    model: dict[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"client-{place + 1}" for place in range(len(self.clients)))


def two_gaussians(rng: np.random.Generator) -> Task:
    """1,000 points of two Gaussians, two clients. Z draws them without saying where they lie; here 95 % can be told
    apart."""
    y = np.arange(1000) % 2
    X = rng.normal(size=(1000, 2)) + np.where(y[:, None] == 1, 1.15, -1.15)
    return _task(X, y, ("0", "1"), ("x", "y"), (-4.0, 4.0), rng, lambda kept, classes: dealt(kept, 2))


def flowers(rng: np.random.Generator, expert: bool) -> Task:
    """150 flowers, three clients: dealt at random, or each with all but three of one species."""
    iris = load_iris()
    split: Split = (lambda kept, classes: experts(kept, classes)) if expert else (lambda kept, classes: dealt(kept, 3))
    low, high = iris.data.min(axis=0), iris.data.max(axis=0)
    features = tuple(f"f{j}" for j in range(4))
    task = _task(iris.data, iris.target, tuple(iris.target_names.tolist()), features, (low, high), rng, split)
    return replace(task, model={**task.model, "basis": BUMP_BASIS})


def biopsies(rng: np.random.Generator, skewed: bool) -> Task:
    """569 biopsies, four clients: dealt at random, or with unequal shares of both kinds. Columns are clipped at three
    deviations."""
    cancer = load_breast_cancer()
    centre, spread = cancer.data.mean(axis=0), cancer.data.std(axis=0)
    features = tuple(f"f{j}" for j in range(30))
    split: Split = (
        (lambda kept, classes: sorted_in_part(kept, classes, 4, rng))
        if skewed
        else (lambda kept, classes: dealt(kept, 4))
    )
    bounds = centre - 3 * spread, centre + 3 * spread
    return _task(cancer.data, cancer.target, ("malignant", "benign"), features, bounds, rng, split)


Split = Callable[
    [Places, NDArray[np.int64]], list[Places]
]  # rows to train on, in random order, and the classes of all: rows by client


def dealt(kept: Places, clients: int) -> list[Places]:
    """Every client's rows, dealt like cards."""
    return [kept[place::clients] for place in range(clients)]


def experts(kept: Places, classes: NDArray[np.int64]) -> list[Places]:
    """Each client holds all but three of one class; two of the three go to the next client, one to the one after."""
    own = [kept[classes[kept] == c] for c in range(3)]
    return [np.concatenate([own[c][3:], own[c - 1][:2], own[c - 2][2:3]]) for c in range(3)]


def sorted_in_part(kept: Places, classes: NDArray[np.int64], clients: int, rng: np.random.Generator) -> list[Places]:
    """In the order of their classes, blurred: the first client has mostly those of the first class."""
    order = np.argsort(classes[kept] + rng.normal(0, 0.7, len(kept)), kind="stable")
    return [np.asarray(part) for part in np.array_split(kept[order], clients)]


def _task(
    X: Floats,
    y: NDArray[np.int64],
    classes: tuple[str, ...],
    features: tuple[str, ...],
    bounds: tuple[Any, Any],
    rng: np.random.Generator,
    split: Split,
) -> Task:
    low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (len(features),)) for end in bounds)
    table = pd.DataFrame(X, columns=[*features]).assign(kind=np.array(classes)[y])
    order = rng.permutation(len(y))
    held = round(TEST_SHARE * len(y))
    model = {
        "kind": "least-squares-classes",
        "target": "kind",
        "features": [*features],
        "categories": {"kind": [*classes]},
        "bounds": {name: [float(a), float(b)] for name, a, b in zip(features, low, high, strict=True)},
        "centres": {name: float((a + b) / 2) for name, a, b in zip(features, low, high, strict=True)},
        "scales": {name: float((b - a) / 2) for name, a, b in zip(features, low, high, strict=True)},
        "radius": BOX_RADIUS,
    }
    clients = tuple(table.iloc[rows].reset_index(drop=True) for rows in split(order[held:], y))
    return Task(clients, table.iloc[order[:held]].reset_index(drop=True), model)
