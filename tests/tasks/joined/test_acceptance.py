"""What an owner and a host read before they accept terms of joined tables."""

import pytest
from bank_and_shop import joined_terms, people, tables

from parley.errors import TermsError
from parley.network.hosting.offer import acceptance_summary as host_summary
from parley.owner.acceptance_summary import acceptance_summary
from parley.owner.ledger import Ledger
from parley.owner.owner import Owner


def test_an_owner_reads_that_two_hosts_could_read_its_table(tmp_path):
    _, shop = tables(people(100), 0, 0)
    owner = Owner("shop", shop, ledger=Ledger(tmp_path / "shop.ledger", 10.0, 1e-3))
    said = " ".join(acceptance_summary(owner, owner.prepare(joined_terms(100, 100))))
    assert "Any two hosts together can read your table." in said
    assert "You split your table into three shares" in said
    assert "Your columns: spending, returns. The column 'customer_id' names people" in said
    assert "Of ε, 0.1 is for the number of matches." in said
    assert "exact sum" not in said
    owner.ledger.close()


def test_a_host_reads_that_it_matches_tables():
    said = " ".join(host_summary(joined_terms(100, 100), "auditor"))
    assert "match the owners' tables on shares" in said
    assert "Whoever sees what two hosts see can read every table" in said
    assert "how many people match, with dummies added" in said


def test_a_host_refuses_tables_that_no_message_brings():
    """Their owners would pay, and their shares would never come."""
    assert host_summary(joined_terms(100, 690_000), "auditor")
    with pytest.raises(TermsError, match=r"owners\.shop: its table comes to 16,800,000 bytes"):
        host_summary(joined_terms(100, 700_000), "auditor")


def test_a_host_refuses_moments_that_no_message_brings_back():
    bounds = {f"x{k}": [0, 1] for k in range(2100)}
    terms = joined_terms(
        100, 100, shop__columns=list(bounds), model__bounds={"income": [0, 1], "balance": [0, 1]} | bounds
    )
    with pytest.raises(TermsError, match=r"owners\.columns: hosts would open 2,2"):
        host_summary(terms, "auditor")
