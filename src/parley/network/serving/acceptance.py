"""Terms that a person at the owner accepted, kept beside the ledger for a restarted daemon. The ledger says that terms
with this hash were accepted, and their price; the file says what they are and who may ask. A daemon answers only where
both agree."""

import json
import os
import re
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parley.durable import make_folder, replace_text, sync_folder
from parley.errors import DiskError, LedgerError, SettingError, TermsError
from parley.owner.ledger import Ledger
from parley.terms import FORMAT as TERMS_FORMAT
from parley.terms import Terms

FORMAT = "parley-acceptance-1"
PENDING_SUFFIX = "pending"  # how the file of terms ends that are being accepted
RECHECK_AFTER_S = (
    0.02  # seconds for which an acceptance is not looked at again: rounds may follow each other in milliseconds
)


@dataclass(frozen=True)
class Caller:
    """Who asks: the names and key of a verified certificate, or a relay on this machine, which has neither. The address
    (`peer`) is for the log, and `certificate` (PEM) is kept with proposals; neither makes another caller."""

    names: tuple[str, ...] = ()
    fingerprint: str | None = None
    relay: bool = False
    peer: str = field(default="", compare=False)
    certificate: str | None = field(default=None, compare=False, repr=False)

    @property
    def party(self) -> frozenset[str]:
        """What tells parties apart: names, with any number of keys, or without names the key; a shared name is one."""
        return frozenset(self.names or (self.fingerprint or "",))


NO_KEY = ""  # no certificate has it: terms that are accepted for a release on one machine admit nobody


@dataclass(frozen=True)
class Acceptance:
    """Accepted terms, and who may ask: the learner they name (only with this key, if one is given), and relays if
    `relay`. With `peer`, the owner's own name, its own peer asks in the learner's place."""

    terms: Terms
    fingerprint: str | None = None
    relay: bool = False
    peer: str | None = None

    def admits(self, caller: Caller) -> bool:
        if caller.relay:
            return self.relay
        known = self.fingerprint is None or caller.fingerprint == self.fingerprint
        return known and (self.peer or self.terms.learning.learner) in caller.names


class Acceptances:
    """One file for each accepted terms, named after their hash."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, tuple[float, tuple[int, int, int], Acceptance]] = {}
        self._admitted: set[Caller] = set()

    def store(self, acceptance: Acceptance) -> None:
        """Store it durably, in place of an earlier one for the same terms."""
        with self.storing(acceptance):
            pass

    @contextmanager
    def storing(self, acceptance: Acceptance) -> Iterator[None]:
        """Store it durably together with what the body writes elsewhere (the ledger's row), or neither. Its file is on
        disk before the body begins, and takes its place afterwards, for which no room is needed. After a crash in
        between, or if nobody knows how far a failed ledger came, `complete` does the rest."""
        make_folder(self.folder)
        content = {
            "format": FORMAT,
            "terms": json.loads(acceptance.terms.canonical),
            "public": acceptance.terms.model.public,
            "fingerprint": acceptance.fingerprint,
            "relay": acceptance.relay,
        }
        if acceptance.peer is not None:
            content["peer"] = acceptance.peer
        if acceptance.terms.model.preparation is not None:
            content["preparation"] = acceptance.terms.model.preparation
        pending = self.folder / f"{acceptance.terms.hash}.{PENDING_SUFFIX}"
        replace_text(pending, json.dumps(content, indent=1) + "\n")
        try:
            yield
        except LedgerError:
            raise
        except BaseException:
            with suppress(OSError):
                pending.unlink()
            raise
        self._place(acceptance.terms.hash)

    def complete(self, accepted: Container[str]) -> list[str]:
        """Put files of `accepted` terms in place that a crash or a disk left behind; return their hashes. Other files
        stay unread: somebody may be accepting them now."""
        pending = sorted(path.stem for path in self.folder.glob(f"*.{PENDING_SUFFIX}")) if self.folder.is_dir() else []
        completed = [terms_hash for terms_hash in pending if terms_hash in accepted]
        for terms_hash in completed:
            self._place(terms_hash)
        return completed

    def _place(self, terms_hash: str) -> None:
        path = Path(self._path(terms_hash))
        try:
            (self.folder / f"{terms_hash}.{PENDING_SUFFIX}").replace(path)
            sync_folder(self.folder)
        except FileNotFoundError:
            if not path.exists():  # else a daemon that started at this moment was first
                raise
        except OSError as error:
            raise DiskError(
                f"{path}: the acceptance cannot be saved ({error.strerror}), but the terms are accepted; the daemon "
                "saves the acceptance at its next start"
            ) from None

    def hashes(self) -> list[str]:
        """Return the hashes of all terms that were accepted here."""
        try:
            file_names = os.listdir(self.folder)  # noqa: PTH208 - a glob would pass over a folder that cannot be read
        except FileNotFoundError:
            return []
        return sorted(name[:-5] for name in file_names if re.fullmatch(r"[0-9a-f]{64}\.json", name))

    def admit(self, caller: Caller) -> bool:
        """Whether any of them lets this caller ask, or did, or is damaged; `get` has the last word on each."""
        if caller in self._admitted:
            return True
        damaged = False
        for terms_hash in self.hashes():
            try:
                acceptance = self.get(terms_hash)
            except SettingError:
                damaged = True  # let the question come, and say what is wrong with it
                continue
            if acceptance is not None and acceptance.admits(caller):
                self._admitted.add(caller)
                return True
        return damaged

    def get(self, terms_hash: str) -> Acceptance | None:
        """Return the acceptance of these terms, reread when its file changed (noticed within `RECHECK_AFTER_S`
        seconds)."""
        known, now = self._known.get(terms_hash), time.monotonic()
        if known is not None and now - known[0] < RECHECK_AFTER_S:
            return known[2]
        if known is None and not re.fullmatch("[0-9a-f]{64}", terms_hash):
            return None
        path = self._path(terms_hash)
        try:
            about = os.stat(path)  # noqa: PTH116 - asked for every message, and pathlib takes ten times as long
        except FileNotFoundError:
            return None
        version = (about.st_mtime_ns, about.st_size, about.st_ino)
        acceptance = known[2] if known is not None and known[1] == version else _read(Path(path), terms_hash)
        self._known[terms_hash] = now, version, acceptance
        return acceptance

    def _path(self, terms_hash: str) -> str:
        return f"{self.folder}/{terms_hash}.json"


def _read(path: Path, expected: str) -> Acceptance:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT or content["terms"].pop("format") != TERMS_FORMAT:
            raise SettingError(f"{path}: the file was written by another version of Parley; accept the terms again")
        terms = accepted_terms(content["terms"], content["public"], content.get("preparation"))
        acceptance = Acceptance(terms, content["fingerprint"], content["relay"] is True, content.get("peer"))
    except (ValueError, KeyError, TypeError, AttributeError, TermsError):
        raise SettingError(f"{path}: expected an acceptance that Parley wrote; accept the terms again") from None
    if terms.hash != expected:
        raise SettingError(
            f"{path}: the hash in the file's name differs from the hash of the terms in it; accept the terms again"
        )
    return acceptance


def terms_folder(ledger: Path) -> Path:
    """Return where a release on one machine, which has no owner's settings, keeps the terms accepted in this ledger."""
    return ledger.with_suffix(".accepted")


def require_both(ledger: Ledger, acceptances: Acceptances, accepting: str | None = None) -> None:
    """Refuse an acceptance that the ledger does not know, or the ledger's terms without their file. Terms that are
    being accepted may lack the file after a crash, never the row."""
    accounts = {account.terms_hash: account for _, account in ledger.accounts()}
    kept = acceptances.hashes()
    for terms_hash in kept:
        if terms_hash not in accounts:
            raise LedgerError(
                f"{acceptances.folder}/{terms_hash}.json: the ledger {ledger.path} lacks the accepted terms in this "
                "file; put the latest ledger back with its -wal file. The ledger was rolled back or replaced and lacks "
                "later answers. If the latest ledger is lost, run parley owner restore. Remove the acceptance file if "
                "nobody at this owner accepted these terms"
            )
    for terms_hash, account in accounts.items():
        if not account.used_up and terms_hash not in kept and terms_hash != accepting:
            raise LedgerError(
                f"{ledger.path}: the terms {terms_hash[:16]}… are accepted in this ledger, but "
                f"{acceptances.folder}/{terms_hash}.json is missing. Accept the same terms again, which costs nothing "
                f"more, or end the terms with parley owner close {terms_hash[:16]}"
            )


def accepted_terms(canonical: dict[str, Any], public: str | None, preparation: str | None = None) -> Terms:
    """Return terms from their canonical form and own copies of the public sample and pinned numbers."""
    files = {key: path for key, path in (("public", public), ("preparation", preparation)) if path is not None}
    return Terms.from_dict({**canonical, "model": {**canonical["model"], **files}})
