"""`parley host restore`, and how a journal is shown to witnesses."""

import shutil
import sqlite3
from pathlib import Path

import pytest
from hosted_consortium import HostedConsortium
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import BrokenChainError, ExchangeError, LedgerError, MissingMemoryError
from parley.network.hosting.journal import CLOSED_REASON, Journal
from parley.network.hosting.offer import consider, restore, statement
from parley.network.identity.settings import load_host
from parley.network.serving.opening import daemon_lock

KNOWN, ROOT = "a" * 64, Path(__file__).parents[2]


@pytest.fixture
def host(tmp_path, own_state):
    """Its settings. Its journal has two agreements: a round of one was opened, another one is on its way."""
    consortium = HostedConsortium(tmp_path, hosts=("h0", "h1"))
    consortium.accept(consortium.write_terms(horizon=2, epsilon=5.0))
    settings = load_host(tmp_path / "h0.toml")
    journal = Journal(settings.journal)
    for number in (1, 2):
        journal.propose(KNOWN, number, "held")
    journal.agree(KNOWN, 1, "record", "n/1", b"sums")
    journal.open(KNOWN, 1)
    journal.close()
    return settings


def terms_of(settings):
    return parley.load_terms(settings.journal.parent / "terms.toml")


def copied(settings):
    return Path(shutil.copy(settings.journal, settings.journal.with_name("copy")))


def run(*words):
    ran = CliRunner().invoke(app, [str(word) for word in words])
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    return ran


def test_every_agreement_is_closed_and_what_was_opened_is_repeated(host):
    restored = restore(host.journal, host)
    assert (restored.closed, restored.aside.exists()) == (2, True)
    journal = Journal(host.journal)
    assert journal.head == restored.head
    assert journal.entry(KNOWN, 1).opened
    assert journal.entry(KNOWN, 1).aborted is None
    for terms in (KNOWN, terms_of(host).hash):
        assert journal.closed(terms)
        for number in (2, 3, 2000):
            assert journal.propose(terms, number, "held anew").aborted == CLOSED_REASON
            assert journal.agree(terms, number, "record", f"n/{number}", b"sums").aborted == CLOSED_REASON
            assert journal.open(terms, number).aborted == CLOSED_REASON
    assert not journal.closed("e" * 64)
    assert journal.propose("e" * 64, 1, "held").proposal == "held"
    journal.close()
    Journal(host.journal, writes=False).close()


def test_an_agreement_that_only_the_acceptances_know_is_closed_too(host):
    """The copy is older than the acceptance."""
    empty = host.journal.with_name("empty")
    Journal(empty).close()
    host.journal.unlink()
    for left in host.journal.parent.glob("h0.journal-*"):
        left.unlink()
    assert restore(empty, host).closed == 1
    with pytest.raises(LedgerError, match="closed these terms"):
        consider(terms_of(host), host).accept()


def test_closed_terms_are_not_accepted_again_and_new_ones_are(host):
    restore(host.journal, host)
    with pytest.raises(LedgerError, match="agree on new terms"):
        consider(terms_of(host), host).accept()
    text = (host.journal.parent / "terms.toml").read_text().replace('"Test"', '"New"')
    (host.journal.parent / "new.toml").write_text(text)
    consider(parley.load_terms(host.journal.parent / "new.toml"), host).accept()
    closed = {each["title"]: each["closed"] for each in statement(host)["agreements"]}
    assert closed == {"Test": True, "New": False}
    assert "closed" in run("host", "journal", host.journal.parent / "h0.toml").output


def test_a_journal_that_was_put_back_is_restored_and_its_memory_follows(host):
    old = copied(host)
    journal = Journal(host.journal)
    journal.begin("f" * 64)
    journal.close()
    shutil.copy(old, host.journal)
    with pytest.raises(BrokenChainError, match="parley host restore"):
        Journal(host.journal)
    restore(host.journal, host)
    journal = Journal(host.journal)
    journal.begin("9" * 64)
    journal.close()
    Journal(host.journal).close()
    shutil.copy(old, host.journal)
    with pytest.raises(BrokenChainError, match="rolled back"):
        Journal(host.journal)


def test_a_journal_whose_memory_is_lost_is_restored(host, own_state):
    shutil.rmtree(own_state)
    with pytest.raises(MissingMemoryError, match="parley host restore"):
        Journal(host.journal)
    restore(host.journal, host)
    Journal(host.journal).close()


def test_an_older_copy_is_not_put_back_over_a_journal_that_knows_more(host):
    old = copied(host)
    journal = Journal(host.journal)
    journal.begin("f" * 64)
    journal.close()
    before = host.journal.read_bytes()
    with pytest.raises(LedgerError, match="contains this copy and 1 more row"):
        restore(old, host)
    assert host.journal.read_bytes() == before


def test_nothing_is_restored_beside_a_daemon_from_nothing_or_from_another_file(host):
    with daemon_lock(host.journal, "journal", "parley host init"), pytest.raises(ExchangeError, match="daemon"):
        restore(host.journal, host)
    with pytest.raises(LedgerError, match="does not exist"):
        restore(host.journal.with_name("nothing"), host)
    other = host.journal.with_name("other")
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE entries (seq INTEGER)")
    with pytest.raises(LedgerError, match="expected a host's journal"):
        restore(other, host)
    broken = copied(host)
    with sqlite3.connect(broken) as db:
        db.execute("UPDATE entries SET body='other' WHERE kind='proposal' AND round=2")
    with pytest.raises(BrokenChainError, match="chain"):
        restore(broken, host)
    Journal(host.journal).close()


def test_the_command_asks_first_and_says_what_it_did(host):
    words = ["host", "restore", host.journal, "--host", host.journal.parent / "h0.toml"]
    before = host.journal.read_bytes()
    declined = CliRunner().invoke(app, [str(word) for word in words], input="n\n")
    assert (declined.exit_code, host.journal.read_bytes()) == (1, before)
    told = " ".join(run(*words, "--yes").output.split())
    assert "2 agreements closed" in told
    assert "the replaced journal" in told
    assert "2 agreements closed" in " ".join(run(*words, "--yes").output.split())  # again: a further book
    journal = Journal(host.journal)
    assert journal.counts("")["restore"] == 2
    journal.close()


def test_an_earlier_version_of_parley_does_not_go_on_under_closed_terms(host):
    """It knows no row that closes terms, and refuses what is not of version 1."""
    for version in (1, 2):
        with sqlite3.connect(host.journal) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (version,)
        restore(host.journal, host)


def test_a_journal_of_an_earlier_version_is_restored(tmp_path, own_state, host):
    shutil.copy(ROOT / "fixtures" / "written_before" / "host.journal", tmp_path / "old")
    for left in host.journal.parent.glob("h0.journal*"):
        left.unlink()
    restored = restore(tmp_path / "old", host)
    journal = Journal(host.journal)
    assert journal.head == restored.head
    assert journal.entry(KNOWN, 1).sums == b"sums one"
    assert journal.closed(KNOWN)
    journal.close()


def digests(journal):
    witnessed = journal.witnessed
    name, head = witnessed.own()
    return [name, *(witnessed.own_at(entries).hash for entries in range(1, head.entries + 1))]


@pytest.mark.parametrize("written", ["now", "before"])
def test_witnesses_see_digests_under_the_journals_own_secret(tmp_path, own_state, written):
    """From a row's own hash, and the one before it, whoever knows the other shares could try sums."""
    path = tmp_path / "host.journal"
    if written == "before":
        shutil.copy(ROOT / "fixtures" / "written_before" / "host.journal", path)
    journal = Journal(path)
    journal.begin(KNOWN)
    journal.propose(KNOWN, 7, "held")
    shown = digests(journal)
    journal.close()
    with sqlite3.connect(path) as db:
        raw = {text for row in db.execute("SELECT hash, previous FROM entries") for text in row}
    assert not raw & {*shown}
    assert len({*shown}) == len(shown)
    again = Journal(path)
    assert digests(again) == shown
    again.propose(KNOWN, 8, "held")
    assert digests(again)[: len(shown)] == shown
    again.close()
    other = Journal(tmp_path / "other.journal")
    other.begin(KNOWN)
    assert not {*digests(other)} & {*shown}
    other.close()


def test_a_restored_journal_is_another_book_with_the_same_past(host):
    journal = Journal(host.journal)
    name, head = journal.witnessed.own()
    journal.close()
    restore(host.journal, host)
    journal = Journal(host.journal)
    assert journal.witnessed.own()[0] != name
    assert journal.witnessed.own_at(head.entries) == head
    journal.close()
