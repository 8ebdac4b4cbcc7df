"""The relay over a real Flower federation: SuperLink and SuperNodes as processes, TLS, key authentication.

PARLEY_FLOWER=1 runs it (about a minute); flwr must be installed.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import parley
from consortium import Consortium, free_port, toml_terms
from parley.exchange import certificates

pytest.importorskip("flwr", reason="flwr is not installed; pip install 'parley[flower]'")
if os.environ.get("PARLEY_FLOWER") != "1":
    pytest.skip("a Flower federation takes a minute; PARLEY_FLOWER=1 runs it", allow_module_level=True)

from parley.learning.over_flower import write_app

BIN = Path(sys.executable).parent
NOBODY = 65534
HOSTILE = """
import os
from pathlib import Path

import numpy as np
from flwr.clientapp import ClientApp

from parley.errors import ParleyError
from parley.exchange import messages
from parley.exchange.flower import relay
from parley.exchange.remote import RemoteOwner
from parley.learning.over_flower import server_app
from parley.queries import GradientQuery

client_app = ClientApp()
__all__ = ["client_app", "server_app"]


@client_app.query()
def steal(message, context):
    reply = relay(message, context)
    with Path(context.node_config["diary"]).open("a") as diary:
        diary.write(f"user {os.geteuid()}\\n")
        for name in ("a.csv", "a.ledger", "a.key"):
            try:
                diary.write(f"stole {(Path(context.node_config['prey']) / name).read_bytes()[:9]}\\n")
            except OSError as error:
                diary.write(f"{type(error).__name__}\\n")
        if message.content["parley"]["method"] == "Ask":
            asked = messages.read_query(message.content["parley"]["content"])
            peer = RemoteOwner("a", f"unix:{context.node_config['socket']}", None)
            for k in (1, asked.round, 3, 4):
                try:
                    told = peer.ask(GradientQuery.ask(asked.terms, "learner", k, np.full(3, 0.1)), 60, 3, 10)
                    diary.write(f"got {told.answer.value}\\n")
                except ParleyError as refusal:
                    diary.write(f"{type(refusal).__name__}\\n")
    return reply
"""


class Flower:
    """A SuperLink with TLS and two SuperNodes with registered keys."""

    def __init__(self, banks, home):
        self.banks, self.home, self.processes = banks, home, []
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
        own, drop, environment = self.home, {}, self.environment
        if user is not None:
            own, drop = self.home / name, {"user": user, "group": user, "extra_groups": []}
            own.mkdir()
            os.chown(own, user, user)
            environment = environment | {"FLWR_HOME": str(own), "HOME": str(own)}
        with (self.home / f"{name}.log").open("w") as log:
            streams = {"stdout": log, "stderr": log, "env": environment, "cwd": own, "start_new_session": True}
            self.processes.append(subprocess.Popen(list(map(str, command)), **streams, **drop))

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
        config = f'socket="{self.home / name}.sock"'
        if user is not None:
            config += f' diary="{self.home}/node-{name}/diary" prey="{self.banks.folder}"'
            os.chown(private, user, user)
            os.chown(self.home / f"{name}.sock", 0, user)  # a relay's group may ask
        shutil.copy(self.banks.folder / "ca.crt", self.home)
        arguments = ["--root-certificates", self.home / "ca.crt", "--auth-supernode-private-key", private]
        arguments += ["--superlink", f"localhost:{self.port}", "--port", free_port(), "--node-config", config]
        self.spawn(f"node-{name}", "flower-supernode", *arguments, user=user)

    def train(self, app, seconds=150):
        """Submit the app and wait for the report, which is written last."""
        folder = self.banks.folder
        model, report = folder / "model.json", folder / "report.json"
        run = f'terms="{folder}/terms.toml" save="{model}" report="{report}" checkpoint="{folder}/terms.checkpoint"'
        run += " deadline=90.0"
        done = self.flwr("run", app, "here", "--run-config", run)
        assert done.returncode == 0, done.stdout + done.stderr + self.logs()
        until = time.monotonic() + seconds
        while not report.exists() and time.monotonic() < until:
            time.sleep(0.5)
        assert report.exists(), self.logs()
        return parley.load_model(model).theta_

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
def open_folder():
    """A folder that other users can enter, as /run/parley would be."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        folder.chmod(0o755)
        yield folder


def federation(tmp_path, home, names, scored=False):
    banks = Consortium(tmp_path, names=names)
    for name in names:
        settings = tmp_path / f"{name}.toml"
        settings.write_text(settings.read_text().replace(f'socket = "{name}.sock"', f'socket = "{home / name}.sock"'))
    terms = banks.write_terms(horizon=2)
    if scored:
        text = toml_terms(horizon=2, names=names).replace("clip = 4.0", "clip = 4.0\nscore_epsilon = 0.25")
        (tmp_path / "terms.toml").write_text(text.replace("radius", "holdout = 0.3\nbounds = { y = [-2.0, 2.0] }\nradius"))
        terms = parley.load_terms(tmp_path / "terms.toml")
    banks.accept(terms, relay=True)
    banks.start()
    return banks, Flower(banks, home), terms


def test_the_same_terms_over_a_flower_federation(tmp_path, open_folder):
    banks, flower, terms = federation(tmp_path, open_folder, "ab", scored=True)
    try:
        for name in "ab":
            flower.node(name)
        write_app(open_folder / "app")
        theta = flower.train(open_folder / "app")
        assert banks.spent(terms) == dict.fromkeys("ab", Fraction(1))
        report = json.loads((tmp_path / "report.json").read_text())
        assert [score["rows"] for score in report["scores"]["owners"]] == [18, 12]
        np.testing.assert_array_equal(theta, banks.replay(terms))
    finally:
        flower.close()
        banks.close()


def runs_as_another_user():
    """Whether this interpreter can be started by a user that owns nothing."""
    try:
        subprocess.run([sys.executable, "-c", ""], user=NOBODY, group=NOBODY, extra_groups=[], check=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


@pytest.mark.skipif(not runs_as_another_user(), reason="needs root, and an interpreter that other users may run")
def test_a_hostile_client_app_reads_no_table_and_gets_only_refusals_beyond_the_budget(tmp_path, open_folder):
    banks, flower, terms = federation(tmp_path, open_folder, "a")
    try:
        flower.node("a", user=NOBODY)
        write_app(open_folder / "app")
        (open_folder / "app" / "parley_relay" / "app.py").write_text(HOSTILE)
        theta = flower.train(open_folder / "app")
        diary = (open_folder / "node-a" / "diary").read_text().split("\n")
        assert f"user {NOBODY}" in diary
        assert diary.count("PermissionError") == 3 * diary.count(f"user {NOBODY}")
        assert not [line for line in diary if line.startswith(("stole", "got"))], diary
        assert "OutOfOrder" in diary
        assert banks.spent(terms) == {"a": 1}
        assert banks.ledger("a").account(terms.hash).answers == 2
        np.testing.assert_array_equal(theta, banks.replay(terms))
    finally:
        flower.close()
        banks.close()
