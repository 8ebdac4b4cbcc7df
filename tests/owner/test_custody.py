"""Who accepts shared noise is told that exact sums leave, who could read them, and whose epsilon counts."""

import json

import pytest
from hosted_consortium import HostedConsortium
from samples import make_terms, regression_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.owner.acceptance_summary import acceptance_summary
from parley.owner.disclosure import key_warnings, role_warnings

SHARED = {"noise": "shared", "delta": 1e-6}


def shared_terms(hosts, **changes):
    return make_terms(300).changed(privacy=SHARED, hosts=hosts, **changes)


@pytest.fixture
def owner(tmp_path):
    books = parley.Ledger(tmp_path / "a.ledger", lifetime=3.0, lifetime_delta="1e-5")
    yield parley.Owner("a", regression_table(300), ledger=books)
    books.close()


def said(owner, terms):
    return acceptance_summary(owner, owner.prepare(terms))


def test_shared_terms_say_that_the_exact_sum_leaves_and_who_can_read_it(owner):
    terms = shared_terms(["a", "notary", "learner"])
    words = " ".join(said(owner, terms))
    assert "into three shares, and send two of the shares to each host. You send nothing else." in words
    assert "The hosts are a (an owner), notary and learner (the learner)." in words
    assert "Any two hosts together can read your exact sum" in words
    assert "with laplace noise. You send nothing else." not in words
    plain = " ".join(said(owner, make_terms(300)))
    assert "with laplace noise. You send nothing else." in plain
    assert "The hosts are" not in plain


def test_the_epsilon_told_is_the_smallest_and_the_owners_own_stands_beside_it(tmp_path):
    terms = parley.Terms.from_dict(
        {
            **make_terms(300).model_dump(),
            "privacy": {**make_terms(300).privacy.model_dump(), **SHARED},
            "owners": [{"name": "a", "records": 300, "epsilon": 2.0}, {"name": "b", "records": 300, "epsilon": 0.25}],
            "hosts": [{"name": name} for name in ("h0", "h1", "h2")],
        }
    )
    books = parley.Ledger(tmp_path / "a.ledger", lifetime=3.0, lifetime_delta="1e-5")
    words = " ".join(said(parley.Owner("a", regression_table(300), ledger=books), terms))
    books.close()
    smallest = "All owners share one noise, so the smallest ε of all owners applies (the terms give you ε = 2)"
    assert "ε = 0.25, δ = 1e-06 (replace-one) for " in words
    assert smallest in words
    assert "These terms cost ε = 0.25." in words


@pytest.mark.parametrize(
    ("hosts", "told"),
    [
        (["h0", "h1", "h2"], []),
        (["learner", "h1", "h2"], ["Together with h1 or h2, the learner can read every owner's exact sums"]),
        (["a", "h1", "h2"], ["An owner is among the hosts (a)"]),
        (["a", "h1", "learner"], ["Together with a or h1,", "An owner is among the hosts (a)"]),
    ],
)
def test_hosts_with_an_interest_are_warned_of(hosts, told):
    found = [warning.sentence for warning in role_warnings(shared_terms(hosts))]
    assert len(found) == len(told)
    assert all(part in sentence for part, sentence in zip(told, found, strict=True))


def test_hosts_without_a_key_are_warned_of_until_somebody_gives_it():
    terms = shared_terms(["h0", "h1", "h2"])
    (warning,) = key_warnings(terms, (), "owner.toml")
    assert "give the key of h0, h1 and h2" in warning.sentence
    (warning,) = key_warnings(terms, {"h0", "h2"}, "owner.toml")
    assert "give the key of h1" in warning.sentence
    assert key_warnings(terms, {"h0", "h1", "h2"}, "owner.toml") == []
    assert key_warnings(make_terms(300), (), "owner.toml") == []


def accepted(*arguments):
    told = CliRunner().invoke(app, [*map(str, arguments), "--yes", "--json"])
    assert told.exit_code == 0, (told.output, told.exception)
    return json.loads(told.stdout), told.stderr


def test_both_commands_say_it_on_the_screen_and_as_json(tmp_path):
    consortium = HostedConsortium(tmp_path)
    consortium.write_terms(horizon=2, epsilon=1.0)
    for party in ("owner", "host"):
        settings = tmp_path / ("a.toml" if party == "owner" else "h0.toml")
        content, screen = accepted(party, "accept", tmp_path / "terms.toml", f"--{party}", settings)
        assert content["accepted"] is True
        assert [host["name"] for host in content["hosts"]] == ["h0", "h1", "h2"]
        assert all(host["roles"] == [] and host["key"] is None for host in content["hosts"])
        assert [warning["about"] for warning in content["doubts"]] == ["hosts.key"]
        assert "Check hosts.key. Neither the terms nor" in screen
        assert content["promise"][0] in screen
    consortium.pin()
    for party, file in (("owner", "b.toml"), ("host", "h1.toml")):
        assert accepted(party, "accept", tmp_path / "terms.toml", f"--{party}", tmp_path / file)[0]["doubts"] == []
    consortium.write_terms(horizon=2, epsilon=1.0, keys=consortium.keys())
    content, _ = accepted("owner", "accept", tmp_path / "terms.toml", "--owner", tmp_path / "c.toml")
    assert content["doubts"] == []
    assert content["hosts"][1]["key"] == consortium.keys()["h1"]


def test_of_two_hosts_an_owner_reads_exact_sums_with_the_other():
    (warning,) = role_warnings(shared_terms(["a", "notary"]))
    assert "Together with the other host, an owner that is a host can read every owner's exact sums" in warning.sentence
    (warning,) = role_warnings(shared_terms(["a", "notary", "club"]))
    assert "Together with any other host, an owner that is a host can read every owner's exact sums" in warning.sentence
