"""Proposals that nobody decided about lapse, and learners withdraw their own: places become free, a line stays, and
nothing that ended is open again, whatever happens to clocks, disks and daemons."""

import errno
import os
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from proposals import LEARNER, hashed, proposal_service, proposed, terms_of, told, withdrawn

from parley.errors import DiskError, Refusal, SettingError, TermsError, UnknownTerms
from parley.network.exchange.messages import ProposalState
from parley.network.identity.settings import load_owner
from parley.network.serving import inbox as inbox_module
from parley.network.serving.acceptance import Acceptance, Acceptances, Caller
from parley.network.serving.inbox import MAX_GONE_LINES, MAX_OPEN_PER_LEARNER, Inbox, Proposal
from parley.network.serving.opening import locked
from parley.network.serving.service import WASTED_AT_ONCE, WASTED_INTERVAL_S, Patience

START = datetime(2026, 3, 2, 9, 14, tzinfo=UTC)
OTHER = Caller(("learner",), "other key")
LAPSED = ProposalState("lapsed", "nobody decided about it until 2026-04-01")
WITHDRAWN = ProposalState("withdrawn")


class Calendar:
    """A clock that stands still until somebody sets it."""

    def __init__(self):
        self.time = START

    def __call__(self):
        return self.time

    def after(self, days):
        self.time = START + timedelta(days=days)


@pytest.fixture
def calendar():
    return Calendar()


@pytest.fixture
def service(tmp_path, calendar, monkeypatch):
    """The proposals' side of an owner's daemon, in process, which looks whenever it is told to."""
    monkeypatch.setattr("parley.network.serving.acceptance.RECHECK_AFTER_S", 0.0)
    monkeypatch.setattr("parley.network.serving.service.LAPSE_CHECK_INTERVAL_S", 0.0)
    with proposal_service(tmp_path, clock=calendar) as made:
        yield made


def states(service):
    return [service.inbox.facts(each)["state"] for each in service.inbox.proposals()]


def many(count, **settings):
    return [terms_of(epsilon=k, **settings) for k in range(1, count + 1)]


def test_a_proposal_lapses_at_its_end_and_not_before(service, calendar):
    terms = terms_of()
    proposed(service, terms)
    assert service.inbox.facts(service.inbox.find(terms.hash))["until"] == "2026-04-01T09:14:00+00:00"
    calendar.time = START + timedelta(days=30, seconds=-1)
    service.lapse()
    assert told(service, terms.hash) == ProposalState("open")
    calendar.after(30)
    service.lapse()
    assert told(service, terms.hash) == LAPSED
    with pytest.raises(UnknownTerms):  # of another key, as ever
        told(service, terms.hash, caller=OTHER)


def test_what_was_decided_about_does_not_lapse(service, calendar):
    refused, accepted = many(2)
    for terms in (refused, accepted):
        proposed(service, terms)
    service.inbox.refuse(service.inbox.find(refused.hash), "no")
    service.acceptances.store(Acceptance(accepted, fingerprint="key"))
    calendar.after(4000)
    service.lapse()
    assert told(service, refused.hash) == ProposalState("refused", "no")
    assert told(service, accepted.hash) == ProposalState("accepted")
    assert service.inbox.find(refused.hash).terms() == refused  # which may still be accepted


def test_of_what_lapsed_a_line_stays_and_no_text(service, calendar):
    terms = terms_of()
    proposed(service, terms, replace(LEARNER, certificate="shown"))
    file = service.inbox.folder / f"{terms.hash}.json"
    calendar.after(30)
    service.lapse()
    assert "shown" not in file.read_text()
    assert "epsilon" not in file.read_text()
    line = service.inbox.find(terms.hash[:8])
    facts = service.inbox.facts(line)
    assert (facts["title"], facts["proposed_by"], facts["key"]) == ("Test", ["learner"], "key")
    assert (facts["state"], facts["until"], facts["reason"]) == ("lapsed", None, LAPSED.reason)
    assert file.stat().st_mode & 0o077 == 0
    with pytest.raises(TermsError, match="are lapsed; ask the learner to propose them again"):
        line.terms()
    with pytest.raises(SettingError, match="are already lapsed"):
        service.inbox.refuse(line, "no")
    service.acceptances.store(Acceptance(terms, fingerprint="key"))  # from the file, which came by mail
    assert told(service, terms.hash) == ProposalState("accepted")
    assert proposed(service, terms) == ProposalState("accepted")
    assert states(service) == ["accepted"]


def test_a_clock_that_is_set_back_revives_nothing(service, calendar, tmp_path):
    terms = terms_of()
    proposed(service, terms)
    calendar.after(30)
    service.lapse()
    for days in (0, -1000, 29):
        calendar.after(days)
        service.lapse()
        assert told(service, terms.hash) == LAPSED
    with proposal_service(tmp_path, days=3650, clock=calendar) as restarted:  # with more days, too
        restarted.lapse()
        assert told(restarted, terms.hash) == LAPSED


def test_a_clock_that_was_ahead_keeps_nothing_open_for_years(service, calendar):
    terms = terms_of()
    calendar.after(4000)
    proposed(service, terms)
    calendar.after(0)
    service.lapse()
    assert told(service, terms.hash) == ProposalState("open")
    calendar.after(30)
    service.lapse()
    assert told(service, terms.hash).state == "lapsed"


@pytest.mark.parametrize("until", [None, "9999-12-31T00:00:00+00:00", "junk"])
def test_what_has_no_end_gets_one(service, calendar, until):
    terms = terms_of()
    proposed(service, terms)
    service.inbox._write(replace(service.inbox.find(terms.hash), until=until))
    service.lapse()
    assert service.inbox.find(terms.hash).until == "2026-04-01T09:14:00+00:00"
    service.lapse()
    calendar.after(30)
    service.lapse()
    assert states(service) == ["lapsed"]


def test_nobody_puts_off_the_end_by_proposing_again(service, calendar):
    terms = terms_of()
    proposed(service, terms)
    calendar.after(29)
    for caller in (LEARNER, replace(LEARNER, certificate="renewed"), OTHER, LEARNER, OTHER):
        assert proposed(service, terms, caller) == ProposalState("open")
        service.lapse()
    calendar.after(30)
    service.lapse()
    assert told(service, terms.hash, caller=OTHER) == LAPSED


def test_what_lapsed_frees_its_place_and_may_be_proposed_anew(service, calendar):
    first, *rest = many(MAX_OPEN_PER_LEARNER + 1)
    for terms in (first, *rest[:-1]):
        proposed(service, terms)
    with pytest.raises(Refusal, match="waiting for this owner's decision"):
        proposed(service, rest[-1])
    calendar.after(30)
    service.lapse()
    for terms in (*rest,):
        assert proposed(service, terms) == ProposalState("open")
    with pytest.raises(Refusal, match="waiting for this owner's decision"):  # the first one needs a place like any
        proposed(service, first)
    assert told(service, first.hash) == LAPSED
    calendar.after(60)
    service.lapse()
    assert proposed(service, first, OTHER) == ProposalState("open")
    assert service.inbox.find(first.hash).terms() == first


def test_with_days_of_its_own_an_owner_waits_for_so_long(tmp_path, calendar):
    settings = tmp_path / "owner.toml"
    text = 'name = "a"\ntable = "a.csv"\nledger = "a.ledger"\naccepted = "accepted"\ninbox = "inbox"\n'
    settings.write_text(text + "inbox_days = 2\n")
    assert load_owner(settings).inbox_days == 2
    for wrong in ("0", "-1", "3651", "1.5", "true", '"2"'):
        settings.write_text(text + f"inbox_days = {wrong}\n")
        with pytest.raises(SettingError, match="inbox_days"):
            load_owner(settings)
    with proposal_service(tmp_path, days=2, clock=calendar) as service:
        proposed(service, terms_of())
        calendar.after(2)
        service.lapse()
        assert states(service) == ["lapsed"]


def test_who_proposed_withdraws_what_is_open_and_nobody_else_does(service):
    terms, refused, accepted = many(3)
    for each in (terms, refused, accepted):
        proposed(service, each)
    service.inbox.refuse(service.inbox.find(refused.hash), "no")
    service.acceptances.store(Acceptance(accepted, fingerprint="key"))
    for stranger in (OTHER, Caller(("b",), "key b"), Caller(("learner",)), Caller(relay=True)):
        with pytest.raises(UnknownTerms):
            withdrawn(service, terms, stranger)
    with pytest.raises(UnknownTerms):
        withdrawn(service, terms_of(epsilon=9.0))
    assert told(service, terms.hash) == ProposalState("open")
    assert withdrawn(service, terms) == withdrawn(service, terms) == WITHDRAWN
    assert withdrawn(service, refused) == ProposalState("refused", "no")
    assert withdrawn(service, accepted) == ProposalState("accepted")
    assert service.acceptances.get(accepted.hash).terms == accepted
    assert proposed(service, terms) == ProposalState("open")


def test_who_withdraws_without_end_waits_with_every_key_and_fills_no_disk(service):
    seconds = [100.0]
    service._patience = Patience(lambda: seconds[0])
    heard = []
    for k, terms in enumerate(many(3 * WASTED_AT_ONCE), 1):
        caller = Caller(("learner",), f"key {k}")
        if k > WASTED_AT_ONCE:
            for act in (proposed, withdrawn):
                with pytest.raises(Refusal, match="wait at least 2 seconds"):
                    act(service, terms, caller)
            seconds[0] += WASTED_INTERVAL_S
        proposed(service, terms, caller)
        heard.append(withdrawn(service, terms, caller))
    assert heard == [WITHDRAWN] * 3 * WASTED_AT_ONCE
    assert states(service) == ["withdrawn"] * MAX_OPEN_PER_LEARNER
    assert sum(file.stat().st_size for file in service.inbox.folder.iterdir()) < 1000 * MAX_OPEN_PER_LEARNER
    assert told(service, terms.hash, caller=caller) == WITHDRAWN  # the latest ones stay
    with pytest.raises(UnknownTerms):
        told(service, many(1)[0].hash, caller=Caller(("learner",), "key 1"))


def test_lines_are_bounded_in_all_and_one_learners_push_out_only_its_own(service, calendar, monkeypatch):
    monkeypatch.setattr(inbox_module, "MAX_GONE_LINES", 12)
    quiet = terms_of("quiet")
    proposed(service, quiet, Caller(("quiet",), "quiet key"))
    withdrawn(service, quiet, Caller(("quiet",), "quiet key"))
    for k, terms in enumerate(many(MAX_OPEN_PER_LEARNER + 3)):
        calendar.after(1 + k)
        service._patience = Patience()
        proposed(service, terms)
        withdrawn(service, terms)
    assert told(service, quiet.hash, caller=Caller(("quiet",), "quiet key")) == WITHDRAWN
    assert len(states(service)) == 1 + MAX_OPEN_PER_LEARNER
    calendar.after(-9)  # by this clock what ends now is older than all that ended before
    for name in "cdefgh":
        own = terms_of(name)
        proposed(service, own, Caller((name,), name))
        withdrawn(service, own, Caller((name,), name))
        assert told(service, own.hash, caller=Caller((name,), name)) == WITHDRAWN
    assert len(states(service)) == 12 < MAX_GONE_LINES


def full_disk(monkeypatch, broken=lambda path: True):
    """From here on nothing can be written where it is broken."""
    opened = os.open

    def refusing(path, flags, *mode, **more):
        if flags & os.O_CREAT and broken(str(path)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return opened(path, flags, *mode, **more)

    monkeypatch.setattr(os, "open", refusing)


def test_on_a_full_disk_nothing_lapses_by_halves_and_the_daemon_looks_again(service, calendar, tmp_path):
    first, second = many(2)
    for terms in (first, second):
        proposed(service, terms)
    before = {file.name: file.read_bytes() for file in service.inbox.folder.iterdir()}
    calendar.after(30)
    with pytest.MonkeyPatch.context() as patch:
        full_disk(patch)
        with pytest.raises(DiskError, match="the disk is full"):
            service.inbox.lapse()
        service.lapse()  # the daemon goes on
        assert told(service, first.hash) == ProposalState("open")
    assert {file.name: file.read_bytes() for file in service.inbox.folder.iterdir()} == before
    with pytest.MonkeyPatch.context() as patch:  # one that cannot be written stands in no other's way
        full_disk(patch, lambda path: first.hash in path)
        service.lapse()
        assert told(service, first.hash) == ProposalState("open")
        assert told(service, second.hash) == LAPSED
    with proposal_service(tmp_path, clock=calendar) as restarted:
        restarted.lapse()
        assert told(restarted, first.hash) == LAPSED


def test_a_person_decides_about_what_was_read_or_hears_that_it_changed(service, calendar):
    terms, other = many(2)
    for each in (terms, other):
        proposed(service, each)
    read, rekeyed = service.inbox.find(terms.hash), service.inbox.find(other.hash)
    withdrawn(service, terms)
    proposed(service, other, OTHER)
    for stale in (read, rekeyed):
        with (
            pytest.raises(SettingError, match="changed after it was read; read the new proposal"),
            service.inbox.unchanged(stale),
        ):
            raise AssertionError("accepted")
        with pytest.raises(SettingError, match="changed after it was read"):
            service.inbox.refuse(stale, "no")
    assert told(service, terms.hash) == WITHDRAWN
    with service.inbox.unchanged(service.inbox.find(other.hash)):  # as while its acceptance is written
        done = []
        taking_back = threading.Thread(target=lambda: done.append(withdrawn(service, other, OTHER)))
        taking_back.start()
        time.sleep(0.05)
        assert not done
        service.acceptances.store(Acceptance(other, fingerprint="other key"))
    taking_back.join()
    assert done == [ProposalState("accepted")]


def test_who_holds_the_lock_for_ever_stops_no_daemon(service, calendar, monkeypatch):
    monkeypatch.setattr(inbox_module, "LOCK_TIMEOUT_S", 0.02)
    terms = terms_of()
    proposed(service, terms)
    calendar.after(30)
    with locked(service.inbox.folder / ".lock", 1.0):
        with pytest.raises(SettingError, match="another process is changing the folder"):
            service.inbox.lapse()
        service.lapse()
        assert told(service, terms.hash) == ProposalState("open")
    service.lapse()
    assert told(service, terms.hash) == LAPSED


def test_a_lapse_that_is_not_kept_is_noticed(service, calendar, monkeypatch):
    def after_a_lapse_and_a_clock_set_back(terms):
        calendar.after(0)
        proposed(service, terms)
        for days in (30, 0):
            calendar.after(days)
            service.lapse()
        return told(service, terms.hash).state

    first, second = many(2)
    assert after_a_lapse_and_a_clock_set_back(first) == "lapsed"
    monkeypatch.setattr(Inbox, "_let_go", lambda *rest: None)  # the mutant: said to the log alone
    assert after_a_lapse_and_a_clock_set_back(second) == "open"


def test_a_line_that_somebody_wrote_a_text_into_is_none(tmp_path):
    inbox = Inbox(tmp_path, Acceptances(tmp_path / "accepted"))
    text = terms_of().canonical
    made = Proposal(hashed(text), text, ("learner",), "key", "2026-03-02T09:14:00+00:00", ended="lapsed")
    inbox._write(made)
    with pytest.raises(SettingError, match="expected a proposal that Parley wrote"):
        inbox.find(made.terms_hash)
