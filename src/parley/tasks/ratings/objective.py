"""Items' V = [b, Q] of a matrix factorisation: a rating is about middle + b_i + a_u + p_u.q_i, and (a_u, p_u) never
leave their owner.

What owners are asked about V is not the gradient of a record's loss at parameters that all share, but what each user
says once its own factors are solved (`user_updates`).
"""

from dataclasses import dataclass

import numpy as np

from parley.data import Preparation
from parley.losses import Objective
from parley.tasks.ratings.terms import item_count
from parley.validate import Floats

START = 0.1  # deviation of the items' factors at first: at 0 nobody could tell one factor from another


@dataclass(frozen=True)
class ItemFactors(Objective):
    """theta is V, row by row: an item's b, then its factors."""

    def parameters(self, preparation: Preparation) -> int:
        return item_count(preparation.model) * ((preparation.model.factors or 0) + 1)

    def start(self, preparation: Preparation) -> Floats:
        """No item better than another, and factors drawn by the terms' public seed."""
        model = preparation.model
        V = np.zeros((item_count(model), (model.factors or 0) + 1))
        V[:, 1:] = START * np.random.default_rng(model.seed).standard_normal(V[:, 1:].shape)
        return V.ravel()
