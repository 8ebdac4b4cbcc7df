"""What an owner's people should mend before it stops the daemon or lets others see too much."""

from collections.abc import Callable
from pathlib import Path

from parley.durable import exposed
from parley.errors import CertificateError
from parley.exchange.certificates import expiry_warning, read_certificate, revoked_serials
from parley.exchange.settings import OwnerSettings


def reminders(settings: OwnerSettings) -> Callable[[], list[str]]:
    """Sentences for the log, at the start and once a day: what ends soon or has ended, what others can read."""
    identity = settings.identity
    shown = None if identity is None else read_certificate(identity.certificate)  # TLS goes on showing it when the file is renewed

    def now() -> list[str]:
        sentences = [ledger_warning(settings.ledger)]
        if identity is not None:
            try:
                sentences.append(expiry_warning(identity.certificate, shown))
            except CertificateError as ended:
                sentences.append(str(ended))
            try:
                revoked_serials(identity)
            except (CertificateError, OSError) as error:
                sentences.append(str(error))
        return [sentence for sentence in sentences if sentence is not None]

    return now


def ledger_warning(ledger: Path) -> str | None:
    """One sentence if others may read or change the books."""
    return f"{ledger}: other accounts may read this ledger; chmod 600 {ledger}*" if exposed(ledger) else None
