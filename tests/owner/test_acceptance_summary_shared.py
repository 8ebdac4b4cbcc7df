"""What an owner reads before it accepts one noise for all."""

import parley
from parley.owner.acceptance_summary import acceptance_summary
from parley.owner.warnings import find_warnings


def make_terms(hosts=("bank-0", "bank-1", "notary")):
    return parley.Terms.from_dict(
        {
            "model": {
                "kind": "linear-regression",
                "target": "int_rate",
                "features": ["fico", "dti"],
                "radius": 30.0,
                "bounds": {"fico": [600, 850], "dti": [0, 45], "int_rate": [5, 31]},
            },
            "learning": {"horizon": 5},
            "privacy": {"clip": 40.0, "mechanism": "gaussian", "delta": 1e-6, "noise": "shared"},
            "owners": [{"name": f"bank-{i}", "records": 400, "epsilon": 1.0 + i} for i in range(3)],
            "hosts": [{"name": name} for name in hosts],
        }
    )


def accepting(tmp_path, terms, name="bank-2"):
    owner = parley.Owner(
        name, parley.data.synthetic_lending(400, seed=1), ledger=parley.Ledger(tmp_path / "a.ledger", 5, "1e-5")
    )
    return owner, owner.prepare(terms)


def test_it_names_the_hosts_what_they_are_besides_and_who_could_read_the_answers(tmp_path):
    owner, agreement = accepting(tmp_path, make_terms())
    said = " ".join(acceptance_summary(owner, agreement))
    assert "You split each exact sum, without noise, into three shares" in said
    assert all(name in said for name in ("bank-0", "bank-1", "notary"))
    assert "Any two hosts together can read your exact sum" in said
    assert "share one noise, so the smallest ε of all owners applies (the terms give you ε = 3)" in said
    assert "hosts" in {warning.about for warning in find_warnings(owner, agreement)}


def test_hosts_that_are_nobody_else_are_not_warned_of(tmp_path):
    owner, agreement = accepting(tmp_path, make_terms(("court", "notary", "university")))
    assert not [warning for warning in find_warnings(owner, agreement) if warning.about == "hosts"]
