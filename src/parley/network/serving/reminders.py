"""What an owner's people should mend before it stops the daemon or lets others see too much."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from cryptography import x509

from parley.durable import exposed
from parley.errors import CertificateError
from parley.network.identity.certificates import expiry_warning, read_certificate
from parley.network.identity.revocation_list import list_warning, read_revocations
from parley.network.identity.settings import Identity, OwnerSettings

Shown = Callable[[], x509.Certificate]  # the certificate that TLS shows now


def reminders(settings: OwnerSettings, shown: Shown | None = None) -> Callable[[], list[str]]:
    """Sentences for the log, at the start and once a day: what ends soon or has ended, what others can read."""
    of_identity = None if settings.identity is None else identity_reminders(settings.identity, shown)

    def now() -> list[str]:
        ledger = ledger_warning(settings.ledger)
        return [*([] if ledger is None else [ledger]), *([] if of_identity is None else of_identity())]

    return now


def identity_reminders(identity: Identity, shown: Shown | None = None) -> Callable[[], list[str]]:
    """Sentences about what of an identity ends soon or has ended: the authority, the party's own certificate, the
    revocation list."""
    ca, own = (
        read_certificate(identity.authority),
        read_certificate(identity.certificate),
    )  # as TLS took them, if it does not follow

    def of_list() -> str | None:
        return (
            None if identity.revoked is None else list_warning(identity.revoked, read_revocations(identity.revoked, ca))
        )

    def of_own() -> str | None:
        return expiry_warning(identity.certificate, own if shown is None else shown())

    def now() -> list[str]:
        sentences = []
        for look in (partial(expiry_warning, identity.authority, ca), of_own, of_list):
            try:
                sentences.append(look())
            except (CertificateError, OSError) as ended:
                sentences.append(str(ended))
        return [sentence for sentence in sentences if sentence is not None]

    return now


def ledger_warning(ledger: Path) -> str | None:
    """One sentence if others may read or change the books."""
    try:
        return f"{ledger}: other accounts may read this ledger; chmod 600 {ledger}*" if exposed(ledger) else None
    except OSError as error:
        return f"{ledger}: the ledger cannot be looked at ({type(error).__name__}); nothing is answered without it"
