"""The curvature of a public sample's cost at its best fit, row by row: what whitening by it weighs rows with."""

from dataclasses import replace

import numpy as np

from parley.data import Design, Preparation
from parley.errors import DataError
from parley.losses.objective import EmpiricalRisk
from parley.losses.objectives.newton import optimum_by_newton
from parley.validate import Floats


def public_curvatures(objective: EmpiricalRisk, preparation: Preparation, design: Design) -> Floats:
    """By how much each public row bends the cost at the rows' best fit [n].

    The fit has a ridge of parameters/rows times the mean curvature where a search begins: that of moments of so few
    rows (`data.whitening`), so that it exists where classes separate. No private record is looked at.
    """
    start = objective.start(preparation)
    hessian, found = objective.hessian(design, start), None
    if hessian is not None:
        ridge = min(1.0, len(start) / len(design)) * float(np.trace(hessian)) / len(start)
        ridged = replace(objective, regularisation=objective.regularisation + ridge)
        found = objective.record_curvatures(design, optimum_by_newton(ridged, [design], None, start))
    if found is None:
        raise DataError("model.whitening: the curvature is out of reach; expected fewer columns, or 'public'")
    return found
