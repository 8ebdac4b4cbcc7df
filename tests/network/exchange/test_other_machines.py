"""Every process on hardware of its own: owners, hosts, learner and peers, each with another BLAS kernel
(OPENBLAS_CORETYPE).

With pinned numbers all of them come to one model; without, on a public sample whose directions hang on the kernel,
nothing begins.
"""

import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import consortium as processes
import hosted_consortium
import numpy as np
import pytest
from forked import LOADED
from hosted_consortium import HOSTS, HostedConsortium
from kernels import balanced_sample, balanced_terms, several_kernels

import parley
from parley.audit.agreement import kernel_setting, kernels
from parley.data.public_numbers import PublicNumbers
from parley.network.identity.settings import load_owner
from parley.network.serving.acceptance import Acceptance, Acceptances
from parley.network.serving.daemon import open_owner
from parley.protocol.setup import pin, resolve
from parley.terms import write_terms

OWNERS = "ab"
SHARED = {"privacy__noise": "shared", "privacy__delta": 1e-6}
GOSSIP = {"learning__algorithm": "gossip", "learning__topology": [["a", "b"]]}
BASIS = {"components": 4, "basis": {"points": 6, "width": 1.0}}
# Which kernel each has: the first two find different directions, if any do.
PLACES = {"owner a": 0, "owner b": 1, "host h0": 2, "host h1": 3, "host h2": 1, "learner": 2, "peer a": 1, "peer b": 0}
# In a process with a kernel: each line that it reads asks for a command, or how one ended.
FORKED = """
import importlib, json, os, sys
for module in sys.argv[1:]:
    importlib.import_module(module)
for line in sys.stdin:
    asked, *files = json.loads(line)
    if isinstance(asked, int):
        ended, status = os.waitpid(asked, os.WNOHANG)
        print(json.dumps(os.waitstatus_to_exitcode(status) if ended else None), flush=True)
    elif child := os.fork():
        print(child, flush=True)
    else:
        for place, path in enumerate([os.devnull, *files]):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), place)
        sys.argv = ["parley", *asked]
        from parley.cli import main
        main()
        break
"""
FOUND = """
import sys, parley
from parley.protocol.setup import resolve
sys.stdout.buffer.write(resolve(parley.load_terms(sys.argv[1])).numbers.data.tobytes())
"""


class Kernel:
    """A process that was started with a kernel and has loaded what commands need; they are forked from it."""

    def __init__(self, name):
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-c", FORKED, *LOADED],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **kernel_setting(name)},
        )

    def ask(self, *words):
        """What it says: of a command, its process; of a process, how it ended, if it did."""
        self._process.stdin.write(f"{json.dumps(words)}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.kill()
        self._process.communicate()


class OnKernel:
    """`parley ARGUMENTS` as a process with a kernel of its own: what `multiprocessing` calls a process."""

    def __init__(self, kernel, arguments, out, log):
        self.kernel, self._on, self._ended = kernel.name, kernel, None
        self.pid = kernel.ask(arguments, str(out), str(log))

    @property
    def exitcode(self):
        if self._ended is None:
            self._ended = self._on.ask(self.pid)
        return self._ended

    def join(self, timeout):
        until = time.monotonic() + timeout
        while self.exitcode is None and time.monotonic() < until:
            time.sleep(0.02)


class Machines(HostedConsortium):
    """Two owners, three hosts, a learner and two peers, by several terms."""

    def __init__(self, folder):
        super().__init__(folder, OWNERS, lifetime=20.0)
        self.kernels = {}
        self.peer_ports = {name: processes.free_port() for name in OWNERS}
        for k, name in enumerate(OWNERS):
            balanced_sample(60, seed=k + 1).to_csv(folder / f"{name}.csv", index=False)
            (near,) = set(OWNERS) - {name}
            lines = (
                f'listen = "127.0.0.1:{self.peer_ports[name]}"\n[peer.neighbours]\n{near} = '
                f'"127.0.0.1:{self.peer_ports[near]}"\n'
            )
            file = folder / f"{name}.toml"
            file.write_text(file.read_text() + f"\n[peer]\n{lines}")

    def process(self, arguments, out, log, largest_file=None):
        """The command in a process with the kernel of whoever types it."""
        several = kernels()
        whose = [Path(each).stem for each in arguments if Path(each).stem in (*OWNERS, *HOSTS)]
        name = several[PLACES[" ".join([arguments[0], *whose])] % len(several)].name
        if name not in self.kernels:
            self.kernels[name] = Kernel(name)
        return OnKernel(self.kernels[name], arguments, out, log)

    def close(self):
        super().close()
        for kernel in self.kernels.values():
            kernel.close()

    def agree(self, file, pinned=True, peers=False, **keys):
        """Terms that everybody accepts."""
        hosts = {"hosts": [{"name": name} for name in HOSTS]} if "privacy__noise" in keys else {}
        made = balanced_terms(self.folder, 60, 60, **keys, **hosts)
        if pinned:
            made = pin(made, self.folder / f"{file}.json")
        write_terms(made, self.folder / file)
        terms = parley.load_terms(self.folder / file)
        if hosts:
            self.accept(terms)
            return terms
        for name in OWNERS:
            settings = load_owner(self.folder / f"{name}.toml")
            owner = open_owner(settings)
            owner.accept(terms)
            Acceptances(settings.accepted).store(Acceptance(terms, peer=name if peers else None))
            owner.ledger.close()
        return terms

    def gossip(self, file):
        """What the peers print."""
        running, told = {}, {}
        for name in OWNERS:
            command = [
                "peer",
                "run",
                str(self.folder / file),
                "--owner",
                str(self.folder / f"{name}.toml"),
                "--force",
                "--json",
            ]
            running[name] = self.process(command, self.folder / f"peer-{name}.out", self.folder / f"peer-{name}.log")
        for name, process in running.items():
            process.join(120)
            assert process.exitcode == 0, (self.folder / f"peer-{name}.log").read_text()
            told[name] = json.loads((self.folder / f"peer-{name}.out").read_text())
        return told


@pytest.fixture
def machines(tmp_path, monkeypatch):
    several_kernels()
    made = Machines(tmp_path)
    for module in (processes, hosted_consortium):
        monkeypatch.setattr(module, "parley_process", made.process)
    yield made
    made.close()


def entries(ledger):
    """All that a ledger holds; how its pages lie on the disk is SQLite's business."""
    with closing(sqlite3.connect(ledger)) as db:
        return db.execute("SELECT * FROM entries").fetchall()


def found_on(kernel, terms, file):
    """The public numbers that a process with this kernel resolves."""
    ran = subprocess.run(
        [sys.executable, "-c", FOUND, str(file)],
        env={**os.environ, **kernel_setting(kernel)},
        capture_output=True,
        check=True,
    )
    own = resolve(terms).numbers
    return own.with_data(np.frombuffer(ran.stdout))


def test_one_run_on_many_machines(machines):
    """One noise with components and a basis, peers with whitening: pinned, everybody agrees. Unpinned, components:
    nobody begins."""
    shared = machines.agree("shared.toml", **BASIS, **SHARED)
    ring = machines.agree("ring.toml", peers=True, whitening="public", **GOSSIP)
    loose = machines.agree("loose.toml", pinned=False, components=4, privacy__clip=2.5)
    machines.start_hosts()
    machines.start()
    assert len({process.kernel for process in machines.daemons.values()}) == min(len(kernels()), 4)

    told = machines.learn("--force", file="shared.toml")
    assert [owner["answers"] for owner in told["owners"]] == [2, 2]
    assert np.isfinite(told["theta"]).all()
    peers = machines.gossip("ring.toml")
    assert peers["a"]["theta"] == pytest.approx(peers["b"]["theta"], rel=1e-9)
    for terms in (shared, ring):
        assert set(machines.spent(terms).values()) == {Fraction(1)}

    before = {name: entries(machines.folder / f"{name}.ledger") for name in OWNERS}
    learner = machines.learner("--force", file="loose.toml")
    learner.join(120)
    said = " ".join(machines.said().split())
    if learner.exitcode == 0:  # processors whose kernels happen to agree on this sample
        parties = {learner.kernel, *(machines.daemons[name].kernel for name in OWNERS)}
        numbers: list[PublicNumbers] = [found_on(kernel, loose, machines.folder / "loose.toml") for kernel in parties]
        assert all(numbers[0].difference(other) is None for other in numbers)
        return
    assert learner.exitcode == 2, said
    assert "resolved other public numbers than this party did" in said
    assert "nothing was spent" in said
    assert "rotation[" in said or "component_" in said
    assert set(machines.spent(loose).values()) == {Fraction(0)}
    assert {name: entries(machines.folder / f"{name}.ledger") for name in OWNERS} == before
