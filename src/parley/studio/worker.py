"""The process of one job, `python -m parley.studio.worker FOLDER`, once its studio has noted how to stop it."""

import io
import json
import os
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from parley.studio.claims import outputs, unclaim

PROGRESS_INTERVAL_S = 0.2  # seconds between two notes of progress
EXIT_FILE, START_SIGNAL = "exit.json", b"go"
EXIT_FILE_BYTES = (
    8192  # bytes of `exit.json`, on the disk before the job starts: how it ended can be said when the disk is full
)
MAX_UNLOGGED_CHARS = 600  # characters of what a full disk kept out of the log; escaped they fit into the room
NOT_BEGUN = "The studio stopped before this job started, so nothing ran. Start the job again."
NOT_KEPT = "The command ended, but its output could not be saved: the disk is full or not writable. Free some space."


class ProgressFile:
    """Progress, noted in the job's folder at intervals."""

    def __init__(self, folder: Path) -> None:
        self._file, self._last = folder / "progress.json", ("", 0.0)

    def __call__(self, words: str, done: int, total: int) -> None:
        now = time.monotonic()
        if words == self._last[0] and now - self._last[1] < PROGRESS_INTERVAL_S:
            return
        self._last = (words, now)
        aside = self._file.with_suffix(".new")
        with suppress(OSError):  # on a full disk the work goes on, unnoted
            aside.write_text(json.dumps({"words": words, "share": done / max(total, 1)}), encoding="utf-8")
            aside.replace(self._file)


class DiskFullTolerantStream(io.RawIOBase):
    """A stream that goes on when the disk is full, and keeps what it could not write."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self.lost = descriptor, b""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, content: Any) -> int:
        left = whole = bytes(content)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            self.lost = (self.lost + left)[-4 * MAX_UNLOGGED_CHARS :]
        return len(whole)


def main(folder: Path) -> int:
    """Run this folder's job; return its exit code."""
    printed, log = DiskFullTolerantStream(1), DiskFullTolerantStream(2)
    sys.stdout = io.TextIOWrapper(printed, "utf-8", "backslashreplace")
    sys.stderr = io.TextIOWrapper(log, "utf-8", "backslashreplace", write_through=True)
    command = json.loads((folder / "command.json").read_text(encoding="utf-8"))["command"]
    if sys.stdin.buffer.read() == START_SIGNAL:
        code = _run(command, ProgressFile(folder))
    else:
        code = 1
        sys.stderr.write(NOT_BEGUN)
    sys.stdout.flush()
    if printed.lost:
        code = code or 1
        sys.stderr.write(NOT_KEPT)
    unclaim(outputs(command))
    _write_end(folder, code, log.lost.decode(errors="replace")[-MAX_UNLOGGED_CHARS:])
    return code


def _write_end(folder: Path, code: int, unlogged: str) -> None:
    """Write how the job ended into the reserved room."""
    content = json.dumps({"code": code, "unlogged": unlogged}).encode()
    with os.fdopen(os.open(folder / EXIT_FILE, os.O_WRONLY | os.O_NOFOLLOW), "wb") as file:
        file.write(content.ljust(EXIT_FILE_BYTES))
        file.flush()
        os.fsync(file.fileno())


def _run(command: list[str], notes: ProgressFile) -> int:
    from parley.__main__ import main as parley
    from parley.report.terminal import watch_progress

    watch_progress(notes)
    sys.argv = ["parley", *command]
    try:
        parley()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except Exception:  # a fault of the command's own: its log says where
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
