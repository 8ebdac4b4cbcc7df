"""A learner that wants one owner's exact answer, with one of the three hosts on its side. Each attack fails; where the
rule that stops it is taken away, the test reads the answer off."""

import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from bundles_of_owners import CONTENT, RECORDS, SHAPE, TERMS, Forger, attempts, bundles, total

from parley.errors import AbortedRound, ContentMismatch, Malformed, OutOfOrder, ParleyError, TooLate, Unavailable
from parley.network.exchange import host_connections as messages
from parley.network.exchange.host_connections import RemoteHost
from parley.network.exchange.share_bundle import Shape
from parley.network.hosting.host import Host
from parley.network.hosting.journal import Journal
from parley.network.hosting.pool import Pool
from parley.network.hosting.proposal import tag
from parley.network.hosting.service import OtherHost
from parley.privacy.sharing.party import LyingHostError, Opening, open_words, run_in_threads
from parley.privacy.sharing.ring import digest, expand_seed

SECRET = {"bank-a": 101, "bank-b": 2002, "bank-c": 30003}
OTHER = "d" * 64


def equivocate(hosts, corrupt):
    """The corrupt host tells the one before it of all owners, the one after it of all but bank-c; what the two then
    open."""
    before, after = (corrupt + 2) % 3, (corrupt + 1) % 3
    own = hosts.hosts[corrupt]
    hosts.hosts[before]._peers[corrupt] = Forger(own, hosts.journals[before], set())
    hosts.hosts[after]._peers[corrupt] = Forger(own, hosts.journals[after], {"bank-c"})
    hosts.draw(SHAPE)
    return attempts(*(partial(hosts.hosts[i].open, 1, CONTENT) for i in (before, after)))


@pytest.mark.parametrize("corrupt", range(3))
def test_two_sets_are_never_opened_under_one_noise(trio, corrupt):
    hosts = trio(quorum=1, patience=1.0)
    for owner, value in SECRET.items():
        hosts.receive(bundles(owner, value))
    opened = equivocate(hosts, corrupt)
    assert all(isinstance(each, AbortedRound) for each in opened)
    for i in ((corrupt + 2) % 3, (corrupt + 1) % 3):
        with pytest.raises(AbortedRound):
            hosts.hosts[i].open(1, CONTENT)


@pytest.mark.parametrize("corrupt", range(3))
def test_without_the_last_look_at_each_others_records_the_attack_reads_an_exact_answer(trio, corrupt, monkeypatch):
    monkeypatch.setattr(Host, "_require_same", lambda self, number, record: None)
    hosts = trio(quorum=1, patience=1.0)
    sent = {owner: bundles(owner, value) for owner, value in SECRET.items()}
    for each in sent.values():
        hosts.receive(each)
    everybody, without = equivocate(hosts, corrupt)
    assert (everybody.owners, without.owners) == (tuple(RECORDS), ("bank-a", "bank-b"))
    # The host before opens the missing share for all owners in full; the one after shows its digest without bank-c.
    own = words_of(sent["bank-c"][corrupt], corrupt)
    found = [
        guess
        for guess in range(30_100)
        if digest(everybody.words - (np.full(SHAPE.size, guess).astype(np.uint64) - own[0] - own[1])) == without.digest
    ]
    assert found == [SECRET["bank-c"]]


def words_of(bundle, index):
    return [
        expand_seed(content, SHAPE.size) if (index + k) % 3 < 2 else np.frombuffer(content, "<u8")
        for k, content in enumerate(bundle.shares)
    ]


def test_an_early_opening_freezes_the_set_and_late_owners_are_left_out(trio):
    hosts = trio(quorum=1)
    sent = {owner: bundles(owner, value) for owner, value in SECRET.items()}
    reach = [("bank-a",), ("bank-a", "bank-b"), ("bank-a", "bank-b", "bank-c")]
    for index, owners in enumerate(reach):
        for owner in owners:
            hosts.hosts[index].receive(sent[owner][index])
    first = hosts.open(1, CONTENT)
    assert {each.owners for each in first} == {("bank-a",)}
    for index, owner in ((0, "bank-b"), (0, "bank-c"), (1, "bank-c")):
        with pytest.raises(TooLate):
            hosts.hosts[index].receive(sent[owner][index])
    again = hosts.open(1, CONTENT)
    assert [each.words.tolist() for each in again] == [each.words.tolist() for each in first]


def test_another_question_for_a_round_that_was_opened_is_refused(trio):
    hosts = trio(quorum=1)
    hosts.receive(bundles("bank-a", 1))
    first = total(hosts.open(1, CONTENT))
    for host in hosts.hosts:
        with pytest.raises(ContentMismatch):
            host.open(1, OTHER)
    assert total(hosts.open(1, CONTENT)).tolist() == first.tolist()


def test_different_questions_to_different_owners_open_at_most_one_of_them(trio):
    hosts = trio(quorum=1, patience=0.5)
    hosts.receive(bundles("bank-a", 1))
    hosts.receive(bundles("bank-b", 2, content=OTHER))
    hosts.draw(SHAPE)
    opened = attempts(
        *(partial(host.open, 1, content) for host, content in zip(hosts.hosts, (CONTENT, OTHER, CONTENT), strict=True))
    )
    # Two hosts may have agreed before the third was asked; without it they open nothing.
    assert all(isinstance(each, ParleyError) for each in opened)
    assert not any(journal.entry(TERMS, 1).opened for journal in hosts.journals)
    # Asked alike from the start, one question is opened, with the owner that got it.
    hosts.receive(bundles("bank-a", 1, 2))
    hosts.receive(bundles("bank-b", 2, 2, content=OTHER))
    assert {each.owners for each in hosts.open(2, OTHER)} == {("bank-b",)}


def test_one_owner_cannot_have_two_answers_in_a_round(trio):
    hosts = trio()
    hosts.receive(bundles("bank-a", 1))
    with pytest.raises(ContentMismatch):
        hosts.receive(bundles("bank-a", 2))


@pytest.mark.parametrize("place", range(3))
def test_a_host_with_an_old_journal_opens_nothing_and_the_others_repeat(trio, tmp_path, own_state, monkeypatch, place):
    """Put back with all that it remembers: its machine's snapshot."""
    hosts = trio(tmp_path, quorum=1, patience=0.5)
    old = tmp_path / "old"
    shutil.copytree(own_state, old)
    hosts.journals[place].close()
    shutil.copy(tmp_path / f"h{place}.journal", old / "copy.journal")
    sent = {owner: bundles(owner, value) for owner, value in SECRET.items()}
    for owner in ("bank-a", "bank-b"):
        hosts.receive(sent[owner])
    first = hosts.open(1, CONTENT)
    monkeypatch.setenv("PARLEY_STATE", str(old))
    hosts.restart(place, Journal(old / "copy.journal"))
    for owner in ("bank-a", "bank-c"):  # another set, this time
        hosts.hosts[place].receive(sent[owner][place])
    hosts.draw(SHAPE)
    told = attempts(*(partial(host.open, 1, CONTENT) for host in hosts.hosts))
    assert isinstance(told[place], AbortedRound)
    for index in {0, 1, 2} - {place}:
        assert told[index].words.tolist() == first[index].words.tolist()
    assert hosts.journals[place].entry(TERMS, 1).record is None


@pytest.mark.parametrize("rule", ["kept", "removed"])
def test_a_host_put_back_with_its_memory_is_held_to_what_the_others_recorded(trio, tmp_path, monkeypatch, rule):
    """A virtual machine's snapshot has the noise in it, too. One host more on the learner's side, and two sets differ
    in one owner."""
    if rule == "removed":
        monkeypatch.setattr(Host, "_require_same", lambda self, number, record: None)
    hosts = trio(quorum=1, patience=0.5)
    sent = {owner: bundles(owner, value) for owner, value in SECRET.items()}
    for each in sent.values():
        hosts.receive(each)
    hosts.draw(SHAPE)
    victim, corrupt = 1, 2
    snapshot = Pool({SHAPE: 4})
    snapshot.begin(snapshot.renew(), hosts.pools[victim].keys())
    snapshot._drawn = dict(hosts.pools[victim]._drawn)
    first = hosts.open(1, CONTENT)
    back = Host(
        "h1",
        hosts.assignment,
        journal := Journal(),
        snapshot,
        {0: hosts.doors[0], 2: Forger(hosts.hosts[corrupt], journal, {"bank-c"})},
        0.5,
    )
    for each in sent.values():
        back.receive(each[victim])
    if rule == "kept":
        with pytest.raises(AbortedRound, match="different decisions"):
            back.open(1, CONTENT)
        return
    second = back.open(1, CONTENT)
    share = first[victim].words - second.words  # bank-c's share 1, exact; the corrupt host holds the other two
    own = words_of(sent["bank-c"][corrupt], corrupt)
    assert (share + own[0] + own[1]).tolist() == [SECRET["bank-c"]] * SHAPE.size


def test_a_host_that_lies_about_its_sum_is_noticed_and_named(trio):
    hosts = trio(quorum=1)
    hosts.receive(bundles("bank-a", 1))
    for liar in range(3):
        said = [Opening(each.words, each.digest) for each in hosts.open(1, CONTENT)]
        said[liar] = Opening(said[liar].words + np.uint64(1), said[liar].digest)
        with pytest.raises(LyingHostError) as noticed:
            open_words(said)
        assert all(liar in pair for pair in noticed.value.pairs)


@pytest.mark.parametrize(("quorum", "owners"), [(2, ("bank-a", "bank-b")), (3, None)])
def test_a_host_that_lies_about_a_share_keeps_that_owner_out_or_aborts(trio, quorum, owners):
    hosts = trio(quorum=quorum, patience=0.5)
    for owner, value in SECRET.items():
        sent = bundles(owner, value)
        if owner == "bank-c":  # or the owner itself sends different shares to two hosts
            sent[1] = replace(sent[1], shares=(bytes(32), sent[1].shares[1]))
        hosts.receive(sent)
    if owners is None:
        with pytest.raises(AbortedRound, match="2 owners"):
            hosts.open(1, CONTENT)
    else:
        assert {each.owners for each in hosts.open(1, CONTENT)} == {owners}


def test_a_noise_is_used_for_one_question_even_if_host_0_names_it_twice(trio, monkeypatch):
    hosts = trio(quorum=1, patience=0.5)
    for number in (1, 2):
        hosts.receive(bundles("bank-a", 1, number))
    hosts.draw(SHAPE)
    monkeypatch.setattr(hosts.pools[0], "name", lambda session, shape, patience: 1)
    hosts.open(1, CONTENT)
    told = attempts(*(partial(host.open, 2, CONTENT) for host in hosts.hosts))
    assert all(isinstance(each, AbortedRound) for each in told)


def test_what_hosts_say_of_a_share_lets_nobody_check_a_guess_of_it(trio):
    hosts = trio(quorum=1)
    sent = bundles("bank-a", 1)
    hosts.receive(sent)
    hosts.draw(SHAPE)
    curious = hosts.hosts[0]  # has shares 0 and 1; share 2 with them is the answer
    said = hosts.hosts[1].proposal(1, CONTENT).held[0].second, hosts.hosts[2].proposal(1, CONTENT).held[0].first
    assert said[0] == said[1]
    keys = curious.pool.keys()
    assert said[0] not in {tag(key, sent[0], 2, sent[1].shares[1]) for key in (keys.first, keys.second, bytes(32), b"")}
    assert said[0] == tag(hosts.pools[1].keys().second, sent[1], 2, sent[1].shares[1])


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"round": 0}, OutOfOrder),
        ({"round": 5}, OutOfOrder),
        ({"owner": "stranger"}, OutOfOrder),
        ({"terms_hash": "b" * 64}, Malformed),
        ({"content": "no hash"}, Malformed),
        ({"records": 11}, Malformed),
        ({"shape": Shape("gaussian", 4, 5)}, Malformed),
        ({"shape": Shape("laplace", 5, 5)}, Malformed),
        ({"shape": Shape("laplace", 4, 6)}, Malformed),
        ({"shares": (bytes(32), bytes(33))}, Malformed),
        ({"shares": (bytes(40), bytes(32))}, Malformed),
        ({"shares": (b"", b"")}, Malformed),
        ({"shares": (bytes(32), bytes(1 << 20))}, Malformed),
    ],
)
def test_share_bundles_that_do_not_fit_the_terms_are_refused(trio, change, refusal):
    hosts = trio()
    with pytest.raises(refusal):
        hosts.hosts[0].receive(replace(bundles("bank-a", 1)[0], **change))
    assert not hosts.hosts[0]._bundles


def test_an_owner_that_sends_ahead_pushes_out_its_own_share_bundles_only(trio):
    hosts = trio(quorum=1)
    hosts.receive(bundles("bank-b", 1, 1))
    for number in (1, 2, 3, 4):
        hosts.receive(bundles("bank-a", 1, number))
    kept = {number: sorted(held) for number, held in hosts.hosts[0]._bundles.items() if held}
    assert kept == {1: ["bank-b"], 3: ["bank-a"], 4: ["bank-a"]}


def test_a_stranger_among_proposals_is_refused(trio):
    hosts = trio(quorum=1, patience=0.3)
    hosts.receive(bundles("bank-a", 1))
    hosts.draw(SHAPE)
    with pytest.raises(Unavailable):
        hosts.hosts[1].proposal(1, OTHER)  # nobody's share bundle is about that
    assert hosts.journals[1].entries == 0


class Liar(RemoteHost):
    """A hostile host's daemon: it aborts every round, in words of its own choice."""

    def __init__(self):
        super().__init__("h2", "unix:nowhere", None)

    def _call(self, method, content, timeout):
        return messages.write_refusal(AbortedRound("bank-a owes 17 million"))


class OtherRecord:
    """A hostile host that claims to have recorded something else."""

    def proposal(self, terms_hash, number, content):
        raise Unavailable("busy")

    def record(self, terms_hash, number):
        return "f" * 64


@pytest.mark.parametrize("peer", [OtherRecord, lambda: OtherHost(Liar())])
def test_once_opened_a_restarted_host_repeats_whatever_its_peers_say(trio, tmp_path, peer):
    hosts = trio(tmp_path, quorum=1)
    hosts.receive(bundles("bank-a", 1))
    first = hosts.open(1, CONTENT)
    for index in range(3):
        hosts.restart(index)
    for index in (0, 1):
        hosts.hosts[index]._peers = {other: peer() for other in hosts.hosts[index]._peers}
        assert hosts.hosts[index].open(1, CONTENT).words.tolist() == first[index].words.tolist()
        assert hosts.hosts[index].record(1)
        entry = hosts.journals[index].entry(TERMS, 1)
        assert entry.opened
        assert entry.aborted is None


def test_before_it_opened_a_lie_about_the_record_aborts_and_nothing_leaves(trio, tmp_path):
    hosts = trio(tmp_path, quorum=1)
    hosts.receive(bundles("bank-a", 1))
    hosts.draw(SHAPE)
    run_in_threads(*(partial(host._agree, 1, CONTENT) for host in hosts.hosts))
    hosts.hosts[0]._peers = {1: hosts.doors[1], 2: OtherRecord()}
    for _ in range(2):
        with pytest.raises(AbortedRound, match="different decisions"):
            hosts.hosts[0].open(1, CONTENT)
    assert not hosts.journals[0].entry(TERMS, 1).opened


def test_a_hostile_hosts_words_are_neither_journaled_nor_sent_on(trio):
    hosts = trio(quorum=1)
    hosts.receive(bundles("bank-a", 1))
    hosts.draw(SHAPE)
    hosts.hosts[0]._peers = {1: hosts.doors[1], 2: OtherHost(Liar())}
    with pytest.raises(AbortedRound, match=r"^h2 says that this round is aborted$"):
        hosts.hosts[0].open(1, CONTENT)
    assert hosts.journals[0].entry(TERMS, 1).aborted == "h2 says that this round is aborted"
