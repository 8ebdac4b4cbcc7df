"""A real Flower federation on loopback: a SuperLink with TLS, SuperNodes with registered keys, each a process of its
own."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from consortium import free_port
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from parley.network.identity import certificate_authority

BIN = Path(sys.executable).parent


class Flower:
    """`authority` is the folder of a certificate authority; everything of Flower's lies in `home`."""

    def __init__(self, authority: Path, home: Path) -> None:
        self.authority, self.home = authority, home
        self.processes: list[subprocess.Popen[bytes]] = []
        self.environment = os.environ | {
            "FLWR_HOME": str(home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }
        certificate_authority.make_request(authority, "localhost")
        certificate_authority.issue(authority, authority / "localhost.csr", 30)
        shutil.copy(authority / "ca.crt", home)
        self.port, ca = free_port(), home / "ca.crt"
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "localhost:{self.port}"\nroot-certificates = '
            f'"{ca}"\n'
        )
        tls: list[Any] = ["--ssl-ca-certfile", ca]
        tls += ["--ssl-certfile", authority / "localhost.crt", "--ssl-keyfile", authority / "localhost.key"]
        self._spawn(
            "superlink", "flower-superlink", *tls, "--enable-supernode-auth", "--host", "localhost", "--port", self.port
        )

    def node(self, name: str, user: int | None = None, **config: str) -> None:
        """A SuperNode that relays to the daemon's socket NAME.sock, run by `user`, with more node settings if given."""
        key = ec.generate_private_key(ec.SECP384R1())
        private, public = self.home / f"{name}.key", self.home / f"{name}.pub"
        openssh = serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        private.write_bytes(key.private_bytes(serialization.Encoding.PEM, *openssh))
        public.write_bytes(
            key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        )
        until = time.monotonic() + 60
        while (done := self._flwr("supernode", "register", public, "here")).returncode and time.monotonic() < until:
            time.sleep(1)
        assert done.returncode == 0, done.stdout + done.stderr
        if user is not None:
            os.chown(private, user, user)
            os.chown(self.home / f"{name}.sock", 0, user)  # a relay's group may ask
        settings = " ".join(
            f'{key}="{value}"' for key, value in {"socket": f"{self.home / name}.sock", **config}.items()
        )
        arguments = ["--root-certificates", self.home / "ca.crt", "--auth-supernode-private-key", private]
        arguments += ["--superlink", f"localhost:{self.port}", "--port", free_port(), "--node-config", settings]
        self._spawn(f"node-{name}", "flower-supernode", *arguments, user=user)

    def train(self, app: Path, terms: Path, seconds: float = 150) -> Path:
        """Submit the app and wait for the report, which is written after the model."""
        model, report = terms.with_suffix(".json"), terms.with_suffix(".report.json")
        run = (
            f'terms="{terms}" save="{model}" report="{report}" checkpoint="{terms.with_suffix(".checkpoint")}" '
            f"deadline=90.0"
        )
        done = self._flwr("run", app, "here", "--run-config", run)
        assert done.returncode == 0, done.stdout + done.stderr + self.logs()
        until = time.monotonic() + seconds
        while not report.exists() and time.monotonic() < until:
            time.sleep(0.5)
        assert report.exists(), self.logs()
        return model

    def logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in self.home.glob("*.log"))

    def close(self) -> None:
        for process in reversed(self.processes):
            os.killpg(process.pid, 15)
        for process in self.processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()

    def _spawn(self, name: str, *command: Any, user: int | None = None) -> None:
        own, drop, environment = self.home, dict[str, Any](), self.environment
        if user is not None:
            own, drop = self.home / name, {"user": user, "group": user, "extra_groups": []}
            own.mkdir()
            os.chown(own, user, user)
            environment = environment | {"FLWR_HOME": str(own), "HOME": str(own)}
        with (self.home / f"{name}.log").open("w") as log:
            streams: dict[str, Any] = {
                "stdout": log,
                "stderr": log,
                "env": environment,
                "cwd": own,
                "start_new_session": True,
            }
            self.processes.append(subprocess.Popen(list(map(str, command)), **streams, **drop))

    def _flwr(self, *command: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["flwr", *map(str, command)],
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.home,
            timeout=120,
            check=False,
        )
