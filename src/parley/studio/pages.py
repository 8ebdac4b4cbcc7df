"""How the studio's pages are put together: templates of the package, filled and sent; nothing comes from elsewhere."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

_templates = Environment(
    loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
_templates.filters["number"] = number


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
            raise SettingError(f"{what}: {path.name} is not there any more; load the page again")
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
            raise SettingError(f"{what}: a job that runs writes {path.name}; choose another name")
        if not path.parent.is_dir():
            raise SettingError(f"{what}: expected a folder that exists")
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


def error_page(request: Request, sentence: str) -> Response:
    """A sentence in the place of what was asked for: a part where a part was asked for, else a page."""
    part = "hx-request" in request.headers
    return page(request, "error_part.html" if part else "error.html", sentence=sentence)
