"""Commands that run in processes of their own, each with a folder that says all about it.

A job's folder holds `command.json` (what was typed, and when), `log` (what it says of itself), `progress.json`,
`result.json` (what the command prints) and, at the end, `exit.json`. The process holds a lock on `running` for as long
as it lives: so who looks at the folder later, or after the studio was started again, knows whether it still runs.
"""

import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from parley.durable import make_folder, replace_text
from parley.errors import SettingError

State = Literal["running", "done", "failed", "stopped"]

LOG = 20_000  # characters of a log that are shown
REPORT = "report.html"
MOST = 200  # jobs that are listed


@dataclass(frozen=True)
class Progress:
    """What is worked at, and which share of it is done."""

    words: str
    share: float


@dataclass(frozen=True)
class Job:
    """One command and its folder."""

    folder: Path

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def command(self) -> tuple[str, ...]:
        """What was typed behind `parley`."""
        return tuple(self._read("command.json").get("command", ()))

    @property
    def title(self) -> str:
        """What it is for, in a few words."""
        return str(self._read("command.json").get("title", ""))

    @property
    def started(self) -> str:
        """When it was started, by the clock of this machine."""
        return str(self._read("command.json").get("started", ""))

    @property
    def state(self) -> State:
        """How it stands; a process that ended without saying how was stopped."""
        ended = self._read("exit.json")
        if ended:
            return "done" if ended.get("code") == 0 else "failed"
        return "running" if self.pid is not None else "stopped"

    @property
    def pid(self) -> int | None:
        """The process that runs it; None: none does."""
        try:
            with (self.folder / "running").open("r+") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: who looks is not who runs
                except BlockingIOError:
                    return int(lock.read() or 0) or None
        except FileNotFoundError:
            return None
        return None

    @property
    def progress(self) -> Progress:
        """How far it is."""
        found = self._read("progress.json")
        return Progress(str(found.get("words", "starting")), float(found.get("share", 0.0)))

    @property
    def log(self) -> str:
        """The end of what it said of itself."""
        try:
            return (self.folder / "log").read_text(encoding="utf-8", errors="replace")[-LOG:]
        except FileNotFoundError:
            return ""

    @property
    def result(self) -> dict[str, Any]:
        """The object that the command printed; empty where it printed none."""
        return self._read("result.json")

    @property
    def report(self) -> str | None:
        """The page that the command wrote; None: it wrote none."""
        try:
            return (self.folder / REPORT).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def stop(self) -> None:
        """End the process with all that it started; nothing where it ended already."""
        pid = self.pid
        if pid is not None:
            with suppress(ProcessLookupError):  # it ended meanwhile
                os.killpg(pid, signal.SIGTERM)

    def _read(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads((self.folder / name).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class JobFolder:
    """All jobs of a studio."""

    folder: Path
    place: Path  # in which commands run

    def start(self, command: Sequence[str], title: str, report: bool = False) -> Job:
        """Run a command of `parley` in a process of its own, which outlives the studio; with a `report` in its
        folder, of commands that write one."""
        name = time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(3)
        folder = self.folder / name
        make_folder(folder)
        typed = [*command, *(["--report", str(folder.resolve() / REPORT)] if report else [])]
        said = {"command": typed, "title": title, "started": time.strftime("%Y-%m-%d %H:%M:%S")}
        replace_text(folder / "command.json", json.dumps(said), lasting=False)
        with (folder / "log").open("wb") as log, (folder / "result.json").open("wb") as result:
            # -P: what lies in the folder of tables is data, never a module
            process = subprocess.Popen(  # noqa: S603 - this interpreter, and a folder that was just made
                [sys.executable, "-P", "-m", "parley.studio.worker", str(folder.resolve())],
                cwd=self.place,
                stdin=subprocess.DEVNULL,
                stdout=result,
                stderr=log,
                start_new_session=True,
            )
        _wait_for(folder / "running", process)
        threading.Thread(target=process.wait, daemon=True).start()  # so that it leaves no zombie behind
        return Job(folder)

    def find(self, name: str) -> Job:
        """The job of this name."""
        folder = self.folder / name
        if "/" in name or name.startswith(".") or not (folder / "command.json").is_file():
            raise SettingError("job: there is none of this name")
        return Job(folder)

    def listed(self, kind: str | None = None) -> list[Job]:
        """The latest jobs, the last first; of one kind of command, if one is named."""
        folders = sorted(self.folder.glob("*/command.json"), reverse=True) if self.folder.is_dir() else []
        found = [Job(path.parent) for path in folders[:MOST]]
        return [job for job in found if kind is None or job.command[:1] == (kind,)]


def _wait_for(file: Path, process: subprocess.Popen[bytes]) -> None:
    """Until the process says that it runs, or ended, or five seconds went by."""
    until = time.monotonic() + 5.0
    while not (file.exists() and file.stat().st_size) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
