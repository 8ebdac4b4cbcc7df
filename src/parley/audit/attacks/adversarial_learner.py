"""A learner that does not follow the algorithm: it asks at parameters of its choice, where a record's answer tells
most."""

from dataclasses import dataclass

import numpy as np

from parley.audit.canary import CanarySearch
from parley.learning.start import starting_point
from parley.protocol.queries import Tables
from parley.protocol.setup import Setup
from parley.validate import Floats

STEPS = 120  # of the climb
FAR = 1e3  # where no box holds parameters


@dataclass(frozen=True)
class AdversarialLearner:
    """How far apart the answers on two usual neighbouring tables lie, as a share of the sensitivity that noise was
    calibrated for: where a run begins, and at the worst parameter that was found. Neither exceeds 1, or the terms are
    broken."""

    at_start: float
    at_worst: float


def adversarial_learner(setup: Setup, name: str, seed: int = 0) -> AdversarialLearner | None:
    """What this owner's answers tell about one person at most, as far as a climb over parameters finds; None where an
    answer is about a batch, whose rows a learner cannot choose.

    Formal guarantee: none is needed from the learner. The bound on a record holds at every parameter that an owner
    answers at, so a learner that chooses them learns no more than epsilon: it spends the same budget on better
    questions. What it may gain is the distance between the two shares.
    """
    if setup.part(name).training.question.batched:
        return None
    a, b = CanarySearch(setup, name).typical_tables()
    start = starting_point(setup)
    rng = np.random.default_rng(seed)
    radius = FAR if setup.limits.radius is None else setup.limits.radius
    best, worst = start, _told(setup, name, start, a, b)
    begin, reach = worst, radius
    for _ in range(STEPS):
        tried = np.clip(best + reach * rng.standard_normal(len(start)), -radius, radius)
        share = _told(setup, name, tried, a, b)
        if share > worst:
            best, worst = tried, share
        else:
            reach *= 0.93
    return AdversarialLearner(begin, worst)


def _told(setup: Setup, name: str, theta: Floats, a: Tables, b: Tables) -> float:
    """How far apart answers at this parameter lie, of what noise hides."""
    question, query = CanarySearch(setup, name, at=theta).asked
    one, other = (question.bounded(query, tables).value for tables in (a, b))
    order = 1 if question.norm == "l1" else 2
    return float(np.linalg.norm(one - other, order)) / question.sensitivity
