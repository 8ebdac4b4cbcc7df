"""One noise for all, from one host's view and the learner's: nobody learns more than is claimed, a host sees nothing
before the sum is opened, and noise that one host draws is caught."""

import json
from functools import partial

import numpy as np
import pytest
from mutants import shared_noise_drawn_by_one_host
from newcomer import typed
from samples import make_terms

import parley
from parley.audit.served import one_host
from parley.audit.served.one_host import HostView, audit_hosts, opened_once
from parley.errors import TermsError
from parley.privacy.mechanisms.shared_noise import draw_plainly, laplace_recipe
from parley.privacy.sharing.verified import VerifiedParty
from parley.terms import write_terms


def hosted(**privacy):
    return parley.Terms.from_dict(
        {
            "model": {"kind": "linear-regression", "target": "y", "features": ["x0", "x1"], "radius": 5.0},
            "learning": {"horizon": 1, "step": 0.2},
            "privacy": {"clip": 4.0, "delta": 1e-6, "noise": "shared", **privacy},
            "hosts": [{"name": name} for name in ("a", "b", "h")],
            "owners": [{"name": name, "records": 100, "epsilon": 1.0} for name in "ab"],
        }
    )


@pytest.mark.parametrize(("mechanism", "least"), [("laplace", 0.7), ("gaussian", 0.05)])
def test_no_host_learns_more_than_is_claimed_with_the_learner(mechanism, least):
    verdicts = audit_hosts(hosted(mechanism=mechanism), 2**13, seed=1)
    assert [verdict.host for verdict in verdicts] == ["a", "b", "h"]
    for verdict in verdicts:
        assert verdict.holds
        assert least < verdict.lower_bound <= verdict.claimed_epsilon == 1
        assert verdict.takes_off == ()  # whatever it knows, taken off it hides the sum
        assert verdict.draws == 2**13
    assert {verdict.lower_bound for verdict in verdicts} == {verdicts[0].lower_bound}


def test_of_hosts_that_may_cheat_it_audits_those_that_verify_each_other(monkeypatch):
    verified, verify = [], VerifiedParty.verify
    monkeypatch.setattr(VerifiedParty, "verify", lambda party: (verified.append(party), verify(party)))
    verdicts = audit_hosts(hosted(hosts_may_cheat=True), 2**13, seed=1)
    for verdict in verdicts:
        assert verdict.holds
        assert 0.7 < verdict.lower_bound <= verdict.claimed_epsilon
        assert verdict.takes_off == ()
    assert len(verified) >= 3 * 2


def test_what_verifying_hosts_send_is_even_and_looked_at(monkeypatch):
    draw_all = partial(opened_once, laplace_recipe(10), 1024, 2**12, party=one_host.WatchedVerifiedParty)
    views, _ = draw_all(np.random.default_rng(0))
    assert all(view.uneven(2**12) > 1e-3 for view in views)
    plain = VerifiedParty._open

    def opened(party, words):
        """Sends more than it should, and the same in every run."""
        party._send(party.next, np.zeros(words.first.size, dtype=np.uint64))
        party._receive(party.before, words.first.size)
        return plain(party, words)

    monkeypatch.setattr(VerifiedParty, "_open", opened)
    views, _ = draw_all(np.random.default_rng(0))
    assert all(view.uneven(2**12) < 1e-9 for view in views)


@pytest.mark.parametrize("cheats", [None, True])
@pytest.mark.parametrize("host", range(3))
def test_noise_that_one_host_draws_is_caught(host, cheats, monkeypatch):
    def alone(party, recipe, size):
        own = np.zeros(size, dtype=np.uint64)
        if party.index == host:
            own = draw_plainly(recipe.recipe, (size,), np.random.default_rng(0)).view(np.uint64)
        return party.complete(own + party.zero_words(size))

    monkeypatch.setattr(one_host, "draw", alone)
    verdicts = audit_hosts(hosted(**({"hosts_may_cheat": True} if cheats else {})), 2**13, seed=1)
    assert [verdict.holds for verdict in verdicts] == [place != host for place in range(3)]
    assert verdicts[host].lower_bound > 5
    assert dict(verdicts[host].takes_off) == {"part": 1, "zero": -1}


def test_so_is_noise_that_one_host_draws_behind_shares_that_look_as_they_should():
    with shared_noise_drawn_by_one_host():
        first, *_ = audit_hosts(hosted(), 2**13, seed=1)
    assert first.lower_bound > 5


def test_shares_that_show_the_answer_are_seen_before_anything_is_opened(monkeypatch):
    rng = np.random.default_rng(0)
    views, opened = opened_once(laplace_recipe(10), 1024, 2**12, rng)
    assert all(view.uneven(2**12) > 1e-3 for view in views)
    assert np.median(opened.view(np.int64)[2**11 :]) > np.median(opened.view(np.int64)[: 2**11]) + 500
    monkeypatch.setattr(one_host, "expand_seed", lambda seed, size: np.zeros(size, dtype=np.uint64))
    monkeypatch.setattr(one_host, "last_share", lambda words, seeds: words)
    views, _ = opened_once(laplace_recipe(10), 1024, 2**12, rng)
    assert all(view.uneven(2**12) < 1e-9 for view in views)


def test_what_is_left_of_a_sum_is_modulo_two_to_the_64():
    words = np.array([2**64 - 5, 7], dtype=np.uint64)
    view = HostView(0, {"one": words, "two": words})
    assert view.left(np.array([0, 10], dtype=np.uint64), (("one", 1),)).tolist() == [5, 3]
    assert view.left(np.array([0, 10], dtype=np.uint64), (("one", -1), ("two", -1))).tolist() == [-10, 24]
    assert len(list(view.sums())) == 1 + 2 * 2 + 4


def test_terms_without_hosts_are_refused_and_those_with_some_say_what_each_sees(tmp_path, monkeypatch):
    with pytest.raises(TermsError, match="no host to audit"):
        audit_hosts(make_terms(100))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("parley.audit.agreement.HOST_DRAWS", 2**13)
    write_terms(hosted(), tmp_path / "terms.toml")
    run = typed("audit", "terms.toml", "--runs", "200", "--tries", "0", "--seed", "1", "--report", "a.html", "--json")
    hosts = json.loads(run.out)["hosts"]
    assert [each["host"] for each in hosts] == ["a", "b", "h"]
    assert all(each["holds"] for each in hosts)
    assert "host, with the learner" in (tmp_path / "a.html").read_text(encoding="utf-8")
