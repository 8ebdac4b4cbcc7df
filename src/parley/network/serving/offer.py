"""Terms offered to an owner: what they promise and cost, what looks wrong with them, and accepting them."""

from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.errors import CertificateError, SettingError
from parley.network.exchange.host_connections import host_keys
from parley.network.identity.certificates import (
    certificate_in,
    fingerprint,
    names,
    read_certificate,
    require_private,
    require_trusted,
    trusted_certificate,
)
from parley.network.identity.settings import Identity, OwnerSettings
from parley.network.serving.acceptance import Acceptance, Acceptances
from parley.network.serving.daemon import open_owner
from parley.network.serving.inbox import Inbox, Proposal
from parley.network.serving.network import ledger_warning
from parley.owner.acceptance_summary import acceptance_summary, accepted, left_after, others_in, require_ledger
from parley.owner.disclosure import host_facts, key_warnings
from parley.owner.other_books import OtherBooks, require_reason
from parley.owner.owner import Agreement, Owner
from parley.owner.warnings import figures, find_warnings
from parley.privacy.events import Adjacency
from parley.terms import Terms
from parley.terms.file import TermsWarning


@dataclass(frozen=True, eq=False)
class Offer:
    """What a person reads before accepting. Nothing is reserved until `accept`."""

    settings: OwnerSettings
    owner: Owner
    agreement: Agreement
    key: str | None  # the learner's, if only this one may ask
    relay: bool  # whether relays on this machine may ask too
    summary: tuple[str, ...]
    warnings: tuple[TermsWarning, ...]  # raised by looking at the table: for the owner's own eyes
    ledger_warning: str | None  # about the ledger's file
    peer: str | None = None  # the owner's own name, if its own peer asks in the learner's place
    other_books: tuple[OtherBooks, ...] = ()  # of this account, for the same table or some of its people
    reason: str | None = None  # why the table may have those

    def require_room(self) -> None:
        """Refuse if the lifetime budget is too small, or the table has other books and nobody said why."""
        require_reason(self.other_books, self.reason, anyway=True)
        require_ledger(self.owner).require_room(self.owner.reservation(self.agreement.setup.terms))

    def accept(self) -> None:
        """Reserve the budget for ever, and let the learner ask; both or, if something fails, neither."""
        terms = self.agreement.setup.terms
        with Acceptances(self.settings.accepted).storing(Acceptance(terms, self.key, self.relay, self.peer)):
            self.owner.accept(terms, self.reason, anyway=True)  # who accepts read the warnings
        require_ledger(self.owner).remember()

    def close(self) -> None:
        """Close the ledger."""
        require_ledger(self.owner).close()

    def to_json(self) -> dict[str, Any]:
        """Return what `parley owner accept --json` prints, except whether it was accepted."""
        terms = self.agreement.setup.terms
        return {
            "owner": self.owner.name,
            "terms": terms.hash,
            "terms_hash": terms.hash,
            "title": terms.title,
            "learner": terms.learning.learner,
            "key": self.key,
            "relay": self.relay,
            "peer": self.peer is not None,
            "promise": list(self.summary),
            "figures": figures(self.agreement),
            "adjacency": Adjacency.from_unit(terms.privacy.unit),
            "doubts": [vars(warning) for warning in self.warnings],
            "hosts": host_facts(terms),
        }


def consider(
    terms: Terms,
    settings: OwnerSettings,
    certificate: Path | None = None,
    relay: bool = False,
    peer: bool = False,
    proposal: Proposal | None = None,
    other_books: str | None = None,
) -> Offer:
    """Look at terms beside the owner's table. Only one key may ask with the learner's `certificate`, with `peer` (the
    owner's own), or by proposed terms (the proposer's); the daemon must admit its certificate now. `other_books`: why
    the table may have another ledger."""
    if peer:
        certificate = _own_certificate(terms, settings, certificate)
    own = settings.name if peer else None
    if settings.identity is not None and settings.identity.key.exists():
        require_private(settings.identity.key)
    terms.require_shared_sample()
    asker = own or terms.learning.learner
    key = None if certificate is None else caller_key(asker, settings.identity, certificate)
    if certificate is None and proposal is not None:
        key = proposer_key(asker, settings, proposal)
    owner = open_owner(settings, accepting=terms.hash)
    with ExitStack() as refused:
        refused.callback(require_ledger(owner).close)
        warning = ledger_warning(settings.ledger)
        agreement = owner.prepare(terms)
        agreement.part.require_sound_arithmetic()
        keys = {
            name for name, key in host_keys(terms.hosts, settings.hosts, "owner.toml: hosts").items() if key is not None
        }
        summary = tuple(acceptance_summary(owner, agreement, key, relay, own))
        mixed = unit_warnings(terms, Acceptances(settings.accepted))
        books = tuple(owner.other_books(terms))
        others = [TermsWarning("other books", each.sentence) for each in books]
        warnings = (*find_warnings(owner, agreement), *key_warnings(terms, keys, "owner.toml"), *mixed, *others)
        refused.pop_all()
    return Offer(settings, owner, agreement, key, relay, summary, warnings, warning, own, books, other_books)


def consider_proposal(
    inbox: Inbox,
    proposal: Proposal,
    settings: OwnerSettings,
    public: Path | None = None,
    preparation: Path | None = None,
    certificate: Path | None = None,
    peer: bool = False,
) -> tuple[Offer, dict[str, Any]]:
    """Return (the offer, the JSON of `parley owner inbox OWNER TERMS --json`) for proposed terms."""
    terms, facts = proposal.terms(public, preparation), inbox.facts(proposal)
    offer = consider(terms, settings, certificate, peer=peer, proposal=proposal)
    known, reservation = accepted(offer.owner, terms), offer.owner.reservation(terms)
    others, left = others_in(terms, settings.name), left_after(require_ledger(offer.owner), reservation, known)
    return offer, {**offer.to_json(), "proposal": facts, "others": others, "left": left}


def unit_warnings(terms: Terms, acceptances: Acceptances) -> list[TermsWarning]:
    """Warn if terms in one ledger promise something about a whole table, and others about one person."""
    units = {terms.privacy.unit}
    for terms_hash in acceptances.hashes():
        with suppress(SettingError):  # a damaged file: who asks by its terms is told so
            acceptance = acceptances.get(terms_hash)
            units |= set() if acceptance is None else {acceptance.terms.privacy.unit}
    if len(units) == 1:
        return []
    return [
        TermsWarning(
            "privacy.unit",
            "This ledger contains terms that protect whole tables and terms that protect individual people. All these "
            "terms together protect individual people. Only terms that protect whole tables protect your table as a "
            "whole; the other terms may reveal it.",
        )
    ]


def learner_key(terms: Terms, identity: Identity | None, certificate: Path) -> str:
    """Return the fingerprint of the learner's key, from a certificate that must be the learner's."""
    return caller_key(terms.learning.learner, identity, certificate)


def caller_key(name: str, identity: Identity | None, certificate: Path) -> str:
    """Return the fingerprint of a certificate's key, which must be for this name."""
    trusted = read_certificate(certificate) if identity is None else trusted_certificate(certificate, identity)
    if name not in names(trusted):
        raise CertificateError(
            f"{certificate}: the certificate is for {', '.join(names(trusted))}, but the learner in the terms is "
            f"{name!r}; give the certificate of that learner"
        )
    return fingerprint(trusted)


def proposer_key(name: str, settings: OwnerSettings, proposal: Proposal) -> str:
    """Return the fingerprint of the key that proposed terms; its certificate must be for this name and trusted now."""
    file = (settings.inbox or Path()) / f"{proposal.terms_hash}.json"
    if proposal.certificate is None:
        raise CertificateError(
            f"{file}: an earlier version of Parley stored no certificate with this proposal. Ask the learner to "
            "propose the same terms again, or give the learner's certificate with --certificate"
        )
    presented = certificate_in(proposal.certificate, file)
    if settings.identity is not None:
        require_trusted(presented, file, settings.identity)
    if name not in names(presented) or fingerprint(presented) != proposal.fingerprint:
        raise CertificateError(
            f"{file}: the certificate in the proposal does not belong to the proposing key, or is not for {name!r}; "
            "ask the learner to propose the same terms again"
        )
    return proposal.fingerprint


def _own_certificate(terms: Terms, settings: OwnerSettings, certificate: Path | None) -> Path:
    """Return the path of the owner's certificate, if its peer can ask by these terms."""
    if terms.learning.topology is None:
        raise SettingError(
            "--peer: these terms have a learner; remove --peer, or use terms with learning.algorithm = 'gossip'"
        )
    if certificate is not None:
        raise SettingError("--peer: remove --certificate, because this owner's own peer asks the questions")
    if settings.identity is None:
        raise SettingError(
            "--peer: expected `listen` and [identity] in owner.toml, because a peer shows the owner's own certificate"
        )
    return settings.identity.certificate
