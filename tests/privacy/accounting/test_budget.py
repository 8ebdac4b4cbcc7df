from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.errors import SettingError
from parley.privacy.accounting import exact, per_round, shared_record_epsilon


@given(st.floats(1e-9, 1e9), st.integers(1, 10_000))
def test_rounds_add_up_to_the_budget_without_a_remainder(epsilon, rounds):
    assert per_round(exact(epsilon), rounds) * rounds == exact(epsilon)


def test_a_budget_means_what_was_written():
    assert exact(0.1) == Fraction(1, 10)
    assert exact("0.1") == exact(0.1)
    assert exact(2) == 2


@pytest.mark.parametrize("bad", [0, -1.0, float("nan"), float("inf"), "many", "1/0"])
def test_impossible_budgets_are_refused(bad):
    with pytest.raises(SettingError, match="expected a finite number > 0"):
        exact(bad)


@given(st.lists(st.floats(0.01, 10), min_size=2, max_size=6), st.data())
def test_a_shared_record_is_covered_by_the_mean_of_the_budgets_around_it(epsilons, data):
    shared = data.draw(st.integers(1, len(epsilons)))
    holders = data.draw(st.permutations(epsilons))[:shared]
    assert sum(e / shared for e in holders) <= shared_record_epsilon(epsilons, shared) + 1e-12
