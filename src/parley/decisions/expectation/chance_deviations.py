"""How owners of one law differ by chance: what a rule other than the mean sees beside their noise."""

import numpy as np

from parley.decisions.knowledge.pilot import Pilot
from parley.validate import Floats


def chance_deviations(pilot: Pilot, replicates: int, rng: np.random.Generator) -> dict[str, Floats]:
    """By how much each owner's exact answers lie away from everybody's mean [replicates, P], by name: drawn once for a
    run, for its rows stay the same.

    A mean gradient of n_l rows scatters by G/n_l, G the covariance of the pilot's record gradients at its best model,
    each cut to the bound. Weighted by records the deviations add up to nothing, so the best model stays where it is,
    and the mean of all answers never sees them. Where owners differ by more than chance nothing is known here.
    """
    theta, bound = pilot.landscape().optimum, pilot.bound
    gradients = pilot.objective.record_gradients(pilot.design, theta)
    if bound.clips:
        sizes = pilot.objective.record_norms(pilot.design, theta, bound.norm)
        gradients = gradients * np.minimum(1.0, bound.value / np.maximum(sizes, bound.value))[:, None]
    values, directions = np.linalg.eigh(np.cov(gradients, rowvar=False).reshape(len(theta), len(theta)))
    root = directions * np.sqrt(np.maximum(values, 0.0))
    shares = pilot.rows / pilot.rows.sum()
    drawn = rng.standard_normal((len(shares), replicates, len(theta))) @ root.T / np.sqrt(pilot.rows)[:, None, None]
    drawn -= np.einsum("n,nrp->rp", shares, drawn)
    return dict(zip(pilot.setup.schedule.names, drawn, strict=True))
