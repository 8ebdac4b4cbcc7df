"""Owners, hosts and a learner in one process, each with a disk of its own that can be put back whole: books, what lies
beside them, settings, keys and state folder. Their daemons' services, files and signatures are real; only the network
between them is a function call."""

import io
import os
import shutil
import threading
from collections import defaultdict
from contextlib import ExitStack, contextmanager

import numpy as np
from bundles_of_owners import Forger
from consortium import toml_terms
from hosted_consortium import HostedConsortium
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import NotOffered, Unavailable
from parley.network.exchange import host_connections as messages
from parley.network.exchange.federation import Federation
from parley.network.exchange.host_connections import HostConnections
from parley.network.exchange.messages import wire
from parley.network.exchange.remote import RemoteDaemon, RemoteOwner
from parley.network.hosting.federation import SharedFederation
from parley.network.hosting.host import Host
from parley.network.hosting.journal import Journal
from parley.network.hosting.offer import consider
from parley.network.hosting.pool import Pool
from parley.network.hosting.service import HostService
from parley.network.identity.certificates import Signer, fingerprint, names, read_certificate
from parley.network.identity.settings import Identity, load_host, load_owner
from parley.network.serving.acceptance import Acceptance, Acceptances, Caller
from parley.network.serving.daemon import open_delivery, open_owner
from parley.network.serving.log import Log
from parley.network.serving.service import OwnerService, open_witnesses
from parley.owner.ledger.account import Head
from parley.owner.ledger.witnessed import Ends
from parley.protocol.queries import GradientQuery
from parley.protocol.setup import resolve

OWNERS = "ab"


class Disks(HostedConsortium):
    """All parties' files in one folder, with terms that all accepted. The files with a party's name are its disk."""

    def __init__(self, folder, hosts, horizon=4):
        super().__init__(folder, OWNERS, hosts=hosts or ("h0", "h1"))
        if hosts:
            terms = self.write_terms(horizon=horizon, epsilon=2.0)
        else:
            (folder / "terms.toml").write_text(toml_terms(horizon=horizon, names=OWNERS))
            terms = parley.load_terms(folder / "terms.toml")
            self.hosts = ()
        self.accept(terms)


@contextmanager
def state_of(folder):
    """Work as the account whose state folder this is."""
    before = os.environ.get("PARLEY_STATE")
    os.environ["PARLEY_STATE"] = str(folder)
    try:
        yield
    finally:
        os.environ.pop("PARLEY_STATE") if before is None else os.environ.update(PARLEY_STATE=before)


def make_template(folder, hosts):
    """Make everybody's disks; each party gets a state folder of its own."""
    (folder / "disks").mkdir(parents=True)
    with state_of(folder / "state"):
        Disks(folder / "disks", hosts).close()
    for party in (*OWNERS, *hosts):
        shutil.copytree(folder / "state", folder / "disks" / f"state-{party}")
    return folder / "disks"


class Killed(BaseException):
    """As if the party's process had ended here."""


class Fleet:
    """The parties on copies of their disks. `released` holds what left, by who, where to and for which round."""

    def __init__(self, template, folder, hosts):
        self.folder, self.hosts = folder, hosts
        shutil.copytree(template, folder)
        self.terms = parley.load_terms(folder / "terms.toml")
        self.services, self.released = {}, defaultdict(set)
        self.silent = set()  # parties whose programs know no ends
        self.liars = set()  # parties that say that they keep whatever end they are shown
        self._open, self._accomplice = {}, None
        self._killed, self._reviving = set(), threading.RLock()

    def start(self, *parties):
        for party in parties or (*self.hosts, *OWNERS):
            with state_of(self.folder / f"state-{party}"):
                self._open[party] = ExitStack()
                self.services[party] = (self._host if party in self.hosts else self._owner)(party, self._open[party])

    def _host(self, name, after):
        settings = load_host(self.folder / f"{name}.toml")
        journal, log = Journal(settings.journal), after.enter_context(Log(io.StringIO()))
        lines = HostConnections(settings.peers, settings.identity, "host.toml: peers")
        service = HostService(name, journal, Acceptances(settings.accepted), lines, log)
        for close in (journal.close, lines.close, service.close, service.remember):
            after.callback(close)
        service.prepare()
        return service

    def _owner(self, name, after):
        settings, log = load_owner(self.folder / f"{name}.toml"), after.enter_context(Log(io.StringIO()))
        owner = open_owner(settings)
        witnesses = open_witnesses(owner, Signer(settings.identity))
        delivery = open_delivery(settings, witnesses)
        service = OwnerService(owner, Acceptances(settings.accepted), log, delivery, witnesses)
        for close in (owner.ledger.close, delivery.close, service.remember):
            after.callback(close)
        service.prepare()
        return service

    def stop(self, *parties):
        for party in parties or tuple(self.services):
            self.services.pop(party, None)
            opened = self._open.pop(party, None)
            if opened is not None:
                opened.close()

    def disk(self, party):
        return sorted(
            path for pattern in (f"{party}.*", f".{party}.*", f"accepted-{party}", f"state-{party}")
            for path in self.folder.glob(pattern)
        )  # fmt: skip

    def snapshot(self, party, to):
        to.mkdir()
        for path in self.disk(party):
            (shutil.copytree if path.is_dir() else shutil.copy)(path, to / path.name)
        return to

    def put_back(self, party, snapshot):
        """The party's whole disk is as it was then; its programs are started again."""
        self.stop(party)
        for path in self.disk(party):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path in snapshot.iterdir():
            (shutil.copytree if path.is_dir() else shutil.copy)(path, self.folder / path.name)

    def learner(self, warn=lambda sentence: None, heads=None, answers=None, ends=None, deadline=1.0):
        """The learner's program; without `heads` and `ends` it knows of nothing before."""
        setup, identity = resolve(self.terms), self._identity("learner")
        peers = [RemoteOwner(name, "127.0.0.1:1", identity) for name in OWNERS]
        if not self.hosts:
            return Federation(setup, peers, deadline, warn, heads, answers)
        places = dict.fromkeys(self.hosts, "127.0.0.1:1")
        group = HostConnections(places, identity, "addresses").group(self.terms.hosts)
        lines = [group.connections[host.name] for host in self.terms.hosts]
        return SharedFederation(setup, peers, lines, deadline, warn, heads, answers, ends)

    def _identity(self, name):
        files = {"authority": "ca.crt", "certificate": f"{name}.crt", "key": f"{name}.key"}
        return Identity(**{key: self.folder / file for key, file in files.items()})

    def questions(self, number, theta):
        query = GradientQuery.ask(self.terms.hash, "learner", number, np.full(3, float(theta)))
        return dict.fromkeys(OWNERS, query)

    def call(self, identity, party, service, method, content):
        """Bring a message to a party, as its daemon's port does, and note what leaves by it or by the reply."""
        with self._reviving:
            if party in self._killed:
                self._killed.remove(party)
                self.stop(party)
                self.start(party)
        listener = self.services.get(party)
        if listener is None:
            raise Unavailable(f"{party}: nobody listens")
        if method == "Witness" and party in self.silent:
            raise NotOffered(f"{party}: no such call")
        if method == "Witness" and party in self.liars:
            return self._lie(listener, messages.read_ends(content))
        shown = read_certificate(identity.certificate)
        caller = Caller(tuple(names(shown)), fingerprint(shown))
        refusal = listener.rejection(caller)
        if method == "Deliver":
            bundle = messages.read_share_bundle(content)
            self.released[bundle.owner, party, bundle.round].add((bundle.content, bundle.shares))
            if self._accomplice is not None and party == "h1":
                self._accomplice.receive(bundle)
                return messages.write_reply(done=True)
        try:
            answer = listener.methods[method]
            reply = answer(content, caller, lambda: False) if refusal is None else refusal
        except Killed:  # it is started again when it is called again
            self._killed.add(party)
            raise Unavailable(f"{party}: the connection broke") from None
        except Exception:
            if self.services.get(party) is listener:
                raise
            raise Unavailable(f"{party}: stopped during the call") from None
        self._note(party, method, content, reply)
        return reply

    def _lie(self, service, ends):
        witnesses, entries = service.witnesses, 0 if ends.kept is None else ends.kept.head.entries
        own, then = witnesses.own_end(ends.terms, entries)
        earlier = None if then is None else Head(entries, then)
        return messages.write_ends_reply(Ends(ends.terms, own, earlier, witnesses._countersign(ends.own)))

    def _note(self, party, method, content, reply):
        if method == "Open":
            message = messages.wire.HostReply.FromString(reply)
            if message.HasField("opening"):
                self.released[party, "opening", message.opening.question.round].add(message.opening.words)
        if method == "Ask":
            message, asked = wire.Reply.FromString(reply), wire.Query.FromString(content)
            if message.HasField("answer") and message.answer.value.data:
                self.released[party, "answer", asked.round].add(message.answer.value.data)

    def make_curious(self):
        """From now on h1 says nothing of later ends, and tells h0 that it recorded whatever h0 did."""
        (hosted,) = self.services["h0"].hosted
        self._accomplice = Host(
            "h1", hosted.assignment, Journal(), Pool(hosted.assignment.drawn_ahead), {0: hosted.host}
        )
        hosted.host._peers = {1: Forger(self._accomplice, hosted.host._journal, set())}
        self.liars.add("h1")

    def accept_own_noise(self):
        """All owners accept further terms, with noise of their own; nobody runs. Return the terms."""
        (self.folder / "own.toml").write_text(toml_terms(horizon=4, names=OWNERS))
        own = parley.load_terms(self.folder / "own.toml")
        self.accept(own, hosts=())
        return own

    def accept(self, terms, hosts=None):
        """Everybody accepts further terms; nobody runs."""
        for name in OWNERS:
            with state_of(self.folder / f"state-{name}"):
                settings = load_owner(self.folder / f"{name}.toml")
                owner = open_owner(settings)
                owner.accept(terms)
                Acceptances(settings.accepted).store(Acceptance(terms))
                owner.ledger.close()
        for name in self.hosts if hosts is None else hosts:
            with state_of(self.folder / f"state-{name}"):
                consider(terms, load_host(self.folder / f"{name}.toml")).accept()

    def command(self, party, *words):
        """What a command of this party prints."""
        with state_of(self.folder / f"state-{party}"):
            ran = CliRunner().invoke(app, [str(word) for word in words])
        assert ran.exit_code == 0, (ran.output, ran.exception)
        return ran.output

    @property
    def doubled(self):
        """What left twice for one question."""
        return {key: values for key, values in self.released.items() if len(values) > 1}

    @contextmanager
    def connected(self, monkeypatch):
        """All calls of all parties go through `call`."""
        with monkeypatch.context() as patched:
            patched.setattr(
                RemoteDaemon,
                "_call",
                lambda line, method, content, timeout: self.call(
                    line._identity, line.name, line.service, method, content
                ),
            )
            try:
                yield self
            finally:
                self.stop()
