"""What a privacy officer reads: nothing more than a lower bound shows."""

import math
from dataclasses import replace

import pytest

from parley.audit import Audit, Verdict
from parley.audit.exact.enumeration import ExactVerdict
from parley.audit.exact.pair_search import Searched
from parley.privacy.events import Adjacency
from parley.report.pages.audit_page import audit_page
from parley.report.words import audit as words
from parley.terms import Terms

CURVE = ((1.0, 0.0), (0.5, 0.4), (0.0, 1.0))
ONE = Verdict("a", 1.0, 1e-6, Adjacency.REPLACE_ONE, 0.7239, 0.99, 5000, False, "a", CURVE)

EXACT = ExactVerdict("gradient", 0.1, 0.0999)


@pytest.fixture
def audit():
    return Audit("Banks", "ab12", (ONE, replace(ONE, owner="b")), (EXACT,), {2: False, 4: True}, 12.0)


@pytest.fixture
def terms():
    return Terms.from_dict(
        {
            "model": {"kind": "linear-svm", "target": "y", "features": ["x"]},
            "privacy": {"clip": 1.0},
            "owners": [{"name": "a", "records": 10, "epsilon": 1.0}],
        }
    )


def test_the_page_says_what_was_tried_and_learned_and_where_it_ends(audit, terms):
    page = audit_page(audit, terms)
    for part in ("0.723", "5,000", "but not noise for 2 times the budget", "add up to at least 0.537", "<svg"):
        assert part in page
    for part in ("replace-one", "the audit read no real record", "does not prove privacy", "12 seconds"):
        assert part in page


def test_a_broken_claim_is_named_and_repeated_noise_has_no_number(audit):
    broken = replace(audit, verdicts=(replace(ONE, lower_bound=float("inf"), noise_repeats=True), *audit.verdicts[1:]))
    assert words.headline(broken) == "Broken: the answers of a reveal more than the terms allow."
    assert words.owner_rows(broken)[1][3:] == ["any", "0.000", "NO"]
    assert broken.to_json()["owners"][0]["lower_bound"] is None
    assert not any("the true ε is at least" in sentence for sentence in words.learned(broken))


def test_an_exact_law_needs_no_confidence(audit, terms):
    assert words.exact_rows(audit)[1] == ["gradient", "0.1", "0.0999", "yes"]
    broken = replace(audit, exact=(replace(EXACT, epsilon=0.2),))
    assert words.headline(broken) == "Broken: an answer of a reveals more than the terms allow (computed exactly)."
    assert not broken.to_json()["exact"][0]["holds"]
    assert "What did the audit compute exactly" not in audit_page(replace(audit, exact=()), terms)


def test_a_pair_that_a_search_found_is_said(audit, terms):
    found = Searched("gradient", 0.98765, 200, 150, "CSV of 5 records")
    other = replace(found, share=0.5, instructions="ARMV8")
    searched = replace(audit, search=(found, other))
    assert words.search_rows(searched)[1:] == [
        ["gradient", "as they are", "200", "98.76%", "yes"],
        ["gradient", "ARMV8", "200", "50.00%", "yes"],
    ]
    page = audit_page(searched, terms)
    assert "400 pairs of small tables" in page
    assert "CSV of 5 records" in page
    broken = replace(audit, search=(replace(found, share=math.inf),))
    assert not broken.holds
    assert words.search_rows(broken)[1][3:] == ["no number", "NO"]
    assert words.headline(broken).startswith("Broken: an answer of a reveals more about one pair of tables")


def test_an_audit_without_power_says_so_and_many_owners_are_a_line(audit):
    weak = replace(audit, controls={2: False}, verdicts=tuple(replace(ONE, owner=f"o{i}") for i in range(30)))
    assert "no power" in words.learned(weak)[-1]
    assert [row[0] for row in words.owner_rows(weak)[1:]] == ["a + 29 alike"]
