"""Copies of a ledger: made beside a running daemon, and put back so that nothing that was lost can be spent again.
`restore` books everything that may have been answered since the copy was made as spent, and has the state folder
remember the restored ledger alone: no other copy is answered from any more.

Formal guarantee: after `restore` no agreement that the backup holds, and none among `lost`, is answered any more, and
each counts in full. If what was accepted after the backup is all among `lost`, or with `everything` in any case, all
that was ever sent about the table, and all that will be, is within the lifetime budget. (`everything`: all that the
lifetime budget has left may have been spent, and counts as spent.)
"""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from parley.durable import create, state_folder, sync_folder
from parley.errors import LedgerError
from parley.numerals import counted
from parley.owner.ledger.account import Head, Reservation
from parley.owner.ledger.chain import Memory, head
from parley.owner.ledger.connections import connect
from parley.owner.ledger.ledger import Ledger
from parley.owner.ledger.opening import file_beside


def back_up(ledger: Ledger, to: Path) -> Head:
    """Copy the ledger, as it is at one moment, to a file that must not exist yet; verify the copy and return its end.
    Answers go on meanwhile. The copy has all rows, also those that a plain copy would miss in the -wal file."""
    if to.exists():
        raise LedgerError(f"{to}: the file already exists, and a backup never replaces a file; choose another name")
    fresh = to.with_name(f".{to.name}.{os.getpid()}")
    try:
        copy = _make_copy(ledger.path, fresh)
        end = copy.head
        copy.close()
        merge_wal(fresh)
        try:
            os.link(fresh, to)
        except FileExistsError:
            raise LedgerError(
                f"{to}: the file already exists, and a backup never replaces a file; choose another name"
            ) from None
        sync_folder(to.parent)
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(
            f"{to}: the backup cannot be written ({_reason(error)}); no backup was made. Check the folder's "
            "permissions and the disk"
        ) from None
    finally:
        remove_copy(fresh)
    return end


def restore(
    backup: Path, ledger: Path, owner: str, lost: Sequence[Reservation], everything: bool
) -> tuple[Head, Path | None]:
    """Put a backup in the ledger's place, with all that may have been answered since it was made counted as spent;
    return the new end, and where the replaced ledger lies. `lost` are agreements that may have been accepted since. A
    crash leaves the old ledger, none, or the new one: never one that answers what it should not. Nobody may use the
    ledger meanwhile."""
    _require_latest(backup, ledger)
    ledger, memories = ledger.resolve(), state_folder("ledgers", lasting=True)
    fresh, replaced = ledger.with_name(f".{ledger.name}.restoring"), False
    try:
        books = _make_copy(backup, fresh)
        books.assume_spent(owner, lost, everything)
        end, memory = books.head, Memory(memories, books.identity, ledger, "ledger")
        books.close()
        merge_wal(fresh)
        aside = set_aside(ledger)
        memory.replace(end)
        fresh.rename(ledger)
        replaced = True
        sync_folder(ledger.parent)
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(
            f"{ledger}: the ledger cannot be replaced ({_reason(error)}); {_left_in_place(ledger, replaced)}"
        ) from None
    finally:
        remove_copy(fresh)
    Ledger(ledger).close()
    return end, aside


def _make_copy(source: Path, to: Path) -> Ledger:
    """Return a copy for this account alone, on the disk, and verified from the first row on."""
    if not source.is_file():
        raise LedgerError(f"{source}: the ledger does not exist; check the path")
    remove_copy(to)
    create(to, b"")
    try:
        with closing(connect(source)) as one, closing(sqlite3.connect(to)) as other:
            one.backup(other)
        merge_wal(to)
    except sqlite3.Error as error:
        raise LedgerError(f"{source}: cannot be copied ({error})") from None
    books = Ledger(to, remembered=False)
    books.verify()
    return books


def merge_wal(path: Path) -> None:
    """Bring everything into the one file, and the file onto the disk."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=DELETE").fetchall()
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _require_latest(backup: Path, ledger: Path) -> None:
    """Refuse to replace a whole ledger by an older one that it goes on from."""
    if not ledger.is_file() or not backup.is_file() or backup.samefile(ledger):
        return
    with suppress(sqlite3.Error), closing(sqlite3.connect(ledger)) as now, closing(sqlite3.connect(backup)) as then:
        known, end = head(then), head(now)
        row = now.execute("SELECT hash FROM entries WHERE seq=?", (known.entries,)).fetchone()
        if row == (known.hash,) and end.entries > known.entries:
            raise LedgerError(
                f"{backup}: the current ledger contains this backup and "
                f"{counted(end.entries - known.entries, 'more row')}, so nothing needs to be restored. If the current "
                f"ledger also lacks answers, restore from the file {ledger} itself"
            )


def set_aside(ledger: Path) -> Path | None:
    """Move the ledger away, its -wal file after it: in between there is no ledger, so nobody answers."""
    aside = ledger.with_name(f"{ledger.name}.replaced-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
    moved = [end for end in ("", "-wal", "-shm") if Path(f"{ledger}{end}").exists()]
    for end in moved:
        Path(f"{ledger}{end}").rename(f"{aside}{end}")
    file_beside(ledger, "verified").unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        os.truncate(file_beside(ledger, "drawing"), 0)  # it is a lock too, and stays
    return aside if moved else None


def _reason(error: OSError | sqlite3.Error) -> str:
    return str(error.strerror if isinstance(error, OSError) else error)


def _left_in_place(ledger: Path, replaced: bool) -> str:
    """Say what lies in the ledger's place after a restore that failed."""
    if replaced:
        return "the restored ledger is in place, but a crash of the machine may lose it"
    if ledger.exists():
        return "the ledger in place is unchanged"
    return f"the former ledger is now in {ledger.name}.replaced-… in the same folder; repeat the command"


def remove_copy(path: Path) -> None:
    for end in ("", "-wal", "-shm", "-journal", ".verified", ".drawing"):
        Path(f"{path}{end}").unlink(missing_ok=True)
