"""Becoming a host: its settings and journal, what terms ask of it in words, and accepting them."""

import json
from dataclasses import dataclass
from pathlib import Path

from parley.durable import create, make_folder
from parley.errors import LedgerError, SettingError
from parley.hosting.duty import duty_of
from parley.hosting.journal import Journal
from parley.identity.settings import HostSettings, load_host
from parley.serving.acceptance import Acceptance, Acceptances
from parley.serving.offer import learner_key
from parley.setup import resolve
from parley.terms import Terms

SETTINGS = """# Settings of a host. Paths are relative to this file.
name = {quoted}              # as in the terms ([[hosts]]) and on the certificate
journal = "{name}.journal"    # what was opened, for ever; keep it: two hosts that lose theirs could open a question twice
accepted = "accepted-as-host" # terms that a person here accepted
listen = {listen}           # for owners, the learner and the other hosts, with certificates
# metrics = "127.0.0.1:9465"           # for your own Prometheus: /metrics, /ready, /healthy

[peers]                       # where the two other hosts are
# host-b = "host-b.example:7444"
# host-c = "host-c.example:7444"

[identity]                    # parley certs
authority = "ca.crt"
certificate = "{name}.crt"
key = "{name}.key"
revoked = "ca.crl"            # what the authority took back: put every new list of its in this place
"""


@dataclass(frozen=True, eq=False)
class HostOffer:
    """What a person at the host reads before accepting."""

    settings: HostSettings
    terms: Terms
    key: str | None  # the learner's, if only this one may ask
    promise: tuple[str, ...]

    def accept(self) -> None:
        """Begin these terms in the journal, and serve by them from now on. Repeating it changes nothing."""
        journal, acceptances = Journal(self.settings.journal), Acceptances(self.settings.accepted)
        try:
            if self.terms.hash in acceptances.hashes() and not journal.begun(self.terms.hash):
                raise LedgerError(f"{self.settings.journal}: these terms were accepted with another journal; put that one back")
            journal.begin(self.terms.hash)
        finally:
            journal.close()
        acceptances.store(Acceptance(self.terms, self.key))


def open_host(folder: Path, name: str, listen: str) -> HostSettings:
    """Write the settings and make an empty journal, or neither."""
    path = folder / "host.toml"
    if path.exists():
        raise SettingError(f"{path}: exists already; a host has one journal")
    make_folder(folder)
    create(path, SETTINGS.format(quoted=json.dumps(name), name=name, listen=json.dumps(listen)).encode())
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
    return HostOffer(settings, terms, key, tuple(promise(terms, settings.name)))


def promise(terms: Terms, name: str) -> list[str]:
    """What accepting means for a host, in words; refused if the terms do not name it."""
    duty = duty_of(resolve(terms))
    index = duty.index(name)
    shapes = " and ".join(f"{shape.law} noise for {shape.size:,} numbers" for shape in duty.ahead)
    others = " and ".join(host for place, host in enumerate(duty.hosts) if place != index)
    return [
        f"You are host {index} of {len(duty.hosts)} for {len(terms.owners)} owners; the others are {others}.",
        f"In each of {duty.rounds} rounds you add up the owners' shares, draw {shapes} with the others, and send your part of the noisy "
        f"sum to {terms.learning.learner}: one sum a round, for ever.",
        "You see two of three shares of every answer, which tell nothing. Whoever sees what two hosts see, sees every answer: keep your "
        "machine, key and journal to yourself.",
    ]
