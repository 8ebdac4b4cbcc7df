"""A new user at the keyboard: the real entry point in this process, and what lies on the disk before and after."""

import hashlib
import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from parley.cli.app import main
from parley.owner.ledger import Ledger


@dataclass(frozen=True)
class Typed:
    """What a command left on the screen, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Both, in one line."""
        return " ".join(f"{self.out} {self.err}".split())


def typed(*words: object) -> Typed:
    """`parley WORDS...` as the shell starts it."""
    out, err = io.StringIO(), io.StringIO()
    with mock.patch.object(sys, "argv", ["parley", *map(str, words)]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Typed(code, out.getvalue(), err.getvalue())


def on_disk(folder: Path) -> dict[str, object]:
    """Every file with its content; of a ledger, what it promised and how its chain ends."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir():
            found[name] = "folder"
        elif path.suffix == ".ledger":
            ledger = Ledger(path)
            found[name] = (ledger.head, ledger.reserved, ledger.lifetime)
            ledger.close()
        # a ledger's own, with whoever has it open
        elif not path.name.endswith(("-wal", "-shm", ".drawing", ".head", ".verified")):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found
