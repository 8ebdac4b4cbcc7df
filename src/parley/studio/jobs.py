"""Commands that run in processes of their own, each with a folder that says all about it.

A job's folder holds `command.json` (what was typed, and when), `log` (what it says of itself), `progress.json`,
`result.json` (what the command prints) and, at the end, `exit.json`; `stopped` where somebody ended it. The process
inherits a lock on `running` and holds it for as long as it lives: so who looks at the folder at once, later, or after
the studio was started again, knows whether it still runs.
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
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from parley.durable import make_folder, replace_text
from parley.errors import SettingError

State = Literal["running", "done", "failed", "stopped", "lost"]

WORDS: dict[State, str] = {
    "running": "running",
    "done": "done",
    "failed": "did not end well",
    "stopped": "stopped",
    "lost": "ended without a word: killed, or with the machine",
}
LOG = 20_000  # characters of a log that are shown
REPORT, RUNNING, STOPPED, STARTING = "report.html", "running", "stopped", ".starting"
WRITTEN = ("--write", "--save", "--out")  # options that name what a command writes
MOST = 200  # jobs that are listed


def outputs(command: Sequence[str]) -> list[str]:
    """What a command writes, by its options."""
    return [value for key, value in pairwise(command) if key in WRITTEN]


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
    def form(self) -> list[tuple[str, str]]:
        """The fields of the form that it was started by; none: no form is kept."""
        return [(str(key), str(value)) for key, value in self._read("command.json").get("form", ())]

    @property
    def state(self) -> State:
        """How it stands; lost: its process ended without saying how, killed or with the machine."""
        ended = self._read("exit.json")
        if ended.get("code") == 0:
            return "done"
        if self.running:
            return "running"
        if (self.folder / STOPPED).exists():
            return "stopped"
        return "failed" if ended else "lost"

    @property
    def words(self) -> str:
        """How it stands, in words."""
        return WORDS[self.state]

    @property
    def running(self) -> bool:
        """Whether a process holds the lock, or one that it started."""
        try:
            with (self.folder / RUNNING).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: who looks is not who runs
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False

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
    def printed(self) -> str:
        """The tables and sentences that the command printed; empty where it printed an object."""
        try:
            said = (self.folder / "result.json").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return "" if said.startswith("{") else said[-LOG:].strip("\n")

    @property
    def written(self) -> Path | None:
        """The terms that the command wrote; None: none yet, or it writes none."""
        given = dict(zip(self.command, self.command[1:], strict=False))
        written = [given[key] for key in ("--write",) if key in given]
        written += [f"{given[key]}/terms.toml" for key in ("--out",) if key in given]
        return next((path for path in map(Path, written) if path.is_file()), None)

    @property
    def report(self) -> str | None:
        """The page that the command wrote; None: it wrote none."""
        try:
            return (self.folder / REPORT).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def stop(self, at_once: bool = False) -> None:
        """End the process with all that it started, whatever it is at if `at_once`; nothing where it ended already."""
        said = (self.folder / RUNNING).read_text(encoding="utf-8") if self.running else ""
        if said.isdecimal() and int(said) > 1:
            with suppress(OSError):
                (self.folder / STOPPED).touch()
            with suppress(ProcessLookupError, PermissionError):  # it ended meanwhile
                os.killpg(int(said), signal.SIGKILL if at_once else signal.SIGTERM)

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

    def start(
        self, command: Sequence[str], title: str, report: bool = False, form: Sequence[tuple[str, str]] = ()
    ) -> Job:
        """Run a command of `parley` in a process of its own, which outlives the studio; with a `report` in its
        folder, of commands that write one. The `form` that it was started by is kept, to be changed."""
        make_folder(self.folder)
        with (self.folder / STARTING).open("w", encoding="utf-8") as one:  # at a time, so that no name is given twice
            fcntl.flock(one, fcntl.LOCK_EX)
            self._require_new(outputs(command))
            return self._started(command, title, report, form)

    def _require_new(self, files: Sequence[str]) -> None:
        """Refuse to write what is there, or what a job that runs will write."""
        for file in files:
            if self.will_write(file) or Path(file).exists():
                raise SettingError(f"{Path(file).name} exists, or a job writes it; choose another name")

    def _started(self, command: Sequence[str], title: str, report: bool, form: Sequence[tuple[str, str]]) -> Job:
        name = time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(3)
        folder = self.folder / name
        make_folder(folder)
        typed = [*command, *(["--report", str(folder.resolve() / REPORT)] if report else [])]
        said = {"command": typed, "title": title, "started": time.strftime("%Y-%m-%d %H:%M:%S"), "form": list(form)}
        replace_text(folder / "command.json", json.dumps(said), lasting=False)
        with (
            (folder / RUNNING).open("w", encoding="utf-8") as lock,
            (folder / "log").open("wb") as log,
            (folder / "result.json").open("wb") as result,
        ):
            fcntl.flock(lock, fcntl.LOCK_EX)
            # -P: what lies in the folder of tables is data, never a module
            process = subprocess.Popen(  # noqa: S603 - this interpreter, and a folder that was just made
                [sys.executable, "-P", "-m", "parley.studio.worker", str(folder.resolve())],
                cwd=self.place,
                stdin=subprocess.DEVNULL,
                stdout=result,
                stderr=log,
                env={**os.environ, "COLUMNS": "110"},  # of a table that is printed
                start_new_session=True,
                pass_fds=(lock.fileno(),),  # with its lock, which lasts until the last process closes it
            )
            lock.write(str(process.pid))
        threading.Thread(target=process.wait, daemon=True).start()  # so that it leaves no zombie behind
        return Job(folder)

    def will_write(self, file: str) -> bool:
        """Whether a job that runs writes this file."""
        return any(file in outputs(job.command) and job.running for job in self.listed())

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
