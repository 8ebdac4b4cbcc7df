"""Becoming a host: its settings and journal, what terms ask of it in words, and accepting them; what its journal says,
and a copy of the journal put back, so that nothing that was lost can be opened again.

Formal guarantee: after `restore` the host agrees on nothing and opens nothing under any terms that the copy or the
folder of acceptances names, except that it repeats what the copy says it opened. To witnesses the journal is another
book from then on: they go on under new terms alone, and refuse one of the old agreements under it.
"""

import json
import sqlite3
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.durable import create, make_folder, state_folder, sync_folder
from parley.errors import CertificateError, LedgerError, SettingError
from parley.network.exchange.host_connections import TWO_HOSTS_WARNING, host_keys
from parley.network.exchange.share_bundle import MAX_HOSTS
from parley.network.hosting.journal import CLOSED_REASON, Journal, close_everything
from parley.network.hosting.proposal import assignment_of
from parley.network.identity.certificates import fingerprint, names, read_certificate
from parley.network.identity.settings import HostSettings, load_host
from parley.network.serving.acceptance import Acceptance, Acceptances
from parley.network.serving.offer import learner_key
from parley.network.serving.opening import daemon_lock
from parley.numerals import counted
from parley.owner.disclosure import host_facts, key_warnings, role_warnings
from parley.owner.ledger.account import Head
from parley.owner.ledger.backup import merge_wal, remove_copy, set_aside
from parley.owner.ledger.chain import Memory, hash_at, head
from parley.owner.ledger.connections import connect
from parley.protocol.setup import resolve
from parley.terms import Terms
from parley.terms.file import TermsWarning

SETTINGS_TEMPLATE = """# Settings of a host. Paths are relative to this file.
name = {quoted}              # as in the terms ([[hosts]]) and on the certificate
journal = "{name}.journal"    # what was opened, for ever. Never put back an older one: the state folder
                              # (PARLEY_STATE, or ~/.local/state/parley) detects and refuses it
accepted = "accepted-as-host" # terms that a person here accepted
listen = {listen}           # for owners, the learner and the other hosts, with certificates
# metrics = "127.0.0.1:9465"           # for your own Prometheus: /metrics, /ready, /healthy

[peers]                       # where the other hosts are
# host-b = {{ address = "host-b.example:7444", fingerprint = "a1b0 0783 ..." }}  # its only key (parley certs show)
# host-c = "host-c.example:7444"                                               # whoever is certified under this name

[identity]                    # parley certs
authority = "ca.crt"
certificate = "{name}.crt"
key = "{name}.key"
revoked = "ca.crl"            # the authority's revocation list: replace it by every new one
"""

ROLLBACK_WARNING = (
    "Never put back an older journal or an older disk. A curious other host could then make yours open the same "
    "answers under a second noise."
)
MATCHES_SEEN = "You also see each table's size and how many people match, with dummies added."
PAIRED_WARNING = (
    "Both hosts draw one noise together. A host that departs from the protocol can take away nearly all noise, unseen. "
    "If each host adds a full noise (terms without privacy.draw), one honest host is enough."
)


@dataclass(frozen=True, eq=False)
class HostOffer:
    """What a person at the host reads before accepting."""

    settings: HostSettings
    terms: Terms
    key: str | None  # the learner's, if only this one may ask
    summary: tuple[str, ...]
    warnings: tuple[TermsWarning, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what `parley host accept --json` prints, except whether it was accepted."""
        return {
            "host": self.settings.name,
            "terms": self.terms.hash,
            "terms_hash": self.terms.hash,
            "title": self.terms.title,
            "learner": self.terms.learning.learner,
            "key": self.key,
            "promise": list(self.summary),
            "doubts": [vars(warning) for warning in self.warnings],
            "hosts": host_facts(self.terms),
        }

    def accept(self) -> None:
        """Begin these terms in the journal, and serve them from now on; repeating it changes nothing."""
        journal, acceptances = Journal(self.settings.journal), Acceptances(self.settings.accepted)
        try:
            if journal.closed(self.terms.hash):
                raise LedgerError(f"{self.settings.journal}: {CLOSED_REASON}")
            if self.terms.hash in acceptances.hashes() and not journal.begun(self.terms.hash):
                raise LedgerError(
                    f"{self.settings.journal}: these terms were accepted with another journal; put the other journal "
                    "back"
                )
            with acceptances.storing(Acceptance(self.terms, self.key)):
                journal.begin(self.terms.hash)
        finally:
            journal.close()


def open_host(folder: Path, name: str, listen: str) -> HostSettings:
    """Write the settings and make an empty journal, or neither."""
    path = folder / "host.toml"
    if path.exists():
        raise SettingError(
            f"{path}: the file already exists, and a host has only one journal; give another host its own folder"
        )
    make_folder(folder)
    create(path, SETTINGS_TEMPLATE.format(quoted=json.dumps(name), name=name, listen=json.dumps(listen)).encode())
    try:
        settings = load_host(path)
        Journal(settings.journal).close()
    except BaseException:
        path.unlink()
        raise
    return settings


def consider(terms: Terms, settings: HostSettings, certificate: Path | None = None) -> HostOffer:
    """Look at terms that may name this host; with the learner's `certificate`, only its key may ask."""
    terms.require_shared_sample()
    key = None if certificate is None else learner_key(terms, settings.identity, certificate)
    summary = tuple(acceptance_summary(terms, settings.name))
    require_own_key(terms, settings)
    known = host_keys(terms.hosts, settings.peers, "host.toml: peers", own_key(settings))
    keys = {name for name, key in known.items() if key is not None} | {settings.name}
    return HostOffer(settings, terms, key, summary, (*role_warnings(terms), *key_warnings(terms, keys, "host.toml")))


def own_key(settings: HostSettings) -> dict[str, str]:
    """Return this host's own key by its name, if its certificate is there already."""
    path = settings.identity.certificate
    return {settings.name: fingerprint(read_certificate(path))} if path.exists() else {}


def require_own_key(terms: Terms, settings: HostSettings) -> None:
    """Refuse terms that give this host another key, and a certificate that names another host, too."""
    (own,) = [host for host in terms.hosts if host.name == settings.name]
    if settings.identity.certificate.exists():
        carried = names(read_certificate(settings.identity.certificate))
        twice = [host.name for host in terms.hosts if host.name in carried and host.name != settings.name]
        if twice:
            raise CertificateError(
                f"{settings.identity.certificate}: the certificate also names the host {twice[0]!r}: "
                f"{TWO_HOSTS_WARNING}; request a new certificate"
            )
    if own.key is None:
        return
    own_fingerprint = fingerprint(read_certificate(settings.identity.certificate))
    if own_fingerprint != own.key:
        raise CertificateError(
            f"{settings.identity.certificate}: the certificate has the key {own_fingerprint[:16]}…, but the terms "
            f"state the key {own.key[:16]}… for {settings.name!r}; use the certificate with that key, or agree on new "
            "terms"
        )


def acceptance_summary(terms: Terms, name: str) -> list[str]:
    """Describe what accepting means for a host; refuse terms that do not name it."""
    assignment = assignment_of(resolve(terms))
    assignment.require_messages()
    index = assignment.index(name)
    shapes = " and ".join(f"{shape.law} noise for {shape.size:,} numbers" for shape in assignment.ahead)
    others = " and ".join(host for place, host in enumerate(assignment.hosts) if place != index)
    shared = "table" if assignment.join is not None else "answer"
    if len(assignment.hosts) == MAX_HOSTS:
        verified = ", verify each other's computation" if assignment.cheating else ""
        checked = ", check that each answer keeps its bounds" if assignment.checked else ""
        matched = ", match the owners' tables on shares" if assignment.join is not None else ""
        does = f"draw {shapes} with the others{verified}{checked}{matched}, and"
        sees = f"two of three shares of every {shared}, which tell you"
        others = f"others are {others}"
    else:
        draws = f"draw {shapes} with the other host" if assignment.paired else f"add {shapes} that you alone draw"
        does, sees = f"{draws}, and", "one of two shares of every answer, which tells you"
        others = f"other is {others}"
    return [
        f"You are host {index} of {len(assignment.hosts)} for {len(terms.owners)} owners; the {others}.",
        f"In each of {counted(assignment.rounds, 'round')} you add up the owners' shares, {does} "
        f"send your part of the noisy sum to {terms.learning.learner}. There is one sum per round, for ever.",
        f"You see {sees} nothing. Whoever sees what two hosts see can read every {shared}, so keep your machine, key "
        "and journal to yourself.",
        *([] if assignment.join is None else [MATCHES_SEEN]),
        *([] if len(assignment.hosts) == MAX_HOSTS else [ROLLBACK_WARNING]),
        *([PAIRED_WARNING] if assignment.paired else []),
    ]


def statement(settings: HostSettings) -> dict[str, Any]:
    """Recompute the journal's chain and return its row counts; a running daemon does not wait for it."""
    if not settings.journal.exists():
        raise LedgerError(
            f"{settings.journal}: no such journal; put the journal back, or create a first journal with parley host "
            "init"
        )
    journal, acceptances = Journal(settings.journal, writes=False), Acceptances(settings.accepted)
    try:
        accepted = [
            acceptance for terms_hash in acceptances.hashes() if (acceptance := acceptances.get(terms_hash)) is not None
        ]
        agreements = [_agreement(journal, acceptance) for acceptance in accepted]
        end = journal.head
    finally:
        journal.close()
    return {"host": settings.name, "agreements": agreements, "rows": end.entries, "head": end.hash}


def _agreement(journal: Journal, acceptance: Acceptance) -> dict[str, Any]:
    terms = acceptance.terms
    counts = journal.counts(terms.hash)
    return {
        "terms": terms.hash,
        "title": terms.title,
        "learner": terms.learning.learner,
        "begun": "begin" in counts,  # else it was accepted with another journal: nothing is opened by it
        "closed": "close" in counts,
        "rounds": assignment_of(resolve(terms)).rounds,
        "opened": counts.get("opened", 0),
        "void": counts.get("void", 0),
        "waiting": journal.waiting(terms.hash),
    }


@dataclass(frozen=True)
class Restored:
    """The journal's new end, how many agreements are closed in it, and where the replaced one lies."""

    head: Head
    closed: int
    aside: Path | None


def restore(copy: Path, settings: HostSettings) -> Restored:
    """Put a copy in the journal's place, with all agreements closed. A crash leaves the old journal, none, or the new
    one. The daemon must not run."""
    journal = settings.journal.resolve()
    with daemon_lock(settings.journal, "journal", "parley host init") if journal.exists() else nullcontext():
        _require_latest(copy, journal)
        memories, accepted = state_folder("journals", lasting=True), Acceptances(settings.accepted).hashes()
        fresh, replaced = journal.with_name(f".{journal.name}.restoring"), False
        try:
            end, closed, name = _copied(copy, fresh, journal, accepted)
            aside = set_aside(journal)
            Memory(memories, name, journal, "journal").replace(end)
            fresh.rename(journal)
            replaced = True
            sync_folder(journal.parent)
        except (OSError, sqlite3.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            left = "in place" if replaced or journal.exists() else f"in {journal.name}.replaced-… in the same folder"
            raise LedgerError(
                f"{journal}: the journal cannot be replaced ({reason}); a journal is {left}. Repeat the command"
            ) from None
        finally:
            remove_copy(fresh)
        Journal(journal).close()
    return Restored(end, closed, aside)


def _copied(copy: Path, fresh: Path, journal: Path, accepted: list[str]) -> tuple[Head, int, str]:
    """Make the closed journal on the disk; return its end, how many agreements are closed, its memory's name."""
    if not copy.is_file():
        raise LedgerError(f"{copy}: the journal does not exist; check the path")
    remove_copy(fresh)
    create(fresh, b"")
    with closing(connect(copy)) as one, closing(sqlite3.connect(fresh)) as other:
        one.backup(other)
    with closing(sqlite3.connect(fresh, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        name = close_everything(db, journal, accepted)
        (closed,) = db.execute("SELECT COUNT(*) FROM entries WHERE kind='close'").fetchone()
        end = head(db)
        db.execute("COMMIT")
    merge_wal(fresh)
    return end, int(closed), name


def _require_latest(copy: Path, journal: Path) -> None:
    """Refuse to replace a whole journal by an older one that it goes on from."""
    if not journal.is_file() or not copy.is_file() or copy.samefile(journal):
        return
    with suppress(sqlite3.Error), closing(connect(journal)) as now, closing(connect(copy)) as then:
        known, end = head(then), head(now)
        if hash_at(now, known.entries) == known.hash and end.entries > known.entries:
            raise LedgerError(
                f"{copy}: the current journal contains this copy and "
                f"{counted(end.entries - known.entries, 'more row')}, so nothing needs to be restored. If the current "
                f"journal also lacks rows, restore from the file {journal} itself"
            )
