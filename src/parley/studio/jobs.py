"""Commands that run in processes of their own, each with a folder that describes it.

Job folders lie in the account's state folder, never in the studio's, where others could plant them. Links, and what is
not this account's own, are not read. A folder holds `command.json` (command and start), `log`, `progress.json`,
`result.json` (output), `exit.json` (how it ended; blank until then), and `stopped` if somebody ended it. The process
holds a lock on `running` while it lives, so anybody can see whether it runs, even after a restart of the studio. It
begins when all of that is on the disk.
"""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from parley.durable import as_disk_errors, create, make_folder, state_folder, sync_folder
from parley.errors import DiskError, SettingError
from parley.studio.claims import claimed, outputs
from parley.studio.worker import EXIT_FILE, EXIT_FILE_BYTES, START_SIGNAL

State = Literal["running", "done", "failed", "stopped", "lost"]

STATE_WORDS: dict[State, str] = {
    "running": "running",
    "done": "done",
    "failed": "failed",
    "stopped": "stopped",
    "lost": "ended without a message; the job was killed or the machine stopped",
}
MAX_LOG_CHARS = 20_000  # characters of a log that are shown
COMMAND_FILE, REPORT_FILE, LOCK_FILE, STOPPED_FILE = "command.json", "report.html", "running", "stopped"
MAX_LISTED_JOBS = 200  # jobs that are listed
INSIDE_VIEW_LIFETIME_S = 600  # seconds for which an owner's own look waits to be opened


def studio_state(place: Path) -> Path:
    """Return the folder, in this account's state folder, for studios of this place."""
    return state_folder("studio", hashlib.sha256(os.fsencode(place.resolve())).hexdigest()[:32])


def _is_own_path(path: Path, kind: int, closed: int = 0) -> bool:
    """Return whether a path is this account's own, of this kind (no link), without these permissions."""
    try:
        about = path.lstat()
    except OSError:
        return False
    return stat.S_IFMT(about.st_mode) == kind and about.st_uid == os.geteuid() and not about.st_mode & closed


@dataclass(frozen=True)
class Progress:
    """The current step, and the share that is done."""

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
        """The command line behind `parley`."""
        return tuple(self._read(COMMAND_FILE).get("command", ()))

    @property
    def title(self) -> str:
        """Its purpose, in a few words."""
        return str(self._read(COMMAND_FILE).get("title", ""))

    @property
    def started(self) -> str:
        """Its start, by this machine's clock."""
        return str(self._read(COMMAND_FILE).get("started", ""))

    @property
    def form(self) -> list[tuple[str, str]]:
        """The fields of the form that started it; empty if none is kept."""
        return [(str(key), str(value)) for key, value in self._read(COMMAND_FILE).get("form", ())]

    @property
    def state(self) -> State:
        """Its state; lost: the process ended without saying how, killed or with the machine."""
        ended = self._read(EXIT_FILE)
        if ended.get("code") == 0:
            return "done"
        if self.running:
            return "running"
        if (self.folder / STOPPED_FILE).exists():
            return "stopped"
        return "failed" if ended else "lost"

    @property
    def words(self) -> str:
        """Its state, in words."""
        return STATE_WORDS[self.state]

    @property
    def running(self) -> bool:
        """Whether its process, or one that it started, holds the lock."""
        if not _is_own_path(self.folder / LOCK_FILE, stat.S_IFREG):
            return False
        try:
            with (self.folder / LOCK_FILE).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: who looks is not who runs
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False

    @property
    def progress(self) -> Progress:
        """Its progress."""
        found = self._read("progress.json")
        return Progress(str(found.get("words", "starting")), float(found.get("share", 0.0)))

    @property
    def log(self) -> str:
        """The end of its log, including what a full disk kept out of it."""
        return ((self._text("log") or "") + str(self._read(EXIT_FILE).get("unlogged", "")))[-MAX_LOG_CHARS:]

    @property
    def result(self) -> dict[str, Any]:
        """The JSON object that the command printed; empty if none."""
        return self._read("result.json")

    @property
    def printed(self) -> str:
        """The text that the command printed; empty if it printed an object."""
        output = self._text("result.json") or ""
        return "" if output.startswith("{") else output[-MAX_LOG_CHARS:].strip("\n")

    @property
    def written(self) -> Path | None:
        """The terms that the command wrote; None if none yet."""
        given = dict(zip(self.command, self.command[1:], strict=False))
        written = [given[key] for key in ("--write",) if key in given]
        written += [f"{given[key]}/terms.toml" for key in ("--out",) if key in given]
        return next((path for path in map(Path, written) if path.is_file()), None)

    @property
    def report(self) -> str | None:
        """The page that the command wrote; None if none."""
        return self._text(REPORT_FILE)

    @property
    def own_eyes(self) -> bool:
        """Whether its result is an owner's inside view, shown once and not kept."""
        return "--inside" in self.command

    def forget(self) -> None:
        """Remove its folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def stop(self, at_once: bool = False) -> None:
        """End its process group, by force if `at_once`; do nothing if it has ended."""
        process_id = (self._text(LOCK_FILE) or "") if self.running else ""
        if process_id.isdecimal() and int(process_id) > 1:
            with suppress(OSError):
                (self.folder / STOPPED_FILE).touch()
            with suppress(ProcessLookupError, PermissionError):  # it ended meanwhile
                os.killpg(int(process_id), signal.SIGKILL if at_once else signal.SIGTERM)

    def _text(self, name: str) -> str | None:
        """Return a file's text; None if it is missing or not this account's own."""
        path = self.folder / name
        try:
            return path.read_text(encoding="utf-8", errors="replace") if _is_own_path(path, stat.S_IFREG) else None
        except FileNotFoundError:
            return None

    def _read(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads(self._text(name) or "")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def _send_start_signal(process: "subprocess.Popen[bytes]") -> None:
    if process.stdin is not None:
        with process.stdin as line:
            line.write(START_SIGNAL)


@dataclass(frozen=True)
class JobFolder:
    """All jobs of a studio."""

    folder: Path
    place: Path  # in which commands run

    def start(
        self, command: Sequence[str], title: str, report: bool = False, form: Sequence[tuple[str, str]] = ()
    ) -> Job:
        """Run a `parley` command in a process that outlives the studio, with a `report` if it can write one; its `form`
        is kept. Either the job is written down and can be stopped, or this raises an error and nothing was run."""
        folder = self.folder / (time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(3))
        try:
            with claimed(outputs(command)) as names:
                make_folder(self.folder)
                with as_disk_errors(folder):
                    folder.mkdir(mode=0o700)
                try:
                    self._write_down(folder, command, title, report, form)
                    process = self._start_process(folder, names)
                except BaseException:
                    shutil.rmtree(folder, ignore_errors=True)
                    raise
        except DiskError as error:
            raise DiskError(
                f"the job was not started and nothing was spent: {error.filename} cannot be written "
                f"({error.strerror}). Free some space on that disk and start the job again"
            ) from None
        threading.Thread(target=process.wait, daemon=True).start()  # so that it leaves no zombie behind
        return Job(folder)

    def _write_down(
        self, folder: Path, command: Sequence[str], title: str, report: bool, form: Sequence[tuple[str, str]]
    ) -> None:
        """Write the command to disk, and reserve room for how it ends."""
        typed = [*command, *(["--report", str(folder.resolve() / REPORT_FILE)] if report else [])]
        content = {"command": typed, "title": title, "started": time.strftime("%Y-%m-%d %H:%M:%S"), "form": list(form)}
        create(folder / COMMAND_FILE, json.dumps(content).encode())
        create(folder / EXIT_FILE, b" " * EXIT_FILE_BYTES)
        for name in (LOCK_FILE, "log", "result.json"):
            create(folder / name, b"")
        sync_folder(folder)
        sync_folder(self.folder)
        if not self._is_job(folder):  # on a disk that knows no permissions it would be found by nobody, and not stopped
            raise SettingError(
                f"{folder}: other accounts can read this folder; set PARLEY_STATE to a folder on a disk that supports "
                "file permissions"
            )

    def _start_process(self, folder: Path, names: Sequence[int]) -> "subprocess.Popen[bytes]":
        """Start the job's process, which waits until its number is on the disk; end it if that fails."""
        with (
            (folder / LOCK_FILE).open("r+b", buffering=0) as lock,
            (folder / "log").open("ab") as log,
            (folder / "result.json").open("ab") as result,
        ):
            fcntl.flock(lock, fcntl.LOCK_EX)
            # -P: what lies in the folder of tables is data, never a module
            process = subprocess.Popen(  # noqa: S603 - this interpreter, and a folder that was just made
                [sys.executable, "-P", "-m", "parley.studio.worker", str(folder.resolve())],
                cwd=self.place,
                stdin=subprocess.PIPE,
                stdout=result,
                stderr=log,
                env={**os.environ, "COLUMNS": "110"},  # of a table that is printed
                start_new_session=True,
                pass_fds=(lock.fileno(), *names),  # with their locks, which last until the last process closes them
            )
            try:
                with as_disk_errors(folder / LOCK_FILE):
                    lock.write(str(process.pid).encode())
                    os.fsync(lock.fileno())
                _send_start_signal(process)
            except BaseException:
                process.kill()
                process.communicate()
                raise
        return process

    def find(self, name: str) -> Job:
        """Return the job of this name."""
        job = Job(self.folder / name)
        if "/" in name or name.startswith(".") or not self._is_job(job.folder):
            raise SettingError("job: no job has this name; open the Jobs tab")
        return job

    def listed(self, kind: str | None = None) -> list[Job]:
        """List the latest jobs, newest first, of one kind if given; remove inside views that nobody opened in time."""
        folders = sorted(self.folder.iterdir(), reverse=True) if self.folder.is_dir() else []
        for job in (Job(folder) for folder in folders if self._is_job(folder)):
            with suppress(OSError):  # it was removed meanwhile
                ended = (job.folder / EXIT_FILE).stat().st_mtime
                if job.own_eyes and not job.running and time.time() - ended > INSIDE_VIEW_LIFETIME_S:
                    job.forget()
        found = [Job(folder) for folder in folders if self._is_job(folder)][:MAX_LISTED_JOBS]
        return [job for job in found if kind is None or job.command[:1] == (kind,)]

    def _is_job(self, folder: Path) -> bool:
        """Return whether only this account can have written the folder."""
        folders = _is_own_path(self.folder, stat.S_IFDIR, 0o022) and _is_own_path(folder, stat.S_IFDIR, 0o077)
        return folders and _is_own_path(folder / COMMAND_FILE, stat.S_IFREG)
