"""The studio's pages, filled from the package's own templates, and strict parsing of their forms."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from parley.errors import SettingError
from parley.numerals import number
from parley.studio.claims import is_claimed
from parley.studio.guard import CSRF_HEADER
from parley.studio.jobs import JobFolder
from parley.studio.playground import Playground
from parley.terms import Terms
from parley.version import __version__

PACKAGE_FOLDER = Path(__file__).parent
STATIC = PACKAGE_FOLDER / "static"
TAB_TITLES = {
    "/play": "Play",
    "/files": "From files",
    "/train": "Train",
    "/owner": "Owner",
    "/inbox": "Inbox",
    "/audit": "Audit",
    "/jobs": "Jobs",
}
TABLES, TERMS, LEDGER = (".csv", ".parquet"), ".toml", ".ledger"
MAX_LISTED_FILES = 500
MAX_FORM_BYTES = 1 << 20  # bytes of a form
MAX_FORM_FIELDS = 5000  # fields

FIELD_LABELS = {  # of fields, by the options that they become
    "lifetime": "Lifetime budget ε of new ledgers",
    "lifetime-delta": "Lifetime budget δ of new ledgers",
    "other-books": "Why may these tables have a second ledger?",
    "force": "Release the model anyway",
    "target": "Find payments for ψ",
    "value": "value",
    "privacy-cost": "privacy cost",
    "public": "Public sample",
    "epsilon": "Each owner's ε",
    "delta": "δ",
    "hosts": "Hosts",
}
PAGE_PLACES = {  # of pages, by the commands that sentences name
    "parley forecast --inside": "Owner tab",
    "parley negotiate TERMS ": "the field ",
    "parley plan": "the Plan button",
    "parley forecast": "the forecast",
}


def in_fields(sentence: str) -> str:
    """Replace a command's options in a sentence by the pages' fields.

    >>> in_fields("--lifetime 4, or more, makes it")
    '“Lifetime budget ε of new ledgers” = 4, or more, makes it'
    """

    def label(option: re.Match[str]) -> str:
        name, number_follows = option.groups()
        return option[0] if name not in FIELD_LABELS else f"“{FIELD_LABELS[name]}”{' = ' if number_follows else ''}"

    for command, place in PAGE_PLACES.items():
        sentence = sentence.replace(command, place)
    return re.sub(r"--([a-z]+(?:-[a-z]+)*)( (?=[0-9.]))?", label, sentence)


_templates = Environment(
    loader=FileSystemLoader(PACKAGE_FOLDER / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
_templates.filters |= {"number": number, "in_fields": in_fields}


@dataclass(frozen=True)
class Studio:
    """The studio's folder with tables and terms, its playground, and its jobs."""

    folder: Path
    play: Playground
    jobs: JobFolder
    brings: bool = True  # whether browsers may bring tables: what they send is not encrypted

    def files(self, *kinds: str) -> list[str]:
        """List the folder's files of these kinds, one level of subfolders included."""
        folder = self.folder.resolve()
        found = (path for depth in ("*", "*/*") for path in sorted(self.folder.glob(depth)) if path.suffix in kinds)
        names = (
            path.relative_to(self.folder)
            for path in found
            if path.is_file() and path.resolve().is_relative_to(folder)  # as `inside` has it
        )
        return [str(name) for name in names if not any(part.startswith(".") for part in name.parts)][:MAX_LISTED_FILES]

    def name_of(self, path: Path) -> str | None:
        """Return a file's name on pages; None if it lies outside the folder."""
        here, there = self.folder.resolve(), path.resolve()
        return str(there.relative_to(here)) if there.is_relative_to(here) else None

    def named(self, sentences: Iterable[str]) -> list[str]:
        """Replace the folder's files in a command's sentences by their names on pages."""
        return [each.replace(f"{self.folder.resolve()}/", "") for each in sentences]

    def inside(self, name: str, what: str = "file") -> Path:
        """Return the path of a file in the folder; raise an error if it leads out of it."""
        path = self.within(name, what)
        if not path.is_file():
            raise SettingError(f"{what}: {path.name} no longer exists; load the page again")
        return path

    def within(self, name: str, what: str) -> Path:
        """Return a path in the folder, which need not exist; raise an error if it leads out of it."""
        path = (self.folder / name).resolve() if name and "\0" not in name else None
        if path is None or not path.is_relative_to(self.folder.resolve()):
            raise SettingError(f"{what}: expected a file in the studio's folder; choose another file")
        return path

    def new(self, name: str, purpose: str) -> Path:
        """Return the path of a file that does not exist yet."""
        path = self.within(name, purpose)
        if path.exists():
            raise SettingError(f"{purpose}: {path.name} already exists and was not overwritten; choose another name")
        if is_claimed(path):
            raise SettingError(f"{purpose}: a running job is writing {path.name}; choose another name")
        if not path.parent.is_dir():
            raise SettingError(f"{purpose}: the folder of {path.name} does not exist; choose an existing folder")
        return path


def first_scales(file: str | None, terms: Terms) -> dict[str, str] | None:
    """Return what a page shows for terms that need scales first; None for others."""
    if terms.privacy.scale_epsilon is None:
        return None
    return {"file": file or "the file", "epsilon": number(float(terms.scale_epsilon), side="above")}


def studio_of(request: Request) -> Studio:
    """Return the studio that a request is for."""
    studio: Studio = request.app.state.studio
    return studio


def page(request: Request, template: str, **content: Any) -> Response:
    """Return a page or a part of one."""
    shared = {
        "tabs": TAB_TITLES,
        "here": "/" + request.url.path.split("/")[1],
        "csrf_headers": {CSRF_HEADER: request.app.state.csrf},
        "version": __version__,
        "folder": studio_of(request).folder.name,
    }
    return HTMLResponse(_templates.get_template(template).render(**shared, **content))


def error_page(request: Request, sentence: str, heading: str = "That failed", status: int = 200) -> Response:
    """Return an error sentence, as a part if a part was requested, else as a page."""
    part = "hx-request" in request.headers
    template = "error_part.html" if part else "error.html"
    shown = page(request, template, sentence=in_fields(sentence), heading=heading)
    shown.status_code = status
    return shown


async def fields(request: Request) -> dict[str, str]:
    """Return the form's fields; the last one of equal names."""
    return dict(await all_fields(request))


async def all_fields(request: Request) -> list[tuple[str, str]]:
    """Return the form's fields in order."""
    body = await content(request, MAX_FORM_BYTES)
    if body is None:
        raise SettingError(f"the form is larger than {MAX_FORM_BYTES:,} bytes; shorten the entries")
    try:
        return parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS)
    except ValueError:
        raise SettingError(f"the form is invalid or has over {MAX_FORM_FIELDS:,} fields; load the page again") from None


async def content(request: Request, most: int) -> bytes | None:
    """Return a request's body; None, without reading on, if it is larger than `most` bytes."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            return None
    return bytes(body)


def field(form: Mapping[str, str], name: str) -> str:
    """Return a required field."""
    found = form.get(name, "").strip()
    if not found:
        raise SettingError(f"{name.replace('_', ' ')}: missing")
    return found


def decimal(text: str, name: str) -> float:
    """Parse a finite number."""
    try:
        found = float(text if text.isascii() and "_" not in text else "")  # not what only Python reads as a number
    except ValueError:
        raise SettingError(f"{name}: expected a number") from None
    if not math.isfinite(found):
        raise SettingError(f"{name}: expected a number")
    return found


def whole(text: str, what: str) -> int:
    """Parse a whole number."""
    found = decimal(text, what)
    if found != int(found):
        raise SettingError(f"{what}: expected a whole number, found {found:g}")
    return int(found)
