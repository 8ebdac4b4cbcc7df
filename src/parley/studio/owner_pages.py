"""The Owner tab: the ledgers of the folder, an owner's books and certificates, as its own commands say them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from parley.errors import CertificateError, ParleyError
from parley.network.identity import certificates
from parley.network.identity.settings import OwnerSettings, load_owner
from parley.report.words.ledgers import BOOKS, agreement_rows, books_row, chain_line, lifetime_line
from parley.studio.form import field, fields
from parley.studio.pages import LEDGER, TERMS, Studio, page, studio_of

MOST = 40  # ledgers whose chains are recomputed for one page


@dataclass(frozen=True)
class Books:
    """One owner's ledger: of its settings, or, where the folder has none, by the name of its file."""

    file: str
    name: str
    ledger: Path
    accepted: Path
    settings: OwnerSettings | None = None

    def read(self) -> tuple[dict[str, Any], list[str]]:
        """(what they say, with the chain recomputed from its first row; the digests of their tables)."""
        from parley.network.serving.opening import ledger_statement, table_digests  # slow to load

        content = ledger_statement(self.name, self.ledger, self.accepted, verify=True)
        return content, table_digests(self.ledger)


def show(request: Request) -> Response:
    """Every ledger of the folder: spent, left, by whom, the chain recomputed, the table's digest; of the chosen one
    each agreement, too, and the certificates' days."""
    studio = studio_of(request)
    files, found = _files(studio), []
    faults: list[str] = []
    chosen = request.query_params.get("file") or (files[0] if files else None)
    books = refused = None
    for each in _every(studio, files[:MOST], faults):
        try:
            found.append((each.file, books_row(*each.read())))
        except ParleyError as error:
            faults.append(str(error))
    try:
        books = None if chosen is None else _content(_opened(studio, chosen))
    except ParleyError as error:
        refused = str(error)
    terms = [each for each in studio.files(TERMS) if Path(each).name != "owner.toml"]
    seen = {"terms": terms, "jobs": studio.jobs.listed("forecast"), "more": len(files[MOST:])}
    listed = {"files": files, "head": BOOKS, "found": found, "faults": [each for each in faults if each != refused]}
    return page(request, "owner.html", chosen=chosen, books=books, refused=refused, **listed, **seen)


async def look_inside(request: Request) -> Response:
    """Start `parley forecast --inside`: what joining would add for this owner, from its own rows, for its own eyes."""
    form, studio = await fields(request), studio_of(request)
    owner = load_owner(studio.inside(field(form, "settings"), "settings"))
    file = studio.inside(field(form, "file"), "terms")
    command = ["forecast", str(file), "--inside", str(owner.table), "--owner", owner.name]
    job = studio.jobs.start(command, f"Inside view of {owner.name}, {file.name}")
    return Response(status_code=204, headers={"HX-Redirect": f"/jobs/{job.id}"})


def _files(studio: Studio) -> list[str]:
    """The owners' settings, and the ledgers that belong to none of them."""
    settings = [each for each in studio.files(TERMS) if Path(each).name == "owner.toml"]
    known = {books.ledger.resolve() for books in _every(studio, settings, [])}
    return settings + [each for each in studio.files(LEDGER) if (studio.folder / each).resolve() not in known]


def _every(studio: Studio, files: list[str], faults: list[str]) -> Iterator[Books]:
    """The books that these files are of; why some are of none is added to `faults`."""
    for each in files:
        try:
            yield _opened(studio, each)
        except ParleyError as error:
            faults.append(str(error))


def _opened(studio: Studio, file: str) -> Books:
    path = studio.inside(file, "settings")
    if path.suffix == LEDGER:
        return Books(file, path.stem, path, path.parent / "accepted")
    settings = load_owner(path)
    return Books(file, settings.name, settings.ledger, settings.accepted, settings)


def _content(books: Books) -> dict[str, Any]:
    content, tables = books.read()
    return {
        "title": f"Books of {content['owner']}",
        "rows": agreement_rows(content),
        "lifetime": lifetime_line(content),
        "chain": chain_line(content),
        "tables": tables,
        "serves": books.settings is not None,
        "certificates": [] if books.settings is None else _certificates(books.settings),
    }


def _certificates(settings: OwnerSettings) -> list[list[str]]:
    """Whose certificates these are, and how many days they have left."""
    if settings.identity is None:
        return []
    rows = [["certificate", "for", "good until", "days left"]]
    for path in (settings.identity.certificate, settings.identity.authority):
        try:
            found = certificates.read_certificate(path)
        except CertificateError:
            rows.append([path.name, "–", "–", "not there, or unreadable"])
            continue
        names = ", ".join(certificates.names(found)) or "the authority itself"
        rows.append([path.name, names, f"{found.not_valid_after_utc:%Y-%m-%d}", str(certificates.days_left(found))])
    return rows


ROUTES = [Route("/owner", show), Route("/owner/inside", look_inside, methods=["POST"])]
