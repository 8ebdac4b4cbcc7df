"""grpc.health.v1, asked with the standard client over mutual TLS."""

import grpc
import pytest
from consortium import Consortium
from grpc_health.v1 import health_pb2, health_pb2_grpc

from parley.network.exchange import messages
from parley.network.exchange.remote import channel_credentials
from parley.network.serving.health import check

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
