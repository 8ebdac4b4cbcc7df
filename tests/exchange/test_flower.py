"""The relay over a real Flower federation: SuperLink and SuperNodes as processes, TLS, key authentication.

PARLEY_FLOWER=1 runs it (about a minute); flwr must be installed.
"""

import os
import shutil
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import parley
from consortium import Consortium, free_port
from parley.exchange import certificates

pytest.importorskip("flwr", reason="flwr is not installed; pip install 'parley[flower]'")
if os.environ.get("PARLEY_FLOWER") != "1":
    pytest.skip("a Flower federation takes a minute; PARLEY_FLOWER=1 runs it", allow_module_level=True)

BIN = Path(sys.executable).parent
HOSTILE = """
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from parley.exchange.flower import relay
from parley.learning.over_flower import server_app
import os, pathlib

client_app = ClientApp()

@client_app.query()
def steal(message, context):
    socket = pathlib.Path(context.node_config["socket"])
    spoils = []
    for path in (socket.parent / "a.csv", socket.parent / "a.ledger", socket.parent / "a.key"):
        try:
            spoils.append(path.read_bytes()[:20].hex())
        except OSError as error:
            spoils.append(type(error).__name__)
    pathlib.Path(context.node_config["diary"]).open("a").write(f"{os.geteuid()} {spoils}\\n")
    return relay(message, context)
"""


class Flower:
    """A SuperLink with TLS and two SuperNodes with registered keys."""

    def __init__(self, banks):
        self.banks, self.home, self.processes = banks, banks.folder / "flower", []
        self.home.mkdir()
        self.environment = os.environ | {
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }
        certificates.make_request(banks.folder, "localhost")
        certificates.issue(banks.folder, banks.folder / "localhost.csr", 30)
        self.port, ca = free_port(), banks.folder / "ca.crt"
        (self.home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "localhost:{self.port}"\nroot-certificates = "{ca}"\n'
        )
        tls = [
            "--ssl-ca-certfile",
            ca,
            "--ssl-certfile",
            banks.folder / "localhost.crt",
            "--ssl-keyfile",
            banks.folder / "localhost.key",
        ]
        self.spawn("superlink", "flower-superlink", *tls, "--enable-supernode-auth", "--host", "localhost", "--port", self.port)

    def spawn(self, name, *command, user=None):
        log = (self.home / f"{name}.log").open("w")
        drop = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        self.processes.append(
            subprocess.Popen(
                list(map(str, command)), stdout=log, stderr=log, env=self.environment, cwd=self.home, start_new_session=True, **drop
            )
        )
        log.close()

    def flwr(self, *command):
        return subprocess.run(
            ["flwr", *map(str, command)],
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.home,
            timeout=120,
            check=False,
        )

    def node(self, name, user=None):
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP384R1())
        private, public = self.home / f"{name}.key", self.home / f"{name}.pub"
        openssh = serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        private.write_bytes(key.private_bytes(serialization.Encoding.PEM, *openssh))
        public.write_bytes(key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH))
        until = time.monotonic() + 60
        while (done := self.flwr("supernode", "register", public, "here")).returncode and time.monotonic() < until:
            time.sleep(1)
        assert done.returncode == 0, done.stdout + done.stderr
        config = f'socket="{self.banks.folder / name}.sock" diary="{self.home / name}.diary"'
        if user is not None:
            os.chown(private, user, user)
        arguments = ["--root-certificates", self.banks.folder / "ca.crt", "--auth-supernode-private-key", private]
        arguments += ["--superlink", f"localhost:{self.port}", "--port", free_port(), "--node-config", config]
        self.spawn(f"node-{name}", "flower-supernode", *arguments, user=user)

    def logs(self):
        return "\n".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in self.home.glob("*.log"))

    def close(self):
        for process in reversed(self.processes):
            os.killpg(process.pid, 15)
        for process in self.processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()


@pytest.fixture
def federation(tmp_path):
    banks = Consortium(tmp_path, names="ab")
    flower = Flower(banks)
    yield banks, flower
    flower.close()
    banks.close()


def test_the_same_terms_over_a_flower_federation(federation):
    from parley.learning.over_flower import write_app

    banks, flower = federation
    terms = banks.write_terms(horizon=3)
    banks.accept(terms, relay=True)
    banks.start()
    for name in "ab":
        flower.node(name)
    write_app(flower.home / "app")
    model = banks.folder / "model.json"
    run = f'terms="{banks.folder}/terms.toml" save="{model}" checkpoint="{banks.folder}/terms.checkpoint" deadline=90.0'
    done = flower.flwr("run", flower.home / "app", "here", "--run-config", run)
    assert done.returncode == 0, done.stdout + done.stderr + flower.logs()
    until = time.monotonic() + 150
    while not model.exists() and time.monotonic() < until:
        time.sleep(0.5)
    assert model.exists(), flower.logs()
    assert banks.spent(terms) == dict.fromkeys("ab", Fraction(1))
    np.testing.assert_array_equal(parley.load_model(model).theta_, banks.replay(terms))
    assert shutil.which("flwr", path=str(BIN))
