"""Disks from before a restore, shown to parties that saw the restored book alone; and what earlier programs sign."""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from journal_parties import ONE, TWO, ask, restored

from parley.errors import LedgerError, Malformed, RolledBack
from parley.network.exchange.host_connections import read_ends, write_ends
from parley.network.exchange.witnesses import Sender, Witnesses, countersigned
from parley.network.identity.certificates import Signer
from parley.owner.ledger.account import Head
from parley.owner.ledger.witnessed import ADDED, MAX_RESTORES, Ends, SignedEnd, end_texts, kept_texts

THREE = "3" * 64


def put_back_before_a_restore(a, witness, rows=()):
    """The witness sees nothing of the book but what it is after a restore; then the disk from before is put back."""
    a.write(*rows or (1, 2))
    old = a.copy()
    restored(a)
    a.tell(witness, TWO)
    latest = a.copy()
    a.put_back(old)
    return latest


def test_who_saw_the_restored_book_alone_refuses_a_disk_from_before(parties):
    a, b, c = parties
    latest = put_back_before_a_restore(a, b)
    for _ in range(2):
        with pytest.raises(RolledBack, match=r"put back to before a restore: b saw it after restore 1, and here .* 0"):
            a.tell(b, ONE)
        with pytest.raises(RolledBack):  # it remembers the proof
            a.witnesses.require_told(THREE, lambda: [(c, None)], 1.0)
        a.witnesses = Witnesses("a", "journal", a.journal.witnessed, Signer(a.identity))
    a.put_back(latest)
    a.tell(b, TWO)
    assert b.kept(a, TWO) == a.journal.entries


def test_so_it_does_if_the_disk_from_before_is_longer(parties):
    a, b, _ = parties
    put_back_before_a_restore(a, b)
    a.write(*range(3, 30))
    with pytest.raises(RolledBack):
        a.tell(b, ONE)


def test_the_witness_refuses_a_party_that_has_no_ears(parties):
    a, b, _ = parties
    put_back_before_a_restore(a, b)
    end, _ = a.witnesses.own_end(ONE)
    for _ in range(2):
        b.witnesses.answer(Ends(ONE, end), Sender("a"))
        with pytest.raises(RolledBack, match="a: its journal was put back to before a restore"):
            b.witnesses.require_current("a", "journal", ONE)
    assert b.kept(a, ONE) is None
    a.witnesses.answer = lambda ends, sender: Witnesses.answer(a.witnesses, replace(ends, kept=None), sender)
    with pytest.raises(RolledBack, match=r"^a: its journal was put back to before a restore"):
        b.tell(a, ONE)


def test_who_saw_a_restored_book_wants_to_see_ends_under_every_agreement(parties):
    a, b, _ = parties
    put_back_before_a_restore(a, b)
    b.start()
    with pytest.raises(Exception, match="it has not shown one lately"):
        b.witnesses.require_heard("a", "journal", ONE)
    b.witnesses.require_heard("c", "journal", ONE)


def test_restores_are_counted(parties):
    a, b, _ = parties
    a.write(1)
    for number in (1, 2, 3):
        old = a.copy()
        restored(a)
        assert a.journal.witnessed.lineage()[1] == number
        a.tell(b, str(number) * 64)
        latest = a.copy()
        a.put_back(old)
        with pytest.raises(RolledBack):
            a.tell(b, THREE)
        a.put_back(latest)
    origins = {end.origin for end in (b.journal.witnessed.kept("a", "journal", str(n) * 64) for n in (1, 2, 3))}
    assert len(origins) == 1


def test_of_two_books_restored_from_one_copy_only_the_one_restored_again_goes_on(parties):
    a, b, c = parties
    a.write(1)
    old = a.copy()
    restored(a)
    a.tell(b, ONE)
    first = a.copy()
    a.put_back(old)
    restored(a)
    a.tell(c, TWO)  # c saw nothing else
    with pytest.raises(RolledBack, match="restored from two copies: b saw another one after restore 1"):
        a.tell(b, TWO)
    with pytest.raises(RolledBack):
        a.tell(c, TWO)
    restored(a)  # learns from what b showed
    a.tell(b, THREE)
    a.tell(c, THREE)
    a.put_back(first)
    for witness in (b, c):
        with pytest.raises(RolledBack, match=r"[bc] saw it after restore 2"):
            a.tell(witness, ONE)


def test_a_restore_counts_on_from_what_witnesses_showed(parties):
    a, b, _ = parties
    a.write(1)
    old = a.copy()
    for _ in range(4):
        restored(a)
    a.tell(b, ONE)
    a.put_back(old)
    with pytest.raises(RolledBack, match="b saw it after restore 4, and here it has 0"):
        a.tell(b, TWO)
    restored(a)
    assert a.journal.witnessed.lineage()[1] == 5
    a.tell(b, TWO)


def earlier_program(end, signer):
    """The end as programs before origins signed it."""
    bare = replace(end, origin="", restores=0, signature=None)
    return replace(bare, signature=signer.sign(end_texts(bare)[0]))


def test_an_end_without_an_origin_is_taken_until_one_with_an_origin_was_seen(parties):
    a, b, _ = parties
    a.write(1)
    a.tell(b)  # asks, so that later ends are shown whole
    book, signer = b.journal.witnessed, Signer(a.identity)
    with book._writing() as db:
        db.execute("DELETE FROM witnessed")
    early = earlier_program(a.witnesses.own_end(ONE)[0], signer)
    ask(a, b, own=early)
    b.witnesses.require_current("a", "journal", ONE)
    assert book.kept("a", "journal", ONE).origin == ""
    ask(a, b)
    assert book.kept("a", "journal", ONE).origin
    for terms in (ONE, TWO):
        stripped = replace(early, terms=terms, signature=None)
        stripped = replace(stripped, signature=signer.sign(end_texts(stripped)[0]))
        b.witnesses.answer(Ends(terms, stripped), Sender("a"))
        with pytest.raises(RolledBack, match="a: it stated how often its journal was restored, and now it does not"):
            b.witnesses.require_current("a", "journal", terms)
        assert book.kept("a", "journal", ONE).origin
    ask(a, b)
    b.witnesses.require_current("a", "journal", ONE)


def test_earlier_programs_on_a_disk_from_before_a_restore_are_refused(parties):
    a, b, _ = parties
    put_back_before_a_restore(a, b)
    reply = ask(a, b, own=earlier_program(a.witnesses.own_end(ONE)[0], Signer(a.identity)))
    assert (reply.kept.terms, reply.kept.restores) == (TWO, 1)
    assert not a.journal.witnessed.holds(replace(reply.kept, origin="", restores=0))  # they notice it themselves
    with pytest.raises(RolledBack):
        b.witnesses.require_current("a", "journal", ONE)


@pytest.mark.parametrize("spoiled", ["no second", "another second", "other restores", "other origin", "first alone"])
def test_origin_and_restores_have_to_be_signed(parties, spoiled):
    a, b, _ = parties
    a.tell(b)
    end, _ = a.witnesses.own_end(ONE)
    wrong = {
        "no second": replace(end, signature=replace(end.signature, second=b"")),
        "another second": replace(end, signature=replace(end.signature, second=end.signature.value)),
        "other restores": replace(end, restores=1),
        "other origin": replace(end, origin="0" * 64),
        "first alone": replace(end, signature=replace(end.signature, value=end.signature.second)),
    }[spoiled]
    with pytest.raises(Malformed, match="not signed by the key"):
        ask(a, b, own=wrong)
    kept = a.witnesses._countersign(a.journal.witnessed.kept("b", "journal", ONE))
    wrong = replace(kept, countersignature=replace(kept.countersignature, second=b"x"))
    with pytest.raises(Malformed, match="signature does not fit"):
        ask(a, b, kept=wrong)
    ask(a, b, kept=kept)


def test_an_end_without_its_second_form_is_one_of_earlier_programs(parties):
    """Whoever passes on an end can leave out what earlier programs do not know; then it counts as theirs."""
    a, b, c = parties
    a.write(1)
    a.tell(b)
    end, _ = a.witnesses.own_end(ONE)
    stripped = replace(end, origin="", restores=0)
    ask(a, c, own=stripped)
    c.witnesses.require_current("a", "journal", ONE)
    ask(a, b, own=stripped)
    with pytest.raises(RolledBack):
        b.witnesses.require_current("a", "journal", ONE)


def test_numbers_of_restores_are_bounded(parties):
    a, b, _ = parties
    a.tell(b)
    end, _ = a.witnesses.own_end(ONE)
    for wrong in (replace(end, restores=MAX_RESTORES + 1), replace(end, origin="", restores=1)):
        with pytest.raises(Malformed):
            read_ends(write_ends(Ends(ONE, wrong)))
    with pytest.raises(Malformed):
        read_ends(write_ends(Ends(ONE, replace(end, origin="no digest"))))
    assert read_ends(write_ends(Ends(ONE, end))).own == end


def test_a_witness_makes_up_no_restore(parties):
    a, b, c = parties
    a.write(1)
    a.tell(b)

    def made_up(reply):
        later = replace(reply.kept, restores=9, book="f" * 64, countersignature=None)
        return replace(reply, kept=countersigned(later, "b", Signer(b.identity)))

    b.answers = made_up
    with pytest.raises(RolledBack):
        a.tell(b)
    assert a.journal.witnessed.contradiction() is None
    a.tell(c, TWO)


def test_who_held_a_key_of_a_party_stops_it_until_it_restores_or_begins_anew(parties):
    a, b, c = parties
    a.write(1)
    a.tell(b)
    origin, _ = a.journal.witnessed.lineage()

    def steal(restores):
        end = SignedEnd("a", "journal", TWO, f"{restores:064x}", Head(1, "f" * 64), origin=origin, restores=restores)
        return replace(end, signature=Signer(a.identity).sign(*end_texts(end)))

    b.witnesses.answer(Ends(TWO, steal(7)), Sender("a"))
    with pytest.raises(RolledBack, match="after restore 7"):
        a.tell(b)
    with pytest.raises(RolledBack):
        a.tell(c)
    restored(a)
    a.tell(b, THREE)
    assert a.journal.witnessed.lineage()[1] == 8
    end = replace(steal(MAX_RESTORES), terms="4" * 64)
    end = replace(end, signature=Signer(a.identity).sign(*end_texts(end)))
    b.witnesses.answer(Ends("4" * 64, end), Sender("a"))
    with pytest.raises(RolledBack):
        a.tell(b, THREE)
    with pytest.raises(LedgerError, match="make a new journal with parley host init"):
        restored(a)


def test_a_new_file_has_another_origin_and_serves_new_agreements_alone(parties):
    a, b, _ = parties
    a.write(1)
    a.tell(b, ONE)
    restored(a)
    a.tell(b, TWO)
    latest = a.copy()
    a.journal.close()
    shutil.rmtree(a.disk)
    a.disk.mkdir()
    a.start()
    for terms in (ONE, TWO):
        with pytest.raises(RolledBack, match="b saw it"):
            a.tell(b, terms)
    assert a.journal.witnessed.contradiction() is None
    a.tell(b, THREE)
    a.put_back(latest)
    a.tell(b, TWO)  # nobody can tell that the other one replaced it


def test_tables_of_earlier_versions_are_read_and_go_on(parties):
    a, b, _ = parties
    a.write(1)
    a.tell(b)
    a.witnesses.flush()
    b.journal.close()
    a.journal.close()
    for party in (a, b):
        with closing(sqlite3.connect(party.disk / "journal")) as db:
            for column in ADDED:
                db.execute(f"ALTER TABLE witnessed DROP COLUMN {column}")
            db.commit()
        party.start()
    assert (b.kept(a), b.journal.witnessed.kept("a", "journal", ONE).origin) == (a.journal.entries, "")
    a.write(2)
    a.tell(b)
    a.witnesses.flush()
    assert b.journal.witnessed.kept("a", "journal", ONE).origin == a.journal.witnessed.lineage()[0]
    (signed,) = a.journal.witnessed.countersigned()
    assert signed.origin
    assert signed.countersignature.second


def test_the_first_form_is_what_earlier_versions_sign():
    end = SignedEnd("a", "journal", ONE, "b" * 64, Head(3, "d" * 64), witness="b", origin="0" * 64, restores=2)
    first = f'["parley-end-1", "a", "journal", "{ONE}", "{"b" * 64}", 3, "{"d" * 64}"]'.encode()
    assert end_texts(end)[0] == first
    assert kept_texts(end)[0] == b'kept by "b"' + first
    assert kept_texts(end)[1] == b'kept by "b"' + end_texts(end)[1]
    assert kept_texts(replace(end, origin="", restores=0)) == (b'kept by "b"' + first, b"")
