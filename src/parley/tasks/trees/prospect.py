"""What boosted trees will cost on new rows, as public rows show it: trained on folds of them under the owners' noise.

Owners have more rows than the public sample, so trees of a fold err more. What they would err with all rows follows
from trees of half the fold: the part of the cost that goes with 1/n is twice as large there.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from parley.data.split import folds
from parley.errors import DataError
from parley.learning.start import starting_point
from parley.protocol.setup import resolve
from parley.tasks.trees.algorithm import BoostedTrees
from parley.tasks.trees.leaf_sums import leaf_means
from parley.tasks.trees.measured import record_losses
from parley.tasks.trees.placed_rows import PlacedRows, TreePreparation
from parley.terms import Terms
from parley.validate import Floats

FOLDS = 3


def expected_cost(terms: Terms, public: pd.DataFrame, seed: int = 0) -> float:
    """The mean loss of the joint trees on new rows, in the target's own units. No private record is looked at."""
    setup = resolve(terms)
    preparation, algorithm = setup.preparation, BoostedTrees.make(setup)
    if not isinstance(preparation, TreePreparation):
        raise TypeError("terms of boosted trees have a preparation of their own")
    rows, begin = preparation.records(public, "public sample"), starting_point(setup)
    rows, costs = rows.where(rows.present), list[list[float]]()
    for place, held in enumerate(folds(len(rows), FOLDS)):
        others = rows.where(~held)
        parts = others, others.where(np.arange(len(others)) % 2 == 0)
        models = [_trained(algorithm, begin, part, [seed, place]) for part in parts]
        losses = (record_losses(algorithm.structure, rows.where(held), each, terms.model.classifies) for each in models)
        costs.append([float(each.mean()) for each in losses])
    whole, half = np.mean(costs, axis=0) * (1 if terms.model.classifies else 2)
    seen = len(rows) * (1 - 1 / FOLDS)
    if not half - whole < whole:
        raise DataError("public sample: too few rows to tell what boosted trees would cost")
    return float(whole - (half - whole) * max(0.0, 1 - seen / float(algorithm.records.sum())))


def _trained(algorithm: BoostedTrees, begin: Floats, rows: PlacedRows, seed: list[int]) -> Floats:
    """Leaf values [P] from `begin` by these rows, with noise that is to them what the owners' is to all records."""
    weights, count = algorithm.weights, float(len(rows))
    loud = float(weights**2 @ algorithm.noise) ** 0.5 / float(weights @ algorithm.records)  # in a mean
    few = replace(algorithm, names=("",), records=np.array([count]), noise=np.array([(count * loud) ** 2]))
    rng, structure, state = np.random.default_rng(seed), few.structure, few.start(begin)
    for number in range(1, few.horizon + 1):
        leaves = structure.leaves[structure.place(number)]
        answer = np.zeros((2, structure.largest))
        answer[:, : leaves.size] = leaf_means(rows, structure, leaves, state.theta, few.share)
        state = few.update(state, (answer + loud * rng.normal(size=answer.shape)).ravel())
    return state.theta
