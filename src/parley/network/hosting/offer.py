"""Becoming a host: its settings and journal, what terms ask of it in words, and accepting them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.durable import create, make_folder
from parley.errors import CertificateError, LedgerError, SettingError
from parley.network.exchange.host_connections import TWO_HOSTS_WARNING, host_keys
from parley.network.exchange.share_bundle import MAX_HOSTS
from parley.network.hosting.journal import Journal
from parley.network.hosting.proposal import assignment_of
from parley.network.identity.certificates import fingerprint, names, read_certificate
from parley.network.identity.settings import HostSettings, load_host
from parley.network.serving.acceptance import Acceptance, Acceptances
from parley.network.serving.offer import learner_key
from parley.numerals import counted
from parley.owner.disclosure import host_facts, key_warnings, role_warnings
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
    index = assignment.index(name)
    shapes = " and ".join(f"{shape.law} noise for {shape.size:,} numbers" for shape in assignment.ahead)
    others = " and ".join(host for place, host in enumerate(assignment.hosts) if place != index)
    if len(assignment.hosts) == MAX_HOSTS:
        verified = ", verify each other's computation" if assignment.cheating else ""
        checked = ", check that each answer keeps its bounds" if assignment.checked else ""
        does = f"draw {shapes} with the others{verified}{checked}, and"
        sees = "two of three shares of every answer, which tell you"
        others = f"others are {others}"
    else:
        draws = f"draw {shapes} with the other host" if assignment.paired else f"add {shapes} that you alone draw"
        does, sees = f"{draws}, and", "one of two shares of every answer, which tells you"
        others = f"other is {others}"
    return [
        f"You are host {index} of {len(assignment.hosts)} for {len(terms.owners)} owners; the {others}.",
        f"In each of {counted(assignment.rounds, 'round')} you add up the owners' shares, {does} "
        f"send your part of the noisy sum to {terms.learning.learner}. There is one sum per round, for ever.",
        f"You see {sees} nothing. Whoever sees what two hosts see can read every answer, so keep your machine, key and "
        "journal to yourself.",
        *([] if len(assignment.hosts) == MAX_HOSTS else [ROLLBACK_WARNING]),
        *([PAIRED_WARNING] if assignment.paired else []),
    ]
