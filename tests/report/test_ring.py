"""What a peer prints of a run without a centre."""

from dataclasses import replace

from samples import make_terms, regression_table

import parley
from parley.report.words.training import ring_line, ring_rows


def outcome(**overrides):
    """A run of two owners as the first one's peer hears it: of the other's books nothing."""
    terms = make_terms(60, 60, epsilon=1.0, learning__horizon=4, privacy__clip=4.0, model__radius=5.0, **overrides)
    owners = [parley.Owner(name, regression_table(60, place)) for place, name in enumerate("ab")]
    result = parley.train(terms, owners, seed=1)
    first, second = result.owners
    return replace(result, owners=(first, replace(second, epsilon_spent=None)))


def test_a_ring_shows_no_column_that_nobody_can_fill():
    result = outcome()
    assert ring_rows(result) == [
        ["owner", "records", "ε promised", "answers"],
        ["a", "60", "1", "4"],
        ["b", "60", "1", "4"],
    ]
    assert ring_line(result, "a").startswith("a spent ε = 1. The other owners do not report how much budget they spent")
    assert ring_line(result, "b").startswith("The other owners do not report")


def test_who_has_held_out_rows_is_told_how_to_judge():
    assert "parley score" not in ring_line(outcome(), "a")
    assert "parley score MODEL TERMS --owner a --data TABLE" in ring_line(outcome(model__holdout=0.2), "a")
