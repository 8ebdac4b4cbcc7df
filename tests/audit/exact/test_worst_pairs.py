"""Pairs that are built for kinds of which the search over all pairs finds about half of the claim: the claim is not
loose there, the search is weak."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from every_kind import EVERY_KIND
from scipy.optimize import differential_evolution

from parley.audit.exact.enumeration import answered_share, density_share
from parley.data import Design
from parley.owner.owner import Owner
from parley.protocol.queries import Tables
from parley.protocol.setup import resolve
from parley.tasks.dynamics.question import TrajectoriesQuery


def test_a_constant_trajectory_and_one_that_changes_sign_use_all_of_the_claim():
    """Their rows are orthogonal, and so are their second moments; all numbers stand at the ends of their bounds."""
    terms = EVERY_KIND["trajectories"]
    setup, samples = resolve(terms), terms.model.samples
    question = setup.part("a").training.question
    signs = np.resize([5.0, -5.0], samples)

    def tables(first):
        cells = np.concatenate([first, np.zeros(samples * (question.records - 1))])
        which = np.repeat(np.arange(question.records), samples)
        return Owner("a", pd.DataFrame({"which": which, "x": cells, "z": cells})).prepare(setup).tables

    query = TrajectoriesQuery.ask(setup.hash, "learner", 1)
    pair = tables(np.full(samples, 5.0)), tables(signs)
    assert 1 - 1e-9 < answered_share(question, [query], *pair) <= 1
    less = replace(question, sensitivity=question.sensitivity / 2**0.5)  # a missing factor
    assert answered_share(less, [query], *pair) > 1


@pytest.mark.parametrize(("times", "low", "high"), [(1, 0.7, 1.0), (2, 1.0, 2.0)])
def test_a_minimum_far_out_uses_three_quarters_of_the_claim_and_half_the_noise_is_found(times, low, high):
    """Two kinds of other rows outweigh the penalty, and the canary is far on the wrong side with either record."""
    setup = resolve(EVERY_KIND["minimum"])
    stage = setup.part("a").training
    question = replace(stage.question, cost=replace(stage.question.cost, rate=times * stage.question.cost.rate))
    n, epsilon = question.records, float(stage.series.epsilon)

    def tables(canary, outcome, x):
        many = round(x[0] * (n - 1))
        cells = 100 * np.concatenate([[canary], np.full(many, x[1]), np.full(n - 1 - many, x[2])])
        y = np.concatenate([[outcome], np.full(many, x[3]), np.full(n - 1 - many, x[4])])
        rows = Design(np.column_stack([cells, np.ones(n)]), np.where(y < 0, -1.0, 1.0), np.ones(n))
        return Tables(rows, rows.empty())

    def missing(x):
        pair = tables(x[5], x[6], x), tables(x[7], x[8], x)
        return -density_share(question, x[11] * x[9:11], *pair, epsilon)

    ends = [(0.0, 1.0), *[(-1.0, 1.0)] * 10, (0.0, 60.0)]
    found = differential_evolution(missing, ends, seed=2, maxiter=45, popsize=6, tol=1e-7, polish=False)
    assert low < -found.fun <= high
