"""Terms proposed to an owner: who may, how many, what is kept and told; whatever they hold stays text, and the ledger
knows nothing of them until a person accepts."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from io import StringIO

import grpc
import pytest
from consortium import Consortium, toml_terms
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import (
    ContradictionError,
    Malformed,
    NotOffered,
    Refusal,
    SettingError,
    TermsError,
    Unavailable,
    UnknownTerms,
)
from parley.network.exchange import messages
from parley.network.exchange.proposal_messages import (
    LARGEST_TEXT,
    ProposalState,
    read_state,
    write_proposal,
    write_state,
)
from parley.network.exchange.proposing import NOT_OFFERED, Proposed, propose
from parley.network.exchange.remote import RemoteOwner, channel_credentials
from parley.network.identity import certificate_authority, signing_requests
from parley.network.identity.settings import load_owner
from parley.network.serving.acceptance import Acceptance, Acceptances, Caller
from parley.network.serving.daemon import CALLS_EACH
from parley.network.serving.inbox import IN_ALL, OF_LEARNER, Inbox, Proposal, open_inbox
from parley.network.serving.log import Log
from parley.network.serving.proposal_service import ProposalService

LEARNER = Caller(("learner",), "key", peer="127.0.0.1:1")


def terms_of(learner="learner", epsilon=1.0, **settings):
    return parley.Terms.from_toml(toml_terms(learner=learner, epsilon=epsilon, names="a", **settings))


def hashed(text):
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def service(tmp_path, monkeypatch):
    """The proposals' side of an owner's daemon, in process."""
    monkeypatch.setattr("parley.network.serving.acceptance.FRESH", 0.0)
    acceptances, stream = Acceptances(tmp_path / "accepted"), StringIO()
    with Log(stream) as log:
        made = ProposalService("a", Inbox(tmp_path / "inbox", acceptances), acceptances, log)
        made.inbox, made.acceptances, made.said = Inbox(tmp_path / "inbox", acceptances), acceptances, stream
        yield made


def told(service, terms_hash, text="", caller=LEARNER):
    return read_state(service.propose(write_proposal(terms_hash, text), caller), "a", terms_hash)


def proposed(service, terms, caller=LEARNER):
    return told(service, terms.hash, terms.canonical, caller)


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
    (file,) = service.inbox.folder.iterdir()
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
    with pytest.raises(Refusal, match="another key of this learner"):
        proposed(service, terms, other)
    service.inbox.refuse(service.inbox.find(terms.hash), "ε = 0.5 at most\x1b[31m")
    assert told(service, terms.hash) == ProposalState("refused", "ε = 0.5 at most [31m")
    assert proposed(service, terms) == ProposalState("refused", "ε = 0.5 at most [31m")
    service.acceptances.store(Acceptance(terms, fingerprint="other key"))
    assert told(service, terms.hash).state == "refused"  # by these terms another key may ask, not this one
    service.acceptances.store(Acceptance(terms, fingerprint="key"))
    assert told(service, terms.hash) == ProposalState("accepted")
    with pytest.raises(SettingError, match="accepted already"):
        service.inbox.refuse(service.inbox.find(terms.hash), "too late")


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


def test_open_proposals_are_limited_of_one_learner_and_in_all(service):
    many = [terms_of(epsilon=k) for k in range(1, OF_LEARNER + 3)]
    for terms in many[:OF_LEARNER]:
        proposed(service, terms)
    renewed = Caller(("learner", "also"), "a new key")
    for caller in (LEARNER, renewed):  # by name: another key brings no new places
        with pytest.raises(Refusal, match="of this learner wait"):
            proposed(service, many[OF_LEARNER], caller)
    assert proposed(service, many[0]) == ProposalState("open")  # what is there already is told
    service.inbox.refuse(service.inbox.find(many[0].hash), "no")
    assert proposed(service, many[OF_LEARNER]) == ProposalState("open")
    for k in range(IN_ALL - OF_LEARNER):
        proposed(service, terms_of(f"member-{k}"), Caller((f"member-{k}",), f"key {k}"))
    late = Caller(("late",), "late key")
    with pytest.raises(Refusal, match="full"):
        proposed(service, terms_of("late"), late)
    service.acceptances.store(Acceptance(many[1]))
    assert proposed(service, terms_of("late"), late) == ProposalState("open")


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


def test_messages_that_are_too_long_or_damaged_are_refused(service):
    terms = terms_of()
    whole = write_proposal(terms.hash, terms.canonical)
    long = rewritten(lambda content: content.update(title="x" * LARGEST_TEXT))
    wrong = [whole[:40], b"junk", b"", write_proposal(terms.hash, long), write_proposal(hashed(long), long)]
    wrong += [write_proposal("0" * 64, terms.canonical), write_proposal("../" + "0" * 61)]
    wrong.append(whole.replace(b'"Test"', b'"\xff\xfe\xff\xfe"'))  # no UTF-8
    for content in wrong:
        with pytest.raises(Malformed):
            messages.read_reply(service.propose(content, LEARNER), "a")
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


def test_no_path_in_a_proposal_is_opened(service, tmp_path):
    """A pipe that nobody writes to would hold up whoever opens it for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = with_public(str(pipe))
    told(service, hashed(text), text)
    with pytest.raises(TermsError, match="not written as this Parley writes them"):
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
    with pytest.raises(SettingError, match="--preparation: these terms need no such file"):
        proposal.terms(tmp_path / "public.csv", tmp_path / "public.csv")
    found = proposal.terms(tmp_path / "public.csv")
    assert (found.hash, found.model.public) == (terms.hash, str(tmp_path / "public.csv"))


def test_trouble_inside_never_travels_and_a_damaged_file_is_named(service, tmp_path):
    terms = terms_of()
    proposed(service, terms)
    (service.inbox.folder / f"{terms.hash}.json").write_text('{"format": "parley-prop')
    reply = service.propose(write_proposal(terms.hash), LEARNER)
    assert str(tmp_path).encode() not in reply
    with pytest.raises(Unavailable):
        read_state(reply, "a", terms.hash)
    with pytest.raises(SettingError, match="move it away"):
        service.inbox.proposals()


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


KILLED = """
import os, signal, sys
from pathlib import Path
from parley import durable
from parley.network.serving.acceptance import Acceptances
from parley.network.serving.inbox import Inbox, Proposal

folder, refusing = Path(sys.argv[1]), sys.argv[2] == "refuse"
proposal = Proposal("0" * 64, "text" * 9000, ("learner",), "key", "2026-03-02T09:14:00+00:00")
writes = Inbox(folder / "whole", Acceptances(folder / "accepted"))


def act(inbox):
    inbox.refuse(proposal, "no") if refusing else inbox.add(proposal)


def steps(killed_at):
    # every call into the system while a file is written; the process dies before the one with this number
    count = 0
    for place, name in ((os, "open"), (os, "fsync"), (os, "fdopen"), (os, "close"), (Path, "replace")):
        def stepped(*arguments, call=getattr(place, name), **more):
            nonlocal count
            count += 1
            if count == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **more)
        setattr(place, name, stepped)
    return lambda: count


for k in range(1, 20):
    inbox = Inbox(folder / f"inbox-{k}", Acceptances(folder / "accepted"))
    if refusing:
        inbox.add(proposal)
    child = os.fork()
    if not child:
        steps(k)
        act(inbox)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
print(k)
"""


@pytest.mark.parametrize("verb", ["add", "refuse"])
def test_a_daemon_killed_at_any_step_leaves_a_whole_proposal_or_none(tmp_path, verb):
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), verb], capture_output=True, text=True, check=True, timeout=120
    )
    assert int(ran.stdout) > 4  # it was killed at several steps, and at last at none
    seen = []
    for k in range(1, int(ran.stdout) + 1):
        inbox = Inbox(tmp_path / f"inbox-{k}", Acceptances(tmp_path / "accepted"))
        seen.append([(proposal.text == "text" * 9000, proposal.refused) for proposal in inbox.proposals()])
        whole = Proposal("0" * 64, "text" * 9000, ("learner",), "key", "2026-03-02T09:14:00+00:00")
        inbox.add(replace(whole, refused=None))  # what was left behind stands in nobody's way
        assert len(inbox.proposals()) == 1
    before = [] if verb == "add" else [(True, None)]
    after = [(True, None)] if verb == "add" else [(True, "no")]
    assert seen[0] == before
    assert seen[-1] == after
    assert all(state in (before, after) for state in seen)


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def certify(bank, name):
    signing_requests.make_request(bank.folder, name)
    certificate_authority.issue(bank.folder, bank.folder / f"{name}.csr", 30)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """One owner whose daemon runs."""
    bank = Consortium(tmp_path_factory.mktemp("inbox"), names="a")
    bank.start()
    yield bank
    bank.close()


def at(bank, name):
    return RemoteOwner("a", f"127.0.0.1:{bank.ports['a']}", bank.identity(name))


def test_a_thousand_proposals_leave_the_ledger_as_it_is(served):
    def books():
        return [path.read_bytes() for path in sorted(served.folder.glob("a.ledger*")) if not path.name.endswith("shm")]

    certify(served, "crowd")
    settings, before = load_owner(served.folder / "a.toml"), books()
    peer, refusals, base = at(served, "crowd"), 0, terms_of("crowd").canonical
    for k in range(1000):
        text = base.replace('"Test"', f'"Test {k}"')
        try:
            peer.propose(hashed(text), text, 20)
        except Refusal as refusal:
            refusals += "wait for a decision" in str(refusal)
    peer.close()
    assert books() == before
    assert not settings.accepted.exists()
    assert refusals == 1000 - OF_LEARNER
    assert len([each for each in open_inbox(settings).proposals() if each.names == ("crowd",)]) == OF_LEARNER


def test_terms_travel_from_a_proposal_to_a_trained_model(served):
    terms, owner = served.write_terms(horizon=3), served.folder / "a.toml"
    addresses = served.folder / "addresses.toml"
    ledger = (served.folder / "a.ledger").read_bytes()
    sent = run("learner", "propose", served.folder / "terms.toml", "--owners", addresses)
    assert sent.exit_code == 0, sent.output
    assert "open" in sent.output
    listed = json.loads(run("owner", "inbox", owner, "--json").stdout)
    (facts,) = [each for each in listed["proposals"] if each["terms_hash"] == terms.hash]
    assert (facts["title"], facts["proposed_by"], facts["state"]) == ("Test", ["learner"], "open")
    shown = run("owner", "proposal", terms.hash[:8], "--owner", owner)
    assert shown.exit_code == 0, shown.output
    accepting = run("owner", "accept", served.folder / "terms.toml", "--owner", owner)  # nobody says yes
    assert accepting.exit_code == 1
    summary = [line for line in accepting.stdout.splitlines() if not line.startswith("Learner:")]
    assert [line for line in summary if line.strip() and line not in shown.stdout.splitlines()] == []
    assert f"with the key {facts['key'][:16]}" in shown.stdout
    assert "Who else is in: nobody." in shown.stdout
    assert "What is left after: ε = 1 of 2" in shown.stdout
    assert (served.folder / "a.ledger").read_bytes() == ledger
    refused = run("owner", "refuse", terms.hash[:16], "--owner", owner, "--reason", "ask on Monday")
    assert refused.exit_code == 0
    heard = json.loads(run("learner", "proposal", served.folder / "terms.toml", "--owners", addresses, "--json").stdout)
    assert heard["owners"] == [{"owner": "a", "state": "refused", "reason": "ask on Monday"}]
    assert "nobody at this owner accepted these terms" in served.fail("--anyway")
    accepted = run("owner", "accept", terms.hash[:8], "--owner", owner, "--yes")
    assert accepted.exit_code == 0, accepted.output
    assert propose(terms, addresses, ask=True) == [Proposed("a", "accepted")]
    assert served.learn("--anyway")["terms_hash"] == terms.hash
    assert served.spent(terms) == {"a": 1}
    kept = Acceptances(load_owner(owner).accepted).get(terms.hash)
    assert kept.fingerprint == facts["key"]  # who proposed, and no other key of that name
    assert open_inbox(load_owner(owner)).facts(open_inbox(load_owner(owner)).find(terms.hash))["state"] == "accepted"


def test_every_member_may_propose_its_own_terms_and_ask_for_nothing_by_them(served):
    certify(served, "member")
    own, others = terms_of("member", epsilon=0.25), terms_of(epsilon=0.125)
    peer = at(served, "member")
    assert peer.propose(own.hash, own.canonical, 20) == ProposalState("open")
    with pytest.raises(Malformed, match="as the learner"):
        peer.propose(others.hash, others.canonical, 20)
    with pytest.raises(UnknownTerms, match="nobody at this owner accepted"):
        peer.statement(own.hash, "member", 20)
    for _ in range(12):  # more bytes than a connection may bring that no message accounts for
        assert peer.propose(own.hash, own.canonical, 20).state == "open"
    with pytest.raises(Refusal):  # cut before it reaches gRPC, or refused
        peer.propose(own.hash, "x" * (1 << 20), 20)
    peer.close()
    again = at(served, "learner")
    assert again.propose(others.hash, others.canonical, 20) == ProposalState("open")
    again.close()
    served.wait_for("a", "proposal")


def test_proposals_that_never_come_share_the_places_of_one_caller(served):
    certify(served, "silent")
    named, over = [("grpc.ssl_target_name_override", "a")], threading.Event()
    address, credentials = f"127.0.0.1:{served.ports['a']}", channel_credentials(served.identity("silent"))
    with grpc.secure_channel(address, credentials, options=named) as channel:
        call = channel.stream_unary(f"/{messages.SERVICE}/Propose")
        calls = [call.future(iter(over.wait, True), timeout=60) for _ in range(CALLS_EACH + 4)]
        until = time.monotonic() + 30
        while sum(each.done() for each in calls) < 4 and time.monotonic() < until:
            time.sleep(0.02)
        assert {each.code() for each in calls if each.done()} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        peer, terms = at(served, "learner"), terms_of(epsilon=0.0625)
        with pytest.raises(Unavailable, match="too many calls"):
            peer.propose(terms.hash, terms.canonical, 20)
        with pytest.raises(UnknownTerms):
            peer.statement(terms.hash, "learner", 20)  # who asks is answered as if they were not there
        for each in calls:
            each.cancel()
        over.set()
        peer.close()


def test_relays_and_daemons_without_an_inbox_say_so_in_a_sentence(tmp_path):
    bank = Consortium(tmp_path, names="a")
    terms = bank.write_terms()
    settings = bank.folder / "a.toml"
    settings.write_text(settings.read_text().replace('inbox = "inbox-a"', "#"))
    try:
        bank.start()
        assert propose(terms, bank.folder / "addresses.toml") == [Proposed("a", None, NOT_OFFERED)]
        sent = run("learner", "propose", bank.folder / "terms.toml", "--owners", bank.folder / "addresses.toml")
        assert sent.exit_code == 1
        assert "send the terms" in " ".join(sent.output.split())
        relay = RemoteOwner("a", f"unix:{bank.folder}/a.sock", None)
        with pytest.raises(NotOffered):
            relay.propose(terms.hash, terms.canonical, 20)
        relay.close()
        assert "inbox: missing" in str(run("owner", "inbox", settings).exception)
        bank.kill("a", signal.SIGTERM)
        (gone,) = propose(terms, bank.folder / "addresses.toml")
        assert gone.state is None
        assert gone.reason
    finally:
        bank.close()
    with pytest.raises(SettingError, match="expected the address of 'b'"):
        propose(parley.Terms.from_toml(toml_terms(names="ab")), bank.folder / "addresses.toml")
