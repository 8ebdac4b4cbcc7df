"""The files of an inbox: whatever happens to one, it is a whole proposal with the text of its hash, or named and passed
over."""

import json
import subprocess
import sys

import pytest
from proposals import LEARNER, hashed, proposal_service, proposed, terms_of, told

from parley.errors import SettingError, TermsError, Unavailable
from parley.network.exchange.messages import ProposalState, read_state, write_proposal
from parley.network.serving.acceptance import Acceptance, Acceptances
from parley.network.serving.inbox import Inbox, Proposal


@pytest.fixture
def service(tmp_path, monkeypatch):
    """The proposals' side of an owner's daemon, in process."""
    monkeypatch.setattr("parley.network.serving.acceptance.RECHECK_AFTER_S", 0.0)
    with proposal_service(tmp_path) as made:
        yield made


def test_trouble_inside_never_travels_and_a_damaged_file_is_named(service, tmp_path):
    terms = terms_of()
    proposed(service, terms)
    (service.inbox.folder / f"{terms.hash}.json").write_text('{"format": "parley-prop')
    reply = service.propose(write_proposal(terms.hash), LEARNER)
    assert str(tmp_path).encode() not in reply
    with pytest.raises(Unavailable):
        read_state(reply, "a", terms.hash)
    with pytest.raises(SettingError, match="move the file away"):
        service.inbox.find(terms.hash)
    other = terms_of(epsilon=2.0)  # others are taken, found and decided about as if it were not there
    assert proposed(service, other) == ProposalState("open")
    assert [each.terms_hash for each in service.inbox.proposals()] == [other.hash]
    assert service.inbox.find(other.hash[:8]).terms_hash == other.hash
    (named,) = service.inbox.damaged()
    assert f"{terms.hash}.json: expected a proposal that Parley wrote; move the file away" in named


def test_a_damaged_acceptance_is_named_and_shuts_nothing_but_its_own_terms(service):
    first, second = terms_of(), terms_of(epsilon=2.0)
    proposed(service, first)
    service.acceptances.store(Acceptance(first, fingerprint="key"))
    (service.acceptances.folder / f"{first.hash}.json").write_text("{")
    assert proposed(service, second) == ProposalState("open")
    states = {facts["terms_hash"]: facts["state"] for facts in map(service.inbox.facts, service.inbox.proposals())}
    assert states == {first.hash: "accepted", second.hash: "open"}
    (named,) = service.inbox.damaged()
    assert "expected an acceptance that Parley wrote" in named
    with pytest.raises(Unavailable):
        told(service, first.hash)


@pytest.mark.parametrize(
    ("key", "swapped"),
    [
        *(("text", wrong) for wrong in (terms_of(epsilon=9.0).canonical, "\ud800", 1, None)),
        *(
            ("received", 1),
            ("fingerprint", None),
            ("names", [1]),
            ("names", None),
            ("reason", [1]),
            ("until", 1),
            ("ended", "open"),
            ("ended", "lapsed"),
            ("called", 1),
            ("more", "x"),
        ),
        *(("certificate", 1), ("terms_hash", ["0"]), ("format", "parley-proposal-0")),
    ],
    ids=str,
)
def test_a_hash_names_one_text_whatever_somebody_wrote_into_its_file(service, key, swapped):
    terms = terms_of(epsilon=0.125)
    proposed(service, terms)
    file = service.inbox.folder / f"{terms.hash}.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), key: swapped}))
    with pytest.raises(SettingError, match="expected a proposal that Parley wrote"):
        service.inbox.get(terms.hash)
    with pytest.raises(TermsError, match="not in the form"):  # nor does one in memory say other terms than it is named
        Proposal(terms.hash, terms_of(epsilon=9.0).canonical, ("learner",), "key", "").terms()


@pytest.mark.parametrize(("refused", "state"), [(None, "open"), ("too much", "refused")])
def test_a_file_of_an_earlier_parley_is_read(service, refused, state):
    terms = terms_of()
    proposed(service, terms)
    file = service.inbox.folder / f"{terms.hash}.json"
    written = json.loads(file.read_text())
    for key in ("until", "ended", "reason", "called"):
        del written[key]
    file.write_text(json.dumps({**written, "refused": refused}))
    assert told(service, terms.hash) == ProposalState(state, refused or "")


KILLED = """
import hashlib, os, signal, sys
from datetime import timedelta
from pathlib import Path
from parley import durable
from parley.network.serving.acceptance import Acceptances
from parley.network.serving.inbox import Inbox, now
from parley.network.serving.inbox import Proposal

folder, verb = Path(sys.argv[1]), sys.argv[2]
text = "text" * 9000
proposal = Proposal(hashlib.sha256(text.encode()).hexdigest(), text, ("learner",), "key", "2026-03-02T09:14:00+00:00")
writes = Inbox(folder / "whole", Acceptances(folder / "accepted"))


def act(inbox):
    if verb == "add":
        inbox.add(proposal)
    elif verb == "refuse":
        inbox.refuse(proposal, "no")
    else:
        inbox._clock = lambda: now() + timedelta(days=31)
        assert len(inbox.lapse()) == 1


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
    if verb != "add":
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


@pytest.mark.parametrize("verb", ["add", "refuse", "lapse"])
def test_a_daemon_killed_at_any_step_leaves_a_whole_proposal_or_none(tmp_path, verb):
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), verb], capture_output=True, text=True, check=True, timeout=120
    )
    assert int(ran.stdout) > 4  # it was killed at several steps, and at last at none
    seen = []
    for k in range(1, int(ran.stdout) + 1):
        inbox = Inbox(tmp_path / f"inbox-{k}", Acceptances(tmp_path / "accepted"))
        seen.append([(proposal.text == "text" * 9000, proposal.ended) for proposal in inbox.proposals()])
        whole = Proposal(hashed("text" * 9000), "text" * 9000, ("learner",), "key", "2026-03-02T09:14:00+00:00")
        inbox.add(whole)  # what was left behind stands in nobody's way
        assert len(inbox.proposals()) == 1
    before = [] if verb == "add" else [(True, None)]
    after = {"add": [(True, None)], "refuse": [(True, "refused")], "lapse": [(False, "lapsed")]}[verb]
    assert seen[0] == before
    assert seen[-1] == after
    assert all(state in (before, after) for state in seen)
