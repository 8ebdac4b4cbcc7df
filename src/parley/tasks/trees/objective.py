"""Leaf values as parameters of a model: the level first, then the leaves of every column and pair."""

from dataclasses import dataclass

from parley.data import Preparation
from parley.losses import Objective
from parley.tasks.trees.structure import make_structure
from parley.validate import Floats


@dataclass(frozen=True)
class LeafValues(Objective):
    """theta [P] has the values of all leaves, in the target's own units or, for classes, as log odds."""

    def parameters(self, preparation: Preparation) -> int:
        return make_structure(preparation).parameters

    def start(self, preparation: Preparation) -> Floats:
        """All leaves at 0, and the level in the middle of the target's bounds."""
        theta = super().start(preparation)
        if not preparation.model.classifies:
            low, high = preparation.target_bounds
            theta[0] = low / 2 + high / 2
        return theta
