"""Open an owner's books: settings, a ledger with one table's lifetime budget, and locks against a second process.
Epsilon and delta in a statement are upper bounds even as floats."""

import errno
import fcntl
import json
import os
import socket
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley.durable import PRIVATE_MODE, as_disk_errors, create, make_folder, store_address
from parley.errors import DataError, DiskError, ExchangeError, LedgerError, SettingError
from parley.network.identity.settings import OwnerSettings, load_owner
from parley.network.serving.acceptance import Acceptances
from parley.owner.ledger import Ledger
from parley.owner.ledger.account import Account, Rule
from parley.privacy.events import Adjacency
from parley.validate import upper

if TYPE_CHECKING:
    from parley.data.sources import Origin


SETTINGS_TEMPLATE = """\
# Settings of an owner. Paths are relative to this file.
name = {quoted}               # as in the terms
table = {table}
# separator = "|"             # of a CSV table, if its header does not show it
# encoding = "latin-1"        # likewise. Default: UTF-8, or what its first bytes say
ledger = "{name}.ledger"      # what was promised and released: parley owner backup copies it, restore puts a copy back
accepted = "accepted"         # the terms that a person here accepted
inbox = "inbox"               # terms that certified learners propose; without this line, none are accepted
# inbox_days = 30             # after which undecided proposals lapse
listen = {listen}           # for learners with certificates; without it, off the network, [identity] unread
# socket = "/run/parley/{name}.sock"   # for relays on this machine, under terms accepted with --relay
# metrics = "127.0.0.1:9464"           # for your own Prometheus: /metrics, /ready, /healthy
# cluster = "tls://10.0.0.7:8786"      # your own Dask scheduler: its workers read and keep pieces of a folder's table

# [hosts]                     # for terms with shared noise: the hosts' addresses
# host-a = {{ address = "host-a.example:7444", fingerprint = "a1b0 0783 ..." }}  # its only key (parley certs show)
# host-b = "host-b.example:7444"                                               # whoever is certified under this name
# host-c = "host-c.example:7444"

[identity]                    # parley certs
authority = "ca.crt"
certificate = "{name}.crt"
key = "{name}.key"
revoked = "ca.crl"            # the authority's revocation list: replace it by every new one

# [peer]                      # no centre (gossip): parley peer run, beside this daemon
# listen = "0.0.0.0:7445"     # for its neighbours
# [peer.neighbours]
# bank-b = "parley.bank-b.example:7445"
"""


def open_ledger(
    folder: Path,
    name: str,
    table: Path,
    lifetime: float,
    lifetime_delta: float,
    listen: str,
    rule: Rule = "simple",
    movable: bool = False,
) -> OwnerSettings:
    """Write the settings and make the ledger, or neither; `movable`: the table lies in the folder and moves with it."""
    path = folder / "owner.toml"
    if path.exists():
        raise SettingError(
            f"{path}: the file already exists, and a table has only one ledger; give another table its own folder"
        )
    address = store_address(table)
    if address is None and not table.exists():
        raise SettingError(f"{table}: no such table")
    if address is not None:
        from parley.data.sources import find_source  # slow to load, and most commands have no use for it

        find_source(address)
    require_sole_ledger(folder, name, table)
    make_folder(folder)
    place = table.resolve().relative_to(folder.resolve()) if movable else table.resolve()
    quoted, where, at = (json.dumps(text) for text in (name, address or str(place), listen))
    where += _origin_lines(_origin(table))
    create(path, SETTINGS_TEMPLATE.format(quoted=quoted, name=name, table=where, listen=at).encode())
    try:
        settings = load_owner(path)
        Ledger(settings.ledger, lifetime, lifetime_delta, rule).close()
    except BaseException:
        path.unlink()
        raise
    return settings


def require_sole_ledger(folder: Path, name: str, table: Path) -> None:
    """Refuse a second set of books for one table, as far as this folder and its neighbours show. A later snapshot of
    the same query is the same table. Books elsewhere, or of a copy of the table, cannot be seen."""
    folder = folder.resolve()
    ledger = next((known for known in folder.glob("*.ledger") if known.name != f"{name}.ledger"), None)
    if ledger is not None:
        raise SettingError(f"{ledger}: the folder already contains another ledger; give every table its own folder")
    origin = _origin(table)
    for known, content in _books(folder):
        place = known.parent / str(content["table"])
        if _same_place(known.parent, str(content["table"]), table) or (
            origin is not None and any(origin.same_query(other) for other in _origins(known, content, place, table))
        ):
            raise SettingError(
                f"{known}: the table {table} already has a ledger in these settings. A table has one lifetime budget, "
                "so use that ledger. You may abandon the ledger only if no terms were ever accepted in it (parley "
                f"owner ledger {known}): move {known.parent} out of {known.parent.parent} and run parley owner init "
                "again"
            )


def books_alike(folder: Path, table: Path) -> Path | None:
    """Return nearby settings whose table came from a database with the same keys and columns, or None."""
    origin = _origin(table)
    if origin is None:
        return None
    for known, content in _books(folder.resolve()):
        place = known.parent / str(content["table"])
        if any(origin.columns == other.columns for other in _origins(known, content, place, table)):
            return known
    return None


def _books(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield (file, content) of owners' settings in a folder and its neighbours."""
    for known in (*folder.glob("*.toml"), *folder.parent.glob("owner.toml"), *folder.parent.glob("*/owner.toml")):
        try:
            content = tomllib.loads(known.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if "ledger" in content and "table" in content:
            yield known, content


def _same_place(folder: Path, known: str, table: Path) -> bool:
    addresses = store_address(known), store_address(table)
    if any(addresses):
        return addresses[0] == addresses[1]
    try:
        return (folder / known).samefile(table)
    except (OSError, ValueError):  # gone, or out of reach
        return False


def _origins(known: Path, content: dict[str, Any], place: Path, table: Path) -> "Iterator[Origin]":
    """Yield where the table was taken from: as recorded, and as the table says now."""
    from parley.data.sources import Origin  # slow to load, and most commands have no use for it

    recorded = content.get("origin")
    if recorded is None and store_address(str(content["table"])):
        return  # nothing in a store was taken from a database by Parley
    try:
        if recorded is not None:
            yield Origin(frozenset(recorded["queries"]), str(recorded["columns"]))
        elif not place.exists():
            raise FileNotFoundError
        now = _origin(place)
        if now is not None:
            yield now
    except (OSError, ValueError, DataError, KeyError, TypeError):
        raise SettingError(
            f"{known}: the table of this ledger cannot be read, so Parley cannot check whether it covers the same "
            f"people as {table}. Put the unreadable table back, or use the ledger of that table. Two ledgers may be in "
            "the same or in neighbouring folders only if their tables cover different people"
        ) from None


def _origin(table: Path) -> "Origin | None":
    """Return where a table was taken from; None if unknown, as for one file."""
    from parley.data.sources import find_source  # slow to load, and most commands have no use for it

    return find_source(table).origin if table.is_dir() else None


def _origin_lines(origin: "Origin | None") -> str:
    """Return the settings' lines that keep the table's origin, if there is one."""
    if origin is None:
        return ""
    queries = ", ".join(f'"{each}"' for each in sorted(origin.queries))
    return (
        "\n# of the query that gave the table: it stays when a new snapshot takes the table's place"
        f'\norigin = {{ queries = [{queries}], columns = "{origin.columns}" }}'
    )


def ledger_statement(name: str, path: Path, accepted: Path, verify: bool = False) -> dict[str, Any]:
    """Return what `parley owner ledger --json` prints of a ledger; `verify` recomputes the whole chain. The folder of
    accepted terms need not be there."""
    if path.is_file() and path.stat().st_size == 0:  # SQLite would make a database of it
        raise LedgerError(f"{path}: the file is empty and not a ledger; put the ledger back (parley owner restore)")
    ledger, acceptances = Ledger(path, writes=False), Acceptances(accepted)
    try:
        if verify:
            ledger.verify()
        accounts = ledger.accounts()
        reasons = {account.terms_hash: ledger.other_books(account.terms_hash) for _, account in accounts}
        lifetime, reserved, rho, head = ledger.lifetime, ledger.reserved, ledger.rho, ledger.head
    finally:
        ledger.close()
    return {
        "owner": name,
        "adjacency": Adjacency.REPLACE_ONE,  # of the sums: what hides a table hides a person in it
        "lifetime": {"epsilon": float(lifetime[0]), "delta": float(lifetime[1])},
        "reserved": {"epsilon": upper(reserved[0]), "delta": upper(reserved[1])},
        "rule": "simple" if rho is None else "zcdp",
        "rho": None if rho is None else {"lifetime": float(rho[0]), "reserved": upper(rho[1])},
        "epsilon_spent": upper(sum((account.spent for _, account in accounts), Fraction(0))),
        "agreements": [
            _agreement(time, account, acceptances, name) | {"other_books": reasons[account.terms_hash]}
            for time, account in accounts
        ],
        "rows": head.entries,
        "head": head.hash,
    }


def table_digests(path: Path) -> list[str]:
    """Return the digests of the tables at each acceptance in this ledger, for the owner's own eyes."""
    ledger = Ledger(path, writes=False)
    try:
        digests = [ledger.table(account.terms_hash) for _, account in ledger.accounts()]
    finally:
        ledger.close()
    return sorted({digest.hex() for digest in digests if digest is not None})


def _agreement(time: str, account: Account, acceptances: Acceptances, owner: str) -> dict[str, Any]:
    from parley.owner.disclosure import protected_unit  # both load pandas, which a look at a ledger needs not wait for
    from parley.protocol.stages import agreed_answers

    acceptance = acceptances.get(account.terms_hash)
    return {
        "terms": account.terms_hash,
        "terms_hash": account.terms_hash,
        "title": None if acceptance is None else acceptance.terms.title,
        "learner": account.learner,
        "adjacency": None if acceptance is None else Adjacency.from_unit(acceptance.terms.privacy.unit),
        "protected": None if acceptance is None else protected_unit(acceptance.terms),
        "key": None if acceptance is None else acceptance.fingerprint or None,
        "accepted": time,
        "epsilon": upper(account.epsilon),
        "epsilon_spent": upper(account.spent),
        "delta": upper(account.delta),
        "answers": account.answers,
        "agreed_answers": account.rounds if acceptance is None else agreed_answers(acceptance.terms, owner),
        "rounds": account.rounds,
        "closed": account.closed,
    }


LOCK_RETRY_S = 0.01  # seconds until the next try


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """Hold this file's lock against other processes and threads, or refuse after `seconds`; the file stays. The kernel
    frees the lock when the process ends."""
    until = time.monotonic() + seconds
    with as_disk_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_MODE)
    try:
        while True:
            try:
                with as_disk_errors(path):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except DiskError as error:
                if error.errno != errno.EWOULDBLOCK:
                    raise
            if time.monotonic() > until:
                raise SettingError(f"{path.parent}: another process is changing the folder; try again")
            time.sleep(LOCK_RETRY_S)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def daemon_lock(ledger: Path, kind: str = "ledger", maker: str = "parley owner init") -> Iterator[None]:
    """Hold the daemon's place at this ledger or journal (`kind`, made by the command `maker`), by whatever links it is
    named; the kernel frees it when the process ends. `parley owner accept` and `ledger` can still use the ledger."""
    if not ledger.exists():
        restored = " (parley owner restore)" if kind == "ledger" else ""
        raise LedgerError(
            f"{ledger}: no such {kind}; check the path. If the {kind} is lost, put the latest copy back{restored}. To "
            f"create a first {kind}, run {maker}"
        )
    ledger = ledger.resolve()
    path = ledger.with_name(f"{ledger.name}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_MODE)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ExchangeError(
                f"{ledger}: another daemon serves from this {kind}; stop the other daemon first"
            ) from None
        except OSError as error:  # network disks: without the lock two daemons could serve
            raise ExchangeError(
                f"{ledger}: the disk cannot lock files ({error.strerror}); put the {kind} on a local disk"
            ) from None
        yield
    finally:
        os.close(descriptor)  # the file stays: to remove it would let two daemons hold two files of the same name


def require_free_socket(path: Path) -> None:
    """Refuse a socket behind which somebody listens; gRPC would silently take its place."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return  # nobody there: no file, or one that a killed daemon left
    raise ExchangeError(f"{path}: another daemon already listens on this socket; stop the other daemon first")
