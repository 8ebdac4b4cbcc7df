"""Terms proposed to an owner: who may, how many, what is kept and told; whatever they hold stays text."""

import contextlib
import hashlib
import json
import os
from dataclasses import replace
from io import StringIO

import pytest
from consortium import toml_terms
from hypothesis import given, settings
from hypothesis import strategies as st
from proposals import LEARNER, hashed, proposal_service, proposed, terms_of, told

import parley
from parley.errors import ContradictionError, Malformed, Refusal, SettingError, TermsError, UnknownTerms
from parley.network.exchange import messages
from parley.network.exchange.messages import (
    MAX_TEXT_BYTES,
    ProposalState,
    read_proposal,
    read_state,
    write_proposal,
    write_state,
)
from parley.network.identity.settings import load_owner
from parley.network.serving.acceptance import Acceptance, Acceptances, Caller
from parley.network.serving.inbox import MAX_OPEN_PER_LEARNER, MAX_TEXT_PARTS, Inbox, Proposal, parties
from parley.network.serving.log import Log
from parley.network.serving.service import WASTED_AT_ONCE, WASTED_INTERVAL_S, Patience, ProposalService
from parley.terms.error_sentences import explain


@pytest.fixture
def service(tmp_path, monkeypatch):
    """The proposals' side of an owner's daemon, in process."""
    monkeypatch.setattr("parley.network.serving.acceptance.RECHECK_AFTER_S", 0.0)
    with proposal_service(tmp_path) as made:
        yield made


def test_what_travels_is_what_travelled_before_to_the_byte():
    assert write_proposal("t", "x").hex() == "0a0174120178"
    assert (
        write_state("a", "t", ProposalState("refused", "no")).hex() == "2a130a01611201741a0772656675736564" + "22026e6f"
    )
    assert read_state(write_state("a", "t", ProposalState("refused", "no")), "a", "t") == ProposalState("refused", "no")
    for owner, terms, state in (("b", "t", "open"), ("a", "u", "open"), ("a", "t", "lost")):
        with pytest.raises(ContradictionError):
            read_state(write_state(owner, terms, ProposalState(state)), "a", "t")


def test_a_proposal_is_kept_once_with_who_sent_it_and_when(service):
    terms = terms_of()
    assert proposed(service, terms) == ProposalState("open")
    kept = service.inbox.proposals()
    (file,) = service.inbox.folder.glob("*.json")
    before = file.read_bytes(), file.stat().st_mtime_ns
    assert [(each.terms_hash, each.names, each.fingerprint) for each in kept] == [(terms.hash, ("learner",), "key")]
    assert kept[0].received.endswith("+00:00")
    assert kept[0].terms() == terms
    assert file.stat().st_mode & 0o077 == 0
    assert proposed(service, terms) == ProposalState("open")
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before
    assert service.inbox.find(terms.hash[:8]) == kept[0]
    for wrong in (terms.hash[:7], "0" * 8, "", "../../a", terms.hash + "0"):
        with pytest.raises(UnknownTerms):
            service.inbox.find(wrong)


def test_a_learner_hears_what_became_of_its_own_proposals_and_nothing_else(service):
    terms, other = terms_of(), Caller(("learner",), "other key")
    with pytest.raises(UnknownTerms):
        told(service, terms.hash)
    proposed(service, terms)
    for stranger in (other, Caller(("b",), "key b"), Caller(("learner",)), Caller(relay=True)):
        with pytest.raises(UnknownTerms):
            told(service, terms.hash, caller=stranger)
    with pytest.raises(Malformed, match="terms whose learner is"):
        proposed(service, terms, Caller(("b",), "key b"))
    service.inbox.refuse(service.inbox.find(terms.hash), "ε = 0.5 at most\x1b[31m")
    assert told(service, terms.hash) == ProposalState("refused", "ε = 0.5 at most [31m")
    with pytest.raises(Refusal, match="another key of this learner"):
        proposed(service, terms, other)
    assert proposed(service, terms) == ProposalState("refused", "ε = 0.5 at most [31m")
    service.acceptances.store(Acceptance(terms, fingerprint="other key"))
    assert told(service, terms.hash).state == "refused"  # by these terms another key may ask, not this one
    assert told(service, terms.hash, caller=other) == ProposalState("accepted")
    assert proposed(service, terms, other) == ProposalState("accepted")
    service.acceptances.store(Acceptance(terms, fingerprint="key"))
    assert told(service, terms.hash) == ProposalState("accepted")
    with pytest.raises(SettingError, match="already accepted"):
        service.inbox.refuse(service.inbox.find(terms.hash), "too late")


def test_a_new_key_takes_the_place_of_the_earlier_one_while_the_terms_are_open(service):
    terms, first = terms_of(), replace(LEARNER, certificate="first")
    renewed, rekeyed = replace(LEARNER, certificate="second"), Caller(("learner",), "new key", certificate="third")

    def kept():
        (proposal,) = service.inbox.proposals()
        return proposal.fingerprint, proposal.certificate, proposal.ended

    for caller, expected in ((LEARNER, None), (first, "first"), (renewed, "second"), (rekeyed, "third")):
        assert proposed(service, terms, caller) == ProposalState("open")
        assert kept() == (caller.fingerprint, expected, None)
    with pytest.raises(UnknownTerms):
        told(service, terms.hash)
    with pytest.raises(Malformed, match="terms whose learner is"):
        proposed(service, terms, Caller(("b",), "key b"))
    service.inbox.refuse(service.inbox.proposals()[0], "no")
    with pytest.raises(Refusal, match="another key"):
        proposed(service, terms)
    proposed(service, terms, replace(rekeyed, certificate="fourth"))
    assert kept() == ("new key", "fourth", "refused")


def test_terms_that_a_person_accepted_for_its_own_peer_are_accepted(service):
    terms = terms_of()
    proposed(service, terms)
    service.acceptances.store(Acceptance(terms, fingerprint="own key", peer="a"))
    assert told(service, terms.hash) == ProposalState("accepted")


@pytest.mark.parametrize("reason", ["", "  ", "\x00\x07", "x" * 501])
def test_a_refusal_has_a_reason_that_can_be_read(service, reason):
    proposed(service, terms_of())
    with pytest.raises(SettingError, match="reason"):
        service.inbox.refuse(service.inbox.proposals()[0], reason)
    assert service.inbox.state(service.inbox.proposals()[0]) == "open"


def rewritten(change):
    content = json.loads(terms_of().canonical)
    change(content)
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def with_public(path):
    return rewritten(lambda content: content["model"].update(public=path))


NO_TERMS = {  # what names neither this learner nor this owner
    "words": "hello",
    "toml": toml_terms(names="a"),
    "html": "<script>alert(1)</script>",
    "null": "null",
    "list": "[1, 2]",
    "number": "1" * 5000,
    "deep": "[" * 60_000 + "]" * 60_000,
    "many lists": terms_of().canonical.replace('"Test"', "[" + ",".join(["[[[[]]]]"] * 3000) + "]"),
    "deep objects": '{"learning":' * 9_000 + "1" + "}" * 9_000,
    "names of lists": rewritten(lambda content: content["owners"][0].update(name=["a"])),
    "another learner": terms_of("somebody").canonical,
    "another owner": parley.Terms.from_toml(toml_terms(names="b")).canonical,
    "control characters": "\x00\x1b]0;title\x07",
}


@pytest.mark.parametrize("text", NO_TERMS.values(), ids=NO_TERMS)
def test_what_is_no_terms_of_the_one_who_proposes_is_refused(service, text):
    with pytest.raises(Malformed, match="proposal"):
        told(service, hashed(text), text)
    assert not service.inbox.folder.exists()


def test_a_long_text_of_few_parts_is_read_and_one_of_many_is_not(service):
    def text(count):
        return terms_of().canonical.replace('"Test"', "[" + ",".join(["[]"] * count) + "]")

    with pytest.raises(Malformed, match="8,192 lists and tables"):
        parties(text(MAX_TEXT_PARTS))
    assert parties(text(MAX_TEXT_PARTS - 50))[0] == "learner"


def test_who_is_refused_often_waits_and_nobody_else(service, monkeypatch):
    clock, read = [100.0], []
    monkeypatch.setattr("parley.network.serving.service.parties", lambda text: read.append(text) or ("?", ()))
    service._patience = Patience(lambda: clock[0])

    def refusal(caller=LEARNER):
        with pytest.raises(Refusal) as refused:
            told(service, hashed("text"), "text", caller)
        return "wait at least 2 seconds" in str(refused.value)

    assert [refusal() for _ in range(WASTED_AT_ONCE + 3)] == [False] * WASTED_AT_ONCE + [True] * 3
    assert len(read) == WASTED_AT_ONCE
    assert not refusal(Caller(("b",), "key b"))
    assert refusal(Caller(("learner",), "key", peer="elsewhere"))
    clock[0] += WASTED_INTERVAL_S
    assert [refusal(), refusal()] == [False, True]
    clock[0] += WASTED_AT_ONCE * WASTED_INTERVAL_S
    assert [refusal() for _ in range(WASTED_AT_ONCE + 1)] == [False] * WASTED_AT_ONCE + [True]


def test_nothing_is_read_of_a_learner_without_a_place_nor_of_what_is_known(service, monkeypatch):
    many = [terms_of(epsilon=k) for k in range(1, MAX_OPEN_PER_LEARNER + 1)]
    for terms in many:
        proposed(service, terms)
    monkeypatch.setattr("parley.network.serving.service.parties", None)
    assert proposed(service, many[0]) == ProposalState("open")
    for _ in range(2 * WASTED_AT_ONCE):
        with pytest.raises(Refusal, match="this learner already has"):
            told(service, hashed("text"), "text")


@pytest.mark.parametrize("places", [1, MAX_OPEN_PER_LEARNER])
def test_whether_others_proposed_a_text_makes_no_difference(service, places):
    other, theirs = Caller(("b",), "key b"), terms_of()
    for k in range(1, places + 1):
        proposed(service, terms_of("b", epsilon=k), other)
    heard = []
    for _ in range(2):
        for text in (theirs.canonical, ""):
            with pytest.raises(Refusal) as refusal:
                told(service, theirs.hash, text, other)
            heard.append((refusal.type, str(refusal.value)))
        proposed(service, theirs)
    assert heard[:2] == heard[2:]


def test_messages_that_are_too_long_or_damaged_are_refused(service):
    terms = terms_of()
    whole = write_proposal(terms.hash, terms.canonical)
    long = rewritten(lambda content: content.update(title="x" * MAX_TEXT_BYTES))
    wrong = [whole[:40], b"junk", b"", write_proposal(terms.hash, long), write_proposal(hashed(long), long)]
    wrong += [write_proposal("0" * 64, terms.canonical), write_proposal("../" + "0" * 61)]
    wrong.append(whole.replace(b'"Test"', b'"\xff\xfe\xff\xfe"'))  # no UTF-8
    for content in wrong:
        with pytest.raises(Malformed):
            messages.read_outcome(messages.wire.Reply, service.propose(content, LEARNER), "a")
    assert not service.inbox.folder.exists()


HOSTILE = {  # what names both, and is not what Parley writes
    "a title that is no text": rewritten(lambda content: content.update(title={"a": 1})),
    "an unknown key": rewritten(lambda content: content.update({"run\x1b[2J": "rm -rf /"})),
    "a model that is a list": rewritten(lambda content: content.update(model=[1])),
    "no format": rewritten(lambda content: content.pop("format")),
    "another format": rewritten(lambda content: content.update(format=99)),
    "budgets below zero": rewritten(lambda content: content["owners"][0].update(epsilon=-1.0)),
    "columns without end": rewritten(lambda content: content["model"].update(features=["\x1b"] * 9000)),
    "deep inside": terms_of().canonical.replace('"Test"', "[" * 400 + "]" * 400),
    "spaces": terms_of().canonical.replace(",", ", "),
    "a digest that is a list": rewritten(lambda content: content["model"].update(public_sha256=["\x1b" * 900])),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_terms_stay_text(service, text):
    assert told(service, hashed(text), text) == ProposalState("open")
    (proposal,) = service.inbox.proposals()
    assert proposal.text == text
    assert proposal.title.isprintable()
    with pytest.raises(TermsError) as refusal:
        proposal.terms()
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 700


@pytest.mark.parametrize("title", ["<img src=x onerror=alert(1)>", "\x1b[2J\x07", "\u202e", "\ud800", "x" * 9000])
def test_a_title_is_anybodys_to_choose_and_is_shown_as_text(service, title):
    text = rewritten(lambda content: content.update(title=title))
    told(service, hashed(text), text)
    shown = service.inbox.proposals()[0].title
    assert shown.isprintable()
    assert len(shown) <= 80


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)
KEYS = ("title", "model", "learning", "owners", "privacy", "format", "hosts", "aggregation")


@given(JSON | st.dictionaries(st.sampled_from(KEYS), JSON), st.booleans())
@settings(max_examples=60, deadline=None)
def test_whatever_json_is_proposed_nothing_but_a_refusal_comes_of_it(content, named):
    if named and isinstance(content, dict):
        content = {**json.loads(terms_of().canonical), **content}
    text = json.dumps(content)
    with contextlib.suppress(Malformed):
        parties(text)
    proposal = Proposal(hashed(text), text, ("learner",), "key", "")
    assert proposal.title.isprintable()
    assert proposal.peers in (True, False)
    with contextlib.suppress(TermsError):
        assert proposal.terms().hash == proposal.terms_hash


@given(st.binary(max_size=200))
@settings(max_examples=60, deadline=None)
def test_whatever_bytes_come_they_are_a_hash_and_a_text_or_refused(content):
    with contextlib.suppress(Malformed):
        terms_hash, text = read_proposal(content)
        assert len(terms_hash) == 64
        assert text == "" or hashed(text) == terms_hash


def test_of_many_errors_the_first_ones_are_explained(monkeypatch):
    said = []

    def explained_once(error, *rest):
        said.append(error)
        return explain(error, *rest)

    monkeypatch.setattr("parley.terms.error_sentences.explain", explained_once)
    text = rewritten(lambda content: content.update({f"modal{k:x}": 1 for k in range(8000)}))
    with pytest.raises(TermsError, match="modal0: unknown key; did you mean 'model'"):
        Proposal(hashed(text), text, ("learner",), "key", "").terms()
    assert len(said) == 20
    with pytest.raises(TermsError, match=r"; and 7,980 more$"):
        parley.Terms.from_dict({key: value for key, value in json.loads(text).items() if key != "format"})


def test_an_inbox_is_not_the_folder_of_what_was_accepted(tmp_path):
    (tmp_path / "owner.toml").write_text(
        'name = "a"\ntable = "a.csv"\nledger = "a.ledger"\naccepted = "kept"\ninbox = "./kept"\n'
    )
    with pytest.raises(SettingError, match="a folder other than `accepted`"):
        load_owner(tmp_path / "owner.toml")


def test_no_path_in_a_proposal_is_opened(service, tmp_path):
    """A pipe that nobody writes to would hold up whoever opens it for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = with_public(str(pipe))
    told(service, hashed(text), text)
    with pytest.raises(TermsError, match="not in the form that this version of Parley writes"):
        service.inbox.find(hashed(text)).terms()


def test_the_owner_says_where_its_own_copies_lie(service, tmp_path):
    (tmp_path / "public.csv").write_text("x0,x1,x2,y\n1,2,3,4\n")
    digest = hashlib.sha256((tmp_path / "public.csv").read_bytes()).hexdigest()
    terms = terms_of().changed(model={"public": "/somebody/elses/public.csv", "public_sha256": digest})
    assert "somebody" not in terms.canonical
    proposed(service, terms)
    proposal = service.inbox.proposals()[0]
    assert proposal.needs == {"public": digest}
    with pytest.raises(TermsError, match="--public FILE"):
        proposal.terms()
    with pytest.raises(SettingError, match="--preparation: these terms do not need this file"):
        proposal.terms(tmp_path / "public.csv", tmp_path / "public.csv")
    found = proposal.terms(tmp_path / "public.csv")
    assert (found.hash, found.model.public) == (terms.hash, str(tmp_path / "public.csv"))


def test_a_crowd_of_proposals_is_a_line_of_the_log_a_minute(tmp_path):
    stream = StringIO()
    acceptances = Acceptances(tmp_path / "accepted")
    with Log(stream) as log:
        service = ProposalService("a", Inbox(tmp_path / "inbox", acceptances), acceptances, log)
        for _ in range(50):
            service.propose(b"junk", LEARNER)
            service.propose(write_proposal(terms_of().hash, terms_of().canonical), LEARNER)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["proposal-refused", "proposal"]
    assert lines[1]["terms"] == terms_of().hash
    assert "Test" not in stream.getvalue()
