"""All owners of an agreement, and the controls that say what the audit would have noticed."""

import pytest
from mutants import half_the_noise
from samples import make_terms, regression_table

import parley
from parley.audit import audit_model, audit_one_run, audit_owner, audit_terms
from parley.audit.agreement import owners_alike
from parley.audit.served.attack import prepare
from parley.audit.served.one_host import audit_hosts
from parley.errors import TermsError


def test_owners_with_one_promise_are_looked_at_once_and_all_are_named():
    terms = make_terms(100, 80, 60, learning__horizon=1).changed(owners={"c": {"epsilon": 0.5}})
    assert owners_alike(terms) == {"a": ["a", "b"], "c": ["c"]}
    seen, said = [], []
    audit = audit_terms(terms, 6000, seed=1, progress=lambda done, total: seen.append(done / total), says=said.append)
    assert audit.holds
    assert [(v.owner, v.like, v.claimed_epsilon) for v in audit.verdicts] == [
        ("a", "a", 1.0),
        ("b", "a", 1.0),
        ("c", "c", 0.5),
    ]
    assert audit.controls == {2: True}
    assert audit.noticed == 2
    assert max(seen) == 1
    assert said == ["attacking a", "attacking c", "attacking noise calibrated to 2 times the budget, as a control"]
    content = audit.to_json()
    assert content["mutants"] == {"noise for 2 times the budget": True}
    assert content["owners"][0].keys() >= {"name", "claimed_epsilon", "lower_bound", "runs"}


def test_a_seed_makes_it_repeatable_and_a_fault_is_seen():
    terms = make_terms(100, learning__horizon=1)
    one, two = (audit_terms(terms, 3000, seed=4) for _ in range(2))
    assert one.verdicts == two.verdicts
    with half_the_noise():
        assert not audit_terms(terms, 3000, seed=4).holds


@pytest.mark.parametrize("runs", [100])
def test_too_few_runs_notice_nothing_and_say_so(runs):
    audit = audit_terms(make_terms(100, epsilon=0.01), runs, seed=1)
    assert (audit.noticed, audit.controls) == (None, {2: False, 4: False, 8: False})


def test_a_promise_about_a_whole_table_is_audited_by_replacing_it_not_by_planting_records(tmp_path):
    terms = make_terms(100, 80, learning__horizon=1, privacy__clip=0.5, privacy__unit="owner")
    shared = terms.changed(privacy={"noise": "shared", "delta": 1e-6}, hosts=("h0", "h1"))
    rows = regression_table(100, seed=1)
    model = parley.train(terms, [parley.Owner("a", rows), parley.Owner("b", rows[:80])], seed=0).model
    assert audit_owner(terms, "a", 3000, seed=1).lower_bound > 0.3
    assert all(verdict.holds for verdict in audit_hosts(shared, 2**10, seed=1))
    for attack in (
        lambda: audit_one_run(terms, "a"),
        lambda: audit_model(model, rows, rows, terms, "a"),
        lambda: prepare(terms, "a", tmp_path / "audit", "127.0.0.1:1"),
    ):
        with pytest.raises(TermsError, match=r"privacy\.unit: expected 'record'"):
            attack()
