"""A small consortium on loopback: an authority, owners with tables and ledgers, their daemons as real processes, a
learner."""

import contextlib
import json
import os
import signal
import socket
import sqlite3
import time
from collections import deque
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
from forked import parley_process
from samples import regression_table

import parley
from parley.network.identity import certificate_authority
from parley.network.identity.settings import Identity, load_owner
from parley.network.serving.acceptance import Acceptance, Acceptances, Caller
from parley.network.serving.daemon import open_owner
from parley.network.serving.opening import SETTINGS_TEMPLATE
from parley.protocol.queries import GradientQuery

LEARNER = Caller(("learner",), "key")
HELD: deque[int] = deque()  # descriptors
MOST_HELD = 256
SIZES = {"a": 60, "b": 40, "c": 50, "d": 30}


def free_port() -> int:
    """A port for a daemon that others must know before it starts, and that may be started again.

    It stays bound here, so the system gives it to nobody else, neither to a server nor to a connection; who is told it
    can listen there all the same, as long as nobody else does (SO_REUSEADDR on both sides).
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    port = int(holder.getsockname()[1])
    HELD.append(holder.detach())  # until this process ends
    if len(HELD) > MOST_HELD:  # a test that is long over
        os.close(HELD.popleft())
    return port


def ask(
    terms: parley.Terms, k: int = 1, theta: Sequence[float] = (0.0, 0.0, 0.0), learner: str = "learner"
) -> GradientQuery:
    """The question of round k."""
    return GradientQuery.ask(terms.hash, learner, k, np.array(theta))


def toml_terms(
    horizon: int = 8, extra: str = "", epsilon: float = 1.0, learner: str = "learner", names: str = "abc"
) -> str:
    """Terms of owners a, b, c as a file."""
    head = f"""
title = "Test"
[model]
kind = "linear-regression"
target = "y"
features = ["x0", "x1", "x2"]
radius = 5.0
[learning]
horizon = {horizon}
step = 0.2
learner = "{learner}"
{extra}
[privacy]
clip = 4.0
"""
    return head + "".join(f'[[owners]]\nname = "{n}"\nrecords = {SIZES[n]}\nepsilon = {epsilon}\n' for n in names)


class Consortium:
    """Everything in one folder; `start` and `kill` work on real processes."""

    def __init__(self, folder: Path, names: str = "abc", lifetime: float = 2.0, lifetime_delta: float = 0.0) -> None:
        self.folder, self.names = folder, names
        self.ports = {name: free_port() for name in names}
        self.daemons: dict[str, BaseProcess] = {}
        certificate_authority.make_authority(folder, "Test", 3650)
        for name in (*names, "learner"):
            certificate_authority.make_request(folder, name)
            certificate_authority.issue(folder, folder / f"{name}.csr", 365)
        for place, name in enumerate(names):
            regression_table(SIZES[name], seed=place).to_csv(folder / f"{name}.csv", index=False)
            self._settings(name)
            parley.Ledger(folder / f"{name}.ledger", lifetime=lifetime, lifetime_delta=lifetime_delta).close()
        self.write_addresses()

    def _settings(self, name: str) -> None:
        table, listen = json.dumps(f"{name}.csv"), json.dumps(f"127.0.0.1:{self.ports[name]}")
        text = SETTINGS_TEMPLATE.format(quoted=json.dumps(name), name=name, table=table, listen=listen).replace(
            '"accepted"', f'"accepted-{name}"'
        )
        text = text.replace('"inbox"', f'"inbox-{name}"')
        socket_path = f'\nsocket = "{name}.sock"\n[identity]'
        (self.folder / f"{name}.toml").write_text(text.replace("\n[identity]", socket_path))

    def write_addresses(self, **changes: str) -> Path:
        places = {name: f'"127.0.0.1:{port}"' for name, port in self.ports.items()} | changes
        identity = "".join(f'{key} = "{value}"\n' for key, value in self.identity_files().items())
        path = self.folder / "addresses.toml"
        path.write_text(f"[identity]\n{identity}[owners]\n" + "".join(f"{n} = {p}\n" for n, p in places.items()))
        return path

    @staticmethod
    def identity_files(name: str = "learner") -> dict[str, str]:
        return {"authority": "ca.crt", "certificate": f"{name}.crt", "key": f"{name}.key"}

    def identity(self, name: str = "learner") -> Identity:
        return Identity(**{key: self.folder / file for key, file in self.identity_files(name).items()})

    def write_terms(self, file: str = "terms.toml", **settings: Any) -> parley.Terms:
        (self.folder / file).write_text(toml_terms(names=self.names, **settings))
        return parley.load_terms(self.folder / file)

    def accept(self, terms: parley.Terms, names: str | None = None, relay: bool = False) -> None:
        for name in names or self.names:
            settings = load_owner(self.folder / f"{name}.toml")
            owner = open_owner(settings)
            owner.accept(terms)
            Acceptances(settings.accepted).store(Acceptance(terms, relay=relay))
            owner.ledger.close()

    def start(self, *names: str, largest_file: int | None = None) -> None:
        """Start these daemons (all if none is named) and wait until they serve."""
        for name in names or tuple(self.names):
            log = self.folder / f"{name}.log"
            log.touch()
            self.daemons[name] = parley_process(
                ["owner", "serve", str(self.folder / f"{name}.toml")], log, log, largest_file
            )
        for name in names or tuple(self.names):
            self.wait_for(name, "serving")

    def wait_for(self, name: str, event: str, seconds: float = 60) -> None:
        """Until this process's daemon logged `event`."""
        pid = self.daemons[name].pid
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            lines = self.log(name)
            begun = [i for i, line in enumerate(lines) if line.get("pid") == pid]
            if begun and (event == "serving" or any(line["event"] == event for line in lines[begun[-1] :])):
                return
            if self.daemons[name].exitcode is not None:
                raise AssertionError((self.folder / f"{name}.log").read_text())
            time.sleep(0.02)
        raise AssertionError(f"{name}: no {event} within {seconds} s")

    def log(self, name: str) -> list[dict[str, Any]]:
        lines = (self.folder / f"{name}.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def kill(self, name: str, sign: int = signal.SIGKILL) -> int | None:
        daemon = self.daemons.pop(name)
        os.kill(daemon.pid or 0, sign)
        daemon.join(30)
        return daemon.exitcode

    def learner(self, *arguments: str, file: str = "terms.toml") -> BaseProcess:
        """`parley learner run` in a process of its own; it writes learner.out and learner.log."""
        for old in ("learner.out", "learner.log"):
            (self.folder / old).unlink(missing_ok=True)
        addresses = str(self.folder / "addresses.toml")
        command = ["learner", "run", str(self.folder / file), "--owners", addresses, "--json", *arguments]
        return parley_process(command, self.folder / "learner.out", self.folder / "learner.log")

    def learn(self, *arguments: str, file: str = "terms.toml") -> dict[str, Any]:
        """What a learner that succeeds prints."""
        process = self.learner(*arguments, file=file)
        process.join(120)
        assert process.exitcode == 0, self.said()
        return dict(json.loads((self.folder / "learner.out").read_text()))

    def fail(self, *arguments: str, file: str = "terms.toml") -> str:
        """What a learner that fails says."""
        process = self.learner(*arguments, file=file)
        process.join(120)
        assert process.exitcode == 2, self.said()
        return self.said()

    def said(self) -> str:
        return (self.folder / "learner.log").read_text()

    def ledger(self, name: str) -> parley.Ledger:
        return parley.Ledger(self.folder / f"{name}.ledger")

    def answers(self, name: str) -> dict[str, bytes]:
        """The stored answers of an owner, by the id of their query."""
        with sqlite3.connect(self.folder / f"{name}.ledger") as db:
            return dict(db.execute("SELECT query, answer FROM entries WHERE kind='answer'").fetchall())

    def spent(self, terms: parley.Terms) -> dict[str, Any]:
        found = {}
        for name in self.names:
            ledger = self.ledger(name)
            ledger.verify()
            found[name] = ledger.account(terms.hash).spent
            ledger.close()
        return found

    def replay(self, terms: parley.Terms) -> list[float]:
        """The model of an in-process learner that gets the answers stored in the ledgers."""
        owners = []
        for name in self.names:
            table = self.folder / f"{name}.csv"
            owners.append(parley.Owner(name, table, ledger=self.ledger(name)))
            owners[-1].accept(terms)
        theta = [float(number) for number in parley.train(terms, owners).theta[0]]
        for owner in owners:
            owner.ledger.close()
        return theta

    def close(self) -> None:
        for name in list(self.daemons):
            with contextlib.suppress(ProcessLookupError):
                self.kill(name)
