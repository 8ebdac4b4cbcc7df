"""The mechanisms of counts as black boxes: an attack proves most of what they cost, more where they are too quiet."""

from dataclasses import replace
from fractions import Fraction

import pytest

import parley
from parley.audit import lower_bound, release_of
from parley.privacy.mechanisms.geometric import WholeGeometric
from parley.privacy.mechanisms.randomised_response import RandomisedResponse
from parley.protocol.setup import resolve

RECORDS = 2
HERE, THERE = [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]  # one of two records lies in another cell


def mechanism(called):
    asked = parley.Terms.from_dict(
        {
            "model": {"kind": "histogram", "target": "y", "categories": {"y": ["1", "2"]}},
            "privacy": {"mechanism": called},
            "owners": [{"name": "a", "records": RECORDS, "epsilon": 1.0}],
        }
    )
    return resolve(asked).part("a").training.series.mechanism


def quieter(noise):
    """The same as if epsilon were 2."""
    if isinstance(noise, WholeGeometric):
        return replace(noise, scale=noise.scale / 2)
    return RandomisedResponse.calibrate(Fraction(2), noise.cells, RECORDS, 1, noise.sensitivity)


CASES = [
    ("geometric", False, 200_000, 0.7),
    ("randomised-response", False, 3000, 0.3),
    ("randomised-response", True, 3000, 0.3),
]


@pytest.mark.parametrize(("called", "safe", "draws", "most"), CASES)
def test_an_attack_proves_part_of_the_claim_and_no_more(called, safe, draws, most):
    """At 99 %; answers of records tell less, for one of two hides the other."""
    proved = lower_bound(release_of(mechanism(called), safe), HERE, THERE, draws, confidence=0.99, seed=2)
    assert most < proved <= 1


@pytest.mark.parametrize(("called", "safe", "draws", "most"), CASES)
def test_noise_for_twice_the_budget_is_noticed(called, safe, draws, most):
    loud = release_of(quieter(mechanism(called)), safe)
    assert lower_bound(loud, HERE, THERE, draws, confidence=0.99, seed=2) > 1
