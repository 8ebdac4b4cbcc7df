"""What would make joining worth it: held to forecasts of other terms."""

import numpy as np
import pytest

import parley
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.decisions.knowledge.sources import Stated
from parley.decisions.outlook.forecast import forecast
from parley.decisions.outlook.remedies import MAX_ADVISED_EPSILON, Remedies, Remedy, compare_noise, remedies
from parley.decisions.planning.noise_terms import shared_terms
from parley.report.words.forecast import remedy_line

NAMES = [f"x{j}" for j in range(12)]
# no rows, so that nobody has a public sample that would do better than all of these small owners
KNOWN = Stated(np.linspace(1.0, 2.0, 12), 1.0, start=np.linspace(0.4, -0.3, 12))
ALIKE = Heterogeneity.stated(0.05)


def consortium(epsilon, *sizes):
    content = {
        "model": {"kind": "linear-regression", "target": "y", "features": NAMES},
        "learning": {"algorithm": "gradient-descent", "horizon": 12, "step": 0.3, "decay": 0},
        "privacy": {"clip": 3.0, "mechanism": "gaussian", "delta": 1e-6},
        "owners": [{"name": f"o{k}", "records": n, "epsilon": epsilon} for k, n in enumerate(sizes)],
    }
    return parley.Terms.from_dict(content)


def said_of(terms, differences=ALIKE):
    return forecast(terms, KNOWN, resamples=2, differences=differences)


@pytest.fixture(scope="module")
def refused():
    """Owners that would gain if only the noise were less."""
    terms = consortium(0.5, *[80] * 8)
    result = said_of(terms)
    return terms, result, remedies(result, compare_noise(result))


def test_it_is_worth_it_from_the_budgets_that_are_said_and_not_below(refused):
    terms, result, found = refused
    assert result.verdict.verdict != "join"
    assert found.surely
    assert not found.already
    assert {each.way for each in found.ways} >= {"each_owner", "shared"}
    own, one = (next(each for each in found.ways if each.way == way) for way in ("each_owner", "shared"))
    assert 0.5 < one.first < own.first == own.everybody < MAX_ADVISED_EPSILON
    for side, joins in ((0.97, False), (1.03, True)):
        there = terms.changed(everyone={"epsilon": side * own.first})
        assert (said_of(there).verdict.verdict == "join") == joins
        there = shared_terms(terms).changed(everyone={"epsilon": side * one.first})
        assert (said_of(there).verdict.verdict == "join") == joins


def test_it_is_worth_it_among_so_many_owners_and_not_among_far_fewer(refused):
    """Other owners are other draws: a few more or less may tell as well."""
    _, _, found = refused
    assert 8 < found.owners == found.owners_for_all < 500
    for times, joins in ((0.5, False), (1.5, True)):
        there = said_of(consortium(0.5, *[80] * round(times * found.owners)))
        assert (there.verdict.verdict == "join") == joins


def test_where_every_owner_has_its_own_epsilon_all_grow_alike(refused):
    _, _, equal = refused
    terms = consortium(0.5, *[80] * 8).changed(owners={"o0": {"epsilon": 1.0}})
    result = said_of(terms)
    own = remedies(result, compare_noise(result)).ways[0]
    assert own.times
    assert own.first < next(each for each in equal.ways if each.way == "each_owner").first / 0.5
    larger = {part.name: {"epsilon": 1.03 * own.everybody * part.epsilon} for part in terms.owners}
    assert said_of(terms.changed(owners=larger)).verdict.verdict == "join"


def test_what_no_budget_mends_is_said_to_be_so():
    """Owners with rows enough gain by no budget; and who gains at any budget may gain already."""
    hopeless = said_of(consortium(1.0, 10**7, 10**7), Heterogeneity.stated(50.0))
    found = remedies(hopeless, compare_noise(hopeless))
    assert found.never == ("o0", "o1")
    assert remedy_line(found, False, 2).startswith(
        "In most of the forecast's simulated draws, joining would not be worthwhile at any ε up to 10, nor with any "
        "number of similar owners"
    )
    mixed = said_of(consortium(20.0, *[60] * 12, 40_000))
    found = remedies(mixed, compare_noise(mixed))
    assert found.already
    assert remedy_line(found, True, 13).startswith("Larger budgets would not help")


def test_each_remedy_is_a_sentence():
    ways = (Remedy("each_owner", 4.0, ("a",), 4.0), Remedy("shared", 0.6, ("a",), 2.0))
    found = Remedies(True, ways, 7, 7, ("d",), already=False)
    assert remedy_line(found, False, 2) == (
        "Joining would be worthwhile for sure with each owner's own noise at ε = 4 or more. Joining would be "
        "worthwhile for sure with shared noise (three hosts) at ε = 0.6 or more for a (at ε = 2 or more for all owners "
        "that can gain). Joining would be worthwhile for sure with 7 similar owners. No budget is large enough for d "
        "to gain for sure."
    )
