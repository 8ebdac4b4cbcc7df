"""What an account notes of tables and their ledgers: in its state folder, for itself alone, and beside each table.

In the state folder lie a key (32 bytes), a note for each ledger and table (a keyed digest, a keyed sketch) and a lock.
Beside the table, where that folder can be written to, lie the same facts with a salted digest in the place of both: who
has the table can tell that it is this one, and the state folder may be gone.
"""

import fcntl
import hashlib
import hmac
import io
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from parley.data.sketch import Keys, TableSketch
from parley.durable import (
    PRIVATE,
    Version,
    create_once,
    explained,
    file_version,
    replace_bytes,
    replace_text,
    state_folder,
)
from parley.errors import DiskError, LedgerError

FORMAT = 1
_FACTS = ("ledger", "path", "owner", "person", "settled")


@dataclass(frozen=True, eq=False)
class Note:
    """A ledger that accepted terms for a table: `digest` of that table (keyed, or salted), the hash of the `person`
    column's name, and `settled`, other ledgers beside which somebody gave a reason to go on."""

    ledger: str
    path: Path
    owner: str
    digest: str
    person: str | None = None
    settled: tuple[str, ...] = ()
    sketch: TableSketch | None = None  # None: the note lies beside the table


_notes: dict[Path, tuple[Version, Note]] = {}


class TableNotes:
    """The notes of this account."""

    def __init__(self) -> None:
        self._folder = state_folder("tables", lasting=True)
        self.key = create_once(self._folder / "key", os.urandom(32))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else of this account accepts terms meanwhile."""
        file = self._folder / "lock"
        with explained(file):
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT, PRIVATE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def digest(self, cells: bytes) -> str:
        """What notes call a table of this digest."""
        return hmac.digest(self.key, cells, "sha256").hex()

    def read(self) -> list[Note]:
        """All notes in the state folder."""
        return [_remembered(file) for file in sorted(self._folder.glob("*.npz"))]

    def write(self, note: Note, cells: bytes, table: Path | None) -> None:
        """Keep a note, and one beside the table if that is possible."""
        replace_bytes(self._file(note), _written(note))
        salt = secrets.token_hex(16)
        self._write_beside(note, cells, table, [_facts(note) | {"salt": salt, "digest": _salted(salt, cells)}])

    def remove(self, note: Note, cells: bytes, table: Path | None) -> None:
        """Forget a note: its ledger accepted nothing after all."""
        self._file(note).unlink(missing_ok=True)
        self._write_beside(note, cells, table, [])

    def _file(self, note: Note) -> Path:
        return self._folder / f"{hashlib.sha256(f'{note.ledger} {note.digest}'.encode()).hexdigest()[:32]}.npz"

    def _write_beside(self, note: Note, cells: bytes, table: Path | None, new: list[dict[str, Any]]) -> None:
        if table is None:
            return
        others = [each for each in _entries(table) if each.get("ledger") != note.ledger or not _is(each, cells)]
        with suppress(OSError, DiskError):  # a folder that cannot be written to
            replace_text(_beside(table), json.dumps({"format": FORMAT, "books": [*others, *new]}, indent=1) + "\n")


def notes_beside(table: Path | None, cells: bytes) -> list[Note]:
    """The notes beside a table that are about what it holds now."""
    if table is None:
        return []
    return [_note(each, digest="") for each in _entries(table) if _is(each, cells)]


def _beside(table: Path) -> Path:
    return table.with_name(f".{table.name}.books")


def _entries(table: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(_beside(table).read_text(encoding="utf-8"))["books"]
        return [each for each in found if {*_FACTS, "salt", "digest"} <= each.keys()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _is(entry: dict[str, Any], cells: bytes) -> bool:
    return hmac.compare_digest(str(entry["digest"]), _salted(str(entry["salt"]), cells))


def _salted(salt: str, cells: bytes) -> str:
    return hmac.digest(salt.encode(), cells, "sha256").hex()


def _facts(note: Note) -> dict[str, Any]:
    return {name: getattr(note, name) for name in _FACTS} | {"path": str(note.path), "settled": list(note.settled)}


def _note(facts: dict[str, Any], **more: Any) -> Note:
    settled = tuple(str(each) for each in facts["settled"])
    return Note(**{name: facts[name] for name in _FACTS} | {"path": Path(facts["path"]), "settled": settled} | more)


def _written(note: Note) -> bytes:
    """A note as the bytes of an .npz file."""
    sketch = note.sketch
    if sketch is None:
        raise LedgerError("a note without a sketch belongs beside its table")
    keys = [sketch.whole, *sketch.without, *sketch.single]
    about = {"format": FORMAT, "digest": note.digest, **_facts(note)}
    about |= {"rows": sketch.rows, "width": sketch.width, "columns": sketch.columns, "alike": sketch.alike}
    file = io.BytesIO()
    np.savez(
        file,
        about=np.frombuffer(json.dumps(about).encode(), np.uint8),
        sizes=np.array([len(each.hashes) for each in keys]),
        hashes=np.concatenate([each.hashes for each in keys]),
        counts=np.concatenate([each.counts for each in keys]),
        distinct=np.array([each.distinct for each in keys]),
        contents=sketch.contents,
        bits=sketch.bits,
        counting=sketch.counting,
    )
    return file.getvalue()


def _remembered(file: Path) -> Note:
    """A note that was read before, unless it changed since: many owners on one machine all look at all notes."""
    version, known = file_version(file), _notes.get(file)
    if known is None or known[0] != version:
        _notes[file] = known = version, _read(file)
    return known[1]


def _read(file: Path) -> Note:
    try:
        with np.load(file, allow_pickle=False) as held:
            about = json.loads(held["about"].tobytes())
            ends = np.cumsum(held["sizes"])[:-1]
            parts = np.split(held["hashes"], ends), np.split(held["counts"], ends), held["distinct"].tolist()
            keys = [Keys(*each) for each in zip(*parts, strict=True)]
            columns = len(about["columns"])
            sketch = TableSketch(
                about["rows"],
                about["width"],
                tuple(about["columns"]),
                keys[0],
                about["alike"],
                tuple(keys[1 : columns + 1]),
                tuple(keys[columns + 1 :]),
                held["contents"],
                held["bits"],
                held["counting"],
            )
        return _note(about, digest=about["digest"], sketch=sketch)
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise LedgerError(
            f"{file}: a note about a table's ledger cannot be read ({type(error).__name__}); put it back from a "
            "backup. Nothing was spent"
        ) from None
