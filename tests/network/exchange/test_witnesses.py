"""Parties that tell each other where their books end: real journals, keys and messages, no network between them."""

import shutil
from dataclasses import replace

import pytest
from journal_parties import ONE, TWO, ask, restored

from parley.errors import ContradictionError, Malformed, NotOffered, RolledBack, Unavailable
from parley.network.exchange import witnesses as witnesses_module
from parley.network.exchange.witnesses import Sender, Witnesses, countersigned
from parley.network.identity import certificate_authority
from parley.network.identity.certificates import Signer, fingerprint, read_certificate
from parley.network.identity.settings import Identity
from parley.owner.ledger.account import Head
from parley.owner.ledger.witnessed import SignedEnd, end_texts


def test_both_keep_the_others_end_and_sign_it(parties):
    a, b, _ = parties
    a.write(1, 2)
    a.tell(b)
    assert (a.kept(b), b.kept(a)) == (b.journal.entries, a.journal.entries)
    a.write(3)
    b.tell(a)  # either may begin
    assert b.kept(a) == a.journal.entries
    a.witnesses.flush()
    b.witnesses.flush()
    (signed,) = a.journal.witnessed.countersigned()
    assert (signed.witness, signed.head.entries) == ("b", a.journal.entries)
    assert (signed.party, signed.terms) == ("a", ONE)


def test_a_party_whose_disk_is_put_back_is_told_and_remembers_it(parties):
    a, b, c = parties
    a.write(1)
    a.tell(b)
    old = a.copy()
    a.write(2)
    a.tell(b)
    latest = a.copy()
    a.put_back(old)
    for again in (False, True):
        if again:
            a.witnesses = Witnesses("a", "journal", a.journal.witnessed, Signer(a.identity))
        with pytest.raises(RolledBack, match=r"^the journal was put back .* b saw it with 3 rows, and the 2 rows here"):
            a.tell(b)
        with pytest.raises(RolledBack, match="parley host restore"):
            a.witnesses.require_told(TWO, lambda: [(c, None)], 1.0)  # under other agreements, too
    a.write(3, 4)  # longer than what b saw
    with pytest.raises(RolledBack, match="b saw it"):
        a.tell(b)
    a.put_back(latest)
    a.tell(b)
    assert b.kept(a) == 3


def test_the_witness_goes_on_with_the_party_once_the_latest_is_back(parties):
    a, b, _ = parties
    a.write(1)
    a.tell(b)
    old = a.copy()
    a.write(2)
    a.tell(b)
    latest = a.copy()
    b.witnesses.require_current("a", "journal", ONE)
    a.put_back(old)
    with pytest.raises(RolledBack):
        a.tell(b)
    with pytest.raises(Unavailable, match="a: an end of its journal is kept"):
        b.witnesses.require_heard("a", "journal", ONE)
    ask(a, b)
    with pytest.raises(RolledBack, match=r"a: its journal was put back .* 3 rows .* 2 rows that it shows"):
        b.witnesses.require_current("a", "journal", ONE)
    b.witnesses.require_current("a", "ledger", ONE)
    b.witnesses.require_current("a", "journal", TWO)
    a.put_back(latest)
    a.tell(b)
    b.witnesses.require_current("a", "journal", ONE)


def test_a_witness_that_calls_tells_it_and_refuses_to_go_on(parties):
    a, b, c = parties
    a.ask(c)
    old = a.copy()
    a.write(1)
    b.tell(a)
    a.put_back(old)
    with pytest.raises(RolledBack, match="b saw it with 2 rows"):
        b.tell(a)  # a refuses
    a.witnesses.answer = lambda ends, sender: _as_if_nothing_was_said(a, ends)
    with pytest.raises(RolledBack, match="a: its journal was put back"):
        b.tell(a)  # a has no ears: b refuses
    with pytest.raises(RolledBack):
        b.witnesses.require_current("a", "journal", ONE)


def _as_if_nothing_was_said(party, ends):
    return Witnesses.answer(party.witnesses, replace(ends, kept=None), Sender(ends.own.party))


def test_a_fork_as_long_as_what_the_witness_saw_is_noticed(parties):
    a, b, _ = parties
    old = a.copy()
    a.write(1, 2)
    a.tell(b)
    a.put_back(old)
    a.write(3, 4)
    with pytest.raises(RolledBack, match="3 rows, and the 3 rows here do not continue"):
        a.tell(b)
    assert b.kept(a) == 3


def test_an_end_seen_under_one_agreement_counts_under_another(parties):
    a, b, _ = parties
    old = a.copy()
    a.write(1)
    a.tell(b, ONE)
    a.put_back(old)
    with pytest.raises(RolledBack, match="b saw it with 2 rows"):
        a.tell(b, TWO)


def test_both_agreements_go_on_side_by_side(parties):
    a, b, _ = parties
    for number in range(1, 5):
        a.write(number)
        a.tell(b, (ONE, TWO)[number % 2])
        b.write(number)
        b.tell(a, (ONE, TWO)[number % 2])
    assert b.kept(a, ONE) == b.kept(a, TWO) == a.journal.entries


def test_an_agreement_belongs_to_the_book_that_was_first_seen_under_it(parties):
    a, b, _ = parties
    a.write(1)
    a.tell(b, ONE)
    a.journal.close()
    shutil.rmtree(a.disk)
    a.disk.mkdir()
    a.start()
    with pytest.raises(RolledBack, match="b saw it"):
        a.tell(b, ONE)
    a.tell(b, TWO)
    assert not a.journal.witnessed.contradiction()  # it is another book, and may serve new agreements


def test_a_lost_reply_is_made_good_by_the_next_exchange(parties):
    a, b, _ = parties
    a.write(1)
    a.tell(b)
    a.write(2)
    b.answers = lambda reply: (_ for _ in ()).throw(Unavailable("b: the connection broke"))
    with pytest.raises(Unavailable):
        a.tell(b)
    assert b.kept(a) == 3  # it keeps what it was told
    b.answers = None
    a.put_back(a.copy())
    a.write(3)
    a.tell(b)
    assert (b.kept(a), a.kept(b)) == (4, b.journal.entries)


def test_nobody_reachable_is_waited_for_and_one_is_enough(parties):
    a, b, c = parties
    b.answers, c.answers = Unavailable("b: nobody listens"), Unavailable("c: nobody listens")
    for _ in range(2):
        with pytest.raises(Unavailable, match="no witness of this journal can be reached"):
            a.witnesses.require_told(ONE, lambda: [(b, None), (c, None)], 1.0)
    c.answers = None
    a.witnesses.require_told(ONE, lambda: [(b, None), (c, None)], 1.0)
    b.heard = None
    a.witnesses.require_told(ONE, lambda: [(b, None), (c, None)], 1.0)
    assert b.heard is None  # once for each start


def test_of_several_witnesses_the_one_that_saw_more_counts(parties):
    a, b, c = parties
    a.tell(b)
    old = a.copy()
    a.write(1)
    a.tell(c)
    a.put_back(old)
    b.answers = Unavailable("b: nobody listens")
    with pytest.raises(RolledBack, match="c saw it"):
        a.witnesses.require_told(ONE, lambda: [(b, None), (c, None)], 1.0)


def test_an_older_version_knows_nothing_and_stops_nobody(parties):
    a, b, _ = parties
    b.answers = NotOffered("b: no such call")
    a.witnesses.require_told(ONE, lambda: [(b, None)], 1.0)
    assert a.warnings == ["b: an older version, which keeps no ends of others' books"]


def test_a_party_that_told_and_now_knows_no_ends_is_refused(parties):
    a, b, _ = parties
    b.write(1, 2)
    a.tell(b)
    b.answers = NotOffered("b: no such call")
    for call in (a.tell, lambda b: a.witnesses.require_told(ONE, lambda: [(b, None)], 1.0)):
        with pytest.raises(RolledBack, match="b: it kept ends of books before, and now it does not"):
            call(b)
    a.tell(b, TWO)  # first contact
    b.answers = None
    a.tell(b)


def test_a_party_that_told_has_to_go_on_telling(parties, monkeypatch):
    a, b, _ = parties
    a.witnesses.require_heard("b", "journal", ONE)  # nothing is kept of it
    a.tell(b)
    a.witnesses.require_heard("b", "journal", ONE)
    a.witnesses = Witnesses("a", "journal", a.journal.witnessed, Signer(a.identity), a.warnings.append)
    with pytest.raises(Unavailable, match="its programs or its disk are older"):
        a.witnesses.require_heard("b", "journal", ONE)
    a.witnesses.require_heard("b", "journal", ONE, lambda: a.tell(b))
    a.witnesses.require_heard("b", "journal", ONE)
    b.answers = NotOffered("b: no such call")
    with monkeypatch.context() as patched:
        patched.setattr(witnesses_module, "HEARD_VALID_S", 0.0)
        with pytest.raises(RolledBack):
            a.witnesses.require_heard("b", "journal", ONE, lambda: a.tell(b))
    b.tell(a)
    a.witnesses.require_heard("b", "journal", ONE)


def overtaken(a, b):
    """b's reply to a's message got lost, and the message came after a later one."""

    class Slow:
        name = "b"

        def exchange_ends(self, ends, timeout):
            a.write(9, terms=TWO)
            b.tell(a)
            b.exchange_ends(ends, timeout)
            raise Unavailable("b: the connection broke")

    with pytest.raises(Unavailable, match="broke"):
        a.tell(Slow())


def test_messages_that_overtake_each_other_accuse_nobody(parties):
    a, b, _ = parties
    a.write(1)
    a.tell(b)
    a.write(2)
    overtaken(a, b)
    b.witnesses.require_current("a", "journal", ONE)  # frames are taken
    asked = []
    b.witnesses.require_heard("a", "journal", ONE, lambda: asked.append(1) or b.tell(a))
    assert asked
    a.tell(b)
    b.witnesses.require_heard("a", "journal", ONE)


def test_fewer_rows_twice_are_refused(parties):
    a, b, _ = parties
    a.write(1)
    a.tell(b)
    early = a.witnesses.own_end(ONE)[0]
    a.write(2)
    a.tell(b)
    ask(a, b, own=early)
    b.witnesses.require_current("a", "journal", ONE)
    ask(a, b, own=early)
    with pytest.raises(RolledBack, match="a: its journal was put back"):
        b.witnesses.require_current("a", "journal", ONE)
    a.tell(b)
    b.witnesses.require_heard("a", "journal", ONE)


def made_up(a, b, reply):
    """A later end that a never signed, with b's signature."""
    forged = replace(reply.kept, head=Head(99, "f" * 64), countersignature=None)
    return replace(reply, kept=countersigned(forged, "b", Signer(b.identity)))


def test_a_witness_that_makes_up_a_later_end_stops_only_what_it_takes_part_in(parties):
    a, b, c = parties
    b.answers = lambda reply: made_up(a, b, reply)
    with pytest.raises(RolledBack, match="b saw it with 99 rows"):
        a.tell(b)
    assert a.journal.witnessed.contradiction() is None
    a.witnesses.require_told(TWO, lambda: [(c, None)], 1.0)


def test_a_witness_that_claims_to_keep_less_for_ever_is_only_waited_for(parties):
    a, b, _ = parties
    a.tell(b)
    early = b.journal.witnessed.kept("a", "journal", ONE)
    a.write(1)
    b.answers = lambda reply: replace(reply, kept=countersigned(early, "b", Signer(b.identity)))
    with pytest.raises(Unavailable, match="change too fast"):
        a.tell(b)


def test_an_end_that_a_party_signed_for_an_earlier_book_is_not_held_against_it(parties):
    a, b, c = parties
    a.write(1)
    a.tell(b)
    earlier = b.journal.witnessed.kept("a", "journal", ONE)
    a.journal.close()
    shutil.rmtree(a.disk)
    a.disk.mkdir()
    a.start()
    b.answers = lambda reply: replace(reply, kept=countersigned(earlier, "b", Signer(b.identity)))
    with pytest.raises(RolledBack):
        a.tell(b, TWO)
    a.witnesses.require_told(TWO, lambda: [(c, None)], 1.0)


@pytest.mark.parametrize("spoiled", ["own", "kept", "other key", "other party", "other witness", "no signature"])
def test_what_is_not_signed_by_the_certified_key_is_refused(parties, spoiled):
    a, b, c = parties
    a.write(1)
    a.tell(b)

    def spoil(reply):
        if spoiled == "own":
            return replace(reply, own=replace(reply.own, head=Head(reply.own.head.entries + 1, "f" * 64)))
        if spoiled == "kept":
            return replace(reply, kept=replace(reply.kept, head=Head(1, reply.kept.head.hash)))
        if spoiled == "other key":
            return replace(reply, kept=replace(reply.kept, countersignature=Signer(c.identity).sign(b"")))
        if spoiled == "other party":
            return replace(reply, kept=countersigned(replace(reply.kept, party="c"), "b", Signer(b.identity)))
        if spoiled == "other witness":
            return replace(reply, kept=countersigned(reply.kept, "c", Signer(c.identity)))
        return replace(reply, kept=replace(reply.kept, countersignature=None))

    b.answers = spoil
    with pytest.raises(ContradictionError, match=r"b: .*not signed by the key that the authority certified"):
        a.tell(b)


def test_a_signature_in_the_witnesss_name_needs_its_certificate_from_the_same_authority(parties, tmp_path):
    a, b, c = parties
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    certificate_authority.make_authority(elsewhere, "Other", 3650)
    certificate_authority.make_request(elsewhere, "b")
    certificate_authority.issue(elsewhere, elsewhere / "b.csr", 365)
    files = {"authority": "ca.crt", "certificate": "b.crt", "key": "b.key"}
    impostor = Identity(**{key: elsewhere / file for key, file in files.items()})
    for signer in (Signer(c.identity), Signer(impostor)):
        b.answers = lambda reply, signer=signer: replace(reply, kept=countersigned(reply.kept, "b", signer))
        with pytest.raises(ContradictionError, match="not signed by the key"):
            a.tell(b)
        end = replace(b.witnesses.own_end(ONE)[0], signature=None)
        forged = replace(end, signature=signer.sign(*end_texts(end)))
        with pytest.raises(Malformed, match="not signed by the key"):
            ask(b, a, own=forged)
    b.answers = None
    a.tell(b)


def test_only_the_pinned_key_of_a_host_is_believed(parties):
    a, b, c = parties
    a.tell(b, key=fingerprint(read_certificate(b.identity.certificate)))
    with pytest.raises(ContradictionError):
        a.tell(b, key=fingerprint(read_certificate(c.identity.certificate)))


def test_a_message_in_anothers_name_or_with_a_replayed_signature_is_refused(parties):
    a, b, c = parties
    a.tell(b)
    b.tell(c)
    end, _ = b.witnesses.own_end(ONE)
    with pytest.raises(Malformed):
        ask(a, c, own=end)
    with pytest.raises(Malformed):
        ask(a, c, own=None)
    signed_by_a = a.witnesses._countersign(a.journal.witnessed.kept("b", "journal", ONE))
    with pytest.raises(Malformed):
        ask(c, b, kept=signed_by_a)  # a's word about b, brought by c
    with pytest.raises(Malformed):
        ask(a, c, kept=signed_by_a)  # about b, brought to c
    with pytest.raises(Malformed):
        ask(a, b, kept=replace(signed_by_a, countersignature=None))
    other_terms, _ = a.witnesses.own_end(TWO)
    with pytest.raises(Malformed):
        ask(a, b, own=other_terms)
    ask(a, b, kept=signed_by_a)


def test_certificates_that_are_renewed_replaced_and_revoked(parties):
    a, b, c = parties
    a.write(1)
    a.tell(b)
    old = a.copy()
    a.write(2)
    a.tell(b)
    shown = a.identity.certificate.read_bytes()
    certificate_authority.renew(a.folder, a.identity.certificate, 400)  # the same key
    assert a.identity.certificate.read_bytes() != shown
    a.write(3)
    a.tell(b)
    certificate_authority.revoke(a.folder, "a", 30)
    for left in (a.identity.certificate, a.identity.key, a.folder / "a.csr"):
        left.unlink(missing_ok=True)
    certificate_authority.make_request(a.folder, "a")
    certificate_authority.issue(a.folder, a.folder / "a.csr", 365)  # another key under the same name
    a.put_back(old)
    with pytest.raises(RolledBack, match="b saw it with 4 rows"):
        a.tell(b)
    assert a.journal.witnessed.contradiction() is not None  # signed by the key of then
    certificate_authority.revoke(c.folder, "c", 30)
    b.start()
    with pytest.raises(Malformed, match="not signed by the key that the authority certified"):
        c.tell(b)


def test_who_held_a_key_of_a_party_stops_it_until_it_restores(parties):
    a, b, c = parties
    a.write(1)
    a.tell(b)
    book, _ = a.journal.witnessed.own()
    forged = SignedEnd("a", "journal", ONE, book, Head(99, "f" * 64))
    forged = replace(forged, signature=Signer(a.identity).sign(*end_texts(forged)))
    b.answers = lambda reply: replace(reply, kept=countersigned(forged, "b", Signer(b.identity)))
    with pytest.raises(RolledBack):
        a.tell(b)
    with pytest.raises(RolledBack):
        a.tell(c, TWO)
    restored(a)
    a.tell(c, TWO)


def test_evidence_about_this_book_outlives_a_word_about_another_one(parties):
    a, b, _ = parties
    a.write(1)
    a.tell(b)
    old = a.copy()
    a.write(2)
    a.tell(b)
    restored(a)
    a.tell(b, TWO)
    latest = a.copy()
    later_book = b.journal.witnessed.kept("a", "journal", TWO)
    a.put_back(old)
    with pytest.raises(RolledBack):
        a.tell(b, ONE)
    signed = countersigned(later_book, "b", Signer(b.identity))
    with pytest.raises(RolledBack):
        a.witnesses.hear(signed, Sender("b"))
    with pytest.raises(RolledBack):
        a.witnesses.require_held()
    a.put_back(latest)
    a.tell(b, TWO)


def test_a_witness_that_went_back_itself_is_told_and_stops_nobody_else(parties):
    a, b, c = parties
    b.ask(c)
    a.tell(b)
    old = b.copy()
    a.write(1)
    b.write(1)
    a.tell(b)
    b.put_back(old)
    with pytest.raises(RolledBack, match=r"^the journal was put back"):
        a.tell(b)
    a.tell(c)
    b.write(2, 3)
    with pytest.raises(RolledBack, match=r"^the journal was put back"):
        a.tell(b)


def test_a_learners_word_counts_for_its_question_alone(parties):
    a, b, _ = parties
    a.write(1)
    end, _ = a.witnesses.own_end(ONE)
    unsigned = replace(end, signature=None)
    a.witnesses.hear(None, Sender(""))
    a.witnesses.hear(replace(unsigned, book=""), Sender(""))
    with pytest.raises(RolledBack, match="the learner saw it with 99 rows"):
        a.witnesses.hear(replace(unsigned, book="", head=Head(99, "f" * 64)), Sender(""))
    with pytest.raises(Malformed):
        a.witnesses.hear(replace(unsigned, kind="ledger"), Sender(""))
    with pytest.raises(Malformed):
        a.witnesses.hear(countersigned(end, "b", Signer(b.identity)), Sender("c"))
    a.witnesses.require_held()
    a.witnesses.hear(countersigned(end, "b", Signer(b.identity)), Sender("b"))


def test_what_a_party_signs_names_everything_that_counts(parties):
    a, _, _ = parties
    end, _ = a.witnesses.own_end(ONE)
    changes = {"party": "b", "kind": "ledger", "terms": TWO, "book": "0" * 64, "head": Head(1, "0" * 64)}
    others = {"origin": "0" * 64, "restores": 1}
    ends = [end, *(replace(end, **{name: value}) for name, value in (changes | others).items())]
    assert len({end_texts(each)[0] for each in ends}) == 1 + len(changes)
    assert len({end_texts(each)[1] for each in ends}) == len(ends)
    assert not end_texts(replace(end, origin=""))[1]
