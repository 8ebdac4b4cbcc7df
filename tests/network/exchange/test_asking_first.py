"""After a start a party signs no end beyond what witnesses showed it, until it asked all that it can reach."""

import pytest
from journal_parties import ONE, TWO, ask

from parley.errors import RolledBack, Unavailable
from parley.network.exchange import witnesses as witnesses_module
from parley.network.exchange.witnesses import Sender, countersigned
from parley.network.identity.certificates import Signer
from parley.owner.ledger.witnessed import Ends, SignedEnd


def forked(a, b):
    """b saw a later end; then the disk comes back, and rows are added. Return the latest disk."""
    a.write(1)
    a.tell(b)
    old = a.copy()
    a.write(2, 3)
    a.tell(b)
    latest = a.copy()
    a.put_back(old)
    a.write(4, 5, 6, 7)
    return latest


def goes_on(a, latest, *witnesses):
    """The latest disk is back, and nobody has anything against it."""
    a.put_back(latest)
    for witness in witnesses:
        a.tell(witness, TWO)
        assert witness.kept(a, TWO) == a.journal.entries
        witness.witnesses.require_heard("a", "journal", TWO)


def test_a_fork_is_not_shown_to_one_witness_while_another_one_is_asked(parties):
    a, b, c = parties
    latest = forked(a, b)
    with pytest.raises(RolledBack, match="b saw it with 4 rows"):
        a.witnesses.require_told(TWO, lambda: [(c, None)], 1.0, lambda: [(ONE, b, None)])
    goes_on(a, latest, b, c)


def test_nor_to_a_witness_that_calls_first(parties):
    a, b, c = parties
    latest = forked(a, b)
    c.tell(a, TWO)
    with pytest.raises(RolledBack):
        a.ask(b, c)
    goes_on(a, latest, b, c)


def test_nor_by_a_look_of_its_own(parties):
    a, b, c = parties
    latest = forked(a, b)
    a.witnesses.tell(TWO, c, None, 1.0)
    assert c.kept(a, TWO) < a.journal.entries
    goes_on(a, latest, b, c)


def test_a_witness_that_cannot_be_reached_hears_nothing_and_stops_nothing(parties):
    a, b, c = parties
    latest = forked(a, b)
    b.answers = Unavailable("b: nobody listens")
    a.ask(b, c)
    a.tell(c, TWO)
    assert c.kept(a, TWO) == a.journal.entries
    b.answers = None
    a.put_back(latest)
    a.tell(b)
    with pytest.raises(RolledBack, match="c saw it"):  # this one has to be restored
        a.tell(c, TWO)


def test_while_nobody_replies_it_asks_again_after_a_pause(parties, monkeypatch):
    a, b, _ = parties
    a.write(1, 2)
    b.answers = Unavailable("b: nobody listens")
    a.ask(b)
    b.answers = b.heard = None
    a.ask(b)
    assert b.heard is None
    monkeypatch.setattr(witnesses_module, "ASK_PAUSE_S", 0.0)
    a.ask(b)
    assert b.kept(a) < a.journal.entries
    b.heard = None
    a.ask(b)
    assert b.heard is None  # once
    a.witnesses.tell(ONE, b, None, 1.0)
    assert b.kept(a) == a.journal.entries


def test_whoever_calls_sees_what_it_kept_and_no_more(parties):
    a, b, _ = parties
    a.write(1)
    a.tell(b)
    a.write(2)
    a.put_back(a.copy())
    own = ask(b, a, kept=b.witnesses._countersign(b.journal.witnessed.kept("a", "journal", ONE))).own
    assert own.head.entries == b.kept(a) == a.journal.entries - 1
    b.tell(a)
    b.witnesses.require_heard("a", "journal", ONE)
    assert b.kept(a) == a.journal.entries - 1
    a.tell(b)
    assert b.kept(a) == a.journal.entries


def test_a_party_that_forgot_what_witnesses_signed_is_not_accused(parties):
    a, b, c = parties
    for number in range(1, 6):
        a.write(number)
        a.tell(b)
        a.tell(c, TWO)
    a.journal.close()  # killed: nothing of this is written down
    a.start()
    a.witnesses.require_told(ONE, lambda: [(b, None)], 1.0, lambda: [(TWO, c, None)])
    for witness, terms in ((b, ONE), (c, TWO)):
        witness.witnesses.require_heard("a", "journal", terms)
    a.write(6)
    a.tell(b)
    assert b.kept(a) == a.journal.entries


def test_parties_that_start_together_ask_each_other(parties):
    a, b, c = parties
    for party in parties:
        party.write(1, 2)
        party.put_back(party.copy())
    for party, others in ((a, (b, c)), (b, (a, c)), (c, (a, b))):
        party.ask(*others)
    for party, other in ((a, b), (b, c), (c, a)):
        party.tell(other)
        assert (other.kept(party), party.kept(other)) == (party.journal.entries, other.journal.entries)


def test_trouble_with_a_witness_of_another_agreement_stops_nothing(parties):
    a, b, c = parties
    c.ask(b)
    old = c.copy()
    c.write(1)
    c.tell(a, TWO)
    c.put_back(old)
    c.witnesses.hear = lambda *words: None
    c.witnesses.answer = lambda ends, sender: Ends(TWO, c.witnesses.own_end(TWO)[0], None, c.witnesses._countersign(
        ends.own))  # fmt: skip
    a.start()
    a.witnesses.require_told(ONE, lambda: [(b, None)], 1.0, lambda: [(TWO, c, None)])
    with pytest.raises(RolledBack, match="c: its journal was put back"):
        a.tell(c, TWO)


def test_a_learners_word_lets_nothing_be_signed(parties):
    a, b, _ = parties
    latest = forked(a, b)
    _, head = a.journal.witnessed.own()
    word = SignedEnd("a", "journal", ONE, "", head)
    a.witnesses.hear(countersigned(word, "c", Signer(parties[2].identity)), Sender("c"))
    assert a.witnesses.own_end(ONE)[0].head.entries < head.entries
    a.witnesses.flush()
    a.start()
    assert a.witnesses.own_end(ONE)[0].head.entries < head.entries
    goes_on(a, latest, b)
