"""How benchmarks/joining.py counts: what is left out, what is right, and that a constant answer does not pass."""

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = str(Path(__file__).parents[1] / "benchmarks")
GAIN, LOSS, CHANCE = (0.9, 1.0, 1.1), (-0.9, -1.0, -1.1), (-1.0, 0.2, 1.0)


@pytest.fixture(scope="module")
def decisions():
    """A module that benchmarks share; it is not part of the package."""
    sys.path.insert(0, BENCHMARKS)
    try:
        from common import decisions

        yield decisions
    finally:
        sys.path.remove(BENCHMARKS)


def cases(decisions, *pairs):
    return [decisions.Case("g", 1.0, str(i), gains, tuple(said)) for i, (gains, said) in enumerate(pairs)]


def test_cases_within_two_standard_errors_of_zero_are_left_out(decisions):
    made = cases(decisions, (GAIN, ["join"]), (CHANCE, ["stay"]), (LOSS, ["stay"]))
    assert [case.truth for case in made] == ["join", "unknown", "stay"]
    tally = decisions.Tally.of(made)
    assert (tally.cases, tally.gainers, tally.losers, tally.right, tally.balanced) == (3, 1, 1, 1.0, 1.0)
    assert tally.hurt == pytest.approx(1 / 3)


def test_two_standard_errors_are_those_of_the_mean(decisions):
    """A spread of one standard deviation would leave this one out."""
    gains = (0.5, 1.5) * 10
    assert decisions.Case("g", 1.0, "a", gains, ("join",)).truth == "join"
    assert np.mean(gains) < 2 * np.std(gains, ddof=1)


@pytest.mark.parametrize("said", ["join", "stay"])
def test_a_constant_answer_has_a_half(decisions, said):
    tally = decisions.Tally.of(cases(decisions, *[(GAIN, [said])] * 9, (LOSS, [said])))
    assert tally.balanced == 0.5
    assert tally.right == pytest.approx(0.9 if said == "join" else 0.1)


def test_each_split_counts_for_its_share_and_unknown_is_counted_apart(decisions):
    made = cases(decisions, (GAIN, ["join", "stay"]), (GAIN, ["unknown", "join"]), (LOSS, ["stay", "unknown"]))
    tally = decisions.Tally.of(made)
    assert tally.unknown == pytest.approx(2 / 6)
    assert tally.right == pytest.approx(3 / 4)
    assert tally.balanced == pytest.approx((2 / 3 + 1) / 2)


def test_without_anybody_that_loses_nothing_is_balanced(decisions):
    tally = decisions.Tally.of(cases(decisions, (GAIN, ["join"])))
    assert tally.right == 1.0
    assert np.isnan(tally.balanced)


def test_outcomes_are_put_together_from_all_that_was_written(monkeypatch):
    """Trainings in any order, other groups and noises left out, and nobody of whom there is a training alone."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import joining

    figures = {
        ("costs", "heart", False, split, 0): [[1.0, "va", [1.0, 0.9 - split, 1.1]], [3.0, "va", [1.0, 0.8, 1.2]]]
        for split in (1, 0)
    }
    figures["costs", "heart", True, 2, 0] = [[1.0, "va", [9.0, 9.0, 9.0]]]
    figures["costs", "heart", False, 0, 6] = [[1.0, "hungarian", [1.0, 0.9, 1.1]]]
    figures["advice", "heart", False, 0, 1.0, 3] = [[1.0, "va", ["join", "unknown"]]]
    found = list(joining.outcomes(figures, "heart", False))
    assert [(each.owner, each.epsilon) for each in found] == [("va", 1.0)]
    assert sorted(found[0].personal) == pytest.approx([-0.1, 0.9])
    assert found[0].case(0.01).advice == ("unknown",)
