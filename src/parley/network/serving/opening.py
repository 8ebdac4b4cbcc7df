"""Opening the books of one table: an owner's settings, and a ledger with the budget of the table's whole life."""

import json
import tomllib
from pathlib import Path

from parley.durable import create, make_folder, store_address
from parley.errors import DataError, SettingError
from parley.network.identity.settings import OwnerSettings, load_owner
from parley.owner.ledger import Ledger
from parley.owner.ledger.interface import Rule

SETTINGS = """\
# An owner's things. Paths are relative to this file.
name = {quoted}               # as in the terms
table = {table}
# separator = "|"             # of a CSV table, where its line of names does not show it
# encoding = "latin-1"        # likewise; left out: UTF-8, or what its first bytes say
ledger = "{name}.ledger"      # what was promised and released: parley owner backup copies it, restore puts a copy back
accepted = "accepted"         # the terms that a person here accepted
listen = {listen}           # for learners with certificates; left out: off the network, and [identity] is not read
# socket = "/run/parley/{name}.sock"   # for relays on this machine, by terms accepted with --relay
# metrics = "127.0.0.1:9464"           # for your own Prometheus: /metrics, /ready, /healthy
# cluster = "tls://10.0.0.7:8786"      # your own Dask scheduler: its workers read the pieces of a folder's table

# [hosts]                     # for terms with one noise for all: where the hosts are that they name
# host-a = {{ address = "host-a.example:7444", fingerprint = "a1b0 0783 ..." }}  # its only key (parley certs show)
# host-b = "host-b.example:7444"                                               # whoever is certified under this name
# host-c = "host-c.example:7444"

[identity]                    # parley certs
authority = "ca.crt"
certificate = "{name}.crt"
key = "{name}.key"
revoked = "ca.crl"            # what the authority took back: put every new list of its in this place

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
    """Write the settings and make the ledger, or neither; `movable`: the table lies in the folder and is moved with
    it."""
    path = folder / "owner.toml"
    if path.exists():
        raise SettingError(f"{path}: exists already; a table has one set of books")
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
    create(path, SETTINGS.format(quoted=quoted, name=name, table=where, listen=at).encode())
    try:
        settings = load_owner(path)
        Ledger(settings.ledger, lifetime, lifetime_delta, rule).close()
    except BaseException:
        path.unlink()
        raise
    return settings


def require_sole_ledger(folder: Path, name: str, table: Path) -> None:
    """Refuse to open a second set of books for one table, as far as it can be seen from here: in this folder and in its
    neighbours.

    A later snapshot of the same query is the same table. Books elsewhere, or of a copy of the table, cannot be seen.
    """
    folder = folder.resolve()
    ledger = next((known for known in folder.glob("*.ledger") if known.name != f"{name}.ledger"), None)
    if ledger is not None:
        raise SettingError(f"{ledger}: the folder holds other books already; every table has its own folder")
    for known in (*folder.glob("*.toml"), *folder.parent.glob("owner.toml"), *folder.parent.glob("*/owner.toml")):
        try:
            content = tomllib.loads(known.read_text(encoding="utf-8"))
            same = "ledger" in content and _same_people(known.parent, str(content["table"]), table)
        except (OSError, ValueError, KeyError, DataError):
            continue  # not an owner's settings, or of a table that is gone
        if same:
            raise SettingError(
                f"{known}: opened the books of {table} already; a table has one lifetime budget, so go on with "
                f"those. Only if they never accepted any terms (parley owner ledger {known}) may they be given up: "
                f"move {known.parent} out of {known.parent.parent} and init anew"
            )


def _same_people(folder: Path, known: str, table: Path) -> bool:
    """Whether both are one file, one folder or one address, or snapshots of one query."""
    from parley.data.sources import find_source  # slow to load, and most commands have no use for it

    addresses = store_address(known), store_address(table)
    if any(addresses):
        return addresses[0] == addresses[1]
    if (folder / known).samefile(table):
        return True
    origin = find_source(table).origin
    return origin is not None and origin == find_source(folder / known).origin
