"""Whether a daemon answers: grpc.health.v1, asked with the standard client over mutual TLS; the call that it makes to
itself; and that it ends rather than live on without serving."""

import threading
import urllib.error
import urllib.request
from pathlib import Path

import grpc
import pytest
from consortium import Consortium, free_port
from faulty_parley import serve
from forked import SERVER
from grpc_health.v1 import health_pb2, health_pb2_grpc

from parley.errors import ExchangeError
from parley.network.exchange import messages
from parley.network.exchange.remote import channel_credentials
from parley.network.serving import health as serving_health
from parley.network.serving.health import SelfCall, check
from parley.network.serving.server import WORKER_THREADS, start_workers

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def bank(tmp_path):
    consortium = Consortium(tmp_path, names="a")
    consortium.accept(consortium.write_terms(horizon=3))
    consortium.start()
    yield consortium
    consortium.close()


def line(bank, to=""):
    if to:
        return grpc.insecure_channel(f"unix:{to}")
    named = [("grpc.ssl_target_name_override", "a")]
    return grpc.secure_channel(f"127.0.0.1:{bank.ports['a']}", channel_credentials(bank.identity()), options=named)


@pytest.mark.parametrize("to", ["", "a.sock"])
def test_the_standard_client_hears_whether_the_owner_could_answer(bank, to):
    with line(bank, to and bank.folder / to) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", messages.SERVICE):
            assert health.Check(health_pb2.HealthCheckRequest(service=service), timeout=10).status == SERVING
        with pytest.raises(grpc.RpcError) as unknown:
            health.Check(health_pb2.HealthCheckRequest(service="parley.v2.Owner"), timeout=10)
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
        (bank.folder / "a.ledger").rename(bank.folder / "elsewhere.ledger")
        until_not_serving(health)


def until_not_serving(health):
    """A verdict stands for a second."""
    for _ in range(2000):
        if health.Check(health_pb2.HealthCheckRequest(), timeout=10).status == NOT_SERVING:
            return
    raise AssertionError("still serving")


def test_who_shows_no_certificate_hears_nothing(bank):
    credentials = grpc.ssl_channel_credentials((bank.folder / "ca.crt").read_bytes())
    named = [("grpc.ssl_target_name_override", "a")]
    with grpc.secure_channel(f"127.0.0.1:{bank.ports['a']}", credentials, options=named) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_what_is_no_request_gets_no_verdict():
    assert check(b"\xff\xff", True) is None
    assert check(b"", True) == health_pb2.HealthCheckResponse(status=SERVING).SerializeToString()


def test_a_daemon_hears_from_its_own_call_whether_it_answers(bank, monkeypatch):
    monkeypatch.setattr(serving_health, "VERDICT_VALID_S", 0.0)
    for address in (f"127.0.0.1:{bank.ports['a']}", f"0.0.0.0:{bank.ports['a']}", f"unix:{bank.folder / 'a.sock'}"):
        own = SelfCall(messages.SERVICE, "a", bank.identity("a"))
        assert own.problems()  # it listens nowhere yet
        own.at(address)
        assert own.problems() == []
        bank.kill("a")
        assert own.problems() == ["the daemon does not answer calls to its own address"]
        bank.start()
        assert own.problems() == []  # on a connection that is made anew
        own.close()
        assert own.problems()


@pytest.fixture
def faulty(tmp_path, monkeypatch):
    """A daemon with a page whose calls may fail (`faulty_parley.calls_fail`), its process, and the page's port."""
    monkeypatch.chdir(tmp_path)
    consortium, port = Consortium(tmp_path, names="a"), free_port()
    settings, log = tmp_path / "a.toml", tmp_path / "a.log"
    settings.write_text(settings.read_text().replace("\n[identity]", f'\nmetrics = "127.0.0.1:{port}"\n[identity]'))
    consortium.accept(consortium.write_terms(horizon=3))
    log.touch()
    process = SERVER.Process(target=serve, args=("calls_fail", str(settings), str(log)))
    process.start()
    consortium.daemons["a"] = process
    consortium.wait_for("a", "serving")
    yield consortium, process, port
    consortium.close()


def ready(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=20) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_daemon_that_answers_no_call_does_not_say_that_it_is_ready(faulty):
    """`/ready` looked at files, and said ready while none of 16 calls was answered."""
    bank, process, port = faulty
    assert ready(port) == (200, "ready\n")
    (bank.folder / "fault").write_text("lose")
    until_unready(port)
    assert process.exitcode is None


def until_unready(port):
    """A verdict stands for a second."""
    for _ in range(2000):
        status, text = ready(port)
        if status == 503:
            assert text == "the daemon does not answer calls to its own address\n"
            return
    raise AssertionError("still ready")


def test_a_daemon_ends_where_its_serving_has_died(faulty):
    """A thread that the system refused ended gRPC's serving, and the process lived on without it: nobody started it
    anew."""
    bank, process, _ = faulty
    (bank.folder / "fault").write_text("refuse")
    with line(bank) as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary("/parley.v1.Owner/Health")(b"", timeout=30)
    process.join(30)
    assert process.exitcode == 1  # not 2, after which nobody starts it again
    assert bank.log("a")[-1]["event"] == "serving-ended"


def test_a_daemon_has_its_workers_before_the_first_call(bank):
    assert len(list(Path(f"/proc/{bank.daemons['a'].pid}/task").iterdir())) > WORKER_THREADS


def test_a_system_that_refuses_the_workers_is_told_of_in_one_sentence(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(ExchangeError, match="did not start all 3 threads that answer calls; raise the limit"):
        start_workers(3)
