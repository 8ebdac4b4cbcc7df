"""An owner that learns for itself may use its own data once more, in a last step that never leaves it.

W lets the learning owner set its own budget to infinity. That leaks: theta[k] travels to the other owners, and with two owners the
other one reads the noiseless gradient off two successive queries. Here the learner's own answers carry the noise of its own eps_l
like everybody's, so whatever travels is eps_l-DP; noiseless own data enter only this step, after the last query.
"""

import numpy as np

from parley.errors import ParleyError
from parley.owner import Agreement
from parley.validate import Floats


def own_step(own: Agreement, joint: Floats) -> Floats | None:
    """The joint model [P] moved towards the owner's own optimum, as far as its own held-out rows approve; None without such an optimum.

    Without held-out rows there is nothing to approve by, and the joint model stays as it is. The result is a function of the
    owner's private rows and carries no guarantee: it is for the owner's own use.
    """
    if not len(own.tables.held_out):
        return joint
    objective = own.setup.objective
    try:
        best = objective.optimum([own.tables.train], own.setup.limits.radius, start=objective.start(own.setup.preparation))
    except ParleyError:  # nothing to move towards; whatever is wrong, the joint model must not be lost for it
        return None
    if best is None:
        return None
    candidates = joint + np.linspace(0, 1, 21)[:, None] * (best - joint)
    return np.asarray(candidates[int(np.argmin(objective.cost(own.tables.held_out, candidates)))])
