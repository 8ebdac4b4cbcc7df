"""What a daemon on a network watches while it runs: its certificate, the authority's list, and its connections."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509

from parley.durable import Version, exposed, file_version
from parley.errors import CertificateError
from parley.network.identity.certificates import (
    Revocations,
    check_identity,
    expiry_warning,
    fingerprint,
    list_warning,
    read_certificate,
    read_revocations,
)
from parley.network.identity.settings import Identity, OwnerSettings
from parley.network.serving.connections import Connections
from parley.network.serving.front import Front, private_folder
from parley.network.serving.log import Log


class Network:
    """An identity that is followed, and connections that are bounded."""

    def __init__(self, identity: Identity, name: str, log: Log, longest: Callable[[], int]) -> None:
        """`longest` is the length of the longest question that anybody may ask at the moment."""
        self.credentials = Credentials(identity, name, log)
        self.revocations = Revocations(identity, lambda sentence: log("warning", reason=sentence))
        self.connections = Connections(log, longest)
        self._front: Front | None = None
        self._folder: Path | None = None

    @property
    def ends(self) -> datetime:
        """When nobody can connect any more: the certificate's end, or its authority's."""
        return min(self.credentials.certificate.not_valid_after_utc, self.credentials.authority.not_valid_after_utc)

    def time_left(self) -> dict[str, float]:
        """Return the seconds until each thing ends."""
        ends = {
            "certificate": self.credentials.certificate.not_valid_after_utc,
            "authority": self.credentials.authority.not_valid_after_utc,
            "revocation-list": self.revocations.until,
        }
        now = datetime.now(UTC)
        return {of: (end - now).total_seconds() for of, end in ends.items() if end is not None}

    @property
    def alive(self) -> bool:
        """Whether connections are still taken, once they were."""
        return self._front is None or self._front.alive

    def remove_folder(self) -> None:
        """Remove the socket's folder, where the process ends at once."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def open(self, where: str, bind: Callable[[Path], None]) -> Iterator[int]:
        """Take bounded connections at this address for gRPC, which `bind` puts on a Unix socket; yield the port."""
        with private_folder() as folder:
            self._folder = folder
            bind(folder / "grpc")
            self._front = Front(where, folder / "grpc", self.connections)
            self._front.start()
            try:
                yield self._front.port
            finally:
                self._front.close()


@dataclass(frozen=True, eq=False)
class _LoadedFiles:
    """The bytes of authority, own certificate and key, the certificate read, and all of it for gRPC."""

    content: tuple[bytes, bytes, bytes]
    certificate: x509.Certificate
    configuration: Any


class Credentials:
    """The certificate and key that a running daemon shows, reread when their files change: renewal needs no restart.
    Who connects must show one of the same authority.

    Formal guarantee: what is shown was checked as at the start (`check_identity`): the owner's own private key, its
    certificate for this name, of the authority, in date and not revoked. New files that do not fit change nothing, and
    the log hears of each version of them once. The authority stays the one of the start: another is a new consortium,
    and needs a restart.
    """

    def __init__(self, identity: Identity, name: str, log: Log) -> None:
        self._identity, self._name, self._log = identity, name, log
        self._lock = threading.Lock()
        self._version = self._file_versions()
        self._loaded = self._read()
        self.authority = read_certificate(identity.authority)

    @property
    def certificate(self) -> x509.Certificate:
        """The owner's certificate, as it is shown now."""
        return self._loaded.certificate

    def for_server(self) -> Any:
        """Return credentials for gRPC, which asks at every handshake whether there is something new."""
        given = self._loaded

        def fetch() -> Any:
            nonlocal given
            self.reload()
            before, given = given, self._loaded
            return None if given is before else given.configuration

        return grpc.dynamic_ssl_server_credentials(given.configuration, fetch, require_client_authentication=True)

    def reload(self) -> None:
        """Take what the files hold now, if it changed and is sound."""
        with self._lock:
            version = self._file_versions()
            if version == self._version:
                return
            try:
                fresh = self._read()
                if fresh.content[0] != self._loaded.content[0]:
                    raise CertificateError(
                        f"{self._identity.authority}: the authority changed; restart the daemon to use the new "
                        "authority"
                    )
            except (CertificateError, OSError) as error:
                self._version = version
                self._log("warning", reason=f"{error}; the certificate read before is shown")
                return
            if self._file_versions() != version:
                return  # in the middle of a change: at the next look
            self._version = version
            if fresh.content != self._loaded.content:
                self._loaded = fresh
                self._log(
                    "renewed",
                    fingerprint=fingerprint(fresh.certificate),
                    ends=f"{fresh.certificate.not_valid_after_utc:%Y-%m-%d}",
                )

    def _read(self) -> _LoadedFiles:
        """Read the files and check them."""
        check_identity(self._identity, self._name)
        files = self._identity.authority, self._identity.certificate, self._identity.key
        authority, certificate, key = (file.read_bytes() for file in files)
        configuration = grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=authority)
        return _LoadedFiles((authority, certificate, key), read_certificate(self._identity.certificate), configuration)

    def _file_versions(self) -> tuple[Version, ...]:
        identity = self._identity
        return tuple(
            file_version(path) for path in (identity.authority, identity.certificate, identity.key, identity.revoked)
        )


CHECK_INTERVAL_S = 1.0  # seconds between two looks at what may have changed
REMINDER_INTERVAL_S = 86400.0  # seconds between two reminders of what runs out
SERVING_ENDED_STATUS = 1  # the exit status: a restart mends it


def exit_if_dead(serving: Sequence[threading.Thread], network: Network | None, log: Log) -> None:
    """End the process at once if a thread needed for answers has died, so that a supervisor restarts it. Calls under
    way would be waited for in vain; what was debited is stored."""
    if all(thread.is_alive() for thread in serving) and (network is None or network.alive):
        return
    log("serving-ended", reason="a thread died without which no call is answered; the process ends")
    log.close()
    if network is not None:
        network.remove_folder()
    os._exit(SERVING_ENDED_STATUS)


def maintain(
    network: Network | None,
    reminders: Callable[[], Sequence[str]],
    stop: threading.Event,
    log: Log,
    *at_each_look: Callable[[], None],
) -> None:
    """Follow the certificate's files, log daily what runs out, and call `at_each_look`, until told to stop."""
    due = time.monotonic()
    while not stop.is_set():
        if network is not None:
            network.credentials.reload()
        if time.monotonic() >= due:
            due += REMINDER_INTERVAL_S
            for sentence in reminders():
                log("warning", reason=sentence)
        stop.wait(CHECK_INTERVAL_S)
        for look in at_each_look:
            look()


Shown = Callable[[], x509.Certificate]  # the certificate that TLS shows now


def reminders(settings: OwnerSettings, shown: Shown | None = None) -> Callable[[], list[str]]:
    """Return a function with sentences for the log: what ends soon or has ended, what others can read."""
    of_identity = None if settings.identity is None else identity_reminders(settings.identity, shown)

    def now() -> list[str]:
        ledger = ledger_warning(settings.ledger)
        return [*([] if ledger is None else [ledger]), *([] if of_identity is None else of_identity())]

    return now


def identity_reminders(identity: Identity, shown: Shown | None = None) -> Callable[[], list[str]]:
    """Return a function with sentences about certificates and the revocation list that end soon or have ended."""
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
    """Return a sentence if others may read or change the books."""
    try:
        return f"{ledger}: other accounts may read this ledger; chmod 600 {ledger}*" if exposed(ledger) else None
    except OSError as error:
        return f"{ledger}: the ledger cannot be looked at ({type(error).__name__}); nothing is answered without it"
