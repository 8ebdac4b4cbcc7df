"""What an owner's service lets in and what it says: refusals cost nothing, and no error inside travels."""

import os
import threading
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from consortium import LEARNER, Consortium, ask

import parley
from parley.errors import Malformed, OutOfOrder, OutsideBox, Refusal, RolledBack, Unavailable, UnknownTerms
from parley.network.exchange import messages
from parley.network.identity.settings import load_owner
from parley.network.serving.acceptance import Acceptance, Acceptances, Caller
from parley.network.serving.daemon import open_owner
from parley.network.serving.log import Log
from parley.network.serving.service import OwnerService
from parley.owner.ledger.account import Head
from parley.owner.ledger.witnessed import SignedEnd
from parley.protocol.queries import GradientQuery, GradientQuestion


def refused(service, content, caller=LEARNER):
    """The refusal that this message gets; it must have cost nothing."""
    before = service.owner.ledger.verify()
    with pytest.raises(Refusal) as refusal:
        messages.read_statement(service.ask(content, caller), "a")
    assert service.owner.ledger.verify() == before
    return type(refusal.value)


def test_a_learner_that_asks_for_too_much_gets_refusals_that_cost_nothing(service):
    terms = service.terms
    wrong = {
        ask(terms, 2): OutOfOrder,
        ask(terms, 4): OutOfOrder,
        ask(terms, theta=(np.nan, 0, 0)): Malformed,
        ask(terms, theta=(np.inf, 0, 0)): Malformed,
        ask(terms, theta=(0.0, 0.0)): Malformed,
        ask(terms, theta=(5.1, 0, 0)): OutsideBox,
        ask(terms, learner="other"): UnknownTerms,
        GradientQuery.ask("0" * 64, "learner", 1, np.zeros(3)): UnknownTerms,
    }
    for query, kind in wrong.items():
        assert refused(service, messages.write_query(query)) is kind
    for stranger in (Caller(("other",), "key"), Caller(), Caller(relay=True)):
        assert refused(service, messages.write_query(ask(terms)), stranger) is UnknownTerms
    whole = messages.write_query(ask(terms))
    assert {refused(service, whole[:n]) for n in range(len(whole))} <= {Malformed}  # truncated anywhere
    assert refused(service, whole + bytes(messages.MAX_MESSAGE_BYTES)) is Malformed
    service.ask(whole, LEARNER)
    for k in (2, 3):
        service.ask(messages.write_query(ask(terms, k)), LEARNER)
    assert refused(service, messages.write_query(ask(terms, 4))) is OutOfOrder
    assert service.owner.ledger.account(terms.hash).spent == 1


def test_a_learner_that_saw_a_later_end_is_told_that_the_ledger_went_back(service):
    """Before anything is debited, and whoever asks: its word counts for its question alone."""
    terms, ledger = service.terms, service.owner.ledger
    service.ask(messages.write_query(ask(terms)), LEARNER)
    later = SignedEnd("a", "ledger", terms.hash, "", Head(99, "f" * 64))
    forked = SignedEnd("a", "ledger", terms.hash, "", Head(ledger.head.entries, "f" * 64))
    for seen in (later, forked):
        assert refused(service, messages.write_query(ask(terms, 2), seen)) is RolledBack
    for wrong in (replace(later, party="b"), replace(later, kind="journal"), replace(later, head=Head(3, "x"))):
        assert refused(service, messages.write_query(ask(terms, 2), wrong)) is Malformed
    seen = SignedEnd("a", "ledger", terms.hash, "", ledger.head)
    service.ask(messages.write_query(ask(terms, 2), seen), LEARNER)
    service.ask(messages.write_query(ask(terms, 3)), LEARNER)  # an earlier version says nothing
    assert ledger.account(terms.hash).answers == 3


def test_only_the_accepted_key_may_ask_and_relays_only_where_a_person_let_them(service, bank):
    folder = Acceptances(bank.folder / "accepted-a")
    folder.store(Acceptance(service.terms, fingerprint="right", relay=True))
    content = messages.write_query(ask(service.terms))
    assert refused(service, content, Caller(("learner",), "wrong")) is UnknownTerms
    service.ask(content, Caller(("learner",), "right"))
    assert service.owner.ledger.account(service.terms.hash).answered == 1
    service.ask(messages.write_query(ask(service.terms, 2)), Caller(relay=True))
    assert service.owner.ledger.account(service.terms.hash).answered == 2


def test_a_file_alone_does_not_accept_terms(service, bank):
    """Somebody who drops a file beside the ledger has not reserved anything, so nothing is answered."""
    other = bank.write_terms("other.toml", horizon=2)
    Acceptances(bank.folder / "accepted-a").store(Acceptance(other))
    assert refused(service, messages.write_query(ask(other))) is UnknownTerms
    changed = Acceptances(bank.folder / "accepted-a")
    path = changed.folder / f"{service.terms.hash}.json"
    path.write_text(path.read_text().replace('"clip": 4.0', '"clip": 400.0'))
    assert refused(service, messages.write_query(ask(service.terms))) is Unavailable


def test_a_question_repeated_while_it_is_computed_is_computed_once(service, monkeypatch):
    monkeypatch.setattr("parley.network.serving.service.TURN_TIMEOUT_S", 0.05)
    began, go, computed = threading.Event(), threading.Event(), []
    bounded = GradientQuestion.bounded

    def slow(self, *arguments):
        computed.append(1)
        began.set()
        assert go.wait(30)
        return bounded(self, *arguments)

    monkeypatch.setattr(GradientQuestion, "bounded", slow)
    content, replies = messages.write_query(ask(service.terms)), []
    first = threading.Thread(target=lambda: replies.append(service.ask(content, LEARNER)))
    first.start()
    assert began.wait(30)
    assert refused(service, content) is Unavailable
    assert (
        messages.read_statement(
            service.statement(messages.write_agreement(service.terms.hash, "learner"), LEARNER), "a"
        ).spent
        == 0
    )
    go.set()
    first.join(30)
    assert service.ask(content, LEARNER) == replies[0]
    assert len(computed) == 1


def test_a_caller_that_has_gone_costs_nothing(service):
    content = messages.write_query(ask(service.terms))
    assert messages.wire.Reply.FromString(service.ask(content, LEARNER, lambda: True)).refusal.code == "unavailable"
    assert service.owner.ledger.account(service.terms.hash).spent == 0
    service.ask(content, LEARNER, lambda: False)
    assert service.owner.ledger.account(service.terms.hash).answered == 1


def test_refusals_and_logs_do_not_depend_on_records(service, bank, tmp_path):
    """The same mistakes at an owner with other rows bring the same bytes; the log has no field for numbers."""
    other = tmp_path / "other"
    other.mkdir()
    twin = Consortium(other, names="a")
    table = parley.data.read_table(twin.folder / "a.csv").astype(float)
    (table * 0.5).to_csv(twin.folder / "a.csv", index=False)
    twin.accept(service.terms)
    settings = load_owner(twin.folder / "a.toml")
    stream = StringIO()
    wrong = [
        ask(service.terms, 2),
        ask(service.terms, theta=(9, 0, 0)),
        ask(service.terms, theta=(np.nan, 0, 0)),
        ask(service.terms, learner="x"),
    ]
    with Log(stream) as log:
        second = OwnerService(open_owner(settings), Acceptances(settings.accepted), log)
        for content in [*map(messages.write_query, wrong), b"junk", b""]:
            assert service.ask(content, LEARNER) == second.ask(content, LEARNER)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 6
    keys = {key for line in lines for key in messages.re.findall(r'"(\w+)":', line)}
    assert keys <= {"time", "event", "caller", "terms", "learner", "round", "query", "code", "reason", "ms"}


def test_trouble_at_the_door_never_travels_and_ends_no_run(service, bank, monkeypatch):
    """Acceptances that cannot be listed: the caller is told to come back, not that nobody knows it, and not where they
    lie."""
    someone = Caller(("someone",), "key")
    assert service.rejection(LEARNER) is None
    assert b"unknown-terms" in service.rejection(someone)
    listing = os.listdir

    def fail(folder):
        raise PermissionError(13, "denied", str(folder))

    fresh = Acceptances(bank.folder / "accepted-a")
    monkeypatch.setattr(service, "_acceptances", fresh)
    monkeypatch.setattr("os.listdir", fail)
    reply = service.rejection(LEARNER)
    assert str(bank.folder).encode() not in reply
    assert messages.wire.Reply.FromString(reply).refusal.code == "unavailable"
    monkeypatch.setattr("os.listdir", listing)
    assert service.rejection(LEARNER) is None


def test_an_error_inside_never_travels(service, monkeypatch):
    def fail(*arguments):
        raise ValueError("salary 123456")

    monkeypatch.setattr(service.owner, "answer_with_account", fail)
    reply = service.ask(messages.write_query(ask(service.terms)), LEARNER)
    assert b"salary" not in reply
    assert messages.wire.Reply.FromString(reply).refusal.code == "unavailable"
