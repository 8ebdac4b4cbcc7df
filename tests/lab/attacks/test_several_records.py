"""A few records off sums of their gradients, and a learner's own rows off its next question."""

from unittest import mock

import numpy as np
import pytest
from samples import class_table, make_terms

import parley
from parley.data import Design
from parley.errors import SettingError
from parley.losses import RecordBound, make
from parley.losses.loss import Squared
from parley.owner.owner import Owner
from parley.terms import Model
from parley_lab.attacks.leakage import alone, learners_gradient, read_record
from parley_lab.attacks.several_records import leak_several, misread, read_records

LOGISTIC = make(Model(kind="logistic-regression", target="y"))
BOUND = RecordBound(20.0, "l1", clips=True)  # never binds below


def small_table(records, seed, features=6):
    """So many records, and twice as many questions."""
    rng = np.random.default_rng(seed)
    X = np.hstack([rng.uniform(-3, 3, (records, features)), np.ones((records, 1))])
    rows = Design(X, rng.choice([-1.0, 1.0], records), np.ones(records))
    return rows, 0.7 * rng.normal(size=(2 * records, features + 1))


@pytest.mark.parametrize("records", [2, 8])
def test_a_few_records_are_read_off_unprotected_means(records):
    for seed in range(5):
        rows, theta = small_table(records, seed)
        gradients = np.array([LOGISTIC.mean_gradient(rows, each) for each in theta])
        found = read_records(LOGISTIC.loss, gradients, theta, records)
        assert misread(found, rows) < 1e-8
        assert sorted(each.y for each in found) == sorted(rows.y)


def test_with_noise_they_are_not():
    rows, theta = small_table(3, 1)
    errors = {eps: leak_several(LOGISTIC, rows, theta, BOUND, eps) for eps in (1.0, 1e9, np.inf)}
    assert errors[1.0] > 0.9  # reading 0 of everything has 1
    assert errors[1e9] < 1e-4
    assert errors[np.inf] < 1e-8


def test_a_squared_loss_tells_second_moments_and_a_clip_needs_its_norm():
    rows, theta = small_table(2, 0)
    with pytest.raises(SettingError):
        read_records(Squared(), theta, theta, 2)
    with pytest.raises(SettingError):
        leak_several(LOGISTIC, rows, theta, RecordBound(20.0, "l2", clips=True), 1.0)


def overheard(epsilon):
    """What owner b is asked and answers while owner a learns, and what a's rows are; a's noise is for this epsilon."""
    terms = make_terms(
        40, 60, model__kind="logistic-regression", model__regularisation=0.1, model__radius=None, learning__learner="a"
    )
    terms = terms.changed(owners={"a": {"epsilon": epsilon}})
    heard, answer = [], Owner.answer

    def listening(self, query):
        found = answer(self, query)
        if self.name == "b":
            heard.append((query.theta[0], found.value[0]))
        return found

    owners = [Owner("a", class_table(40, 1)), Owner("b", class_table(60, 2))]
    with mock.patch.object(Owner, "answer", listening):
        parley.train(terms, owners, seed=1)
    return heard, owners[0].prepare(terms)


def read_learner(epsilon):
    """The record that b reads off two questions of a, of whose other records it knows all, and the true one."""
    (before, answer), (after, _), *_ = (heard := overheard(epsilon))[0]
    agreement = heard[1]
    risk, rows = agreement.setup.risk, agreement.tables.train.in_memory()
    own = learners_gradient(risk, before, after, 0.2, 0.4, 0.6 * answer)
    found = read_record(risk.loss, alone(risk, own, rows.cut(slice(1, None)), before), before)
    return own, risk.mean_gradient(rows, before), found, rows


def test_an_owner_that_learns_without_noise_is_read_by_the_other_from_two_questions():
    own, true, found, rows = read_learner(1e9)  # as good as infinite, which no terms allow
    assert np.abs(own - true).max() < 1e-6
    assert np.abs(found.x - rows.X[0]).max() < 1e-4
    assert found.y == pytest.approx(rows.y[0], abs=1e-4)


def test_at_its_own_epsilon_it_is_not():
    own, true, found, rows = read_learner(1.0)
    assert np.abs(own - true).max() > 0.1
    assert np.linalg.norm(found.x - rows.X[0]) > 0.5 * np.linalg.norm(rows.X[0])
