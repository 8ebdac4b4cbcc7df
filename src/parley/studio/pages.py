"""How the studio's pages are put together, and how their forms are read: templates of the package, filled and sent,
nothing comes from elsewhere; what a form says, strictly."""

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

HERE = Path(__file__).parent
STATIC = HERE / "static"
TABS = {
    "/play": "Play",
    "/files": "From files",
    "/train": "Train",
    "/owner": "Owner",
    "/inbox": "Inbox",
    "/audit": "Audit",
    "/jobs": "Jobs",
}
TABLES, TERMS, LEDGER = (".csv", ".parquet"), ".toml", ".ledger"
MOST_FILES = 500
LARGEST_FORM = 1 << 20  # bytes of a form
MOST_FIELDS = 5000  # fields

LABELS = {  # of fields, by the options that they become
    "lifetime": "Lifetime ε of new ledgers",
    "lifetime-delta": "Lifetime δ of new ledgers",
    "other-books": "Why may these tables have a second ledger?",
    "force": "Release it anyway",
    "target": "payments to reach ψ =",
    "value": "value",
    "privacy-cost": "privacy cost",
    "public": "Public sample",
    "epsilon": "ε of every owner",
    "delta": "δ",
    "hosts": "Hosts",
}
PLACES = {  # of pages, by the commands that sentences name
    "parley forecast --inside": "Owner tab",
    "parley negotiate TERMS ": "the field ",
    "parley plan": "the Plan button",
    "parley forecast": "the forecast",
}


def in_fields(sentence: str) -> str:
    """A sentence with the fields of pages in the places of a command's options.

    >>> in_fields("--lifetime 4, or more, makes it")
    '“Lifetime ε of new ledgers” = 4, or more, makes it'
    """

    def label(option: re.Match[str]) -> str:
        name, number_follows = option.groups()
        return option[0] if name not in LABELS else f"“{LABELS[name]}”{' = ' if number_follows else ''}"

    for command, place in PLACES.items():
        sentence = sentence.replace(command, place)
    return re.sub(r"--([a-z]+(?:-[a-z]+)*)( (?=[0-9.]))?", label, sentence)


_templates = Environment(
    loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
_templates.filters |= {"number": number, "in_fields": in_fields}


@dataclass(frozen=True)
class Studio:
    """What the pages are about: a folder with tables and terms, what is being played with, and jobs."""

    folder: Path
    play: Playground
    jobs: JobFolder
    brings: bool = True  # whether browsers may bring tables: what they send is not encrypted

    def files(self, *kinds: str) -> list[str]:
        """The names of the folder's files of these kinds, those of its own folders too."""
        here = self.folder.resolve()
        found = (path for depth in ("*", "*/*") for path in sorted(self.folder.glob(depth)) if path.suffix in kinds)
        names = (
            path.relative_to(self.folder)
            for path in found
            if path.is_file() and path.resolve().is_relative_to(here)  # as `inside` has it
        )
        return [str(name) for name in names if not any(part.startswith(".") for part in name.parts)][:MOST_FILES]

    def name_of(self, path: Path) -> str | None:
        """A file of the folder by the name that pages have for it; None: it lies elsewhere."""
        here, there = self.folder.resolve(), path.resolve()
        return str(there.relative_to(here)) if there.is_relative_to(here) else None

    def named(self, sentences: Iterable[str]) -> list[str]:
        """What a command said, with files of the folder by the names that pages have for them."""
        return [each.replace(f"{self.folder.resolve()}/", "") for each in sentences]

    def inside(self, name: str, what: str = "file") -> Path:
        """The path of a file that the folder has; refused where it leads out of it."""
        path = self.within(name, what)
        if not path.is_file():
            raise SettingError(f"{what}: {path.name} no longer exists; load the page again")
        return path

    def within(self, name: str, what: str) -> Path:
        """A path in the folder, of something that need not be there yet; refused where it leads out of it."""
        path = (self.folder / name).resolve() if name and "\0" not in name else None
        if path is None or not path.is_relative_to(self.folder.resolve()):
            raise SettingError(f"{what}: expected a file in the studio's folder")
        return path

    def new(self, name: str, what: str) -> Path:
        """The path of a file that does not exist yet."""
        path = self.within(name, what)
        if path.exists():
            raise SettingError(f"{what}: {path.name} exists; choose another name, nothing is overwritten")
        if is_claimed(path):
            raise SettingError(f"{what}: a running job writes {path.name}; choose another name")
        if not path.parent.is_dir():
            raise SettingError(f"{what}: expected an existing folder")
        return path


def first_scales(file: str | None, terms: Terms) -> dict[str, str] | None:
    """What a page says of terms by which nothing can be learned before scales are asked for; None: others."""
    if terms.privacy.scale_epsilon is None:
        return None
    return {"file": file or "The file", "epsilon": number(float(terms.scale_epsilon), side="above")}


def studio_of(request: Request) -> Studio:
    """The studio that a request is for."""
    studio: Studio = request.app.state.studio
    return studio


def page(request: Request, template: str, **content: Any) -> Response:
    """A page or a part of one."""
    shared = {
        "tabs": TABS,
        "here": "/" + request.url.path.split("/")[1],
        "csrf_headers": {CSRF_HEADER: request.app.state.csrf},
        "version": __version__,
        "folder": studio_of(request).folder.name,
    }
    return HTMLResponse(_templates.get_template(template).render(**shared, **content))


def error_page(request: Request, sentence: str, heading: str = "That failed", status: int = 200) -> Response:
    """A sentence in the place of what was asked for: a part where a part was asked for, else a page."""
    part = "hx-request" in request.headers
    template = "error_part.html" if part else "error.html"
    shown = page(request, template, sentence=in_fields(sentence), heading=heading)
    shown.status_code = status
    return shown


async def fields(request: Request) -> dict[str, str]:
    """The form's fields; of several by one name the last."""
    return dict(await all_fields(request))


async def all_fields(request: Request) -> list[tuple[str, str]]:
    """The form's fields in their order."""
    body = await content(request, LARGEST_FORM)
    if body is None:
        raise SettingError("the form is too large")
    try:
        return parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise SettingError("the form cannot be read") from None


async def content(request: Request, most: int) -> bytes | None:
    """What a request brings; None, and no more is read: it is more than that many bytes."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            return None
    return bytes(body)


def field(form: Mapping[str, str], name: str) -> str:
    """A field that must be filled in."""
    found = form.get(name, "").strip()
    if not found:
        raise SettingError(f"{name.replace('_', ' ')}: missing")
    return found


def decimal(text: str, what: str) -> float:
    """A number."""
    try:
        found = float(text if text.isascii() and "_" not in text else "")  # not what only Python reads as a number
    except ValueError:
        raise SettingError(f"{what}: expected a number") from None
    if not math.isfinite(found):
        raise SettingError(f"{what}: expected a number")
    return found


def whole(text: str, what: str) -> int:
    """A whole number."""
    found = decimal(text, what)
    if found != int(found):
        raise SettingError(f"{what}: expected a whole number")
    return int(found)
