"""Proposals over a real daemon with certificates: from a learner's command to a model, and what they cannot do."""

import json
import re
import signal
import threading
import time
from dataclasses import replace

import grpc
import pytest
from consortium import Consortium, toml_terms
from proposals import hashed, terms_of
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import Malformed, NotOffered, Refusal, SettingError, Unavailable, UnknownTerms
from parley.network.exchange import messages
from parley.network.exchange.messages import MAX_TEXT_BYTES, ProposalState
from parley.network.exchange.remote import NO_PROPOSALS_REASON, Proposed, RemoteOwner, channel_credentials, propose
from parley.network.identity import certificate_authority
from parley.network.identity.certificates import fingerprint, names, read_certificate
from parley.network.identity.settings import load_owner
from parley.network.serving.acceptance import Acceptances
from parley.network.serving.connections import FLOOD_REASON
from parley.network.serving.daemon import MAX_CALLS_PER_CALLER
from parley.network.serving.inbox import MAX_OPEN_PER_LEARNER, Proposal, open_inbox
from parley.network.serving.server import MAX_SHARED_PER_PARTY, SHARED_TURN_S

OLD = terms_of(epsilon=0.03125)


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def certify(bank, name):
    certificate_authority.make_request(bank.folder, name)
    certificate_authority.issue(bank.folder, bank.folder / f"{name}.csr", 30)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """One owner whose daemon runs, and found a proposal whose end had come."""
    bank = Consortium(tmp_path_factory.mktemp("inbox"), names="a")
    key = fingerprint(read_certificate(bank.folder / "learner.crt"))
    old = Proposal(OLD.hash, OLD.canonical, ("learner",), key, "2026-03-02T09:14:00+00:00")
    inbox = open_inbox(load_owner(bank.folder / "a.toml"))
    inbox._write(replace(inbox.add(old), until="2026-04-01T09:14:00+00:00"))
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
            refusals += "waiting for this owner's decision" in str(refusal)
    peer.close()
    assert books() == before
    assert not settings.accepted.exists()
    assert refusals == 1000 - MAX_OPEN_PER_LEARNER
    assert len([each for each in open_inbox(settings).proposals() if each.names == ("crowd",)]) == MAX_OPEN_PER_LEARNER


def test_a_daemon_lets_proposals_lapse_and_a_learner_hears_it_renews_and_withdraws(served):
    served.wait_for("a", "proposal-lapsed")
    (served.folder / "old.toml").write_text(toml_terms(epsilon=0.03125, names="a"))
    words = served.folder / "old.toml", "--owners", served.folder / "addresses.toml", "--json"

    def heard(verb):
        (said,) = json.loads(run("learner", verb, *words).stdout)["owners"]
        return said["state"], said["reason"]

    lapsed = "lapsed", "nobody decided about it until 2026-04-01"
    assert [heard("proposal"), heard("withdraw")] == [lapsed, lapsed]
    assert [heard("propose"), heard("proposal")] == [("open", "")] * 2
    assert [heard("withdraw"), heard("proposal")] == [("withdrawn", "")] * 2
    listed = run("owner", "inbox", served.folder / "a.toml")
    assert "withdrawn" in listed.output


def test_terms_travel_from_a_proposal_to_a_trained_model(served):
    terms, owner = served.write_terms(horizon=3), served.folder / "a.toml"
    addresses = served.folder / "addresses.toml"
    ledger = (served.folder / "a.ledger").read_bytes()
    sent = run("learner", "propose", served.folder / "terms.toml", "--owners", addresses)
    assert sent.exit_code == 0, sent.output
    assert "open" in sent.output
    assert terms.hash in sent.output
    listed = json.loads(run("owner", "inbox", owner, "--json").stdout)
    (facts,) = [each for each in listed["proposals"] if each["terms_hash"] == terms.hash]
    assert (facts["title"], facts["proposed_by"], facts["state"]) == ("Test", ["learner"], "open")
    shown = run("owner", "inbox", owner, terms.hash[:8])
    assert shown.exit_code == 0, shown.output
    assert terms.hash in shown.output  # all of it: whoever writes terms finds two that begin alike
    accepting = run("owner", "accept", served.folder / "terms.toml", "--owner", owner)  # nobody says yes
    assert accepting.exit_code == 1
    summary = [line for line in accepting.stdout.splitlines() if not line.startswith("Learner:")]
    assert [line for line in summary if line.strip() and line not in shown.stdout.splitlines()] == []
    assert f"the key {facts['key'][:16]}" in shown.stdout
    assert "These terms name no other owners." in shown.stdout
    assert "These terms leave ε = 1 of 2" in shown.stdout
    assert (served.folder / "a.ledger").read_bytes() == ledger
    refused = run("owner", "refuse", terms.hash[:16], "--owner", owner, "--reason", "ask on Monday")
    assert refused.exit_code == 0
    assert f"Refused: terms {terms.hash}" in refused.output
    heard = json.loads(run("learner", "proposal", served.folder / "terms.toml", "--owners", addresses, "--json").stdout)
    assert heard["owners"] == [{"owner": "a", "state": "refused", "reason": "ask on Monday"}]
    assert "this owner has not accepted these terms" in served.fail("--force")
    accepted = run("owner", "accept", terms.hash[:8], "--owner", owner, "--yes")
    assert accepted.exit_code == 0, accepted.output
    assert accepted.output.count(terms.hash) == 2  # in what is read, and in what was done
    assert propose(terms, addresses, ask=True) == [Proposed("a", "accepted")]
    assert served.learn("--force")["terms_hash"] == terms.hash
    assert served.spent(terms) == {"a": 1}
    kept = Acceptances(load_owner(owner).accepted).get(terms.hash)
    assert kept.fingerprint == facts["key"]  # who proposed, and no other key of that name
    assert open_inbox(load_owner(owner)).facts(open_inbox(load_owner(owner)).find(terms.hash))["state"] == "accepted"


def end(served):
    ledger = served.ledger("a")
    found = ledger.head
    ledger.close()
    return found


def test_terms_that_are_withdrawn_while_somebody_reads_are_not_accepted(served, monkeypatch):
    terms, owner, peer = terms_of(epsilon=0.015625), served.folder / "a.toml", at(served, "learner")
    peer.propose(terms.hash, terms.canonical, 20)
    ledger = end(served)

    def read_for_long(*question, **more):
        assert peer.withdraw(terms.hash, 20) == ProposalState("withdrawn")
        return True

    monkeypatch.setattr("parley.cli.owner.typer.confirm", read_for_long)
    ran = run("owner", "accept", terms.hash, "--owner", owner)
    assert "the proposal changed after it was read; read the new proposal" in str(ran.exception)
    assert end(served) == ledger
    assert Acceptances(load_owner(owner).accepted).get(terms.hash) is None
    assert peer.propose(terms.hash, "", 20) == ProposalState("withdrawn")
    peer.close()


def test_the_learners_own_table_needs_no_proposal_and_that_is_said(served):
    served.write_terms(horizon=3)
    addresses = (served.folder / "addresses.toml").read_text()
    own = served.folder / "own_addresses.toml"
    own.write_text(re.sub(r"(?m)^a = .*$", 'a = { own = "a.toml" }', addresses))
    sent = run("learner", "propose", served.folder / "terms.toml", "--owners", own)
    assert sent.exit_code == 0, sent.output
    assert "No proposal was sent to owners whose tables are on this machine: a." in sent.output


def test_every_member_may_propose_its_own_terms_and_ask_for_nothing_by_them(served):
    certify(served, "member")
    own, others = terms_of("member", epsilon=0.25), terms_of(epsilon=0.125)
    peer = at(served, "member")
    assert peer.propose(own.hash, own.canonical, 20) == ProposalState("open")
    with pytest.raises(Malformed, match="terms whose learner is"):
        peer.propose(others.hash, others.canonical, 20)
    with pytest.raises(UnknownTerms, match="this owner has not accepted"):
        peer.statement(own.hash, "member", 20)
    long = own.changed(title="x" * (MAX_TEXT_BYTES - 4096))
    for _ in range(4):  # more bytes than a connection may bring that no message accounts for
        assert peer.propose(long.hash, long.canonical, 20).state == "open"
    with pytest.raises(Unavailable):  # cut before it reaches gRPC
        peer.propose(own.hash, "x" * (1 << 20), 20)
    peer.close()
    served.wait_for("a", "line-cut")
    cut = [(line["caller"], line["reason"]) for line in served.log("a") if line["event"] == "line-cut"]
    assert cut == [("member", FLOOD_REASON)]
    again = at(served, "learner")
    assert again.propose(others.hash, others.canonical, 20) == ProposalState("open")
    again.close()
    served.wait_for("a", "proposal")


def silent_calls(bank, name, count, over):
    """A member's line, and calls on it that propose nothing until it is `over`."""
    address, credentials = f"127.0.0.1:{bank.ports['a']}", channel_credentials(bank.identity(name))
    line = grpc.secure_channel(address, credentials, options=[("grpc.ssl_target_name_override", "a")])
    call = line.stream_unary(f"/{messages.SERVICE}/Propose")
    return line, [call.future(iter(over.wait, True), timeout=60) for _ in range(count)]


def turned_away(calls, count):
    until = time.monotonic() + 30
    while sum(each.done() for each in calls) < count and time.monotonic() < until:
        time.sleep(0.02)
    assert {each.code() for each in calls if each.done()} <= {grpc.StatusCode.RESOURCE_EXHAUSTED}
    return sum(each.done() for each in calls)


def test_proposals_that_never_come_leave_room_for_others(served):
    over, peer, terms = threading.Event(), at(served, "learner"), terms_of(epsilon=0.0625)
    silent = [f"silent-{k}" for k in range(MAX_CALLS_PER_CALLER // MAX_SHARED_PER_PARTY)]
    for name in silent:
        certify(served, name)
    lines = [silent_calls(served, silent[0], MAX_CALLS_PER_CALLER, over)]
    try:
        assert (
            turned_away(lines[0][1], MAX_CALLS_PER_CALLER - MAX_SHARED_PER_PARTY)
            == MAX_CALLS_PER_CALLER - MAX_SHARED_PER_PARTY
        )
        assert peer.propose(terms.hash, terms.canonical, 20) == ProposalState("open")
        for name in silent[1:]:
            lines.append(silent_calls(served, name, MAX_SHARED_PER_PARTY + 1, over))
            assert turned_away(lines[-1][1], 1) == 1
        with pytest.raises(Unavailable, match="too many calls"):
            peer.propose(terms.hash, terms.canonical, 20)
        with pytest.raises(UnknownTerms):
            peer.statement(terms.hash, "learner", 20)  # who asks is answered as if they were not there
        time.sleep(SHARED_TURN_S)
        assert peer.propose(terms.hash, terms.canonical, 20) == ProposalState("open")  # one of them had to leave
        before, until = MAX_CALLS_PER_CALLER - MAX_SHARED_PER_PARTY + len(silent) - 1, time.monotonic() + 30
        while (gone := sum(each.done() for _, calls in lines for each in calls)) <= before and time.monotonic() < until:
            time.sleep(0.02)
        assert gone > before
    finally:
        over.set()
        for line, _ in lines:
            line.close()
        peer.close()
    said, until = {}, time.monotonic() + 30
    while "learner" not in said and time.monotonic() < until:  # lines are gathered before they are written
        said = {line["caller"]: line["held_by"] for line in served.log("a") if line["event"] == "too-many-calls"}
        time.sleep(0.02)
    assert said["learner"] == ", ".join(silent)


def test_who_proposed_is_accepted_only_with_a_certificate_that_is_good_now(tmp_path, monkeypatch):
    bank, terms = Consortium(tmp_path, names="a"), terms_of()
    settings, owner = load_owner(bank.folder / "a.toml"), bank.folder / "a.toml"
    inbox, certificate = open_inbox(settings), bank.folder / "learner.crt"
    good = Proposal(
        terms.hash,
        terms.canonical,
        ("learner",),
        fingerprint(read_certificate(certificate)),
        "2026-03-02T09:14:00+00:00",
        certificate=certificate.read_text(),
    )

    def tried(proposal, verb="accept"):
        inbox._write(proposal)
        named = (owner, terms.hash) if verb == "inbox" else (terms.hash, "--owner", owner, "--yes")
        ran = run("owner", verb, *named)
        return ran.exit_code, str(ran.exception)

    inbox.add(good)
    assert tried(good, "inbox")[0] == 0
    for wrong, why in (
        (replace(good, certificate=None), "stored no certificate"),
        (replace(good, certificate="junk"), "expected a certificate in PEM form"),
        (replace(good, certificate=(bank.folder / "a.crt").read_text()), "does not belong to the proposing key"),
        (replace(good, fingerprint="0" * 64), "does not belong to the proposing key"),
    ):
        code, said = tried(wrong)
        assert (code, why in said) == (1, True), said
    inbox._write(replace(good, certificate=None))
    shown = run("owner", "inbox", owner, terms.hash, "--certificate", certificate)
    assert f"key {good.fingerprint[:16]}" in shown.output
    certificate_authority.revoke(bank.folder, "learner", 365)
    for verb in ("accept", "inbox"):
        code, said = tried(good, verb)
        assert (code, "the authority revoked this certificate" in said) == (1, True), said
    assert not settings.accepted.exists()
    of_learner = "parley.network.identity.certificates.days_left"
    monkeypatch.setattr(of_learner, lambda found: -1 if list(names(found)) == ["learner"] else 30)
    code, said = tried(good)
    assert (code, "expired" in said) == (1, True), said


def test_relays_and_daemons_without_an_inbox_say_so_in_a_sentence(tmp_path):
    bank = Consortium(tmp_path, names="a")
    terms = bank.write_terms()
    settings = bank.folder / "a.toml"
    settings.write_text(settings.read_text().replace('inbox = "inbox-a"', "#"))
    try:
        bank.start()
        assert propose(terms, bank.folder / "addresses.toml") == [Proposed("a", None, NO_PROPOSALS_REASON)]
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
