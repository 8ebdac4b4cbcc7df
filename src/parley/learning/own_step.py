"""An owner that learns for itself may use its own data once more, in a last step that never leaves it.

W lets the learning owner set its own budget to infinity. That leaks: theta[k] travels to the other owners, and with two owners the
other one reads the noiseless gradient off two successive queries. Here the learner's own answers carry the noise of its own eps_l
like everybody's, so whatever travels is eps_l-DP; noiseless own data enter only this step, after the last query.
"""

import numpy as np

from parley.data import Design
from parley.objectives import MarginObjective, optimum
from parley.validate import Floats


def own_step(objective: MarginObjective, train: Design, held_out: Design, joint: Floats, radius: float | None) -> Floats:
    """The joint model [p] moved towards the owner's own optimum, as far as its own held-out rows approve.

    Without held-out rows there is nothing to approve by, and the joint model stays as it is. The result is a function of the
    owner's private rows and carries no guarantee: it is for the owner's own use.
    """
    if not len(held_out):
        return joint
    own = optimum(objective, [train], radius)
    candidates = joint + np.linspace(0, 1, 21)[:, None] * (own - joint)
    return np.asarray(candidates[int(np.argmin(objective.cost(held_out, candidates)))])
