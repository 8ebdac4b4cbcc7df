"""What a ledger keeps of others' books, and what witnesses signed about it."""

import sqlite3
from dataclasses import replace

import pytest
from bookkeeping import COST, filled, query, reserve, value

from parley.errors import LedgerError
from parley.owner.ledger import Ledger, stored_rows
from parley.owner.ledger.account import Head
from parley.owner.ledger.backup import restore
from parley.owner.ledger.witnessed import MAX_RESTORES, Signature, SignedEnd

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
    assert kept.kept("h0", "journal", TWO, end(1, TWO)).head.entries == 6
    assert kept.kept("h0", "journal", "3" * 64, end(1, "3" * 64)).head.entries == 6
    assert kept.kept("h0", "journal", "3" * 64) is None


def test_other_parties_other_kinds_and_other_books_are_kept_apart(ledger):
    kept = ledger.witnessed
    kept.keep(end(5), None)
    for other in (end(1, party="h1"), end(1, kind="ledger"), end(1, TWO, OTHER)):
        assert kept.keep(other, None) == other
    assert kept.kept("h0", "journal", ONE) == end(5)
    assert kept.kept("h0", "journal", TWO) == end(1, TWO, OTHER)


def numbered(entries, restores, terms=ONE, book=BOOK, origin="0" * 64):
    """An end with an origin."""
    signature = Signature(b"certificate", b"signature", b"second")
    return replace(end(entries, terms, book), signature=signature, origin=origin, restores=restores)


def test_an_end_of_an_earlier_restore_or_without_an_origin_is_not_kept(ledger):
    kept, latest = ledger.witnessed, numbered(5, 2)
    assert kept.keep(latest, None) == latest
    assert not kept.saw_restore("h1", "journal")
    assert kept.saw_restore("h0", "journal")
    refused = [
        numbered(9, 1, TWO, OTHER),
        numbered(9, 0, TWO, "e" * 64),
        numbered(9, 2, TWO, OTHER),  # another book with as many restores
        numbered(5, 3),  # the same book cannot be restored
        numbered(5, 2, origin="1" * 64),
        end(9, TWO, OTHER),
        end(5),
        end(6),
    ]
    for shown in refused:
        assert latest.refutes(shown)
        assert kept.keep(shown, latest.head) == latest
        assert kept.kept("h0", "journal", shown.terms, shown) == latest
    assert kept.kept("h0", "journal", TWO) is None
    later, elsewhere = numbered(3, 3, TWO, OTHER), numbered(3, 0, "3" * 64, "e" * 64, origin="9" * 64)
    for shown in (later, elsewhere, numbered(6, 3, TWO, OTHER)):
        assert kept.keep(shown, later.head) == shown
    assert kept.kept("h0", "journal", ONE, numbered(7, 2)) == numbered(6, 3, TWO, OTHER)


def test_an_end_with_an_origin_replaces_one_without(ledger):
    kept = ledger.witnessed
    kept.keep(end(5), None)
    kept.keep(end(5, TWO), None)
    assert kept.keep(numbered(5, 0), None) == numbered(5, 0)
    assert kept.keep(numbered(6, 0, TWO), Head(5, "d" * 64)) == numbered(6, 0, TWO)
    assert kept.keep(end(7), Head(6, "d" * 64)).origin


def test_restores_of_a_ledger_are_counted_whether_its_rows_say_so_or_not(ledger):
    path = ledger.path
    ledger.close()
    for number in (1, 2):
        restore(path, path, "a", [], everything=False)
        with sqlite3.connect(path) as db:
            assert stored_rows.restores(db) == number
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET event='{}' WHERE kind='restore'")
        assert stored_rows.restores(db) == 2  # as earlier versions wrote them
        db.rollback()
    books = Ledger(path)
    origin, number = books.witnessed.lineage()
    assert (origin, number) == (books.identity, 2)
    later = own(books, book=OTHER, origin=origin, restores=8)
    books.witnessed.add_countersigned(later)
    assert books.witnessed.contradiction() == later
    books.witnessed.add_countersigned(own(books, book=BOOK, origin=origin, restores=7))
    books.witnessed.add_countersigned(own(books))
    assert books.witnessed.contradiction() == later
    books.close()
    restore(path, path, "a", [], everything=False)
    books = Ledger(path)
    assert books.witnessed.lineage() == (origin, 9)
    assert books.witnessed.contradiction() is None
    books.verify()
    books.close()


def test_after_the_last_possible_restore_there_is_none(ledger):
    origin, _ = ledger.witnessed.lineage()
    ledger.witnessed.add_countersigned(own(ledger, book=OTHER, origin=origin, restores=MAX_RESTORES))
    ledger.close()
    with pytest.raises(LedgerError, match="the last possible restore"):
        restore(ledger.path, ledger.path, "a", [], everything=False)
    again = Ledger(ledger.path)
    assert again.witnessed.lineage() == (origin, 0)
    again.close()


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
