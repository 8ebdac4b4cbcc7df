"""What taking part may cost a person (Hsu and others 2014): the bound against every mechanism with two answers."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from typer.testing import CliRunner

from parley.cli.app import app
from parley.errors import SettingError
from parley.privacy.accounting.meaning import epsilon_for_payment, event_bound, extra_harm

CASES = [(e, d, p) for e in (0.01, 0.4, 1.0, 5.0) for d in (0.0, 1e-6, 0.02) for p in (1e-4, 0.3, 0.97)]


@pytest.mark.parametrize(("epsilon", "delta", "prior"), CASES)
def test_the_bound_is_the_most_that_any_mechanism_reaches(epsilon, delta, prior):
    """The likeliest event under P if it has probability `prior` under Q: a linear program over what an (epsilon,
    delta)-DP mechanism with two answers may do."""
    e = math.exp(epsilon)
    limits = [[1, -e], [-e, 1], [-1, e], [e, -1]]  # p <= e q + d, q <= e p + d, and the same of the complements
    slack = [delta, delta, e - 1 + delta, e - 1 + delta]
    found = linprog([-1, 0], A_ub=limits, b_ub=slack, A_eq=[[0, 1]], b_eq=[prior], bounds=[(0, 1)] * 2)
    assert event_bound(epsilon, delta, prior) == pytest.approx(-found.fun, rel=1e-9)
    assert event_bound(epsilon, delta, prior) <= math.exp(epsilon) * prior + delta + 1e-15


@pytest.mark.parametrize(("epsilon", "delta", "prior"), CASES)
def test_a_payment_covers_what_its_epsilon_costs_and_no_more(epsilon, delta, prior):
    harm = 10_000.0
    payment = extra_harm(epsilon, delta, harm, prior)
    covered = epsilon_for_payment(payment, harm, prior, delta)
    assert covered is not None
    if math.isinf(covered):
        assert event_bound(epsilon, delta, prior) == 1
        return
    assert covered == pytest.approx(epsilon, rel=1e-6)
    assert extra_harm(covered, delta, harm, prior) <= payment * (1 + 1e-6)
    if covered > 1e-3:
        assert extra_harm(covered * 1.01, delta, harm, prior) > payment


def test_costs_of_a_real_release_stay_below_the_bound():
    """Any cost from 0 to 1 on the answers of randomised response with three answers; half the epsilon fails."""
    rng, epsilon = np.random.default_rng(0), 1.2
    p = np.array([math.exp(epsilon), 1, 1]) / (math.exp(epsilon) + 2)
    q = np.roll(p, 1)
    broken = 0
    for cost in rng.random((500, 3)).round():
        if 0 < q @ cost < 1:
            assert p @ cost <= event_bound(epsilon, 0.0, q @ cost) + 1e-12
            broken += p @ cost > event_bound(epsilon / 2, 0.0, q @ cost)
    assert broken


def test_what_it_says():
    words = ["budget", "explain", "--epsilon", "1", "--prior", "0.001", "--harm", "10000", "--payment", "5"]
    text = " ".join(CliRunner().invoke(app, words).output.split())
    assert "would expect to lose 10 with somebody else's record in the table expects to lose at most 17.19 more" in text
    assert "A payment of 5 covers that up to ε = 0.4054." in text
    assert "at any ε" in " ".join(CliRunner().invoke(app, [*words[:-1], "9995"]).output.split())
    assert "at no ε: δ alone costs more" in " ".join(
        CliRunner().invoke(app, [*words, "--delta", "0.01"]).output.split()
    )
    unlikely = CliRunner().invoke(app, ["budget", "explain", "--epsilon", "1", "--harm", "5"])
    assert "--prior: missing" in str(unlikely.exception)
    missing = CliRunner().invoke(app, ["budget", "explain", "--epsilon", "1", "--payment", "5"])
    assert isinstance(missing.exception, SettingError)


@pytest.mark.parametrize(
    ("epsilon", "delta", "prior"), [(1e-12, 0.0, 1 - 1e-9), (1e-6, 0.0, 0.9), (1.0, 1e-12, 1 - 1e-9)]
)
def test_small_harms_are_never_rounded_down(epsilon, delta, prior):
    """Beside the same formula in 60 digits."""
    from decimal import Decimal, getcontext

    getcontext().prec = 60
    e, d, p = Decimal(epsilon), Decimal(delta), Decimal(prior)
    exact = min(e.exp() * p + d, 1 - (-e).exp() * (1 - p - d), Decimal(1)) - p
    found = Decimal(extra_harm(epsilon, delta, 1.0, prior))
    assert exact <= found <= exact * (1 + Decimal("1e-9"))
    assert epsilon_for_payment(0.5 * delta, 1.0, prior, delta) is None or delta == 0
