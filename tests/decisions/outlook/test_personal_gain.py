"""What the forecast draws of personal models, beside what the procedure itself makes of drawn tables."""

import numpy as np
import pytest
from samples import make_terms, regression_table

import parley
from parley.data import Design
from parley.decisions.outlook.personal_gain import Owners
from parley.learning.outcome.correction import JOINT, NO_MODEL, PUBLIC, Start, corrected
from parley.learning.outcome.ridge import Centre, Ridge
from parley.losses import LinearRegression

ROWS, TABLES, P = 120, 50, 4
BEST = np.full(P, 0.6)
PREPARATION = parley.Owner("a", regression_table(10)).prepare(make_terms(10)).setup.preparation


def by_procedure(differ: float, joint_error: float, public_error: float | None) -> np.ndarray:
    """Excess costs [tables, 2] of models alone and personal ones, made of drawn rows. Errors and differences are
    variances, in units of that of an estimate from so many rows."""
    found = []
    for seed in range(TABLES):
        rng = np.random.default_rng(seed)
        own, joint, public = (
            BEST + rng.normal(size=P) * np.sqrt((v or 0.0) / ROWS) for v in (differ, joint_error, public_error)
        )
        if public_error is not None:
            public = public + rng.normal(size=P) * np.sqrt(differ / ROWS)
        X = rng.normal(size=(ROWS, P))
        rows = Design(X, X @ own + rng.normal(size=ROWS), np.ones(ROWS))
        ridge = Ridge(LinearRegression(), PREPARATION, rows)
        starts = [Start(NO_MODEL, np.zeros(P), None)]
        starts += [] if public_error is None else [Start(PUBLIC, public, 0)]
        starts.append(Start(JOINT, joint, len(starts) - 1))
        none = Centre(NO_MODEL, np.zeros(P), free=False)
        pulled = ridge.averages([[none] if s.leads is None else [Centre(s.name, s.theta, False), none] for s in starts])
        made = corrected(ridge, pulled, starts, None)
        found.append([np.sum((model.theta - own) ** 2) for model in made[-2:]])
    return np.array(found)


def drawn(joint_error: float, public_error: float | None) -> Owners:
    """The same owner beside one so large that the joint model hardly knows it."""
    curvature, records = np.full(P, 2.0), np.array([ROWS, 1e9])
    fit = None if public_error is None else np.full(P, np.sqrt(public_error / ROWS))
    return Owners(curvature, records, np.ones(P), np.zeros(P), np.full(P, joint_error / ROWS), BEST, fit)


@pytest.mark.parametrize(
    ("differ", "joint_error", "public_error"), [(0.0, 0.1, 1.0), (1.0, 0.1, 1.0), (0.3, 1.0, None), (20.0, 1.0, 1.0)]
)
def test_the_expected_cost_is_what_the_procedure_comes_to(differ, joint_error, public_error):
    found, owners = by_procedure(differ, joint_error, public_error), drawn(joint_error, public_error)
    between = np.full(P, differ / ROWS)
    said = np.array([owners.alone(between)[0].mean(), owners.personal(between)[0].mean()])
    error = found.std(axis=0, ddof=1) / np.sqrt(TABLES)
    assert (np.abs(found.mean(axis=0) - said) < 3 * error + 0.15 * said).all()
    if public_error is not None and differ == 0:  # a mutant that forgets the public sample
        forgetful = drawn(joint_error, None).alone(between)[0].mean()
        assert abs(found[:, 0].mean() - forgetful) > 3 * error[0]


def test_joining_adds_less_the_more_owners_differ_and_costs_next_to_nothing():
    owners = drawn(0.1, 1.0)
    gains = np.array(
        [
            (owners.alone(t) - owners.personal(t))[0].mean()
            for t in (np.full(P, d / ROWS) for d in (0.0, 0.5, 2.0, 200.0))
        ]
    )
    assert (np.diff(gains[:3]) < 0).all()
    assert gains[0] > 0.3 * owners.alone(np.zeros(P))[0].mean()
    assert abs(gains[-1]) < 0.02 * owners.alone(np.full(P, 200.0 / ROWS))[0].mean()


def test_a_joint_model_that_stays_at_the_public_fit_adds_nothing():
    """Its error is the public fit's own: another draw of it would be a second opinion, which nobody has."""
    fit = np.full(P, np.sqrt(1.0 / ROWS))
    stayed = Owners(
        np.full(P, 2.0), np.array([ROWS, 400.0]), np.ones(P), fit**2, np.zeros(P), BEST, fit, True, moved=0.0
    )
    for differ in (0.0, 1.0):
        between = np.full(P, differ / ROWS)
        alone, personal = (each(between).mean(axis=1) for each in (stayed.alone, stayed.personal))
        assert (np.abs(alone - personal) < 0.03 * alone).all()
    elsewhere = Owners(
        np.full(P, 2.0), np.array([ROWS, 400.0]), np.ones(P), np.zeros(P), fit**2, BEST, fit, True, moved=0.0
    )
    alone, personal = (each(np.zeros(P)).mean(axis=1) for each in (elsewhere.alone, elsewhere.personal))
    assert (alone - personal > 0.1 * alone).any()


def test_an_owner_by_itself_gains_exactly_nothing():
    single = Owners(np.full(P, 2.0), np.array([ROWS * 1.0]), np.ones(P), np.zeros(P), np.zeros(P), BEST)
    np.testing.assert_array_equal(single.alone(np.zeros(P)), single.personal(np.zeros(P)))
