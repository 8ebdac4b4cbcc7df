"""The consortium with three hosts more: nine processes with the learner, all on loopback with mutual TLS."""

import json
import os
import random
import signal
import time
from collections.abc import Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from consortium import Consortium, free_port, toml_terms
from forked import SERVER, command, parley_process

import parley
from parley.network.hosting.journal import Journal
from parley.network.hosting.offer import SETTINGS_TEMPLATE
from parley.network.hosting.proposal import Record
from parley.network.identity import certificate_authority
from parley.network.identity.certificates import fingerprint, grouped, read_certificate
from parley.network.identity.settings import load_host
from parley.network.serving.acceptance import Acceptance, Acceptances

HOSTS = ("h0", "h1", "h2")


class HostedConsortium(Consortium):
    """Owners a, b, c and hosts h0, h1, h2, or fewer."""

    def __init__(self, folder: Path, names: str = "abc", lifetime: float = 5.0, hosts: tuple[str, ...] = HOSTS) -> None:
        self.hosts, self.draw = hosts, ""
        self.host_ports = {name: free_port() for name in hosts}
        super().__init__(folder, names, lifetime)
        for name in names:
            for left in folder.glob(f"{name}.ledger*"):
                left.unlink()
            parley.Ledger(folder / f"{name}.ledger", lifetime=lifetime, lifetime_delta="1e-5").close()
            settings = folder / f"{name}.toml"
            settings.write_text(settings.read_text() + self._hosts())
        for name in self.hosts:
            certificate_authority.make_request(folder, name)
            certificate_authority.issue(folder, folder / f"{name}.csr", 365)
            text = SETTINGS_TEMPLATE.format(
                quoted=json.dumps(name), name=name, listen=json.dumps(f"127.0.0.1:{self.host_ports[name]}")
            )
            peers = "".join(
                f'{other} = "127.0.0.1:{port}"\n' for other, port in self.host_ports.items() if other != name
            )
            text = text.replace('"accepted-as-host"', f'"accepted-{name}"').replace("[peers]", f"[peers]\n{peers}#")
            (folder / f"{name}.toml").write_text(text)
            Journal(folder / f"{name}.journal").close()

    def _hosts(self) -> str:
        return "\n[hosts]\n" + "".join(f'{name} = "127.0.0.1:{port}"\n' for name, port in self.host_ports.items())

    def write_addresses(self, **changes: str) -> Path:
        path = super().write_addresses(**changes)
        path.write_text(path.read_text() + self._hosts())
        return path

    def keys(self) -> dict[str, str]:
        """The fingerprints of the hosts' keys."""
        return {name: fingerprint(read_certificate(self.folder / f"{name}.crt")) for name in self.hosts}

    def pin(self) -> None:
        """Write the hosts' keys into everybody's settings."""
        for path in self.folder.glob("*.toml"):
            text = path.read_text()
            for name, key in self.keys().items():
                where = f'"127.0.0.1:{self.host_ports[name]}"'
                text = text.replace(
                    f"{name} = {where}", f'{name} = {{ address = {where}, fingerprint = "{grouped(key)}" }}'
                )
            path.write_text(text)

    def write_terms(
        self,
        file: str = "terms.toml",
        mechanism: str = "laplace",
        keys: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> parley.Terms:
        text = toml_terms(names=self.names, **settings)
        text = text.replace(
            "clip = 4.0\n", f'clip = 4.0\nnoise = "shared"\ndelta = 1e-6\nmechanism = "{mechanism}"\n{self.draw}'
        )
        hosts = [
            f'[[hosts]]\nname = "{name}"\n' + (f'key = "{keys[name]}"\n' if keys and name in keys else "")
            for name in self.hosts
        ]
        (self.folder / file).write_text(text + "".join(hosts))
        return parley.load_terms(self.folder / file)

    def accept(self, terms: parley.Terms, names: str | None = None, relay: bool = False) -> None:
        super().accept(terms, names, relay)
        for name in self.hosts:
            settings = load_host(self.folder / f"{name}.toml")
            journal = Journal(settings.journal)
            journal.begin(terms.hash)
            journal.close()
            Acceptances(settings.accepted).store(Acceptance(terms))

    def start_hosts(self, *names: str) -> None:
        """Start these hosts (all if none is named) and wait until they serve."""
        for name in names or self.hosts:
            log = self.folder / f"{name}.log"
            log.touch()
            self.daemons[name] = parley_process(["host", "serve", str(self.folder / f"{name}.toml")], log, log)
        for name in names or self.hosts:
            self.wait_for(name, "serving")

    def start_late_host(self, name: str, seconds: float) -> Path:
        """The same for one host that comes to its first session so late, as under load; the file that is there once it
        has."""
        log, came = self.folder / f"{name}.log", self.folder / f"{name}.came"
        log.touch()
        arguments = ["host", "serve", str(self.folder / f"{name}.toml")]
        self.daemons[name] = SERVER.Process(target=_late, args=(arguments, str(log), str(came), seconds))
        self.daemons[name].start()
        self.wait_for(name, "serving")
        return came

    def restart(self, name: str) -> None:
        """Kill a daemon and start it again."""
        self.kill(name)
        (self.start_hosts if name in self.hosts else self.start)(name)

    def kill_process(self, process: BaseProcess) -> None:
        if process.exitcode is None:
            os.kill(process.pid or 0, signal.SIGKILL)
        process.join(30)

    def opened(self, terms: parley.Terms, rounds: int) -> dict[int, set[str]]:
        """The records that the hosts' journals hold for each round: never more than one."""
        found: dict[int, set[str]] = {}
        for name in self.hosts:
            journal = Journal(self.folder / f"{name}.journal")  # verifies its chain
            for number in range(1, rounds + 1):
                entry = journal.entry(terms.hash, number)
                if entry.record is not None:
                    found.setdefault(number, set()).add(entry.record)
            journal.close()
        return found

    def aborted(self, terms: parley.Terms, rounds: int) -> list[int]:
        """The rounds that some host ended, or that nobody recorded."""
        journals = [Journal(self.folder / f"{name}.journal") for name in self.hosts]
        entries = {
            number: [journal.entry(terms.hash, number) for journal in journals] for number in range(1, rounds + 1)
        }
        for journal in journals:
            journal.close()
        return [
            number
            for number, found in entries.items()
            if any(each.aborted is not None or each.record is None for each in found)
        ]

    @staticmethod
    def noises(opened: dict[int, set[str]]) -> list[str]:
        """The noises that these records name."""
        records = [Record.from_text(text) for texts in opened.values() for text in texts]
        return [f"{record.session}/{record.noise}" for record in records]


def _late(arguments: list[str], log: str, came: str, seconds: float) -> None:
    from parley.network.hosting.pool import Pool

    begin, waiting = Pool.begin, [True]

    def late(self: Pool, *session: Any) -> None:
        if waiting and session[-1] is not None:
            waiting.clear()
            time.sleep(seconds)
            try:
                begin(self, *session)
            finally:
                Path(came).touch()
        else:
            begin(self, *session)

    Pool.begin = late  # type: ignore[method-assign]
    command(arguments, log, log)


def torture(
    consortium: HostedConsortium, seed: int, kills: int, horizon: int = 12
) -> tuple[dict[int, set[str]], list[int]]:
    """Kill any process at random while a learner runs and resumes; then look at all books. The rounds opened, and those
    aborted."""
    rng = random.Random(seed)
    terms = consortium.write_terms(horizon=horizon, epsilon=5.0)
    consortium.accept(terms)
    consortium.start_hosts()
    consortium.start()
    learner = consortium.learner("--deadline", "30")
    for _ in range(kills):
        time.sleep(rng.uniform(0.0, 0.6))
        victim = rng.choice([*consortium.hosts, *consortium.names, "learner"])
        if victim == "learner":
            consortium.kill_process(learner)
        else:
            consortium.restart(victim)
        if learner.exitcode is not None:
            learner = consortium.learner("--resume", "--deadline", "30")
    learner.join(120)
    if learner.exitcode != 0:
        consortium.learn("--resume", "--deadline", "60")
    opened = consortium.opened(terms, horizon)
    assert all(len(records) == 1 for records in opened.values())
    assert len(set(consortium.noises(opened))) == len(opened)
    for name in consortium.names:
        ledger = consortium.ledger(name)
        account = ledger.account(terms.hash)
        assert account.answers >= len(opened)  # no sum without its debits
        assert account.spent <= 5
        ledger.close()
    return opened, consortium.aborted(terms, horizon)
