"""The one verdict of a forecast, and what would make it yes: both are held to forecasts of other terms."""

from dataclasses import replace

import numpy as np
import pytest

import parley
from parley.decisions.knowledge.baselines import Baselines
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.decisions.knowledge.sources import Stated
from parley.decisions.outlook.consortium_verdict import consortium_verdict
from parley.decisions.outlook.forecast import forecast
from parley.decisions.outlook.joining import Interval, Joining
from parley.decisions.outlook.noise_kinds import compare_noise
from parley.decisions.outlook.owner_forecast import OwnerForecast
from parley.decisions.outlook.remedies import LARGEST, Remedies, Remedy, remedies
from parley.decisions.outlook.worth import Worth
from parley.decisions.planning.noise_terms import shared_terms
from parley.report.words.forecast import for_whom
from parley.report.words.remedies import remedy_line

NAMES = ["x0", "x1", "x2"]
WORTH = Worth(together=1.0, baselines=Baselines(zero=9.0, public_sample=2.0))


# no rows, so that nobody has a public sample that would do better than all of these small owners
KNOWN = Stated(np.array([2.0, 2.0, 1.0]), 1.0, start=np.array([0.7, -0.5, 0.3]))
ALIKE = Heterogeneity.stated(0.2)


def consortium(epsilon, *sizes):
    content = {
        "model": {"kind": "linear-regression", "target": "y", "features": NAMES},
        "learning": {"algorithm": "gradient-descent", "horizon": 12, "step": 0.3, "decay": 0},
        "privacy": {"clip": 12.0, "mechanism": "gaussian", "delta": 1e-6},
        "owners": [{"name": f"o{k}", "records": n, "epsilon": epsilon} for k, n in enumerate(sizes)],
    }
    return parley.Terms.from_dict(content)


def said_of(terms, differences=ALIKE):
    return forecast(terms, KNOWN, resamples=2, differences=differences)


def owner(name, verdict):
    gain = Interval(0.1, 0.1, 0.1)
    return OwnerForecast(name, 1.0, 0.9, 0.9, gain, verdict, gain, 1.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("verdicts", "expected", "worth", "kind"),
    [
        (["join", "join"], [True, True], WORTH, "yes"),
        (["join", "stay"], [True, False], WORTH, "some"),
        (["join", "unknown"], [True, True], WORTH, "some"),
        (["unknown", "stay"], [True, False], WORTH, "unknown"),
        (["unknown", "stay"], [False, False], WORTH, "no"),
        (["stay", "stay"], [False, False], WORTH, "no"),
        (["join", "join"], [True, True], replace(WORTH, together=3.0), "no"),  # the public sample alone is better
        (["join", "join"], [True, True], replace(WORTH, together=10.0), "no"),
        (["stay"], [False], WORTH, "unknown"),  # one owner has nobody to join
    ],
)
def test_the_verdict_follows_from_the_owners_and_from_what_nobody_is_asked_for(verdicts, expected, worth, kind):
    owners = [owner(f"o{k}", verdict) for k, verdict in enumerate(verdicts)]
    assert consortium_verdict(owners, np.array(expected), worth).kind == kind


def test_small_owners_hear_yes_large_ones_no_and_a_mutant_with_the_other_sign_the_opposite(monkeypatch):
    small, large = said_of(consortium(20.0, *[60] * 6)), said_of(consortium(0.02, *[4000] * 3))
    assert (small.verdict.kind, large.verdict.kind) == ("yes", "no")
    assert for_whom(small).startswith("Yes: all 6 owners gain, whatever they differ by, on average by ")
    assert for_whom(large).startswith("No at these terms: ")
    mixed = said_of(consortium(20.0, 60, 60, 60, 40_000))
    assert mixed.verdict.kind == "some"
    assert for_whom(mixed).startswith("Only for o0, o1, o2: better off")
    assert "Not for o3." in for_whom(mixed)
    honest = Joining.gains
    monkeypatch.setattr(Joining, "gains", lambda self, *given, **named: -honest(self, *given, **named))
    assert said_of(consortium(20.0, *[60] * 6)).verdict.kind == "no"


@pytest.fixture(scope="module")
def refused():
    """Owners that would gain if only the noise were less."""
    terms = consortium(0.5, *[150] * 4)
    result = said_of(terms)
    return terms, result, remedies(result, compare_noise(result, KNOWN))


def test_it_is_yes_from_the_budgets_that_are_said_and_not_below(refused):
    terms, result, found = refused
    assert result.verdict.kind == "no"
    assert found.surely
    assert not found.already
    assert {each.way for each in found.ways} >= {"each_owner", "shared"}
    own, one = (next(each for each in found.ways if each.way == way) for way in ("each_owner", "shared"))
    assert 0.5 < one.first < own.first == own.everybody < LARGEST
    for side, kind in ((0.97, {"no", "unknown"}), (1.03, {"yes"})):
        everyone = {part.name: {"epsilon": side * own.first} for part in terms.owners}
        assert said_of(terms.changed(owners=everyone)).verdict.kind in kind
        everyone = {part.name: {"epsilon": side * one.first} for part in terms.owners}
        assert said_of(shared_terms(terms).changed(owners=everyone)).verdict.kind in kind


def test_it_is_yes_among_so_many_owners_and_not_among_fewer(refused):
    _, _, found = refused
    assert 4 < found.owners == found.owners_for_all < 500
    for many, kind in ((found.owners - 1, {"no", "unknown"}), (found.owners, {"yes"})):
        assert said_of(consortium(0.5, *[150] * many)).verdict.kind in kind


def test_where_every_owner_has_its_own_epsilon_all_grow_alike(refused):
    _, _, equal = refused
    terms = consortium(0.5, *[150] * 4).changed(owners={"o0": {"epsilon": 1.0}})
    result = said_of(terms)
    own = remedies(result, compare_noise(result, KNOWN)).ways[0]
    assert own.times
    assert own.first < next(each for each in equal.ways if each.way == "each_owner").first / 0.5
    larger = {part.name: {"epsilon": 1.03 * own.everybody * part.epsilon} for part in terms.owners}
    assert said_of(terms.changed(owners=larger)).verdict.kind == "yes"


def test_what_no_budget_mends_is_said_to_be_so():
    """Owners with rows enough gain by no budget; and who gains at any budget may gain already."""
    hopeless = said_of(consortium(1.0, 10**7, 10**7), Heterogeneity.stated(50.0))
    found = remedies(hopeless, compare_noise(hopeless, KNOWN))
    assert found.never == ("o0", "o1")
    assert "would make it yes" in remedy_line(found, hopeless.verdict, 2)
    mixed = said_of(consortium(20.0, 60, 60, 60, 40_000))
    found = remedies(mixed, compare_noise(mixed, KNOWN))
    assert found.already
    assert remedy_line(found, mixed.verdict, 4).startswith("Larger budgets would not change that")


def test_remedies_are_one_sentence():
    ways = (Remedy("each_owner", 4.0, ("a",), 4.0), Remedy("shared", 0.6, ("a",), 2.0))
    found = Remedies(True, ways, 7, 7, ("d",), already=False)
    no = consortium_verdict([owner("a", "stay"), owner("b", "stay")], np.zeros(2, bool), WORTH)
    assert remedy_line(found, no, 2) == (
        "It would be yes, surely, with noise of each owner's own from ε 4; or with one noise for all (three hosts) "
        "from ε 0.6 for a, for all that can gain from ε 2; or from 7 owners like these. Never for d."
    )
