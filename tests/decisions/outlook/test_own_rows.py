"""What an outlook draws of owners' models, beside what the procedure itself makes of the same rows."""

from dataclasses import dataclass

import numpy as np
import pytest
from samples import make_terms, regression_table

import parley
from parley.data import Design
from parley.decisions.outlook.owners import Owners, OwnRows
from parley.learning.outcome.correction import JOINT, NO_MODEL, PUBLIC, Start, corrected
from parley.learning.outcome.ridge import Centre, Ridge
from parley.losses import LinearRegression

ROWS, P = 120, 4
DRAWN, MADE = 2000, 40  # tables; those that the procedure itself looks at
BEST, ZERO = np.full(P, 0.6), np.zeros(P)
PREPARATION = parley.Owner("a", regression_table(10)).prepare(make_terms(10)).setup.preparation


@pytest.fixture(autouse=True)
def many_draws(monkeypatch):
    """So many that an expectation is what it is."""
    monkeypatch.setattr("parley.decisions.outlook.owners.MAX_DRAWS", DRAWN)
    monkeypatch.setattr("parley.decisions.outlook.owners.MAX_NUMBERS", 2**15 * 16)


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables of one owner, each drawn anew with its best parameters, the joint model and the public fit [D, P]. Errors
    and differences are variances, in units of that of an estimate from so many rows; the joint model and the public one
    are of populations that differ too."""

    own: np.ndarray
    joint: np.ndarray
    public: np.ndarray | None
    rows: list[Design]

    @classmethod
    def drawn(cls, differ: float, joint_error: float, public_error: float | None) -> "Tables":
        rng, shape = np.random.default_rng(5), (DRAWN, P)
        own = BEST + rng.normal(size=shape) * np.sqrt(differ / ROWS)
        joint, public = (
            BEST + rng.normal(size=shape) * np.sqrt((differ + (v or 0.0)) / ROWS) for v in (joint_error, public_error)
        )
        X, noise = np.linalg.qr(rng.normal(size=(DRAWN, ROWS, P)))[0] * np.sqrt(ROWS), rng.normal(size=(DRAWN, ROWS))
        rows = [Design(x, x @ best + e, np.ones(ROWS)) for x, best, e in zip(X, own, noise, strict=True)]
        return cls(own, joint, None if public_error is None else public, rows)

    def ruled(self) -> np.ndarray:
        """Excess costs [D, 2] of models alone and personal ones, by the drawn rule."""
        estimate = np.array([rows.X.T @ rows.y / ROWS for rows in self.rows])
        records = np.array([float(ROWS)])
        priced = OwnRows.folds_price(records, (1, *estimate.shape), np.random.default_rng(6))
        rule = OwnRows(np.full(P, 2.0), np.full(1, 2.0), records, estimate[None], priced)
        alone = rule.ridge([ZERO])
        alone = alone if self.public is None else rule.corrected(self.public, [ZERO], alone)
        others = [ZERO] if self.public is None else [self.public, ZERO]
        personal = rule.corrected(self.joint, others, alone)
        return np.stack([np.sum((model.theta[0] - self.own) ** 2, axis=1) for model in (alone, personal)], axis=1)

    def made(self, place: int) -> list[float]:
        """The same of one table, by the procedure itself."""
        ridge, none = Ridge(LinearRegression(), PREPARATION, self.rows[place]), Centre(NO_MODEL, ZERO, free=False)
        starts = [Start(NO_MODEL, ZERO, None)]
        starts += [] if self.public is None else [Start(PUBLIC, self.public[place], 0)]
        starts.append(Start(JOINT, self.joint[place], len(starts) - 1))
        known = [Centre(start.name, start.theta, False) for start in starts[:0:-1]]  # the joint model first
        pulled = ridge.averages([[none], *([*known[-count:], none] for count in range(1, len(starts)))])
        models = corrected(ridge, pulled, starts, None)[-2:]
        return [float(np.sum((model.theta - self.own[place]) ** 2)) for model in models]


def owner(joint_error: float, public_error: float | None) -> Owners:
    """The same owner beside one so large that the joint model hardly knows it."""
    curvature, records = np.full(P, 2.0), np.array([ROWS, 1e9])
    fit = None if public_error is None else np.full(P, np.sqrt(public_error / ROWS))
    return Owners(curvature, records, np.ones(P), np.zeros(P), np.full(P, joint_error / ROWS), BEST, fit)


def within(found: np.ndarray, said: np.ndarray = ZERO) -> np.ndarray:
    """Whether means over draws are within three standard errors of each other."""
    error = np.hypot(*(each.std(axis=0) / np.sqrt(len(each)) for each in (found, said)))
    return np.abs(found.mean(axis=0) - said.mean(axis=0)) < 3 * error


@pytest.mark.parametrize(
    ("differ", "joint_error", "public_error"), [(0.0, 0.1, 1.0), (1.0, 0.1, 1.0), (0.3, 1.0, None), (20.0, 1.0, 1.0)]
)
def test_the_drawn_rule_costs_what_the_procedure_does(differ, joint_error, public_error):
    tables = Tables.drawn(differ, joint_error, public_error)
    made, ruled = np.array([tables.made(place) for place in range(MADE)]), tables.ruled()
    assert within(made - ruled[:MADE]).all()
    between, owners = np.full(P, differ / ROWS), owner(joint_error, public_error)
    said = np.stack([owners.alone(between)[0], owners.personal(between)[0]], axis=1)
    assert within(ruled, said).all()
    if differ == 0:  # mutants: one that keeps the model alone, one that forgets the public sample
        assert not within(made[:, 1] - ruled[:MADE, 0])
        assert not within(ruled[:, 0], owner(joint_error, None).alone(between)[0])


def test_joining_adds_less_the_more_owners_differ_and_costs_next_to_nothing():
    owners = owner(0.1, 1.0)
    gains = np.array(
        [
            (owners.alone(t) - owners.personal(t))[0].mean()
            for t in (np.full(P, d / ROWS) for d in (0.0, 0.5, 2.0, 20.0))
        ]
    )
    assert (np.diff(gains[:3]) < 0).all()
    assert gains[0] > 0.3 * owners.alone(np.zeros(P))[0].mean()
    assert abs(gains[-1]) < 0.02 * owners.alone(np.full(P, 20.0 / ROWS))[0].mean()


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
