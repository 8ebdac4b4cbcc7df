"""An audit table with books of its own, for a daemon to serve: made-up rows, a ledger that holds one agreement, and a
consortium of two, the owner and who attacks it.
"""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from parley.audit.planted import Coins, PlantedPairs, flipped
from parley.audit.run_tables import AuditedOwner
from parley.durable import create, make_folder
from parley.errors import SettingError, TermsError
from parley.network.identity.certificate_authority import issue, make_authority, make_request
from parley.network.identity.settings import Identity, OwnerSettings, load_owner
from parley.network.serving.offer import consider
from parley.network.serving.opening import open_ledger
from parley.owner.acceptance_summary import require_ledger
from parley.owner.ledger.account import Head
from parley.owner.other_books import NOBODY
from parley.protocol.queries import Query, Tables
from parley.terms import Terms
from parley.validate import Floats, upper

DAYS = 60  # that its certificates are good for
FORMAT = "parley-audit-1"


@dataclass(frozen=True, eq=False)
class ServedTable:
    """A table that an audit made, where its things lie, and where its ledger's chain ended when its terms were
    accepted: whoever serves other books, or this ledger with another table, cannot show the same."""

    folder: Path
    planted: PlantedPairs
    coins: Coins
    accepted: Head

    @property
    def settings_file(self) -> Path:
        """What its daemon is started with."""
        return self.folder / "owner" / "owner.toml"

    @property
    def settings(self) -> OwnerSettings:
        return load_owner(self.settings_file)

    @property
    def identity(self) -> Identity:
        """Of who attacks: the learner that the terms name, certified by the audit's own authority."""
        folder = self.folder / "learner"
        name = self.planted.setup.terms.learning.learner
        return Identity(authority=folder / "ca.crt", certificate=folder / f"{name}.crt", key=folder / f"{name}.key")

    def exact(self, query: Query) -> Floats | None:
        """What the table says to a question of training, without noise [size]; None where rows are drawn in secret."""
        question = self.planted.setup.part(self.planted.name).training.question
        return None if question.draws else question.bounded(query, self._prepared).value.reshape(-1)

    @cached_property
    def _prepared(self) -> Tables:
        owner = AuditedOwner(self.planted.name, self.planted.table(self.coins))
        return owner.prepare(self.planted.setup).tables


def make_table(folder: Path, planted: PlantedPairs, listen: str, rng: np.random.Generator) -> ServedTable:
    """A new audit table with its books in a folder that must not exist: its coins are thrown, and its terms accepted.

    No row of anybody is in it, and its ledger's lifetime budget is what the terms cost, so nothing else can ever be
    asked of it.
    """
    terms, name = planted.setup.terms, planted.name
    require_other_learner(terms, name)
    if folder.exists():
        raise SettingError(f"{folder}: exists already; an audit makes a table and books of its own, in a new folder")
    owner, coins = folder / "owner", flipped(len(planted), rng)
    for place in (folder, owner, folder / "learner", folder / "authority"):
        make_folder(place)
    planted.table(coins).to_parquet(owner / "table.parquet")
    _certify(folder, {name: owner, terms.learning.learner: folder / "learner"})
    lifetime = upper(terms.promised_epsilon(name)), terms.privacy.delta
    settings = open_ledger(owner, name, owner / "table.parquet", *lifetime, listen, movable=True)
    certificate = folder / "learner" / f"{terms.learning.learner}.crt"
    offer = consider(terms, settings, certificate, other_books=NOBODY)
    offer.accept()
    ledger = require_ledger(offer.owner)
    head = ledger.head
    ledger.close()
    content = {"format": FORMAT, "terms": terms.hash, "owner": name, "coins": coins.tolist(), "head": vars(head)}
    create(folder / "audit.json", json.dumps(content).encode())
    return ServedTable(folder, planted, coins, head)


def open_table(folder: Path, planted: PlantedPairs) -> ServedTable:
    """The audit table that was made there for the same terms and owner, to be attacked; refused if there is another."""
    try:
        content: dict[str, Any] = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
        known = (content["format"], content["terms"], content["owner"], len(content["coins"]))
        coins, head = np.array(content["coins"], dtype=np.int64), Head(**content["head"])
    except (OSError, ValueError, KeyError, TypeError):
        raise SettingError(f"{folder}: expected a folder that an audit made (parley audit --served)") from None
    if known != (FORMAT, planted.setup.hash, planted.name, len(planted)):
        raise SettingError(f"{folder}: its table was made for other terms, or for another owner; make a new one")
    return ServedTable(folder, planted, coins, head)


def require_other_learner(terms: Terms, name: str) -> None:
    """Refuse terms by which nobody is served who is not the owner itself."""
    if terms.learning.topology is not None or terms.learning.learner == name:
        raise TermsError(
            f"{name}: expected terms with a learner that is not this owner: its daemon answers itself alone"
        )


def _certify(folder: Path, members: dict[str, Path]) -> None:
    """An authority of the audit's own, and a certificate for each member, in its folder."""
    authority = folder / "authority"
    make_authority(authority, "Parley audit", DAYS)
    for name, place in members.items():
        make_request(place, name)
        certificate, _ = issue(authority, place / f"{name}.csr", DAYS)
        for file in (certificate, authority / "ca.crt", authority / "ca.crl"):
            shutil.copy(file, place)


PATIENCE = 60.0  # seconds for a daemon to start, and to stop
PROGRAM = (sys.executable, "-m", "parley")  # that serves, unless another is named
HERE = "127.0.0.1:0"  # on this machine, at any port


@contextmanager
def daemon(program: Sequence[str], settings_file: Path) -> Iterator[str]:
    """Where the owner's daemon listens, which runs as a process of its own until the block ends."""
    log = settings_file.with_name("daemon.log")
    with log.open("wb") as lines:
        command = [*program, "owner", "serve", str(settings_file)]
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=lines, stderr=lines)  # noqa: S603 - the operator's own program
        except OSError as error:
            raise SettingError(f"{program[0]}: cannot be started: {error.strerror}") from None
    try:
        yield listening(log, lambda: process.poll() is None)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def listening(log: Path, alive: Callable[[], bool]) -> str:
    """The address that the daemon's log names once it serves."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and alive():
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if '"serving"' in line and line.endswith("}"):
                return str(json.loads(line)["listen"])
        time.sleep(0.02)
    raise SettingError(f"{log}: the daemon did not begin to serve; its log says why")
