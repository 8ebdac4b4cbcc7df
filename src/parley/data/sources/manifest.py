"""The manifest of a folder taken from a database: what was asked, where, when, and the resulting files. It is written
last. A folder whose files differ from its manifest is no table."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from parley.data.sources.source import Origin
from parley.errors import DataError

MANIFEST_NAME = "parley-snapshot.json"
FORMAT = "parley-snapshot-1"
_COMMENT = r"--[^\n]*|/\*.*?\*/"
_COMMENTS = re.compile(_COMMENT, re.DOTALL)
_TOKENS = re.compile(rf"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|;|{_COMMENT}", re.DOTALL)


@dataclass(frozen=True)
class Manifest:
    """A snapshot: query, ordering columns, server without account or password, time, columns, files and digest."""

    query: str
    keys: tuple[str, ...]
    server: str
    version: str
    taken: str
    columns: tuple[tuple[str, str, str], ...]  # name, type as the database declares it, type of the cells here
    rows: int
    files: tuple[str, ...]
    digest: str
    identity: str = (
        ""  # what the server calls itself, by whatever address it is reached; empty where it has no such name
    )

    @property
    def origin(self) -> Origin:
        """Server and query, ignoring spaces, case and endings: later snapshots of the same query share it."""
        query = " ".join(statement(self.query).split()).casefold()
        queries = frozenset(_digest(name, query) for name in (self.server, self.identity) if name)
        named = sorted((name, declared) for name, declared, _ in self.columns)
        return Origin(queries, _digest(self.server.partition(":")[0], self.keys, named))

    def to_json(self) -> dict[str, Any]:
        """Return the content of the file."""
        named = [dict(zip(("name", "declared", "type"), column, strict=True)) for column in self.columns]
        return {"format": FORMAT, **asdict(self), "columns": named}

    def sentence(self) -> str:
        """Say what whoever accepts terms for this table should know."""
        keys = ", ".join(self.keys)
        return (
            f"The table is a snapshot of {self.server}, taken {self.taken}, sorted by {keys}. The order of rows "
            f"decides which rows are held out and which rows share a batch. So the sort key {keys} counts as public, "
            "and stays the same if a person is replaced. The sort key must reveal nothing about anybody, like a "
            "randomly assigned number. The set of people that the query returns, and so the number of rows, also "
            "counts as public. The guarantee covers replacing a person with someone whom the query would also return."
        )


def statement(query: str) -> str:
    """Return a query without its final semicolon and the comments after it.

    >>> statement("SELECT ';' AS a FROM t; -- of March")
    "SELECT ';' AS a FROM t"
    """
    end = next((token.start() for token in _TOKENS.finditer(query) if token[0] == ";"), len(query))
    if _COMMENTS.sub("", query[end:]).strip("; \t\r\n"):  # several, or text that is quoted otherwise
        return query.strip("; \t\r\n")
    return query[:end].strip()


def without_literals(query: str) -> str:
    """Return a query without its texts, quoted names and comments.

    >>> without_literals("SELECT 'random()', id -- random()")
    'SELECT , id '
    """
    return _TOKENS.sub(lambda token: token[0] if token[0] == ";" else "", query)


def _digest(*facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest in a folder; None if there is none."""
    file = folder / MANIFEST_NAME
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content.pop("format") != FORMAT:
            raise ValueError
        columns = tuple((each["name"], each["declared"], each["type"]) for each in content.pop("columns"))
        keys, files = tuple(content.pop("keys")), tuple(content.pop("files"))
        texts = (content.get(name, "") for name in ("query", "server", "version", "taken", "digest", "identity"))
        if not all(isinstance(text, str) for text in (*texts, *keys, *files, *chain(*columns))):
            raise TypeError
        if not isinstance(content["rows"], int):
            raise TypeError
        return Manifest(**content, keys=keys, files=files, columns=columns)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"{file}: expected a readable snapshot manifest; take a new snapshot") from None
