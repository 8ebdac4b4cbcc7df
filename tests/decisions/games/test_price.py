"""What joining must save to be worth its privacy cost."""

import numpy as np
import pytest
from samples import GAUSSIAN, make_terms, regression_table

import parley
from parley.decisions.knowledge.privacy_cost import joining_price
from parley.errors import TermsError
from parley.privacy.accounting.meaning import min_entropy_leakage, pure_leakage


def priced(kind: str, weight: float = 3.0, value: float = 2.0, **settings):
    terms = make_terms(100, 100, 100, epsilon=2.0, **settings)
    return terms.changed(
        owners={"a": {"value": value, "privacy_cost": {"kind": kind, "weight": weight}}, "b": {"epsilon": 0.5}}
    )


@pytest.mark.parametrize(
    ("kind", "cost"),
    [
        ("linear", 2.0),
        ("exponential", np.expm1(2.0)),
        ("posterior", np.tanh(1.0)),
        ("min-entropy", min_entropy_leakage(2.0, individuals=1, values=2)),
        ("mutual-information", pure_leakage(2.0).mutual_information),
    ],
)
def test_it_is_the_cost_of_the_owner_s_epsilon_over_its_value(kind, cost):
    """A mutant that takes the value alone, or another owner's epsilon, is far off."""
    assert joining_price(priced(kind), "a") == pytest.approx(3.0 * cost / 2.0)


def test_an_owner_that_names_no_price_has_none():
    terms = priced("linear")
    assert joining_price(terms, "b") is None
    assert joining_price(terms.changed(owners={"b": {"value": 1.0}}), "b") is None


def test_with_one_noise_for_all_the_smallest_epsilon_is_what_it_costs():
    """Everybody spends the smallest: a mutant that takes the owner's own asks four times as much."""
    terms = priced("linear").changed(privacy={"noise": "shared", "delta": 1e-6}, hosts=("x", "y", "z"))
    assert joining_price(terms, "a") == pytest.approx(3.0 * 0.5 / 2.0)


@pytest.mark.parametrize("kind", ["min-entropy", "mutual-information"])
def test_bits_are_no_price_where_no_epsilon_bounds_them(kind):
    """At eps = 1, delta = 0.1 the curve of pure noise says 0.178 bits, and rho of the Gaussian noise 0.612."""
    gaussian = priced(kind, **GAUSSIAN)
    with pytest.raises(TermsError, match="does not bound the leakage in bits"):
        joining_price(gaussian, "a")
    everybody = {"value": 1.0, "privacy_cost": {"kind": "linear", "weight": 1.0}}
    with pytest.raises(TermsError, match="does not bound the leakage in bits"):
        parley.negotiate(gaussian.changed(owners=dict.fromkeys("bc", everybody)), regression_table(60))
