"""What an owner reads before it accepts that others may lie."""

from samples import make_terms, regression_table

import parley
from parley.owner.acceptance_summary import acceptance_summary


def test_it_says_how_many_may_lie_and_that_owners_may_be_named(tmp_path):
    plain = make_terms(50, 50, 50)
    ruled = plain.changed(aggregation={"rule": "median", "byzantine": 1, "spread": 0.5})
    owner = parley.Owner("a", regression_table(50), ledger=parley.Ledger(tmp_path / "a.ledger", 5))
    said = " ".join(acceptance_summary(owner, owner.prepare(ruled)))
    assert "The terms assume at most 1 lying owner." in said
    assert "by the rule 'median'" in said
    assert "the stated spread and the noise cannot explain" in said
    assert "lying owner" not in " ".join(acceptance_summary(owner, owner.prepare(plain)))
