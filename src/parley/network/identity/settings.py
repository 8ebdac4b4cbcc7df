"""What each party writes down for itself: an owner (owner.toml), a host (host.toml), a learner (addresses.toml)."""

import ipaddress
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from parley.durable import resolved_against
from parley.errors import SettingError
from parley.terms import PARTY, Fingerprint

PROPOSAL_LAPSE_DAYS = 30  # after which a proposal lapses that nobody decided about

Text = Annotated[str, Field(min_length=1, strict=True)]
Party = Annotated[str, Field(pattern=PARTY, strict=True)]


def _host_port(value: Any) -> Any:
    """Require both parts: gRPC would choose a port that is missing."""
    if isinstance(value, str) and not re.fullmatch(r"[^:\s]+:\d{1,5}|\[[0-9A-Fa-f:.]+\]:\d{1,5}", value, re.ASCII):
        raise PydanticCustomError("host_port", "expected host:port, such as 0.0.0.0:7443 or [::]:7443")
    return value


HostPort = Annotated[str, BeforeValidator(_host_port), Field(strict=True)]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Identity(_Settings):
    """The authority's certificate, a party's own with its key, and what the authority revoked (ca.crl)."""

    authority: Path
    certificate: Path
    key: Path
    revoked: Path | None = None


class Pinned(_Settings):
    """A party's address, and the fingerprint of the only key it may show there, in groups of four or not."""

    address: HostPort
    fingerprint: Fingerprint


def _kind(value: Any) -> str:
    if isinstance(value, dict | _Settings):
        return "own" if "own" in dict(value) else "pinned"
    return "line"


HostAddress = Annotated[Annotated[HostPort, Tag("line")] | Annotated[Pinned, Tag("pinned")], Discriminator(_kind)]


def _different_keys(hosts: dict[str, Any]) -> dict[str, Any]:
    """Refuse one key for two hosts, which would be one that reads every answer."""
    pins: dict[str, str] = {}
    for name, where in hosts.items():
        if isinstance(where, Pinned) and pins.setdefault(where.fingerprint, name) != name:
            raise PydanticCustomError(
                "same_key",
                "expected different fingerprints: {one} and {other} have the same fingerprint, and a holder of the "
                "keys of two hosts can read every answer",
                {"one": pins[where.fingerprint], "other": name},
            )
    return hosts


HostAddresses = Annotated[dict[Party, HostAddress], AfterValidator(_different_keys)]


class PeerSettings(_Settings):
    """An owner's peer without a centre: its address, its neighbours, and `daemon` if not at the owner's `listen`."""

    listen: HostPort
    neighbours: dict[Party, HostAddress] = Field(min_length=1)
    daemon: HostPort | None = None


class TableOrigin(_Settings):
    """Where an owner's table was taken from, in digests (`data.sources.Origin`)."""

    queries: tuple[str, ...]
    columns: str


class OwnerSettings(_Settings):
    """An owner's things. `listen` (host:port) is for learners with certificates, `socket` for relays on this machine,
    without. `inbox` is the folder of terms that certified learners propose (default: none); undecided ones lapse after
    `inbox_days`. `separator` and `encoding` override what a CSV table's header says. `cluster` is the owner's Dask
    scheduler, whose workers read and keep pieces of a streamed table. `metrics` (host:port) is a page for the owner's
    monitoring, without TLS: on this machine only, unless `metrics_anywhere` is set."""

    name: Party
    table: Path
    separator: Text | None = None
    encoding: Text | None = None
    origin: TableOrigin | None = None
    ledger: Path
    accepted: Path
    inbox: Path | None = None
    inbox_days: int = Field(default=PROPOSAL_LAPSE_DAYS, strict=True, ge=1, le=3650)
    listen: HostPort | None = None
    socket: Path | None = None
    cluster: Text | None = None
    metrics: HostPort | None = None
    metrics_anywhere: bool = Field(default=False, strict=True)
    hosts: HostAddresses = Field(default_factory=dict)
    peer: PeerSettings | None = None
    identity: Identity | None = None


class HostSettings(_Settings):
    """A host's things: its journal, the terms that its people accepted, and where the other hosts are."""

    name: Party
    journal: Path
    accepted: Path
    listen: HostPort
    peers: HostAddresses = Field(default_factory=dict)
    metrics: HostPort | None = None
    metrics_anywhere: bool = Field(default=False, strict=True)
    identity: Identity


class OwnTable(_Settings):
    """The learner's own table, in its own process."""

    own: Path


Address = Annotated[
    Annotated[Text, Tag("line")] | Annotated[Pinned, Tag("pinned")] | Annotated[OwnTable, Tag("own")],
    Discriminator(_kind),
]


class Addresses(_Settings):
    """Where a learner finds each owner: "host:port", { address = "host:port", fingerprint = "..." }, "unix:/path", or
    for its own table { own = "owner.toml" }."""

    identity: Identity | None = None
    owners: dict[Party, Address] = Field(min_length=1)
    hosts: HostAddresses = Field(default_factory=dict)


S = TypeVar("S", bound=_Settings)


def load_host(path: Path) -> HostSettings:
    """Read a host.toml. Paths inside it are relative to the file."""
    settings = _load(HostSettings, path)
    _require_near(settings, path)
    return settings


def load_owner(path: Path) -> OwnerSettings:
    """Read an owner.toml, with paths relative to it. Without `listen` an owner needs no identity, and has none."""
    settings = _load(OwnerSettings, path)
    _require_near(settings, path)
    if settings.inbox is not None and settings.inbox.resolve() == settings.accepted.resolve():
        raise SettingError(
            f"{path}: inbox: expected a folder other than `accepted`, which is only for terms that a person accepted"
        )
    if settings.listen is None:
        return settings.model_copy(update={"identity": None})
    if settings.identity is None:
        raise SettingError(f"{path}: identity: missing; listening on a network requires certificates (parley certs)")
    return settings


def _require_near(settings: OwnerSettings | HostSettings, path: Path) -> None:
    """Refuse a metrics page for everybody, unless that is wanted."""
    if settings.metrics is not None and not settings.metrics_anywhere and not loopback(settings.metrics):
        raise SettingError(
            f"{path}: metrics: other machines can reach {settings.metrics}, and the metrics page shows budgets and "
            "learners to everyone; use 127.0.0.1, or set `metrics_anywhere = true`"
        )


def loopback(address: str) -> bool:
    """Whether only this machine reaches the address."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def load_addresses(path: Path) -> Addresses:
    """Read an addresses.toml. Paths inside it are relative to the file."""
    addresses = _load(Addresses, path)
    remote = [
        a
        for a in addresses.owners.values()
        if isinstance(a, Pinned) or (isinstance(a, str) and not a.startswith("unix:"))
    ]
    if (remote or addresses.hosts) and addresses.identity is None:
        raise SettingError(
            f"{path}: identity: missing; owners on a network answer only callers with certificates (parley certs)"
        )
    return addresses


EXPECTED_FILE_MESSAGES: dict[type, str] = {
    OwnerSettings: "expected an owner's settings, as parley owner init writes them",
    HostSettings: "expected a host's settings, as parley host init writes them",
    Addresses: "expected a file that says where the owners are (docs/deployment.md)",
}


def _load(kind: type[S], path: Path) -> S:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        return kind.model_validate(_beside(content, path.resolve().parent))
    except OSError as error:
        raise SettingError(
            f"{path}: cannot be read: {error.strerror or error}; {EXPECTED_FILE_MESSAGES[kind]}"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: not valid TOML: {error}") from None
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise SettingError(
            f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg'][:1].lower()}{first['msg'][1:]}"
        ) from None


_PATH_KEYS = {"table", "ledger", "journal", "accepted", "inbox", "socket"}
_PATH_KEYS |= {"authority", "certificate", "key", "revoked", "own"}


def _beside(content: Any, folder: Path) -> Any:
    """Return the content with every path absolute, as seen from `folder`."""
    if not isinstance(content, dict):
        return content
    return {
        k: resolved_against(folder, v) if k in _PATH_KEYS and isinstance(v, str) else _beside(v, folder)
        for k, v in content.items()
    }
