"""A party's whole disk is put back, state folder and all: as long as an honest party that saw a later end can be
reached, nothing is released, and the refusal says so. Killed between a commit and its witnesses, nobody loses or
doubles anything.

PARLEY_ROLLBACKS sets how many are tried (default 16); `PARLEY_ROLLBACKS=200 pytest -s
tests/network/test_whole_disks.py` prints the cases and what came of them.
"""

import os
import random
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from fleet import OWNERS, Fleet, Killed, make_template

import parley
from parley.errors import AbortedRound, ContradictionError, ParleyError, RolledBack, Unavailable
from parley.network.exchange import witnesses as witnesses_module
from parley.network.exchange.host_connections import HostConnections
from parley.network.exchange.remote import LocalOwner, RemoteOwner
from parley.network.exchange.witnesses import Witnesses
from parley.network.identity.certificates import Signer
from parley.network.identity.settings import load_owner
from parley.network.serving.acceptance import Acceptances
from parley.network.serving.health import Readiness
from parley.network.serving.service import open_witnesses
from parley.owner.ledger.witnessed import end_texts
from parley.protocol.queries import GradientQuery

TRIALS = int(os.environ.get("PARLEY_ROLLBACKS", "14"))
TWO, THREE = ("h0", "h1"), ("h0", "h1", "h2")
CASES = (  # hosts, whose disk, who saw a later end
    ((), "owner", "learner"),
    (TWO, "owner", "hosts"),
    (THREE, "owner", "hosts"),
    (TWO, "host", "other hosts"),
    (TWO, "host", "owners"),
    (TWO, "host", "learner"),
    (THREE, "host", "other hosts"),
)


class Trial:
    """One fleet, one victim, and what it releases before and after its disk is put back."""

    def __init__(self, case, template, folder, rng, monkeypatch):
        (self.hosts, self.kind, self.witness), self.rng, self.patch = case, rng, monkeypatch
        self.victim = (
            rng.choice(OWNERS) if self.kind == "owner" else "h0" if len(self.hosts) == 2 else rng.choice(THREE)
        )
        self.fleet, self.copies = Fleet(template, folder / "disks", self.hosts), folder / "copies"
        self.copies.mkdir()
        self.snapshots, self.said = [], []

    def run(self):
        with self.fleet.connected(self.patch):
            with self.patch.context() as patched:
                patched.setattr(Witnesses, "tell", self.killing(Witnesses.tell))
                self.fleet.start()
                self.work()
            back = self.rng.choice([place for place, rows in enumerate(self.rows) if rows < self.seen()])
            self.fleet.put_back(self.victim, self.snapshots[back])
            self.fleet.start(self.victim)
            if self.witness in ("owners", "learner") and self.hosts:
                self.fleet.make_curious()
            self.attempts(back)
            outcome = self.afterwards()
        assert not self.fleet.doubled, self.fleet.doubled.keys()
        killed = "killed" if self.was_killed else "not killed"
        return (f"{len(self.hosts)} hosts", self.kind, self.witness, killed, outcome)

    def work(self):
        """Two or three honest rounds, with a copy of the victim's disk before and after each; killed somewhere."""
        self.federation, self.rows = self.fleet.learner(deadline=20.0), []
        self.last, self.was_killed = self.rng.choice([2, 3]), False
        self.snapshot()
        for number in range(1, self.last + 1):
            self.ask_round(number)
            self.snapshot()

    def ask_round(self, number):
        with suppress(AbortedRound):
            self.federation.ask(self.fleet.questions(number, theta(number)))

    def killing(self, tell):
        """End the victim between a commit and its witness, or just after; it starts again when it is called again."""
        left, after = self.rng.randrange(1, 8), self.rng.random() < 0.5

        def told(witnesses, *words, **how):
            nonlocal left
            left -= witnesses._name == self.victim
            now = left == 0 and witnesses._name == self.victim
            self.was_killed |= now
            if now and not after:
                raise Killed
            tell(witnesses, *words, **how)
            if now:
                raise Killed

        return told

    def snapshot(self):
        self.rows.append(self.book(self.victim).own()[1].entries)
        self.snapshots.append(self.fleet.snapshot(self.victim, self.copies / str(len(self.snapshots))))

    def book(self, party):
        service = self.fleet.services[party]
        return service._journal.witnessed if party in self.hosts else service._owner.ledger.witnessed

    def seen(self):
        """The latest end of the victim's book that an honest witness keeps."""
        if self.witness == "learner":
            return self.federation.ends["h0"].head.entries if self.hosts else self.federation.heads[self.victim].entries
        keepers = OWNERS if self.witness == "owners" else [host for host in self.hosts if host != self.victim]
        kind = "journal" if self.victim in self.hosts else "ledger"
        kept = [self.book(party).kept(self.victim, kind, self.fleet.terms.hash) for party in keepers]
        return max(end.head.entries for end in kept if end is not None)

    def attempts(self, back):
        """A learner that remembers nothing asks what the victim forgot; once more after another start."""
        for again in (False, True):
            for number in range(back + 1, self.last + 1):
                for shift in (0.0, 1.0):
                    self.attempt(number, shift)
            if not again:
                self.fleet.stop(self.victim)
                self.fleet.start(self.victim)
                if self.fleet.liars:
                    self.fleet.make_curious()

    def attempt(self, number, shift):
        identity = self.fleet._identity("learner")
        query = GradientQuery.ask(self.fleet.terms.hash, "learner", number, np.full(3, theta(number) + shift))
        for name in OWNERS if self.kind == "host" else self.victim:
            owner, size = RemoteOwner(name, "127.0.0.1:1", identity), 0 if self.hosts else 3
            owner.seen = lambda: None if self.hosts else self.federation.heads[self.victim]
            self.try_it(lambda owner=owner, size=size: owner.ask(query, 60 if owner.name == "a" else 40, size, 5.0))
        if self.kind == "host":
            group = HostConnections(dict.fromkeys(self.hosts, "127.0.0.1:1"), identity, "a").group(
                self.fleet.terms.hosts
            )
            seen = self.federation.ends["h0"] if self.witness == "learner" else None
            question = self.fleet.terms.hash, number, query.content, 3, 5.0
            self.try_it(lambda: group.connections[self.victim].open(*question, seen))

    def try_it(self, call):
        try:
            call()
        except ParleyError as error:
            self.said.append(error)

    def afterwards(self):
        """The victim was told; then its latest disk comes back, or it is restored and serves new terms alone."""
        told = [error for error in self.said if isinstance(error, RolledBack)]
        assert told, self.said
        assert all("put back" in str(error) for error in told)
        self.fleet._accomplice = None
        self.fleet.liars.clear()
        if self.rng.random() < 0.5:
            self.fleet.stop()
            self.fleet.put_back(self.victim, self.snapshots[-1])
            self.fleet.start()
            self.ask_round(self.last + 1)
            return "refused; the latest disk goes on"
        self.restore()
        return "refused; restored, and new terms are served"

    def restore(self):
        fleet, victim = self.fleet, self.victim
        fleet.stop()
        settings, role = fleet.folder / f"{victim}.toml", "host" if victim in self.hosts else "owner"
        book = fleet.folder / f"{victim}.{'journal' if victim in self.hosts else 'ledger'}"
        assume = () if victim in self.hosts else ("--assume-spent", "agreements")
        fleet.command(victim, role, "restore", book, f"--{role}", settings, *assume, "--yes")
        fleet.start()
        with pytest.raises(ParleyError):
            self.federation.ask(fleet.questions(self.last + 1, 2.0))
        fleet.stop()
        (fleet.folder / "terms.toml").write_text((fleet.folder / "terms.toml").read_text().replace('"Test"', '"New"'))
        fleet.terms = parley.load_terms(fleet.folder / "terms.toml")
        fleet.accept(fleet.terms)
        fleet.start()
        before = dict(fleet.released)
        fleet.released.clear()
        assert fleet.learner(deadline=20.0).ask(fleet.questions(1, 0.5))
        fleet.released = before


def theta(number):
    return 0.1 * number


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("templates")
    return {hosts: make_template(folder / str(len(hosts)), hosts) for hosts in ((), TWO, THREE)}


def test_with_an_honest_witness_reachable_a_disk_that_is_put_back_releases_nothing(templates, tmp_path, monkeypatch):
    table = Counter()
    for number in range(TRIALS):
        case = CASES[number % len(CASES)]
        (tmp_path / str(number)).mkdir()
        trial = Trial(case, templates[case[0]], tmp_path / str(number), random.Random(number), monkeypatch)
        table[trial.run()] += 1
    lines = [" | ".join((str(count), *row)) for row, count in sorted(table.items())]
    head = f"{TRIALS} whole disks put back, all refused\ntrials | hosts | whose disk | witness | killed | outcome"
    sys.stdout.write("\n".join(("", head, *lines, "")))
    assert table.total() == TRIALS


def test_without_witnesses_questions_are_answered_twice(templates, tmp_path, monkeypatch):
    """The search finds what it looks for, wherever the party itself is the only one that could notice."""
    monkeypatch.setattr(Witnesses, "tell", lambda *words, **how: None)
    monkeypatch.setattr(Witnesses, "hear", lambda *words, **how: None)
    monkeypatch.setattr(Trial, "seen", lambda trial: trial.rows[-1])
    twice = Counter()
    for number in range(3 * len(CASES)):
        case = CASES[number % len(CASES)]
        (tmp_path / str(number)).mkdir()
        trial = Trial(case, templates[case[0]], tmp_path / str(number), random.Random(number), monkeypatch)
        with suppress(AssertionError):
            trial.run()
        twice[case] += bool(trial.fleet.doubled)
    assert {case for case in CASES if twice[case]} >= {case for case in CASES if case[2] != "other hosts"}


@pytest.fixture
def fleet(templates, tmp_path):
    return Fleet(templates[TWO], tmp_path / "disks", TWO)


def ask_owner(fleet, name, number, terms=None):
    """The learner's question of a round; under `terms` with noise of their own, the answer."""
    query = GradientQuery.ask((terms or fleet.terms).hash, "learner", number, np.full(3, theta(number)))
    owner = RemoteOwner(name, "127.0.0.1:1", fleet._identity("learner"))
    return owner.ask(query, 60 if name == "a" else 40, 0 if terms is None else 3, 5.0).answer.value.tolist()


def readiness(fleet, name):
    settings, service = load_owner(fleet.folder / f"{name}.toml"), fleet.services[name]
    return Readiness(service._owner, Acceptances(settings.accepted), settings.table, lambda: None).problems()


def test_a_proof_under_one_agreement_stops_answers_with_noise_of_their_own(fleet, tmp_path, monkeypatch):
    own = fleet.accept_own_noise()
    with fleet.connected(monkeypatch):
        fleet.start()
        federation = fleet.learner(deadline=20.0)
        federation.ask(fleet.questions(1, 0.1))
        early = fleet.snapshot("a", tmp_path / "early")
        first = ask_owner(fleet, "a", 1, own)
        federation.ask(fleet.questions(2, 0.2))  # the hosts keep the end with that answer
        latest = fleet.snapshot("a", tmp_path / "latest")
        fleet.put_back("a", early)
        fleet.start("a")
        assert not readiness(fleet, "a")
        with pytest.raises(RolledBack):
            ask_owner(fleet, "a", 2)
        for again in (False, True):
            with pytest.raises(RolledBack, match="the ledger was put back"):
                ask_owner(fleet, "a", 1, own)
            with pytest.raises(RolledBack, match="the ledger was put back"):
                local_owner(fleet, "a").ask(*own_question(own, 1))
            assert readiness(fleet, "a") == ["the ledger was put back to an earlier time; read the runbook"]
            if not again:
                fleet.stop("a")
                fleet.start("a")
        fleet.put_back("a", latest)
        fleet.start("a")
        assert ask_owner(fleet, "a", 1, own) == first


def own_question(terms, number):
    return GradientQuery.ask(terms.hash, "learner", number, np.full(3, theta(number))), 60, 3, 5.0


def local_owner(fleet, name):
    """The same ledger in its learner's process."""
    service = fleet.services[name]
    return LocalOwner(service._owner, service._delivery, open_witnesses(service._owner))


class Clock:
    """The owners' clock, which the test moves on."""

    def __init__(self, fleet):
        self.fleet, self.now = fleet, 1000.0
        self.wind()

    def wind(self):
        """After a start."""
        for name in OWNERS:
            delivery = self.fleet.services[name]._delivery
            delivery._clock = lambda: self.now
            for terms, watch in delivery._watched.items():
                delivery.watch(terms, watch.hosts)

    def go(self, seconds):
        """The daemons' looks of this time, one in each second."""
        for _ in range(round(seconds)):
            self.now += 1.0
            for name in OWNERS:
                self.fleet.services[name].remember()
                wait(self.fleet.services[name]._delivery._looks.values())


def open_at(fleet, host, number):
    """What the learner, who remembers nothing, is opened at a host."""
    connections = HostConnections(dict.fromkeys(fleet.hosts, "127.0.0.1:1"), fleet._identity("learner"), "a")
    content = GradientQuery.ask(fleet.terms.hash, "learner", number, np.full(3, theta(number))).content
    return connections.group(fleet.terms.hosts).connections[host].open(fleet.terms.hash, number, content, 3, 5.0)


def open_everywhere(fleet, number):
    with ThreadPoolExecutor(len(fleet.hosts)) as pool:
        return [*pool.map(lambda host: open_at(fleet, host, number), fleet.hosts)]


@pytest.mark.parametrize("restarted", [False, True])
def test_owners_look_again_for_an_opening_that_came_long_after_their_shares(fleet, tmp_path, monkeypatch, restarted):
    with fleet.connected(monkeypatch):
        fleet.start()
        clock = Clock(fleet)
        for name in OWNERS:
            ask_owner(fleet, name, 1)
        clock.go(20)
        before = fleet.snapshot("h0", tmp_path / "before")
        if restarted:
            for name in OWNERS:
                fleet.stop(name)
                fleet.start(name)
            clock.wind()
        open_everywhere(fleet, 1)
        clock.go(20)
        fleet.put_back("h0", before)
        fleet.start("h0")
        fleet.make_curious()
        for name in OWNERS:
            with pytest.raises(RolledBack):
                ask_owner(fleet, name, 1)
        with pytest.raises(ParleyError):
            open_at(fleet, "h0", 1)
        assert not fleet.doubled


def test_a_look_that_finds_a_host_that_was_put_back_logs_it(fleet, tmp_path, monkeypatch):
    with fleet.connected(monkeypatch):
        fleet.start()
        clock = Clock(fleet)
        events = listen(fleet, "a")
        before = fleet.snapshot("h0", tmp_path / "before")
        fleet.learner(deadline=20.0).ask(fleet.questions(1, theta(1)))
        clock.go(20)
        assert "rolled-back" not in dict(events)
        fleet.put_back("h0", before)
        fleet.start("h0")
        clock.go(40)
        (facts,) = {(facts["terms"], facts["host"]) for event, facts in events if event == "rolled-back"}
        assert facts == (fleet.terms.hash, "h0")
        reasons = {facts["reason"] for event, facts in events if event == "rolled-back"}
        assert any("put back" in reason or "rolled-back" in reason for reason in reasons), reasons


def test_a_host_logs_that_another_one_saw_a_later_end(fleet, tmp_path, monkeypatch):
    with fleet.connected(monkeypatch):
        fleet.start()
        before = fleet.snapshot("h0", tmp_path / "before")
        fleet.learner(deadline=20.0).ask(fleet.questions(1, theta(1)))
        fleet.put_back("h0", before)
        fleet.start("h0")
        events, host = listen(fleet, "h0"), fleet.services["h0"]
        host.ask_witnesses()
        host._asking.result()
        assert [event for event, _ in events] == ["rolled-back"]
        assert "h1 saw it" in events[0][1]["reason"]


def listen(fleet, name):
    """What this party logs from now on."""
    events = []
    fleet.services[name]._log.listeners.append(lambda event, facts: events.append((event, facts)))
    return events


def test_looks_come_after_longer_and_longer_pauses_and_end_with_the_agreement(fleet, monkeypatch):
    looks, tell = [], Witnesses.tell
    with fleet.connected(monkeypatch):
        fleet.start()
        clock = Clock(fleet)
        for number in (1, 2, 3):
            fleet.learner(deadline=20.0).ask(fleet.questions(number, theta(number)))

        def looked(witnesses, terms, witness, *words, **how):
            looks.append((witnesses._name, witness.name, clock.now - 1000.0))
            tell(witnesses, terms, witness, *words, **how)

        monkeypatch.setattr(Witnesses, "tell", looked)
        clock.go(40)
        times = [1.0, 3.0, 7.0, 15.0, 31.0]
        assert sorted(looks) == sorted((name, host, at) for name in OWNERS for host in TWO for at in times)
        clock.now += 8 * 86400.0
        looks.clear()
        clock.go(1)  # a round is left
        assert len(looks) == len(OWNERS) * len(TWO)
        fleet.learner(deadline=20.0).ask(fleet.questions(4, theta(4)))
        clock.now += 6 * 86400.0
        looks.clear()
        clock.go(1)
        assert len(looks) == len(OWNERS) * len(TWO)
        clock.now += 2 * 86400.0
        clock.go(3)
        assert len(looks) == len(OWNERS) * len(TWO)


def test_an_owner_that_no_longer_knows_a_host_is_ready_and_does_not_look(fleet, monkeypatch):
    with fleet.connected(monkeypatch):
        fleet.start()
        service, events = fleet.services["a"], []
        service._log.listeners.append(lambda event, facts: events.append(event))
        service._delivery._watched.clear()
        service._delivery._connections = HostConnections({"h0": "127.0.0.1:1"}, fleet._identity("a"), "a.toml")
        service.prepare()
        service.remember()
        assert events == ["ready"]
        assert not service._delivery._watched


def without_ends(fleet, host):
    """The host's programs are those of before there were witnesses."""
    fleet.silent.add(host)
    witnesses = fleet.services[host].witnesses
    witnesses.require_told = witnesses.require_heard = witnesses.hear = witnesses.tell = lambda *words, **how: None
    witnesses.own_end = lambda *words: (None, None)


def test_a_host_whose_programs_went_back_with_its_disk_is_refused(fleet, tmp_path, monkeypatch):
    with fleet.connected(monkeypatch):
        fleet.start()
        early = fleet.snapshot("h0", tmp_path / "early")
        federation = fleet.learner(deadline=20.0)
        for number in (1, 2):
            federation.ask(fleet.questions(number, theta(number)))
        fleet.put_back("h0", early)
        fleet.start("h0")
        without_ends(fleet, "h0")
        fleet.make_curious()
        for number in (1, 2):
            for name in OWNERS:
                with pytest.raises(RolledBack, match="h0: it kept ends of books before, and now it does not"):
                    ask_owner(fleet, name, number)
            with pytest.raises(ParleyError):
                open_at(fleet, "h0", number)
        assert not fleet.doubled


@pytest.mark.parametrize("runs_on", [False, True])
def test_a_host_refuses_another_one_whose_programs_went_back(fleet, monkeypatch, runs_on):
    with fleet.connected(monkeypatch):
        fleet.start()
        federation = fleet.learner(deadline=20.0)
        federation.ask(fleet.questions(1, theta(1)))
        other = fleet.services["h0"].hosted[0].group.connections["h1"]
        asking = HostConnections({"h1": "127.0.0.1:1"}, fleet._identity("h0"), "a")
        asking = asking.group(fleet.terms.hosts, "h0").connections["h1"]
        content = fleet.questions(1, theta(1))["a"].content
        question = fleet.terms.hash, 1, content, 5.0
        assert asking.propose(*question) == other.propose(*question)
        if runs_on:
            monkeypatch.setattr(witnesses_module, "HEARD_VALID_S", 0.0)
        else:
            fleet.stop("h1")
            fleet.start("h1")
        without_ends(fleet, "h0")
        for _ in range(2):
            with pytest.raises(RolledBack):
                asking.propose(*question)
            with pytest.raises(RolledBack):
                asking.record(fleet.terms.hash, 1, 5.0)
        fleet.silent.clear()
        del fleet.services["h0"].witnesses.hear, fleet.services["h0"].witnesses.own_end
        assert asking.propose(*question)


def test_a_learner_refuses_a_host_that_shows_no_end_any_more(fleet, monkeypatch):
    with fleet.connected(monkeypatch):
        fleet.start()
        federation = fleet.learner(deadline=20.0)
        federation.ask(fleet.questions(1, theta(1)))
        host = fleet.services["h0"]
        host.witnesses.own_end = lambda *words: (None, None)
        with pytest.raises(RolledBack, match="h0: it kept ends of books before"):
            federation.ask(fleet.questions(2, theta(2)))
        fleet.learner(deadline=20.0).ask(fleet.questions(2, theta(2)))  # first contact


def test_a_learner_refuses_a_host_that_no_longer_states_its_restores(fleet, monkeypatch):
    with fleet.connected(monkeypatch):
        fleet.start()
        federation = fleet.learner(deadline=20.0)
        federation.ask(fleet.questions(1, theta(1)))
        host, signer = fleet.services["h0"].witnesses, Signer(fleet._identity("h0"))
        own_end = host.own_end

        def earlier(*words):
            end, then = own_end(*words)
            bare = replace(end, origin="", restores=0, signature=None)
            return replace(bare, signature=signer.sign(end_texts(bare)[0])), then

        host.own_end = earlier
        with pytest.raises(ContradictionError, match="h0: the host's journal was rolled back"):
            federation.ask(fleet.questions(2, theta(2)))
        assert fleet.learner(deadline=20.0).ask(fleet.questions(2, theta(2)))  # first contact


def test_a_host_takes_no_shares_from_an_owner_that_shows_no_end_any_more(fleet, monkeypatch):
    with fleet.connected(monkeypatch):
        fleet.start()
        fleet.learner(deadline=20.0).ask(fleet.questions(1, theta(1)))
        fleet.stop("h0")
        fleet.start("h0")
        delivery = fleet.services["a"]._delivery
        witnesses, delivery._witnesses = delivery._witnesses, None
        with pytest.raises(Unavailable, match="its programs or its disk are older"):
            ask_owner(fleet, "a", 2)
        delivery._witnesses = witnesses
        ask_owner(fleet, "a", 2)


def test_a_host_that_starts_writes_no_row_before_it_was_told(fleet, tmp_path, monkeypatch):
    """Its latest journal would contradict what it signed meanwhile."""
    with fleet.connected(monkeypatch):
        fleet.start()
        fleet.services["h0"]._journal.propose(fleet.terms.hash, 1, "held")
        forgotten = fleet.services["h0"]._journal.entries
        early = fleet.snapshot("h0", tmp_path / "early")
        fleet.stop("h0")
        fleet.start("h0")
        federation = fleet.learner(deadline=20.0)
        with pytest.raises(AbortedRound, match="restarted"):
            federation.ask(fleet.questions(1, theta(1)))
        federation.ask(fleet.questions(2, theta(2)))
        rows = fleet.services["h0"]._journal.entries
        latest = fleet.snapshot("h0", tmp_path / "latest")
        fleet.put_back("h0", early)
        fleet.start("h0")
        with pytest.raises(RolledBack, match="h1 saw it"):
            open_at(fleet, "h0", 1)
        assert fleet.services["h0"]._journal.entries == forgotten < rows
        fleet.put_back("h0", latest)
        fleet.start("h0")
        federation.ask(fleet.questions(3, theta(3)))
