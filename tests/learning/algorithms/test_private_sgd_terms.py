"""Terms of private descent: which of horizon, epochs and batches follow, and what does not add up."""

from fractions import Fraction

import numpy as np
import pytest
from flowers import sgd_terms, studied
from samples import iris_table

import parley
from parley.errors import TermsError
from parley.protocol.setup import resolve


@pytest.fixture(scope="module")
def flowers():
    return iris_table()


def test_horizon_epochs_and_batches_follow_from_each_other():
    assert sgd_terms().learning.horizon == 15
    given = sgd_terms(learning={"epochs": None, "horizon": 20})
    assert (given.learning.epochs, given.learning.horizon) == (4, 20)
    assert given.hash == sgd_terms(learning={"epochs": 4, "horizon": 20}).hash == sgd_terms(learning={"epochs": 4}).hash
    assert given.changed(learning={"epochs": 2}).learning.horizon == 10
    assert given.changed(learning={"horizon": 30}).learning.epochs == 6
    said = sgd_terms(learning={"sampling": "partition", "optimiser": "plain"}, privacy={"clip_norm": "l2"})
    assert said.hash == sgd_terms().hash
    assert sgd_terms(learning={"batch_seed": 1}).hash != sgd_terms().hash
    assert sgd_terms(learning={"batch_seed": 0}).hash == sgd_terms().hash
    capitals = [sgd_terms(privacy={"clip_norm": norm}) for norm in ("L2", "LInf", "linf")]
    assert capitals[0].hash == sgd_terms().hash
    assert capitals[1].hash == capitals[2].hash
    assert capitals[1].privacy.clip_norm == "linf"
    for key in ("clip_norm", "batches", "optimiser", "sampling"):
        assert (
            key
            not in parley.Terms.from_dict(
                {
                    "model": {"kind": "linear-svm", "target": "y"},
                    "privacy": {"clip": 1.0},
                    "owners": [{"name": "a", "records": 10, "epsilon": 1.0}],
                }
            ).canonical
        )


REFUSED = [
    ({"learning": {"batches": None}}, "learning.batches: expected a whole number with private-sgd"),
    ({"learning": {"epochs": None}}, "learning.epochs: expected"),
    ({"learning": {"horizon": 14}}, "learning.horizon: expected epochs x batches = 15"),
    ({"learning": {"batches": 51}}, "learning.batches: expected at most the number of training records of 'a'"),
    ({"learning": {"optimiser": "adam", "step": "auto"}}, "learning.step: expected a number with optimiser = 'adam'"),
    ({"learning": {"sampling": "poisson", "batches": 1}}, "learning.batches: expected at least 2"),
    ({"learning": {"sampling": "poisson", "batch_seed": 3}}, "learning.batch_seed: not allowed"),
    (
        {"learning": {"sampling": "poisson"}, "privacy": {"person": "p", "records_per_person": 2}},
        "learning.sampling: expected 'partition'",
    ),
    (
        {"learning": {"sampling": "poisson"}, "privacy": {"shared_records": 2}, "hosts": True},
        "learning.sampling: expected 'partition'",
    ),
    ({"learning": {"sampling": "sometimes"}}, "learning.sampling = 'sometimes': expected 'partition' or 'poisson'"),
    *(({"learning": {"sampling": odd}}, "expected 'partition' or 'poisson'") for odd in ("", 0, False, [], {})),
    *(({"learning": {"optimiser": odd}}, "expected 'plain', 'momentum' or 'adam'") for odd in ("", 0, False, [])),
    *(({"learning": {"batch_seed": odd}}, "learning.batch_seed") for odd in (False, 0.0, "", [])),
    ({"learning": {"sampling": "poisson", "batch_seed": 0}}, "learning.batch_seed: not allowed"),
    *(({"privacy": {"mechanism": odd}}, "privacy.mechanism") for odd in (["gaussian"], {}, 3)),
    *(({"privacy": {"mechanism": odd, "clip_norm": "l1"}}, "privacy.mechanism") for odd in (["gaussian"], {}, 3)),
    *(({"privacy": {"clip_norm": odd}}, "privacy.clip_norm") for odd in (["l1"], {}, 3, "l3")),
    *(({"learning": {"algorithm": odd}}, "learning.algorithm") for odd in (["private-sgd"], {}, 3)),
    (
        {"learning": {"algorithm": "averaged-subgradient"}},
        "learning.batches: allowed only with algorithm = 'private-sgd'",
    ),
    ({"privacy": {"clip_norm": "linf", "clip": None}}, "privacy.clip: required with privacy.clip_norm"),
]


@pytest.mark.parametrize(("changes", "sentence"), REFUSED)
def test_terms_that_do_not_add_up_are_refused_in_a_sentence(changes, sentence):
    with pytest.raises(TermsError) as caught:
        sgd_terms(**changes)
    assert sentence in str(caught.value)


def test_other_algorithms_take_no_clip_of_another_norm_and_local_steps_no_one_vs_all():
    gradients = {"algorithm": "averaged-subgradient", "batches": None, "epochs": None}
    with pytest.raises(TermsError, match=r"privacy\.clip_norm: expected 'l\d', the norm of the mechanism"):
        sgd_terms(learning=gradients, privacy={"clip_norm": "linf"})
    with pytest.raises(TermsError, match="the effect of one record on local steps"):
        sgd_terms(kind="one-vs-all", learning={**gradients, "algorithm": "federated-averaging", "step": "auto"})


def test_replicates_have_draws_of_their_own(flowers):
    """Without them a study of Poisson draws would take one draw's luck for the truth."""
    terms = sgd_terms(epsilon=1e5, learning={"sampling": "poisson", "epochs": 1}, rows=(50,))
    theta = studied(flowers, terms, replicates=6).theta
    assert np.abs(np.diff(theta, axis=0)).max(axis=1).min() > 1e-3


def test_a_budget_is_the_same_in_five_batches_as_in_one():
    """Noise is larger by the number of batches and there are as many more steps: the ledger's total stays."""
    spent = {
        batches: resolve(sgd_terms(learning={"batches": batches, "epochs": 3})).part("a").cost(3 * batches, 3 * batches)
        for batches in (1, 5, 50)
    }
    assert {*spent.values()} == {Fraction(2)}
