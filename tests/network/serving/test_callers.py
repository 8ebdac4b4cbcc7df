"""Callers that send nothing, never end or are strangers block nobody but themselves; nor does a log that nobody
reads."""

import json
import signal
import threading
import time

import grpc
from consortium import ask

from parley.network.exchange import messages
from parley.network.exchange.remote import RemoteOwner, channel_credentials
from parley.network.identity import certificate_authority
from parley.network.serving.daemon import MAX_CALLS_PER_CALLER
from parley.network.serving.log import Log
from parley.network.serving.server import CallSlots


def test_a_learner_that_never_ends_its_calls_blocks_only_itself(bank):
    """Seventy calls without a message from the learner of other terms: this one is answered as if they were not
    there."""
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    bank.accept(bank.write_terms("other.toml", learner="hostile"))
    bank.start()
    certify(bank, "hostile")
    named = [("grpc.ssl_target_name_override", "a")]
    address, over = f"127.0.0.1:{bank.ports['a']}", threading.Event()
    with grpc.secure_channel(address, channel_credentials(bank.identity("hostile")), options=named) as channel:
        calls = [
            channel.stream_unary(f"/{messages.SERVICE}/Ask").future(iter(over.wait, True), timeout=60)
            for _ in range(70)
        ]
        peer = RemoteOwner("a", address, bank.identity())
        until = time.monotonic() + 30
        while sum(call.done() for call in calls) < 70 - MAX_CALLS_PER_CALLER and time.monotonic() < until:
            time.sleep(0.02)
        for k in (1, 2, 3):
            assert peer.ask(ask(terms, k), 60, 3, 10).statement.answered == k
        waiting = [call for call in calls if not call.done()]
        assert len(waiting) == MAX_CALLS_PER_CALLER
        codes = {call.code() for call in calls if call.done()}
        # a connection that has as many streams as it may refuses one more by itself
        assert grpc.StatusCode.RESOURCE_EXHAUSTED in codes
        assert codes <= {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE}
        for call in waiting:
            call.cancel()
        over.set()
        peer.close()


def certify(bank, name):
    certificate_authority.make_request(bank.folder, name)
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
    monkeypatch.setattr("parley.network.serving.log.MAX_WAITING_LINES", 3)
    monkeypatch.setattr("parley.network.serving.log.CLOSE_TIMEOUT_S", 0.1)
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
