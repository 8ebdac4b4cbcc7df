"""A host's daemon: gRPC over mutual TLS for owners, the learner and the other hosts. It executes nothing it is sent."""

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime

from prometheus_client.core import GaugeMetricFamily, Metric

from parley.errors import ParleyError, RolledBack
from parley.network.exchange.host_connections import HostConnections
from parley.network.hosting.journal import Journal, require_known_heads
from parley.network.hosting.service import HostService
from parley.network.identity.certificates import check_identity
from parley.network.identity.settings import HostSettings
from parley.network.serving.acceptance import Acceptances
from parley.network.serving.daemon import SEND_TIMEOUT_S, Addresses, open_daemon, open_files
from parley.network.serving.health import VERDICT_VALID_S, SelfCall, room_problems
from parley.network.serving.log import Log
from parley.network.serving.metrics import Metrics, MetricSources
from parley.network.serving.network import Network, identity_reminders, maintain
from parley.network.serving.opening import daemon_lock
from parley.network.serving.server import CallSlots, Endpoint

MAX_CALLS_PER_CALLER = 16  # of the calls taken on at once, for one caller: another host may wait in several


def serve(settings: HostSettings, stop: threading.Event, log: Log) -> None:
    """Serve until `stop` is set; calls under way are finished first."""
    check_identity(settings.identity, settings.name)
    open_files()
    with daemon_lock(settings.journal, "journal", "parley host init"):
        _serve(settings, stop, log)


def _serve(settings: HostSettings, stop: threading.Event, log: Log) -> None:
    identity = settings.identity
    journal, acceptances = Journal(settings.journal), Acceptances(settings.accepted)
    connections = HostConnections(settings.peers, identity, "host.toml: peers")
    begun = {terms: journal for terms in acceptances.hashes() if journal.begun(terms)}
    require_known_heads(identity.key.with_suffix(".heads"), begun)
    slots = CallSlots(MAX_CALLS_PER_CALLER, SEND_TIMEOUT_S)
    service = HostService(settings.name, journal, acceptances, connections, log)
    network = Network(identity, settings.name, log, lambda: service.longest_message)
    readiness = Readiness(journal, acceptances, service, network)
    self_call = SelfCall(service.full_name, settings.name, identity)
    sources = MetricSources(
        lambda: None,
        lambda: [*readiness.problems(), *self_call.problems()],
        network.time_left,
        network.connections.stages,
        lambda: _figures(service, journal),
    )
    metrics = Metrics(settings.name, sources)
    log.listeners.append(metrics.on_event)
    with ExitStack() as after:
        after.callback(log, "stopped")
        after.callback(journal.close)
        after.callback(connections.close)
        after.callback(service.remember)
        after.callback(service.close)
        endpoint = Endpoint(service, slots, lambda: not readiness.problems(), log)
        addresses = Addresses(settings.listen, metrics=settings.metrics)
        reached, alive = open_daemon(after, addresses, endpoint, network, metrics, self_call)
        service.prepare()
        gc.freeze()
        log("serving", host=settings.name, pid=os.getpid(), **reached)
        warnings = identity_reminders(identity, lambda: network.credentials.certificate)
        maintain(network, warnings, stop, log, slots.cancel_overdue, alive, service.remember, service.ask_witnesses)


class Readiness:
    """Whether this host could open something, without asking anybody: each of its `looks` says what is in the way."""

    def __init__(self, journal: Journal, acceptances: Acceptances, service: HostService, network: Network) -> None:
        self._journal, self._acceptances, self._service, self._network = journal, acceptances, service, network
        self._looked, self._disk = -VERDICT_VALID_S, list[str]()
        self.looks: list[Callable[[], list[str]]] = [self._room, self._books, self._identity, self._other_hosts]

    def problems(self) -> list[str]:
        """Return one sentence for each problem."""
        return [sentence for look in self.looks for sentence in look()]

    def _room(self) -> list[str]:
        if time.monotonic() - self._looked >= VERDICT_VALID_S:
            self._looked, self._disk = time.monotonic(), room_problems(self._journal.path, "journal")
        return self._disk

    def _books(self) -> list[str]:
        problems = []
        try:
            accepted = [terms for terms in self._acceptances.hashes() if not self._journal.closed(terms)]
            begun = [self._journal.begun(terms) for terms in accepted]
            self._service.witnesses.require_held()
            if not all(begun):
                problems.append("some accepted terms are missing from the journal; put the latest journal back")
            if len(begun) > len(self._service.hosted):
                problems.append("accepted terms cannot be served; read the reason in the log")
        except RolledBack:
            problems.append("the journal was put back to an earlier time; read the runbook")
        except (ParleyError, OSError):
            problems.append("the journal or the accepted terms cannot be read")
        return problems

    def _identity(self) -> list[str]:
        return [] if self._network.ends > datetime.now(UTC) else ["the certificate or its authority's has expired"]

    def _other_hosts(self) -> list[str]:
        problems = []
        for hosted in self._service.hosted:
            try:
                hosted.host.sharing.keys()
            except ParleyError:
                problems.append(f"the other hosts of the terms {hosted.assignment.terms_hash[:16]}… cannot be reached")
        return problems


def _figures(service: HostService, journal: Journal) -> Iterator[Metric]:
    """Yield how many rounds were agreed on and aborted, and how much noise is drawn ahead."""
    rounds = GaugeMetricFamily("parley_host_rounds", "Rounds by what became of them.", labels=["terms", "kind"])
    ahead = GaugeMetricFamily(
        "parley_host_noise_ahead", "Noises drawn ahead (as host 0 counts them).", labels=["terms", "size"]
    )
    for hosted in service.hosted:
        terms = hosted.assignment.terms_hash
        for kind, count in journal.counts(terms).items():
            rounds.add_metric([terms[:16], kind], count)
        for shape, count in hosted.host.pool.ready().items():
            ahead.add_metric([terms[:16], str(shape.size)], count)
    yield rounds
    yield ahead
