"""One opening a question: what the three hosts do when everybody behaves, and when machines fail."""

import itertools
from functools import partial

import numpy as np
import pytest
from bundles_of_owners import CONTENT, RECORDS, TERMS, bundles, make_assignment, total

from parley.errors import AbortedRound, LedgerError, ParleyError, TooLate, Unavailable
from parley.network.hosting.host import Host
from parley.network.hosting.journal import Journal
from parley.privacy.sharing.party import run_in_threads

VALUES = {"bank-a": 1_000_000, "bank-b": 20_000_000, "bank-c": -300_000_000}


def deliver(hosts, number=1, owners=RECORDS, **changes):
    sent = {owner: bundles(owner, VALUES[owner], number, **changes) for owner in owners}
    for each in sent.values():
        hosts.receive(each)
    return sent


def test_a_sum_is_opened_with_noise_and_repeated_word_for_word(trio):
    hosts = trio()
    deliver(hosts)
    first = hosts.open(1, CONTENT)
    value = total(first)
    noise = value - sum(VALUES.values())
    assert np.abs(noise).max() < 2000  # scale 16
    assert np.abs(noise).max() > 0
    assert first[0].owners == tuple(sorted(RECORDS))
    again = hosts.open(1, CONTENT)
    assert [each.words.tolist() for each in again] == [each.words.tolist() for each in first]


def test_two_rounds_have_two_noises(trio):
    hosts = trio()
    noises = []
    for number in (1, 2):
        deliver(hosts, number)
        noises.append(total(hosts.open(number, CONTENT)) - sum(VALUES.values()))
    assert noises[0].tolist() != noises[1].tolist()


def test_an_owner_that_drops_out_changes_the_set_where_the_terms_allow_it(trio):
    hosts = trio(quorum=2)
    deliver(hosts, owners=("bank-a", "bank-b"))
    opened = hosts.open(1, CONTENT)
    assert opened[0].owners == ("bank-a", "bank-b")
    assert np.abs(total(opened) - 21_000_000).max() < 2000


def test_without_the_quorum_nothing_is_said_for_ever(trio):
    hosts = trio(quorum=3)
    deliver(hosts, owners=("bank-a", "bank-b"))
    with pytest.raises(Unavailable, match="2 of the required 3 share bundles"):
        hosts.open(1, CONTENT)
    assert all(journal.entries == 0 for journal in hosts.journals)
    hosts.receive(bundles("bank-c", VALUES["bank-c"]))
    assert hosts.open(1, CONTENT)[0].owners == tuple(sorted(RECORDS))


def test_a_share_bundle_again_changes_nothing_and_one_that_is_late_is_refused(trio):
    hosts = trio(quorum=2)
    sent = deliver(hosts, owners=("bank-a", "bank-b"))
    hosts.receive(sent["bank-a"])
    hosts.open(1, CONTENT)
    hosts.receive(sent["bank-a"])  # its learner lost the answer and asks again
    with pytest.raises(TooLate):
        hosts.receive(bundles("bank-c", 1))


def test_a_host_that_is_away_aborts_nothing(trio):
    hosts = trio(patience=0.2)
    deliver(hosts)
    hosts.draw(hosts.assignment.turn(1).shape)
    away, hosts.doors[2].host = hosts.doors[2].host, None
    with pytest.raises(Unavailable):
        hosts.doors[0].host.open(1, CONTENT)
    hosts.doors[2].host = away
    assert np.abs(total(hosts.open(1, CONTENT)) - sum(VALUES.values())).max() < 2000


@pytest.mark.parametrize("place", range(3))
def test_a_host_that_restarts_before_anybody_proposed_costs_nothing_but_its_share_bundles(trio, tmp_path, place):
    hosts = trio(tmp_path)
    sent = deliver(hosts)
    hosts.draw(hosts.assignment.turn(1).shape)
    hosts.restart(place)
    with pytest.raises(Unavailable):
        hosts.open(1, CONTENT)
    for each in sent.values():
        hosts.receive(each)
    assert np.abs(total(hosts.open(1, CONTENT)) - sum(VALUES.values())).max() < 2000


@pytest.mark.parametrize(("crashed", "proposed"), list(itertools.product(range(3), (1, 2, 3))))
def test_a_host_that_restarts_between_proposal_and_record_aborts_the_round_for_all(trio, tmp_path, crashed, proposed):
    hosts = trio(tmp_path, patience=0.3)
    sent = deliver(hosts)
    hosts.draw(hosts.assignment.turn(1).shape)
    for index in range(proposed):
        hosts.hosts[index].proposal(1, CONTENT)
    hosts.restart(crashed)
    for _ in range(3):  # whoever asks, however often
        for each in sent.values():
            for host, bundle in zip(hosts.hosts, each, strict=True):
                try:
                    host.receive(bundle)
                except TooLate:
                    continue
        for host in hosts.hosts:
            with pytest.raises((AbortedRound, Unavailable)):
                host.open(1, CONTENT)
        with pytest.raises((AbortedRound, Unavailable)):
            hosts.open(1, CONTENT)
    assert all(journal.entry(TERMS, 1).record is None for journal in hosts.journals)
    assert any(journal.entry(TERMS, 1).aborted for journal in hosts.journals)
    deliver(hosts, 2)
    assert np.abs(total(hosts.open(2, CONTENT)) - sum(VALUES.values())).max() < 2000


@pytest.mark.parametrize("crashed", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_host_that_restarts_after_the_record_opens_the_same_sum(trio, tmp_path, crashed):
    hosts = trio(tmp_path)
    deliver(hosts)
    first = hosts.open(1, CONTENT)
    for index in crashed:
        hosts.restart(index)
    assert total(hosts.open(1, CONTENT)).tolist() == total(first).tolist()


def test_a_crash_between_record_and_opening_is_made_good(trio, tmp_path):
    hosts = trio(tmp_path)
    deliver(hosts)
    hosts.draw(hosts.assignment.turn(1).shape)
    run_in_threads(*(partial(host._agree, 1, CONTENT) for host in hosts.hosts))
    for index in range(3):
        hosts.restart(index)
    assert np.abs(total(hosts.open(1, CONTENT)) - sum(VALUES.values())).max() < 2000


def test_a_disk_that_fails_at_the_record_aborts_the_round(trio, tmp_path, monkeypatch):
    hosts = trio(tmp_path, patience=0.3)
    deliver(hosts)

    def full(*content):
        raise LedgerError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(hosts.journals[1], "agree", full)
        with pytest.raises(ParleyError):
            hosts.open(1, CONTENT)
    with pytest.raises(AbortedRound, match="already used or discarded"):
        hosts.hosts[1].open(1, CONTENT)
    with pytest.raises(AbortedRound):
        hosts.open(1, CONTENT)


def test_noise_named_twice_is_refused_by_the_journal(trio):
    journal = Journal()
    for number in (1, 2):
        journal.propose(TERMS, number, "held")
    journal.agree(TERMS, 1, "record", "session/1", b"sums")
    with pytest.raises(ParleyError, match="another question"):
        journal.agree(TERMS, 2, "record", "session/1", b"sums")
    assert journal.entry(TERMS, 2).record is None


def test_a_host_belongs_to_the_terms():
    with pytest.raises(ParleyError, match="the terms have no host"):
        Host("stranger", make_assignment(), Journal(), None, {})
