"""Public trees regrown without each fold of the public sample, which judges them, and pinned trees beside those. Trees
fit their own rows too well to be judged by them. A file may hold any trees (`data.public_numbers`), so the learner
checks that on the rows they were said to be grown on they cost not clearly more than trees on unseen rows. What a file
says of rows unlike all public ones nobody can check."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parley.data import Design, Preparation
from parley.data.fitting import PUBLIC_SAMPLE, grown_here, read_public
from parley.data.split import HeldBack, folds
from parley.data.tree_growing import grow
from parley.errors import DataError
from parley.losses import EmpiricalRisk
from parley.protocol.setup import Setup
from parley.validate import Floats

FOLDS = 10
ROUNDING_COST = 1e-12  # a cost that rounding may make
MAX_STANDARD_ERRORS = (
    3.0  # standard errors by which pinned trees may cost more on the public sample than trees that never saw it
)


@dataclass(frozen=True, eq=False)
class TreeFold:
    """Public rows (coded columns [columns, n], targets, weights [n]), and trees grown without the `held` ones [n]."""

    objective: EmpiricalRisk
    preparation: Preparation  # with these trees
    columns: Floats
    y: Floats
    weight: Floats
    held: NDArray[np.bool_]

    @cached_property
    def theta(self) -> Floats:
        """The public leaf values [P]."""
        return self.objective.start(self.preparation)

    @cached_property
    def judges(self) -> Design:
        """The rows that no tree was grown on, in its leaves."""
        return self._design(self.held)

    @cached_property
    def grown(self) -> Design:
        """The rows that the trees were grown on."""
        return self._design(~self.held)

    @property
    def cost(self) -> float:
        """The judges' mean loss at the leaf values, which no penalty pulls away."""
        return float(np.mean(self.objective.record_losses(self.judges, self.theta)))

    def _design(self, kept: NDArray[np.bool_]) -> Design:
        leaves = self.preparation.leaf_columns(self.columns[:, kept])
        return Design(np.ascontiguousarray(leaves.T), self.y[kept], self.weight[kept])


def tree_folds(setup: Setup, count: int = FOLDS) -> Iterator[TreeFold]:
    """Yield the trees of these terms, regrown without each of `count` folds of their public sample."""
    public_arrays = _public_arrays(setup)
    for held in folds(len(public_arrays[1]), count):
        yield _grown_without(setup, public_arrays, held)


def worse_trees(setup: Setup, grown: HeldBack | None = None) -> str | None:
    """Say what is wrong if pinned trees cost clearly more on the public sample than trees grown here; else, or if none
    are pinned, return None. `grown` is the known cost of held-back rows. A fold without which a class has no rows is
    left out on both sides."""
    if setup.terms.model.trees is None or grown_here(setup.preparation) is not False:
        return None
    public_arrays = _public_arrays(setup)
    usable_folds = [
        held for held in folds(len(public_arrays[1]), FOLDS) if _has_every_class(setup, public_arrays[1], ~held)
    ]
    if len(usable_folds) < 2:
        return (
            "this machine grows other trees than the pinned trees, and the public sample has too few rows, in total or "
            "of a class, to compare the trees; use a larger public sample, or model.columns = 'bins'"
        )
    grown = grown or HeldBack(np.array([_grown_without(setup, public_arrays, held).cost for held in usable_folds]))
    largest_cost = grown.cost + MAX_STANDARD_ERRORS * grown.spread
    cost = _judged_trees(setup, setup.preparation, public_arrays, np.any(usable_folds, axis=0)).cost
    if cost <= largest_cost + ROUNDING_COST:
        return None
    more, than = (
        (f"{cost / largest_cost:.3g} times as much", "as") if largest_cost > ROUNDING_COST else ("more", "than")
    )
    return (
        f"the pinned trees cost {more} on the public sample {than} trees that this machine grows and tests on separate "
        "rows. So the pinned trees were not grown on the public sample with the settings of model.trees; pin new trees "
        "(parley pin)"
    )


def require_as_good(setup: Setup, grown: HeldBack | None = None) -> None:
    """Refuse (DataError) pinned trees that are `worse_trees`."""
    if (why := worse_trees(setup, grown)) is not None:
        raise DataError(f"model.preparation: {why}")


def _public_arrays(setup: Setup) -> tuple[Floats, Floats, Floats]:
    """Return the public sample: coded columns [columns, n], prepared targets [n], weights [n]."""
    preparation, public = setup.preparation, read_public(setup.terms.model)
    y = preparation.target(public, PUBLIC_SAMPLE)
    return preparation.clipped(preparation.coded(public, PUBLIC_SAMPLE)), y, preparation.weights(y)


def _has_every_class(setup: Setup, y: Floats, kept: NDArray[np.bool_]) -> bool:
    return not setup.preparation.model.classifies or np.unique(y[kept]).size == np.unique(y).size


def _grown_without(setup: Setup, known: tuple[Floats, Floats, Floats], held: NDArray[np.bool_]) -> TreeFold:
    """Grow the trees of these terms without the held-back public rows."""
    preparation, size = setup.preparation, setup.terms.model.trees
    if size is None:
        raise DataError("model.columns: expected 'trees'")
    columns, y, weight = (each[..., ~held] for each in known)
    forest = grow(size, columns, y, weight, preparation.outcomes, preparation.model.classifies, preparation.named)
    return _judged_trees(setup, replace(preparation, forest=forest), known, held)


def _judged_trees(
    setup: Setup, preparation: Preparation, known: tuple[Floats, Floats, Floats], held: NDArray[np.bool_]
) -> TreeFold:
    """Return these trees, judged by the held-back public rows."""
    return TreeFold(replace(setup.risk, origin=None).around(preparation), preparation, *known, held)
