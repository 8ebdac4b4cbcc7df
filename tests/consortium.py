"""A small consortium on loopback: an authority, owners with tables and ledgers, their daemons as real processes, a learner."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import parley
from parley.cli.owner import SETTINGS
from parley.exchange import certificates
from parley.exchange.acceptance import Acceptance, Acceptances
from parley.exchange.daemon import open_owner
from parley.exchange.settings import Identity, load_owner
from samples import regression_table

COMMAND = [sys.executable, "-c", "from parley.cli import main; main()"]
SIZES = {"a": 60, "b": 40, "c": 50}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def toml_terms(horizon: int = 8, extra: str = "", epsilon: float = 1.0, learner: str = "learner", names: str = "abc") -> str:
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

    def __init__(self, folder: Path, names: str = "abc", lifetime: float = 2.0) -> None:
        self.folder, self.names = folder, names
        self.ports = {name: free_port() for name in names}
        self.daemons: dict[str, subprocess.Popen[str]] = {}
        certificates.make_authority(folder, "Test", 3650)
        for name in (*names, "learner"):
            certificates.make_request(folder, name)
            certificates.issue(folder, folder / f"{name}.csr", 365)
        for place, name in enumerate(names):
            regression_table(SIZES[name], seed=place).to_csv(folder / f"{name}.csv", index=False)
            self._settings(name)
            parley.Ledger(folder / f"{name}.ledger", lifetime=lifetime).close()
        self.write_addresses()

    def _settings(self, name: str) -> None:
        table, listen = json.dumps(f"{name}.csv"), json.dumps(f"127.0.0.1:{self.ports[name]}")
        text = SETTINGS.format(quoted=json.dumps(name), name=name, table=table, listen=listen).replace(
            '"accepted"', f'"accepted-{name}"'
        )
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

    def start(self, *names: str, **options: Any) -> None:
        """Start these daemons (all if none is named) and wait until they serve."""
        for name in names or tuple(self.names):
            log = (self.folder / f"{name}.log").open("a")
            command = [*COMMAND, "owner", "serve", str(self.folder / f"{name}.toml")]
            self.daemons[name] = subprocess.Popen(command, stderr=log, text=True, **options)
            log.close()
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
            if self.daemons[name].poll() is not None:
                raise AssertionError((self.folder / f"{name}.log").read_text())
            time.sleep(0.02)
        raise AssertionError(f"{name}: no {event} within {seconds} s")

    def log(self, name: str) -> list[dict[str, Any]]:
        lines = (self.folder / f"{name}.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def kill(self, name: str, sign: int = signal.SIGKILL) -> int:
        os.kill(self.daemons[name].pid, sign)
        return self.daemons.pop(name).wait(30)

    def learner(self, *arguments: str, file: str = "terms.toml") -> list[str]:
        addresses = str(self.folder / "addresses.toml")
        return [*COMMAND, "learner", "run", str(self.folder / file), "--owners", addresses, *arguments]

    def learn(self, *arguments: str, file: str = "terms.toml") -> dict[str, Any]:
        run = subprocess.run(
            self.learner("--json", *arguments, file=file), capture_output=True, text=True, timeout=120, check=False
        )
        assert run.returncode == 0, run.stderr
        return dict(json.loads(run.stdout))

    def ledger(self, name: str) -> parley.Ledger:
        return parley.Ledger(self.folder / f"{name}.ledger")

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
