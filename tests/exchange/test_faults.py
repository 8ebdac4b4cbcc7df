"""Whatever breaks between a learner and its owners: no budget is lost, none is overspent, and the run goes on.

PARLEY_NETWORK_KILLS sets how many processes are killed (default 12), PARLEY_FUZZ how many damaged messages are sent (default 4000).
"""

import contextlib
import json
import os
import random
import select
import signal
import socket
import sqlite3
import threading
import time
import types
from fractions import Fraction
from io import StringIO

import grpc
import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization

import parley
from consortium import Consortium
from parley.errors import (
    CertificateError,
    ContentMismatch,
    ExchangeError,
    Malformed,
    OutOfOrder,
    OutsideBox,
    Refusal,
    Unavailable,
    UnknownTerms,
)
from parley.exchange import messages
from parley.exchange.remote import RemoteOwner, channel_credentials
from parley.identity import certificate_authority, certificates, signing_requests
from parley.identity.settings import load_owner
from parley.queries import GradientQuery, GradientQuestion
from parley.serving.acceptance import Acceptance, Acceptances, Caller
from parley.serving.call_slots import CallSlots
from parley.serving.daemon import CALLS_EACH, open_owner
from parley.serving.log import Log
from parley.serving.server import authenticate
from parley.serving.service import OwnerService

LEARNER = Caller(("learner",), "key")


@pytest.fixture
def banks(tmp_path):
    consortium = Consortium(tmp_path)
    yield consortium
    consortium.close()


@pytest.fixture
def bank(tmp_path):
    """One owner."""
    consortium = Consortium(tmp_path, names="a")
    yield consortium
    consortium.close()


def answers(consortium, name):
    with sqlite3.connect(consortium.folder / f"{name}.ledger") as db:
        return dict(db.execute("SELECT query, answer FROM entries WHERE kind='answer'").fetchall())


def ask(terms, k=1, theta=(0.0, 0.0, 0.0), learner="learner"):
    return GradientQuery.ask(terms.hash, learner, k, np.array(theta))


@pytest.mark.parametrize("rule", ["wait", "skip"])
def test_kill_any_process_at_any_point_and_restart(banks, rule):
    """Under `wait` every budget ends exactly spent; under `skip` an owner spends what it answered, whether in time or not."""
    kills = int(os.environ.get("PARLEY_NETWORK_KILLS", "12")) // 2
    rng = random.Random(5)
    killed, runs, budget = 0, 0, Fraction(str(2.0 / (kills + 1)))
    skip = ["--deadline", "0.3"] if rule == "skip" else []
    banks.start()
    while killed < kills:
        runs += 1
        file, horizon = f"terms{runs}.toml", 40 + runs
        extra = 'quorum = 2\nstraggler = "skip"' if skip else ""
        terms = banks.write_terms(file, horizon=horizon, epsilon=2.0 / (kills + 1), extra=extra)
        banks.accept(terms)
        seen = {name: {} for name in "abc"}
        learner = banks.learner("--resume", *skip, file=file)
        while learner.exitcode != 0:
            learner.join(rng.uniform(0.05, 0.5))
            if learner.exitcode is None and killed < kills:
                victim = rng.choice(["a", "b", "c", "learner"])
                killed += 1
                if victim == "learner":
                    os.kill(learner.pid, signal.SIGKILL)
                    learner.join()
                    learner = banks.learner("--resume", *skip, file=file)
                else:
                    banks.kill(victim)
                    banks.start(victim)
            assert learner.exitcode in (None, 0, -signal.SIGKILL), banks.said()
            for name in "abc":
                now = answers(banks, name)
                assert seen[name].items() <= now.items()  # no answer was lost or changed
                seen[name] = now
        told = banks.learn("--resume", *skip, file=file)
        given = {name: banks.ledger(name).account(terms.hash).answers for name in "abc"}
        assert banks.spent(terms) == {name: budget * given[name] / horizon for name in "abc"}
        used = {owner["name"]: owner["answers"] for owner in told["owners"]}
        if skip:
            assert all(used[name] <= given[name] <= horizon for name in "abc")
            assert sum(used.values()) >= 2 * horizon
        else:
            assert used == given == dict.fromkeys("abc", horizon)
            assert banks.replay(terms) == told["theta"]


def test_an_owner_that_cannot_be_reached_is_waited_for_or_ends_the_run_as_the_terms_say(banks):
    terms = banks.write_terms(extra='straggler = "stop"')
    banks.accept(terms)
    banks.start("a", "b")
    said = banks.fail("--deadline", "1")
    assert "the terms say stop: c:" in said
    assert len(said.strip().splitlines()) == 1
    assert banks.spent(terms) == dict.fromkeys("abc", 0)  # nobody was asked before everybody was there
    patient = banks.write_terms("patient.toml")
    banks.accept(patient)
    learner = banks.learner("--deadline", "0.5", file="patient.toml")
    time.sleep(1.5)
    banks.start("c")
    learner.join(60)
    assert learner.exitcode == 0, banks.said()
    assert "waiting for late owners: c:" in banks.said()
    assert banks.spent(patient) == dict.fromkeys("abc", 1)


def test_a_slow_owner_is_asked_again_and_debited_once(banks):
    terms = banks.write_terms(horizon=5)
    banks.accept(terms)
    banks.start()
    os.kill(banks.daemons["b"].pid, signal.SIGSTOP)
    learner = banks.learner("--deadline", "0.3")
    time.sleep(1.5)
    os.kill(banks.daemons["b"].pid, signal.SIGCONT)
    learner.join(60)
    assert learner.exitcode == 0, banks.said()
    assert banks.spent(terms) == dict.fromkeys("abc", 1)
    kept = json.loads((banks.folder / "terms.checkpoint").read_text())
    assert kept["answers"] == dict.fromkeys("abc", 5)
    assert kept["spent"] == dict.fromkeys("abc", 1.0)


class BadLine(threading.Thread):
    """A TCP line to `port` that cuts connections short and flips bits now and then."""

    def __init__(self, port, seed):
        super().__init__(daemon=True)
        self._target, self._rng = port, random.Random(seed)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.damage = 0

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near):
        with contextlib.suppress(OSError), near, socket.create_connection(("127.0.0.1", self._target)) as far:
            while True:
                for source in select.select([near, far], [], [])[0]:
                    data = bytearray(source.recv(4096))
                    chance = self._rng.random()
                    if not data or chance < 0.02:
                        return
                    if chance < 0.06:
                        self.damage += 1
                        data[self._rng.randrange(len(data))] ^= 0x10
                    (far if source is near else near).sendall(data)

    def close(self):
        self._listening.close()


def test_a_line_that_cuts_and_corrupts_costs_no_budget_and_changes_no_number(banks):
    terms = banks.write_terms(horizon=12)
    banks.accept(terms)
    banks.start()
    lines = [BadLine(banks.ports[name], seed) for seed, name in enumerate("abc")]
    [line.start() for line in lines]
    banks.write_addresses(**{name: f'"127.0.0.1:{line.port}"' for name, line in zip("abc", lines, strict=True)})
    theta = banks.learn("--deadline", "5")["theta"]
    [line.close() for line in lines]
    assert sum(line.damage for line in lines) > 0
    assert banks.spent(terms) == dict.fromkeys("abc", 1)
    assert banks.replay(terms) == theta


def test_a_learner_that_never_ends_its_calls_blocks_only_itself(bank):
    """Seventy calls without a message from the learner of other terms: this one is answered as if they were not there."""
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    bank.accept(bank.write_terms("other.toml", learner="hostile"))
    bank.start()
    certify(bank, "hostile")
    named = [("grpc.ssl_target_name_override", "a")]
    address, over = f"127.0.0.1:{bank.ports['a']}", threading.Event()
    with grpc.secure_channel(address, channel_credentials(bank.identity("hostile")), options=named) as channel:
        calls = [channel.stream_unary(f"/{messages.SERVICE}/Ask").future(iter(over.wait, True), timeout=60) for _ in range(70)]
        peer = RemoteOwner("a", address, bank.identity())
        until = time.monotonic() + 30
        while sum(call.done() for call in calls) < 70 - CALLS_EACH and time.monotonic() < until:
            time.sleep(0.02)
        for k in (1, 2, 3):
            assert peer.ask(ask(terms, k), 60, 3, 10).statement.answered == k
        waiting = [call for call in calls if not call.done()]
        assert len(waiting) == CALLS_EACH
        assert {call.code() for call in calls if call.done()} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        for call in waiting:
            call.cancel()
        over.set()
        peer.close()


def certify(bank, name):
    signing_requests.make_request(bank.folder, name)
    certificate_authority.issue(bank.folder, bank.folder / f"{name}.csr", 30)


def test_of_a_stranger_not_even_the_message_is_read_and_the_log_says_it_once(bank):
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    bank.start()
    certify(bank, "stranger")
    named, silent = [("grpc.ssl_target_name_override", "a")], threading.Event()
    credentials = channel_credentials(bank.identity("stranger"))
    with grpc.secure_channel(f"127.0.0.1:{bank.ports['a']}", credentials, options=named) as channel:
        for method in ("Ask", "Stand"):
            for _ in range(10):
                call = channel.stream_unary(f"/{messages.SERVICE}/{method}").future(iter(silent.wait, True), timeout=20)
                assert messages.wire.Reply.FromString(call.result()).refusal.code == "unknown-terms"
    silent.set()
    bank.kill("a", signal.SIGTERM)
    said = [line for line in bank.log("a") if line["event"] == "stranger"]
    assert [line["caller"] for line in said] == ["stranger"]
    assert said[0]["peer"].startswith("127.0.0.1:")


def test_a_call_whose_message_never_comes_is_ended():
    class Call:
        def __init__(self):
            self.ended = threading.Event()

        def cancel(self):
            self.ended.set()

    calls, slow, slots = [Call(), Call()], threading.Event(), CallSlots(2, 0.05)
    waiting = threading.Thread(target=slots.message, args=(iter(slow.wait, True), calls[0]))
    waiting.start()
    assert slots.message(iter([b"in time"]), calls[1]) == b"in time"
    time.sleep(0.1)
    slots.cancel_overdue()
    assert [call.ended.is_set() for call in calls] == [True, False]
    slow.set()
    waiting.join()
    slots.cancel_overdue()


def test_a_log_that_nobody_reads_stops_neither_answers_nor_the_daemon(monkeypatch):
    monkeypatch.setattr("parley.serving.log.LINES", 3)
    monkeypatch.setattr("parley.serving.log.GRACE", 0.1)
    begun, full, written = threading.Event(), threading.Event(), []

    class Stream:
        def write(self, line):
            begun.set()
            full.wait()
            written.append(json.loads(line))

        def flush(self):
            pass

    began = time.monotonic()
    with Log(Stream()) as log:
        log("answer", round=0)
        assert begun.wait(10)
        for k in range(1, 10):
            log("answer", round=k)
    assert time.monotonic() - began < 5
    full.set()
    log._writer.join(5)
    assert [line["round"] for line in written] == [0, 1, 2, 3]
    assert log._lost + sum(line.get("lost", 0) for line in written) == 6


def test_a_caller_that_has_gone_costs_nothing(service):
    content = messages.write_query(ask(service.terms))
    assert messages.wire.Reply.FromString(service.ask(content, LEARNER, lambda: True)).refusal.code == "unavailable"
    assert service.owner.ledger.account(service.terms.hash).spent == 0
    service.ask(content, LEARNER, lambda: False)
    assert service.owner.ledger.account(service.terms.hash).answered == 1


def test_a_certificate_that_ends_on_an_open_line_is_turned_away(bank):
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    bank.start()
    signing_requests.make_request(bank.folder, "brief")
    _, brief = certificate_authority.issue(bank.folder, bank.folder / "brief.csr", 30)
    pem = brief.public_bytes(serialization.Encoding.PEM)

    class Context:
        def auth_context(self):
            return {"x509_pem_cert": [pem]}

        def peer(self):
            return "ipv4:10.0.0.7:51000"

        def abort(self, code, sentence):
            raise PermissionError(sentence)

    revocations = types.SimpleNamespace(revokes=lambda certificate: False)
    caller = authenticate(Context(), revocations, None)
    assert (caller.names, caller.peer) == (("brief",), "10.0.0.7:51000")
    later = brief.not_valid_after_utc.timestamp() + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("parley.serving.server.time", types.SimpleNamespace(time=lambda: later))
        with Log(StringIO()) as log, pytest.raises(PermissionError, match="expired"):
            authenticate(Context(), revocations, log)


def test_a_question_repeated_while_it_is_computed_is_computed_once(service, monkeypatch):
    monkeypatch.setattr("parley.serving.service.PATIENCE", 0.05)
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
        messages.read_statement(service.statement(messages.write_agreement(service.terms.hash, "learner"), LEARNER), "a").spent == 0
    )
    go.set()
    first.join(30)
    assert service.ask(content, LEARNER) == replies[0]
    assert len(computed) == 1


def test_duplicated_and_reordered_messages_get_the_stored_answers(bank):
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    bank.start()
    peer = RemoteOwner("a", f"127.0.0.1:{bank.ports['a']}", bank.identity())
    first, second = ask(terms, 1), ask(terms, 2, (0.1, 0.0, 0.0))
    with pytest.raises(OutOfOrder):
        peer.ask(second, 60, 3, 10)
    crowd = []
    threads = [threading.Thread(target=lambda: crowd.append(peer.ask(first, 60, 3, 10).answer.value.tobytes())) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(crowd) == 8
    assert len(set(crowd)) == 1
    later = peer.ask(second, 60, 3, 10)
    assert peer.ask(first, 60, 3, 10).answer.value.tobytes() == crowd[0]  # an old message comes again after a newer one
    assert later.statement.spent == peer.statement(terms.hash, "learner", 10).spent == Fraction(2, 3)
    with pytest.raises(ContentMismatch):
        peer.ask(GradientQuery(first.id, terms.hash, "learner", 1, np.ones(3)), 60, 3, 10)
    peer.close()


@pytest.fixture
def service(bank, monkeypatch):
    """The front service of one owner, in process, with terms accepted and none of its rounds asked."""
    monkeypatch.setattr("parley.serving.acceptance.FRESH", 0.0)
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    settings = load_owner(bank.folder / "a.toml")
    owner = open_owner(settings)
    with (bank.folder / "service.log").open("w") as stream, Log(stream) as log:
        made = OwnerService(owner, Acceptances(settings.accepted), log)
        made.prepare()
        made.terms, made.owner = terms, owner
        yield made
    owner.ledger.close()


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
    assert refused(service, whole + bytes(messages.LARGEST_MESSAGE)) is Malformed
    service.ask(whole, LEARNER)
    for k in (2, 3):
        service.ask(messages.write_query(ask(terms, k)), LEARNER)
    assert refused(service, messages.write_query(ask(terms, 4))) is OutOfOrder
    assert service.owner.ledger.account(terms.hash).spent == 1


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


def damaged(rng, pool):
    """A message with some bytes flipped, cut, doubled, swapped, or grown."""
    content = bytearray(rng.choice(pool))
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(content) + 1)
        match rng.randrange(5):
            case 0 if content:
                content[place % len(content)] ^= 1 << rng.randrange(8)
            case 1:
                del content[place:]
            case 2:
                content[place:place] = rng.randbytes(rng.randint(1, 20))
            case 3:
                content[place:place] = content[: rng.randint(0, 60)]
            case _:
                content += rng.choice(pool)[rng.randint(0, 40) :]
    return bytes(content)


def test_fuzzed_messages_crash_nothing_and_cost_nothing(service, bank):
    """One agreement is used up and may only repeat itself; one is fresh, but the caller is not its learner; one is open.

    A damaged message may still be a good question by the open one's learner (a bit of a number flipped): then it is answered and
    debited as one, and what was debited is checked to be the next round, inside the box. Nothing else costs anything.
    """
    count = int(os.environ.get("PARLEY_FUZZ", "4000"))
    fresh = bank.write_terms("fresh.toml", horizon=2, epsilon=0.1)
    live = bank.write_terms("live.toml", horizon=10 * count, epsilon=0.1)
    bank.accept(fresh)
    bank.accept(live)
    used = [ask(service.terms, k, (0.1 * k, 0.0, -1.0)) for k in (1, 2, 3)]
    for query in used:
        service.ask(messages.write_query(query), LEARNER)
    pool = [messages.write_query(query) for query in (*used, ask(service.terms, 4), ask(fresh), ask(fresh, 2))]
    pool.append(messages.write_agreement(service.terms.hash, "learner"))
    rows, rng = service.owner.ledger.verify(), random.Random(6)
    stored = set(answers(bank, "a").values())
    stranger = Caller(("someone",), "key")
    kinds, answered = set(), 0
    for _ in range(count):
        following = messages.write_query(ask(live, answered + 1, rng.choices([0.5, -3.0, 4.999], k=3)))
        content = damaged(rng, [*pool, following, following])
        caller = stranger if fresh.hash.encode() in content else LEARNER
        reply = messages.wire.Reply.FromString(service.ask(content, caller))
        service.statement(content, caller)
        if reply.WhichOneof("outcome") != "answer":
            kinds.add(reply.refusal.code)
        elif live.hash.encode() in content and reply.answer.value.data not in stored:
            question = messages.read_query(content)
            answered += 1
            assert (question.terms_hash, question.learner, question.round) == (live.hash, "learner", answered)
            assert question.theta.shape == (3,)
            assert np.abs(question.theta).max() <= 5.0
            assert reply.answer.statement.answered == answered
            stored.add(reply.answer.value.data)
        else:
            assert reply.answer.value.data in stored
    assert service.owner.ledger.verify() == rows + answered
    assert 0 < answered < count / 2
    assert kinds <= {"malformed", "unknown-terms", "out-of-order", "content-mismatch", "outside-box"}
    assert {"malformed", "unknown-terms", "out-of-order"} <= kinds


def test_fuzzed_messages_over_the_wire_leave_the_daemon_standing(bank):
    """All rounds were asked, so whatever a damaged message says, it costs nothing: a refusal, where it stands, or a stored answer."""
    count = int(os.environ.get("PARLEY_FUZZ", "1000"))
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    bank.start()
    peer, rng = RemoteOwner("a", f"127.0.0.1:{bank.ports['a']}", bank.identity()), random.Random(7)
    for k in (1, 2, 3):
        peer.ask(ask(terms, k), 60, 3, 10)
    rows, stored = bank.ledger("a").head.entries, set(answers(bank, "a").values())
    pool = [messages.write_query(ask(terms, k)) for k in (2, 3, 4)]
    for _ in range(count):
        reply = messages.wire.Reply.FromString(peer._call(rng.choice(["Ask", "Stand"]), damaged(rng, pool), 10))
        assert reply.WhichOneof("outcome") in ("refusal", "statement") or reply.answer.value.data in stored
    assert bank.spent(terms) == {"a": 1}
    assert bank.ledger("a").head.entries == rows
    assert peer.statement(terms.hash, "learner", 10).answered == 3
    peer.close()
    bank.kill("a", signal.SIGTERM)
    assert {line["event"] for line in bank.log("a")} <= {"ready", "serving", "refusal", "standing", "answer", "stopping", "stopped"}


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
    """Acceptances that cannot be listed: the caller is told to come back, not that nobody knows it, and not where they lie."""
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


def test_a_full_disk_under_the_ledger_stops_answers_and_leaks_nothing(bank):
    terms = bank.write_terms(horizon=120, extra='straggler = "stop"')
    bank.accept(terms)
    bank.start(largest_file=60_000)
    said = bank.fail("--deadline", "2")
    assert "cannot answer at the moment" in said
    ledger = bank.ledger("a")
    ledger.verify()
    done = ledger.account(terms.hash)
    assert 0 < done.answered < 120
    assert done.spent == Fraction(done.answered, 120)
    ledger.close()
    peer = RemoteOwner("a", f"127.0.0.1:{bank.ports['a']}", bank.identity())
    with pytest.raises(Unavailable):
        peer.ask(ask(terms, done.answered + 1), 60, 3, 10)
    peer.close()
    bank.kill("a")
    bank.start()
    assert bank.replay(terms) == bank.learn("--resume")["theta"]
    assert bank.spent(terms) == {"a": 1}


def foreign_member(folder, name):
    certificate_authority.make_authority(folder, "Test", 3650)
    signing_requests.make_request(folder, name)
    certificate_authority.issue(folder, folder / f"{name}.csr", 365)


def test_certificates_decide_who_may_ask_and_who_may_answer(banks, tmp_path_factory):
    terms = banks.write_terms()
    banks.accept(terms)
    banks.start("a", "b")
    address = f"127.0.0.1:{banks.ports['a']}"

    def statement(identity, owner="a", at=address):
        peer = RemoteOwner(owner, at, identity)
        try:
            return peer.statement(terms.hash, "learner", 3)
        finally:
            peer.close()

    assert statement(banks.identity()).rounds == 8
    with pytest.raises(UnknownTerms):  # a member, but not the learner of these terms
        statement(banks.identity("b"))
    foreign = tmp_path_factory.mktemp("foreign")
    foreign_member(foreign, "learner")
    with pytest.raises(Unavailable):  # the right name, signed by a stranger that the owner does not trust
        statement(banks.identity().model_copy(update={"certificate": foreign / "learner.crt", "key": foreign / "learner.key"}))
    with pytest.raises(Unavailable):  # an owner that is not of the authority the learner trusts
        statement(banks.identity().model_copy(update={"authority": foreign / "ca.crt"}))
    with pytest.raises(Unavailable):  # b at a's address cannot pass for a
        statement(banks.identity(), at=f"127.0.0.1:{banks.ports['b']}")
    signing_requests.make_request(banks.folder, "late")
    (banks.folder / "late.crt").write_bytes(banks.folder.joinpath("learner.crt").read_bytes())
    certificate_authority.renew(banks.folder, banks.folder / "late.crt", -1)
    with pytest.raises(Unavailable):  # the learner's own key, but expired
        statement(banks.identity().model_copy(update={"certificate": banks.folder / "late.crt"}))
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary(f"/{messages.SERVICE}/Health")(b"", timeout=3)
    with grpc.secure_channel(
        address, channel_credentials(banks.identity()), options=[("grpc.ssl_target_name_override", "a")]
    ) as channel:
        with pytest.raises(grpc.RpcError) as error:
            channel.unary_unary(f"/{messages.SERVICE}/Ask")(bytes(messages.LARGEST_MESSAGE + 1), timeout=10)
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert messages.read_health(channel.unary_unary(f"/{messages.SERVICE}/Health")(b"", timeout=3)) == "a"
    assert banks.spent(terms) == dict.fromkeys("abc", 0)
    (banks.folder / "learner.crt").write_bytes((banks.folder / "late.crt").read_bytes())
    assert "expired on" in banks.fail()


def test_two_daemons_share_no_ledger_no_port_and_no_socket(bank):
    """The second is told so and ends; the first goes on, and terms are accepted while it serves."""
    bank.start()
    first, settings = bank.daemons["a"], bank.folder / "a.toml"
    with pytest.raises(AssertionError, match=r"a.ledger: another daemon serves from this ledger"):
        bank.start("a")
    bank.daemons["a"] = first
    parley.Ledger(bank.folder / "other.ledger", lifetime=1).close()
    other = settings.read_text().replace("a.ledger", "other.ledger")
    (bank.folder / "port.toml").write_text(other.replace("a.sock", "other.sock"))
    with pytest.raises(AssertionError, match="cannot listen there"):
        bank.start("port")
    (bank.folder / "sock.toml").write_text(other.replace(str(bank.ports["a"]), "0"))
    with pytest.raises(AssertionError, match=r"a.sock: cannot listen there"):
        bank.start("sock")
    terms = bank.write_terms()
    bank.accept(terms, relay=True)
    peer = RemoteOwner("a", f"unix:{bank.folder / 'a.sock'}", None)
    assert peer.statement(terms.hash, "learner", 10).rounds == 8
    peer.close()
    bank.kill("a")
    bank.start()  # a daemon that was killed leaves neither its lock nor its socket in the way


def until_reached(peer, terms):
    """What the owner says once its line is up again, as a learner hears it: it asks again while that may help."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            return peer.statement(terms.hash, "learner", 3)
        except Unavailable:
            time.sleep(0.05)
    raise AssertionError("not reached")


def test_a_pinned_owner_is_known_by_its_key_through_renewals_and_nobody_else_passes_for_it(bank):
    """Also not who takes its place, with a certificate of the authority for its name, after it was looked at."""
    terms, address = bank.write_terms(), f"127.0.0.1:{bank.ports['a']}"
    bank.accept(terms)
    bank.start()
    honest = certificates.fingerprint(certificates.read_certificate(bank.folder / "a.crt"))
    pinned, plain = RemoteOwner("a", address, bank.identity(), honest), RemoteOwner("a", address, bank.identity())
    assert until_reached(pinned, terms).rounds == 8
    bank.kill("a")
    certificate_authority.renew(bank.folder, bank.folder / "a.crt", 100)
    bank.start()
    assert until_reached(pinned, terms).rounds == 8
    certificate, key = ((bank.folder / f"a.{kind}").read_bytes() for kind in ("crt", "key"))
    bank.kill("a")
    revoked = certificate_authority.revoke(bank.folder, "a", 30)
    for kind in ("key", "csr"):
        (bank.folder / f"a.{kind}").unlink()
    signing_requests.make_request(bank.folder, "a")
    certificate_authority.issue(bank.folder, bank.folder / "a.csr", 100)
    bank.start()
    assert until_reached(plain, terms).rounds == 8
    with pytest.raises(CertificateError, match=f"expected {honest[:16]}"):
        until_reached(pinned, terms)
    bank.kill("a")
    (bank.folder / "a.crt").write_bytes(certificate)
    (bank.folder / "a.key").write_bytes(key)
    settings = bank.folder / "a.toml"
    settings.write_text(settings.read_text().replace("revoked =", "# revoked ="))
    bank.start()  # the thief of the old key, who does not ask whether it was revoked
    careful = RemoteOwner("a", address, bank.identity(), revoked=frozenset(entry.serial_number for entry in revoked))
    with pytest.raises(CertificateError, match="the authority revoked the certificate"):
        until_reached(careful, terms)
    for peer in (pinned, plain, careful):
        peer.close()


def test_a_pin_in_the_addresses_is_kept_by_the_command(bank):
    terms = bank.write_terms()
    bank.accept(terms)
    bank.start()
    honest = certificates.grouped(certificates.fingerprint(certificates.read_certificate(bank.folder / "a.crt")))
    pin = '{{ address = "127.0.0.1:{}", fingerprint = "{}" }}'
    bank.write_addresses(a=pin.format(bank.ports["a"], "0" * 64))
    assert "expected 0000000000000000…" in bank.fail()
    bank.write_addresses(a=pin.format(bank.ports["a"], "abc"))
    assert "owners.a.pinned.fingerprint" in bank.fail()
    assert bank.spent(terms) == {"a": 0}
    bank.write_addresses(a=pin.format(bank.ports["a"], honest.upper()))
    assert bank.learn()["theta"] == bank.replay(terms)


def test_a_revoked_learner_is_turned_away_by_a_daemon_that_runs(bank):
    terms = bank.write_terms()
    bank.accept(terms)
    bank.start()
    (bank.folder / "thief.crt").write_bytes((bank.folder / "learner.crt").read_bytes())
    identity = bank.identity().model_copy(update={"certificate": bank.folder / "thief.crt"})
    peer = RemoteOwner("a", f"127.0.0.1:{bank.ports['a']}", identity)
    assert peer.ask(ask(terms), 60, 3, 10).answer.owner == "a"
    empty = (bank.folder / "ca.crl").read_bytes()
    certificate_authority.revoke(bank.folder, "learner", 30)
    with pytest.raises(Refusal, match="the authority revoked this certificate"):  # on the line that was open before
        peer.ask(ask(terms), 60, 3, 10)
    (bank.folder / "ca.crl").write_bytes(empty)
    with pytest.raises(Refusal, match="revoked"):
        peer.statement(terms.hash, "learner", 10)
    (bank.folder / "ca.crl").write_text("damaged")
    with pytest.raises(Refusal, match="revoked"):
        peer.statement(terms.hash, "learner", 10)
    peer.close()
    bank.kill("a", signal.SIGTERM)
    assert [line["caller"] for line in bank.log("a") if line["event"] == "revoked"] == ["learner"]  # said once a minute
    assert [str(line["reason"]).rpartition(";")[0] for line in bank.log("a") if "stays in force" in str(line.get("reason"))] == [
        f"{bank.folder}/ca.crl: this revocation list is not later than the one in force; ask the authority for its ca.crl",
        f"{bank.folder}/ca.crl: not a revocation list in PEM form; ask the authority for its ca.crl",
    ]
    with pytest.raises(AssertionError, match="not a revocation list"):
        bank.start()


def test_an_owner_that_lies_ends_the_run(banks):
    terms = banks.write_terms()
    lies = messages.write_answer(
        parley.queries.Answer("q", "b", 10**9, np.zeros(3)), messages.AccountStatement(Fraction(1), Fraction(0), 0, 8)
    )
    with pytest.raises(ExchangeError, match="sent something other"):
        messages.read_answer(lies, ask(terms), "b", 40, 3)
