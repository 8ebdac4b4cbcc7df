"""Owners on a graph, each with its peer: in one process with real services and messages, or as real processes over
mutual TLS."""

import json
import os
import signal
import threading
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from consortium import Consortium, free_port, toml_terms
from federated import different_tables, family_terms
from forked import parley_process

import parley
from parley.errors import Unavailable
from parley.learning.peers import learn_as_peer, prepare_peer
from parley.network.exchange.federation import Federation
from parley.network.exchange.messages import write_agreement
from parley.network.exchange.remote import LocalOwner
from parley.network.identity.settings import load_owner
from parley.network.peering import service as messages
from parley.network.peering.neighbourhood import Board, Neighbourhood
from parley.network.peering.service import PeerService
from parley.network.serving.acceptance import Acceptance, Acceptances, Caller
from parley.network.serving.daemon import open_owner
from parley.network.serving.log import Log
from parley.owner.ledger import Ledger

SIZES = (40, 60, 100, 50, 30)


class Killed(Exception):  # noqa: N818
    """The process is gone."""


class DirectConnection:
    """A neighbour in the same process: its service, bytes in and bytes out, as long as it is there."""

    def __init__(self, ring: "Ring", owner: str, name: str) -> None:
        self._ring, self._owner, self.name = ring, owner, name

    def hear(self, run, place, shape, timeout):
        self._ring.count(self._owner, place)
        if self._ring.deaf(self._owner, place):
            raise Unavailable(f"{self.name}: the line is bad")
        caller, service = Caller((self._owner,), f"key of {self._owner}"), self._ring.services.get(self.name)
        if service is None:
            raise Unavailable(f"{self.name}: not there")
        reply = service.rejection(caller) or service.hear(messages.write_question(run.terms_hash, place), caller)
        return messages.read_words(self._ring.changed(self.name, reply), run, self.name, place, shape)

    def numbers(self, run, first, timeout):
        caller, service = Caller((self._owner,), f"key of {self._owner}"), self._ring.services.get(self.name)
        if service is None:
            raise Unavailable(f"{self.name}: not there")
        reply = service.rejection(caller) or service.stand(
            write_agreement(run.terms_hash, self.name, numbers=first), caller
        )
        return messages.read_numbers(reply, self.name)

    def close(self) -> None:
        """Nothing to let go of."""


class Ring:
    """Owners with ledgers and a peer each, in threads. `fatal`: at which of its calls, or at which place, a peer is
    killed, each once."""

    def __init__(self, folder: Path, count: int = 4, topology: Any = "ring", **settings: Any) -> None:
        usual = {"learning__algorithm": "gossip", "learning__topology": topology, "learning__horizon": 5}
        self.folder, self.terms = folder, family_terms("federated-averaging", *SIZES[:count], **usual | settings)
        self.owners = {}
        for name, table in different_tables(SIZES[:count]).items():
            self.owners[name] = parley.Owner(name, table, ledger=Ledger(folder / f"{name}.ledger", 1.0, 1e-6))
            self.owners[name].accept(self.terms, other_books="a test makes many")
        self.services: dict[str, PeerService] = {}
        self.calls, self.fatal, self.kills = dict.fromkeys(self.owners, 0), dict[str, int | tuple[int, int]](), 0
        self.warnings = list[str]()
        self.deadline, self._hoods = 20.0, list[Neighbourhood | Federation]()
        self.log = Log((folder / "log").open("w"))

    def count(self, owner: str, place: tuple[int, int]) -> None:
        """One call more; maybe its last."""
        self.calls[owner] += 1
        if self.fatal.get(owner) in (self.calls[owner], place):
            del self.fatal[owner]
            raise Killed

    def deaf(self, owner: str, place: tuple[int, int]) -> bool:
        """Whether this owner's calls about this place fail."""
        return False

    def changed(self, name: str, reply: bytes) -> bytes:
        """A reply on its way."""
        return reply

    def station(self, name: str):
        """(run, federation, neighbourhood, service, where it begins), as the command makes them."""
        run = prepare_peer(self.terms, name, self.folder / f"{name}.checkpoint")
        begin = run.begin(resume=True)
        board, near = Board(max(1, begin.state.round - 1)), run.graph.neighbours(name)
        service = PeerService(name, run.run, dict.fromkeys(near), board, run.end, self.log)
        lines = [DirectConnection(self, name, other) for other in near]
        own = [LocalOwner(self.owners[name])]
        federation = Federation(run.setup, own, 20.0, self.warnings.append, begin.heads, begin.answers, only=name)
        stops = self.terms.learning.straggler == "stop"
        hood = Neighbourhood(name, run.graph, run.run, lines, board, self.deadline, self.warnings.append, stops)
        self._hoods.append(hood)
        self._hoods.append(federation)
        return run, federation, hood, service, begin

    def peer(self, name: str) -> None:
        """One peer, begun again whenever it is killed."""
        while name not in self.unheard and name not in self.errors:
            run, federation, hood, service, begin = self.station(name)
            self.services[name] = service
            try:
                self.unheard[name] = learn_as_peer(
                    run, federation, hood, service.told, begin, lambda outcome: self.outcomes.update({name: outcome})
                )
            except Killed:
                self.kills += 1
            except Exception as error:
                self.errors[name] = error
            finally:
                del self.services[name]
                hood.close()
                federation.close()

    def run(self) -> dict[str, Any]:
        """All peers, to their end."""
        self.outcomes, self.unheard, self.errors = {}, {}, {}
        threads = [threading.Thread(target=self.peer, args=(name,), daemon=True) for name in self.owners]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(40)
        assert not any(thread.is_alive() for thread in threads)
        return self.outcomes

    def close(self) -> None:
        for hood in self._hoods:
            hood.close()
        for owner in self.owners.values():
            owner.ledger.close()


class PeerConsortium(Consortium):
    """Owners on a ring, each with a daemon and a peer of its own as real processes."""

    def __init__(self, folder: Path, names: str = "abc", **settings: Any) -> None:
        super().__init__(folder, names, lifetime=1.0)
        self.peer_ports = {name: free_port() for name in names}
        self.peers: dict[str, BaseProcess] = {}
        extra = 'algorithm = "gossip"\ntopology = "ring"\n' + settings.pop("extra", "")
        (folder / "terms.toml").write_text(toml_terms(names=names, extra=extra, **settings))
        self.terms = parley.load_terms(folder / "terms.toml")
        for place, name in enumerate(names):
            near = {names[place - 1], names[(place + 1) % len(names)]}
            lines = "".join(f'{other} = "127.0.0.1:{self.peer_ports[other]}"\n' for other in sorted(near))
            file = folder / f"{name}.toml"
            more = f'\n[peer]\nlisten = "127.0.0.1:{self.peer_ports[name]}"\n[peer.neighbours]\n{lines}'
            file.write_text(file.read_text().replace('revoked = "ca.crl"', 'revoked = "ca.crl"\n') + more)
            settings_of = load_owner(file)
            owner = open_owner(settings_of)
            owner.accept(self.terms, other_books="a test makes many")
            Acceptances(settings_of.accepted).store(Acceptance(self.terms, peer=name))
            owner.ledger.close()

    def run_peer(self, name: str, *arguments: str) -> None:
        """`parley peer run` in a process of its own."""
        command = [
            "peer",
            "run",
            str(self.folder / "terms.toml"),
            "--owner",
            str(self.folder / f"{name}.toml"),
            "--resume",
            "--json",
        ]
        out, log = self.folder / f"peer-{name}.out", self.folder / f"peer-{name}.log"
        self.peers[name] = parley_process([*command, *arguments], out, log)

    def kept_round(self, name: str) -> int:
        """Before which round the peer's checkpoint stands; 0: there is none."""
        file = self.folder / f"terms.{name}.checkpoint"
        return int(json.loads(file.read_text())["round"]) if file.exists() else 0

    def kill_peer(self, name: str, after: int) -> int:
        """Kill -9 once the peer is past this round; before which round its checkpoint then stands."""
        until = time.monotonic() + 60
        while self.kept_round(name) <= after and time.monotonic() < until:
            time.sleep(0.005)
        os.kill(self.peers[name].pid or 0, signal.SIGKILL)
        self.peers[name].join(30)
        return self.kept_round(name)

    def results(self) -> dict[str, dict[str, Any]]:
        """What the peers print."""
        found = {}
        for name, process in self.peers.items():
            process.join(90)
            assert process.exitcode == 0, (self.folder / f"peer-{name}.log").read_text()
            found[name] = json.loads((self.folder / f"peer-{name}.out").read_text())
        return found

    def events(self, name: str) -> list[dict[str, Any]]:
        """What a peer logged."""
        return [
            json.loads(line)
            for line in (self.folder / f"peer-{name}.log").read_text().splitlines()
            if line.startswith("{")
        ]

    def close(self) -> None:
        for process in self.peers.values():
            process.kill()
            process.join(30)
        super().close()
