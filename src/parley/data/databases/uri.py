"""Where a database is, as people write it. A password is no part of that, and no message repeats what was written."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

from parley.errors import SettingError

_SECRET = re.compile("password|passwd|passcode|secret|token|credential|private_?key|api_?key|authori[sz]ation")
_POSTGRES = """host hostaddr port dbname user passfile service servicefile options application_name
    fallback_application_name client_encoding connect_timeout tcp_user_timeout keepalives keepalives_idle
    keepalives_interval keepalives_count sslmode sslnegotiation sslcert sslkey sslrootcert sslcrl sslcrldir sslsni
    sslcertmode sslcompression ssl_min_protocol_version ssl_max_protocol_version min_protocol_version
    max_protocol_version requiressl requirepeer require_auth channel_binding gssencmode krbsrvname gsslib
    gssdelegation target_session_attrs load_balance_hosts replication"""
_ELSEWHERE = "account database schema warehouse role region protocol host port user authenticator datasetid"
# What may stand behind ? in a URI, by its beginning; a file has no such things.
PARAMETERS = {
    **dict.fromkeys(("postgresql", "postgres"), frozenset(_POSTGRES.split())),
    **dict.fromkeys(("snowflake", "bigquery", "grpc", "grpc+tls"), frozenset(_ELSEWHERE.split())),
}
_PORT = re.compile(r":\d+$")
_HOST = r"(\[[0-9a-fA-F:.]+\]|[^:/@,]*)(:\d+)?"
_HOSTS = re.compile(f"{_HOST}(,{_HOST})*")


@dataclass(frozen=True)
class Address:
    """A URI without a password: the kind of database, and where it is; `beside`: what rows may lie beside while they
    are sorted, left out, the database's own file."""

    uri: str
    scheme: str
    beside: Path | None = None

    @property
    def host(self) -> str:
        """The machine, by name and port, or the folder of a socket there."""
        parts = urlsplit(self.uri)
        given = dict(parse_qsl(parts.query))
        host = given.get("host") or parts.netloc.rpartition("@")[2] or given.get("service")
        host = host or os.environ.get("PGHOST") or os.environ.get("PGSERVICE") or "localhost"
        port = given.get("port") or os.environ.get("PGPORT") or "5432"
        return host if _PORT.search(host) else f"{host}:{port}"

    @property
    def file(self) -> Path:
        """The file of a database that is one: sqlite:loans.db, sqlite:/data/loans.db, sqlite:///data/loans.db."""
        path = Path(self.uri.partition(":")[2].removeprefix("//"))
        if not path.is_file():
            raise SettingError(f"{path}: no such file; expected a database")
        return path.resolve()


def parse_uri(uri: str, beside: Path | None = None) -> Address:
    """A URI, if it holds no password."""
    require_no_password(uri)
    scheme, _, rest = uri.partition(":")
    try:
        host = urlsplit(uri).netloc.rpartition("@")[2]
    except ValueError:
        host = ":"
    if not (rest and re.fullmatch("[a-zA-Z][a-zA-Z0-9+.-]*", scheme) and _HOSTS.fullmatch(host)):
        raise SettingError("--uri: expected such as postgresql://user@host:5432/database, sqlite:FILE or duckdb:FILE")
    return Address(uri, scheme.lower(), beside)


def require_no_password(uri: str) -> None:
    """Refuse a URI that holds a password, wherever, or what may be one: command lines are seen by all accounts, and
    kept by shells."""
    place, _, behind = uri.partition("?")
    before, at, _ = place.partition("://")[2].rpartition("@")
    names = [name.casefold() for name, _ in parse_qsl(behind, keep_blank_values=True)]  # decoded, as drivers do it
    named = any(map(_SECRET.search, names)) or re.search(r"\bpass(word|wd)?\s*=", uri, re.IGNORECASE)
    if (at and ":" in before) or named:
        raise SettingError(
            "--uri: holds a password, which everybody on this machine could see in the list of processes; leave it "
            "out (and change it): it comes from PGPASSFILE, PGPASSWORD or, with --ask-password, the prompt"
        )
    allowed = PARAMETERS.get(place.partition(":")[0].lower())
    if allowed is not None and not allowed.issuperset(names):
        raise SettingError(
            f"--uri: what stands behind its ? is not known here and might be a password; expected of "
            f"{', '.join(sorted(allowed))}"
        )


def with_password(uri: str, password: str | None) -> str:
    """The URI as a driver is handed it, in memory.

    >>> with_password("postgresql://anna@db/loans?sslmode=require", "x y")
    'postgresql://anna@db/loans?sslmode=require&password=x%20y'
    """
    if password is None:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}password={quote(password, safe='')}"
