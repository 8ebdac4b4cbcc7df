"""An owner that serves in the test's own process, over real lines, and somebody who rewrites what it says."""

from concurrent.futures import ThreadPoolExecutor

import grpc

from parley.network.exchange import wire_pb2 as wire
from parley.network.exchange.messages import SERVICE
from parley.network.identity.settings import load_owner
from parley.network.serving.acceptance import Acceptances, Caller
from parley.network.serving.daemon import open_owner
from parley.network.serving.log import Log
from parley.network.serving.service import OwnerService


class Host:
    """An owner's daemon in this process: the real service behind mutual TLS, and somebody who rewrites its replies."""

    def __init__(self, banks, name, rewrite=lambda reply: None):
        settings = load_owner(banks.folder / f"{name}.toml")
        self._owner = open_owner(settings)
        service = OwnerService(self._owner, Acceptances(settings.accepted), Log())
        learner = Caller(("learner",), "key")

        def rewritten(work):
            def handle(content, context):
                reply = wire.Reply.FromString(work(content, learner))
                rewrite(reply)
                return reply.SerializeToString()

            return grpc.unary_unary_rpc_method_handler(handle)

        handlers = {"Ask": rewritten(service.ask), "Stand": rewritten(service.statement)}
        self._server = grpc.server(ThreadPoolExecutor(2))
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        identity = banks.identity(name)
        pair, roots = (identity.key.read_bytes(), identity.certificate.read_bytes()), identity.authority.read_bytes()
        credentials = grpc.ssl_server_credentials([pair], root_certificates=roots, require_client_auth=True)
        self._server.add_secure_port(f"127.0.0.1:{banks.ports[name]}", credentials)
        self._server.start()

    def close(self):
        self._server.stop(0).wait()
        self._owner.ledger.close()
