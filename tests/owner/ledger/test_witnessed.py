"""What a ledger keeps of others' books, and what witnesses signed about it."""

import sqlite3

import pytest
from bookkeeping import COST, filled, query, reserve, value

from parley.owner.ledger import Ledger
from parley.owner.ledger.account import Head
from parley.owner.ledger.backup import restore
from parley.owner.ledger.witnessed import Signature, SignedEnd

ONE, TWO, BOOK, OTHER = "1" * 64, "2" * 64, "b" * 64, "c" * 64


def end(entries, terms=ONE, book=BOOK, digest="d", party="h0", kind="journal"):
    head = Head(entries, digest * 64)
    return SignedEnd(party, kind, terms, book, head, Signature(b"certificate", b"signature"))


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(filled(tmp_path))
    yield made
    made.close()


def own(ledger, entries=None, witness="h0", **changes):
    """An end of this ledger, as a witness signs it."""
    name, head = ledger.witnessed.own()
    at = head if entries is None else ledger.witnessed.own_at(entries) or Head(entries, "f" * 64)
    facts = {"party": "a", "kind": "ledger", "terms": ONE, "book": name, "head": at} | changes
    return SignedEnd(**facts, witness=witness, countersignature=Signature(b"theirs", b"signed"))


def test_nothing_is_kept_at_first_and_no_table_made(ledger):
    assert ledger.witnessed.kept("h0", "journal", ONE) is None
    assert ledger.witnessed.contradiction() is None
    assert ledger.witnessed.countersigned() == []
    with sqlite3.connect(ledger.path) as db:
        assert db.execute("SELECT COUNT(*) FROM sqlite_master WHERE name='witnessed'").fetchone() == (0,)


def test_what_is_kept_comes_back_as_it_was_after_another_start(ledger):
    assert ledger.witnessed.keep(end(5), None) == end(5)
    ledger.close()
    again = Ledger(ledger.path)
    assert again.witnessed.kept("h0", "journal", ONE) == end(5)
    again.verify()
    again.close()
    reader = Ledger(ledger.path, writes=False)
    assert reader.witnessed.kept("h0", "journal", ONE) == end(5)
    reader.close()


def test_a_kept_end_grows_and_nothing_else(ledger):
    kept = ledger.witnessed
    kept.keep(end(5), None)
    refused = [
        (end(4), Head(5, "d" * 64)),  # shorter
        (end(5, digest="e"), Head(5, "d" * 64)),  # another one of the same length
        (end(6), None),  # not shown to go on
        (end(6), Head(5, "e" * 64)),
        (end(6), Head(4, "d" * 64)),
        (end(6, book=OTHER), Head(5, "d" * 64)),  # another book of the same agreement
    ]
    for shown, earlier in refused:
        assert kept.keep(shown, earlier) == end(5)
        assert kept.kept("h0", "journal", ONE) == end(5)
    assert kept.keep(end(5), None) == end(5)
    assert kept.keep(end(6, digest="e"), Head(5, "d" * 64)) == end(6, digest="e")


def test_the_latest_end_under_any_agreement_of_the_book_counts(ledger):
    kept = ledger.witnessed
    kept.keep(end(5), None)
    assert kept.keep(end(4, TWO), None) == end(5)
    assert kept.keep(end(6, TWO), Head(5, "d" * 64)) == end(6, TWO)
    assert kept.kept("h0", "journal", ONE) == end(6, TWO)
    assert kept.keep(end(6, ONE), None) == end(6, ONE)
    assert kept.kept("h0", "journal", TWO, BOOK).head.entries == 6
    assert kept.kept("h0", "journal", "3" * 64, BOOK).head.entries == 6
    assert kept.kept("h0", "journal", "3" * 64) is None


def test_other_parties_other_kinds_and_other_books_are_kept_apart(ledger):
    kept = ledger.witnessed
    kept.keep(end(5), None)
    for other in (end(1, party="h1"), end(1, kind="ledger"), end(1, TWO, OTHER)):
        assert kept.keep(other, None) == other
    assert kept.kept("h0", "journal", ONE) == end(5)
    assert kept.kept("h0", "journal", TWO) == end(1, TWO, OTHER)


def test_the_own_end_at_any_length(ledger):
    _, head = ledger.witnessed.own()
    assert head == ledger.head == ledger.witnessed.own_at(head.entries)
    assert ledger.witnessed.own_at(0) is None
    assert ledger.witnessed.own_at(head.entries + 1) is None
    assert ledger.witnessed.holds(own(ledger, 3))
    assert ledger.witnessed.holds(own(ledger, 3, book=""))
    assert not ledger.witnessed.holds(own(ledger, 3, book=OTHER))
    assert not ledger.witnessed.holds(own(ledger, head.entries + 1))


def test_what_witnesses_signed_is_one_row_each_and_the_latest(ledger):
    signed = ledger.witnessed
    for entries in (3, 5, 4):
        signed.add_countersigned(own(ledger, entries))
    signed.add_countersigned(own(ledger, 2, "h1"))
    for number in range(20):
        signed.add_countersigned(own(ledger, 2, "h1", terms=f"{number:064x}"))
    assert [(each.witness, each.head.entries) for each in signed.countersigned()] == [("h0", 5), ("h1", 2)]
    assert signed.contradiction() is None


def test_an_end_that_this_ledger_lacks_is_remembered_until_it_is_restored(ledger):
    signed, later = ledger.witnessed, own(ledger, 99)
    signed.add_countersigned(own(ledger, 5))
    signed.add_countersigned(later)
    signed.add_countersigned(own(ledger))  # what it has is no answer
    assert signed.contradiction() == later
    ledger.close()
    again = Ledger(ledger.path)
    assert again.witnessed.contradiction() == later
    name = again.witnessed.own()[0]
    again.close()
    restore(ledger.path, ledger.path, "a", [], everything=False)
    restored = Ledger(ledger.path)
    assert restored.witnessed.contradiction() is None
    assert restored.witnessed.own()[0] != name
    restored.witnessed.add_countersigned(own(restored))
    assert len(restored.witnessed.countersigned()) == 1
    restored.close()


def test_a_book_keeps_its_name_while_it_grows(ledger):
    before = ledger.witnessed.own()
    ledger.answer(query(5), lambda answers: COST * answers, {}, value())
    ledger.accept(reserve("u", COST, 1))
    after = ledger.witnessed.own()
    assert after[0] == before[0]
    assert after[1].entries == before[1].entries + 2
    assert ledger.witnessed.own_at(before[1].entries) == before[1]
