"""What each party writes down for itself: an owner where its things lie (owner.toml), a learner where the owners are (addresses.toml)."""

import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from parley.errors import SettingError
from parley.terms import PARTY

Text = Annotated[str, Field(min_length=1, strict=True)]
Party = Annotated[str, Field(pattern=PARTY, strict=True)]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Identity(_Settings):
    """Whom one trusts and who one is: the authority's certificate, one's own, and its key."""

    authority: Path
    certificate: Path
    key: Path


class OwnerSettings(_Settings):
    """An owner's things. `listen` (host:port) is for learners with certificates, `socket` for relays on this machine."""

    name: Party
    table: Path
    ledger: Path
    accepted: Path
    listen: Text | None = None
    socket: Path | None = None
    identity: Identity | None = None


class OwnTable(_Settings):
    """The learner's own table, in its own process."""

    own: Path


class Addresses(_Settings):
    """Where a learner finds each owner: "host:port", "unix:/path", or { own = "owner.toml" } for its own table."""

    identity: Identity | None = None
    owners: dict[Party, Text | OwnTable] = Field(min_length=1)


S = TypeVar("S", bound=_Settings)


def load_owner(path: Path) -> OwnerSettings:
    """Read an owner.toml. Paths inside it are relative to the file."""
    settings = _load(OwnerSettings, path)
    if settings.listen is not None and settings.identity is None:
        raise SettingError(f"{path}: identity: missing; who listens on a network needs certificates (parley certs)")
    return settings


def load_addresses(path: Path) -> Addresses:
    """Read an addresses.toml. Paths inside it are relative to the file."""
    addresses = _load(Addresses, path)
    remote = [a for a in addresses.owners.values() if isinstance(a, str) and not a.startswith("unix:")]
    if remote and addresses.identity is None:
        raise SettingError(f"{path}: identity: missing; owners on a network answer only to certificates (parley certs)")
    return addresses


def _load(kind: type[S], path: Path) -> S:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        return kind.model_validate(_beside(content, path.resolve().parent))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: not valid TOML: {error}") from None
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise SettingError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg'][:1].lower()}{first['msg'][1:]}") from None


_PATHS = {"table", "ledger", "accepted", "socket", "authority", "certificate", "key", "own"}


def _beside(content: Any, folder: Path) -> Any:
    """The same with every path made absolute, as seen from `folder`."""
    if not isinstance(content, dict):
        return content
    return {k: str(folder / v) if k in _PATHS and isinstance(v, str) else _beside(v, folder) for k, v in content.items()}
