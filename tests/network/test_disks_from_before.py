"""Disks from before a restore, which all others saw only afterwards, and what a party signs that was put back: daemons'
services, files and commands of all parties, without a network."""

import re

import numpy as np
import pytest
from fleet import Fleet, make_template

import parley
from parley.errors import ParleyError, RolledBack
from parley.network.exchange.remote import RemoteOwner
from parley.protocol.queries import GradientQuery

TWO, THREE = ("h0", "h1"), ("h0", "h1", "h2")


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("templates")
    return {hosts: make_template(folder / str(len(hosts)), hosts) for hosts in (TWO, THREE)}


def write_terms(fleet, title, hosts):
    """The fleet's terms under another title, with these of its hosts."""
    text = (fleet.folder / "terms.toml").read_text().replace('"Test"', f'"{title}"')
    text = text.replace("epsilon = 2.0", "epsilon = 1.0")  # so that a ledger has room for all of them
    for name in set(fleet.hosts) - set(hosts):
        text = re.sub(rf'\[\[hosts\]\]\nname = "{name}"\n', "", text)
    path = fleet.folder / f"{title}.toml"
    path.write_text(text)
    terms = parley.load_terms(path)
    assert [host.name for host in terms.hosts] == list(hosts)
    return terms


def restore(fleet, victim):
    role, kind = ("host", "journal") if victim in fleet.hosts else ("owner", "ledger")
    book, settings = fleet.folder / f"{victim}.{kind}", fleet.folder / f"{victim}.toml"
    assume = () if role == "host" else ("--assume-spent", "agreements")
    fleet.command(victim, role, "restore", book, f"--{role}", settings, *assume, "--yes")


def ask(fleet, terms, number=1):
    """The one answer to a learner that remembers nothing."""
    before, fleet.terms = fleet.terms, terms
    try:
        return fleet.learner(deadline=10.0).ask(fleet.questions(number, 0.1 * number))
    finally:
        fleet.terms = before


@pytest.mark.parametrize("victim", ["h0", "a"])
def test_a_disk_from_before_a_restore_is_refused_by_who_saw_the_restored_book_alone(
    templates, tmp_path, monkeypatch, victim
):
    fleet = Fleet(templates[TWO], tmp_path / "disks", TWO)
    with fleet.connected(monkeypatch):
        before = fleet.snapshot(victim, tmp_path / "before")
        restore(fleet, victim)
        new = write_terms(fleet, "New", TWO)
        fleet.accept(new)
        fleet.start()
        assert ask(fleet, new)
        latest = fleet.snapshot(victim, tmp_path / "latest")
        fleet.released.clear()
        fleet.put_back(victim, before)
        fleet.start(victim)
        for _ in range(2):
            with pytest.raises(ParleyError, match="was put back to before a restore"):
                ask(fleet, fleet.terms)
        own = fleet.released[victim, "opening", 1] if victim in TWO else fleet.released["a", "h1", 1]
        assert not own
        fleet.put_back(victim, latest)
        fleet.start(victim)
        assert ask(fleet, new, 2)


def accept_as_host(fleet, name, terms):
    """As `parley host accept` does, while the daemon does not run."""
    fleet.command(name, "host", "accept", fleet.folder / f"{terms.title}.toml", "--host",
                  fleet.folder / f"{name}.toml", "--yes")  # fmt: skip


def test_a_host_signs_no_fork_before_the_hosts_of_its_other_agreements_were_asked(templates, tmp_path, monkeypatch):
    """h1 saw a later end under one agreement; h2, under another, saw nothing of it."""
    fleet = Fleet(templates[THREE], tmp_path / "disks", THREE)
    first, second = write_terms(fleet, "First", ("h0", "h1")), write_terms(fleet, "Second", ("h0", "h2"))
    fleet.accept(first, hosts=("h0", "h1"))
    fleet.accept(second, hosts=("h2",))
    with fleet.connected(monkeypatch):
        fleet.start()
        early = fleet.snapshot("h0", tmp_path / "early")
        assert ask(fleet, first)
        fleet.stop("h0")
        latest = fleet.snapshot("h0", tmp_path / "latest")
        fleet.put_back("h0", early)
        accept_as_host(fleet, "h0", second)  # writes a row
        fleet.start("h0")
        with pytest.raises(ParleyError, match=r"(its|the) journal was put back"):
            ask(fleet, second)
        forked = fleet.services["h0"]._journal.witnessed
        kept = fleet.services["h2"]._journal.witnessed.kept("h0", "journal", second.hash)
        assert kept is None or forked.own_at(kept.head.entries) == kept.head
        fleet.put_back("h0", latest)
        accept_as_host(fleet, "h0", second)
        fleet.start("h0")
        assert ask(fleet, first, 2)  # the latest goes on, without a restore
        assert ask(fleet, second, 2)


def test_an_owner_asks_the_hosts_before_an_answer_with_noise_of_its_own(templates, tmp_path, monkeypatch):
    fleet = Fleet(templates[TWO], tmp_path / "disks", TWO)
    own = fleet.accept_own_noise()
    question = GradientQuery.ask(own.hash, "learner", 1, np.full(3, 0.1)), 60, 3, 5.0
    owner = RemoteOwner("a", "127.0.0.1:1", fleet._identity("learner"))
    with fleet.connected(monkeypatch):
        fleet.start()
        early = fleet.snapshot("a", tmp_path / "early")
        owner.ask(*question)
        assert ask(fleet, fleet.terms)  # the hosts keep the end with that answer
        fleet.put_back("a", early)
        fleet.start("a")
        rows = fleet.services["a"]._owner.ledger.entries
        for _ in range(2):
            with pytest.raises(RolledBack, match="the ledger was put back"):
                owner.ask(*question)
        assert fleet.services["a"]._owner.ledger.entries == rows
        assert not fleet.doubled
        fleet.put_back("a", early)
        fleet.stop(*TWO)
        fleet.start("a")
        assert owner.ask(*question)  # hosts that cannot be reached stop nothing
