"""The process of one job: `python -m parley.studio.worker FOLDER` runs the command that the folder holds."""

import json
import sys
import time
from contextlib import suppress
from pathlib import Path

EVERY = 0.2  # seconds between two notes of progress


class Notes:
    """Progress, noted in the job's folder now and then."""

    def __init__(self, folder: Path) -> None:
        self._file, self._last = folder / "progress.json", ("", 0.0)

    def __call__(self, words: str, done: int, total: int) -> None:
        now = time.monotonic()
        if words == self._last[0] and now - self._last[1] < EVERY:
            return
        self._last = (words, now)
        aside = self._file.with_suffix(".new")
        with suppress(OSError):  # on a full disk the work goes on, unnoted
            aside.write_text(json.dumps({"words": words, "share": done / max(total, 1)}), encoding="utf-8")
            aside.replace(self._file)


def main(folder: Path) -> int:
    """Run the job of this folder; its exit code."""
    code = _run(folder)
    aside = folder / "exit.new"
    aside.write_text(json.dumps({"code": code}), encoding="utf-8")
    aside.replace(folder / "exit.json")
    return code


def _run(folder: Path) -> int:
    from parley.cli.app import main as parley
    from parley.report.terminal import watch_progress

    watch_progress(Notes(folder))
    sys.argv = ["parley", *json.loads((folder / "command.json").read_text(encoding="utf-8"))["command"]]
    try:
        parley()
    except SystemExit as end:
        sys.stdout.flush()
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
