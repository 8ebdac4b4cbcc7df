"""The owner's daemon: gRPC over mutual TLS for learners, a Unix socket for relays. It executes nothing it is sent."""

import gc
import os
import resource
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from parley.data.cluster import joined
from parley.data.sources import find_source
from parley.errors import SettingError, TermsError
from parley.network.exchange.host_connections import HostConnections
from parley.network.exchange.share_bundle import Delivery
from parley.network.exchange.witnesses import Witnesses
from parley.network.identity.certificates import Signer, check_identity
from parley.network.identity.settings import OwnerSettings
from parley.network.serving.acceptance import Acceptances, require_both
from parley.network.serving.health import Readiness, SelfCall
from parley.network.serving.inbox import open_inbox
from parley.network.serving.log import Log
from parley.network.serving.metrics import LedgerSnapshot, Metrics, MetricSources, Page
from parley.network.serving.network import Network, exit_if_dead, maintain, reminders
from parley.network.serving.opening import daemon_lock
from parley.network.serving.server import (
    CallSlots,
    Endpoint,
    Work,
    make_server,
    on_network,
    on_socket,
    start_serving,
    start_workers,
)
from parley.network.serving.service import OwnerService, ProposalService, open_witnesses
from parley.owner.ledger import Ledger
from parley.owner.owner import Owner
from parley.protocol.stages import agreed_answers

MAX_CALLS_PER_CALLER = 8  # of the calls taken on at once, for one caller; beyond that it is told to come back
SEND_TIMEOUT_S = 30.0  # seconds that a caller may take to send its message
STOP_GRACE_S = 10.0  # seconds for calls under way when the daemon is asked to stop

Initializer = Callable[[], object]  # what each worker does before its first call


def open_owner(settings: OwnerSettings, accepting: str | None = None) -> Owner:
    """Return the owner with its table and ledger, after completing an interrupted acceptance that the ledger holds;
    refuse ledger and acceptances that do not belong together."""
    ledger, acceptances = Ledger(settings.ledger), Acceptances(settings.accepted)
    acceptances.complete({account.terms_hash for _, account in ledger.accounts()})
    require_both(ledger, acceptances, accepting)
    table = find_source(settings.table, settings.separator, settings.encoding)
    return Owner(settings.name, table, ledger=ledger)


def open_delivery(settings: OwnerSettings, witnesses: Witnesses | None = None) -> Delivery | None:
    """Return the owner's connections to hosts, if its settings name some; nobody is called yet. With `witnesses`, the
    hosts keep the ledger's end."""
    identity = settings.identity
    if not settings.hosts or identity is None:
        return None
    return Delivery(HostConnections(settings.hosts, identity, "owner.toml: hosts"), witnesses)


def serve(settings: OwnerSettings, stop: threading.Event, log: Log) -> None:
    """Answer until `stop` is set; calls under way are finished first."""
    if settings.listen is None and settings.socket is None:
        raise SettingError(
            "owner.toml: expected `listen`, `socket` or both; without them, no learner can reach the daemon"
        )
    if settings.identity is not None:
        check_identity(settings.identity, settings.name)
    open_files()
    with daemon_lock(settings.ledger), joined(settings.cluster) as begin:
        _serve(settings, begin, stop, log)


def _serve(settings: OwnerSettings, begin: Initializer, stop: threading.Event, log: Log) -> None:
    owner, acceptances = open_owner(settings), Acceptances(settings.accepted)
    witnesses = open_witnesses(owner, None if settings.identity is None else Signer(settings.identity))
    delivery = open_delivery(settings, witnesses)
    service = OwnerService(owner, acceptances, log, delivery, witnesses)
    slots = CallSlots(MAX_CALLS_PER_CALLER, SEND_TIMEOUT_S)
    network = (
        None
        if settings.identity is None
        else Network(settings.identity, settings.name, log, lambda: service.longest_question)
    )
    readiness = Readiness(owner, acceptances, settings.table, lambda: None if network is None else network.ends)
    self_call = SelfCall(service.full_name, settings.name, settings.identity)
    problems = lambda: [*readiness.problems(), *self_call.problems()]  # noqa: E731
    metrics = Metrics(settings.name, _metric_sources(owner, acceptances, problems, network))
    log.listeners += [readiness.on_event, metrics.on_event]
    begin()
    service.prepare()
    with ExitStack() as after:
        after.callback(_close, owner, service, log)
        if delivery is not None:
            after.callback(delivery.close)
        proposals = None
        if settings.inbox is not None:
            proposals = ProposalService(settings.name, open_inbox(settings), acceptances, log)
        endpoint = Endpoint(service, slots, lambda: not readiness.problems(), log, _member_calls(proposals))
        addresses = Addresses(settings.listen, settings.socket, settings.metrics)
        reached, alive = open_daemon(after, addresses, endpoint, network, metrics, self_call, begin)
        gc.freeze()  # what was loaded stays: no answer waits while it is looked through
        log("serving", owner=settings.name, pid=os.getpid(), **reached, **service.chain_end())
        warnings = reminders(settings, None if network is None else lambda: network.credentials.certificate)
        lapsing = () if proposals is None else (proposals.lapse,)
        maintain(network, warnings, stop, log, slots.cancel_overdue, alive, service.remember, *lapsing)


def _member_calls(proposals: ProposalService | None) -> dict[str, Work]:
    """Return the calls of certified members: none, unless the owner has an inbox."""
    if proposals is None:
        return {}
    return {
        "Propose": lambda content, caller, hung_up: proposals.propose(content, caller),
        "Withdraw": lambda content, caller, hung_up: proposals.withdraw(content, caller),
    }


def _metric_sources(
    owner: Owner, acceptances: Acceptances, problems: Callable[[], list[str]], network: Network | None
) -> MetricSources:
    books = owner.ledger
    if not isinstance(books, Ledger):
        raise SettingError(f"{owner.name}: expected an owner with a durable ledger")
    lifetime, answers = books.lifetime, dict[str, int]()  # neither ever changes

    def ledger() -> LedgerSnapshot:
        accounts = tuple(books.account(terms) for terms in acceptances.hashes())
        for terms in {account.terms_hash for account in accounts} - answers.keys():
            with suppress(
                SettingError, TermsError
            ):  # an acceptance that is damaged: its figures in the ledger are shown all the same
                if (acceptance := acceptances.get(terms)) is not None:
                    answers[terms] = agreed_answers(acceptance.terms, owner.name)
        heads = [account.head for account in accounts if account.head is not None]
        end = max(heads, key=lambda head: head.entries, default=None)
        return LedgerSnapshot(lifetime, books.reserved, accounts, answers, end, books.rho)

    if network is None:
        return MetricSources(ledger, problems, dict, dict)
    return MetricSources(ledger, problems, network.time_left, network.connections.stages)


@dataclass(frozen=True)
class Addresses:
    """Where a daemon is reached: "host:port" for certified callers, a socket for relays, "host:port" of its metrics."""

    listen: str | None
    socket: Path | None = None
    metrics: str | None = None


def open_daemon(
    after: ExitStack,
    addresses: Addresses,
    endpoint: Endpoint,
    network: Network | None,
    metrics: Metrics,
    self_call: SelfCall,
    begin: Initializer | None = None,
) -> tuple[dict[str, str], Callable[[], None]]:
    """Open a daemon's addresses until `after` ends; return each as opened, and a check that ends a dead process."""
    pool = start_workers(begin=begin)
    after.callback(pool.shutdown)  # an answer that is being computed is finished and stored: it will be asked for again
    reached, servers = {}, []
    if addresses.metrics is not None:
        page = after.enter_context(Page(addresses.metrics, metrics))
        reached["metrics"] = f"{addresses.metrics.rpartition(':')[0]}:{page.port}"
    if addresses.listen is not None and network is not None:
        servers.append(make_server(pool))
        port = after.enter_context(on_network(servers[-1], endpoint, network, addresses.listen))
        reached["listen"] = f"{addresses.listen.rpartition(':')[0]}:{port}"
    if addresses.socket is not None:
        servers.append(make_server(pool))
        on_socket(servers[-1], endpoint, addresses.socket)
        reached["socket"] = str(addresses.socket)
    after.callback(_stop_servers, servers, endpoint.log)
    after.callback(self_call.close)
    self_call.at(reached.get("listen", f"unix:{addresses.socket}"))
    return reached, partial(exit_if_dead, start_serving(servers), network, endpoint.log)


def _stop_servers(servers: list[Any], log: Log) -> None:
    log("stopping")
    for stopped in [server.stop(STOP_GRACE_S) for server in servers]:
        stopped.wait()


def _close(owner: Owner, service: OwnerService, log: Log) -> None:
    service.remember()
    end = service.chain_end()
    if isinstance(owner.ledger, Ledger):
        owner.ledger.close()
    log("stopped", **end)


def open_files() -> None:
    """Allow as many open files and connections as the system permits without asking."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
