"""The Owner tab: an owner's books and certificates, as its own commands say them."""

from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from parley.errors import CertificateError, ParleyError
from parley.network.identity import certificates
from parley.network.identity.settings import OwnerSettings, load_owner
from parley.report.words.ledgers import agreement_rows, chain_line, lifetime_line
from parley.studio.form import field, fields
from parley.studio.pages import TERMS, page, studio_of


def show(request: Request) -> Response:
    """Spent, left, by whom; the chain recomputed from its first row; the table's digest; certificates' days."""
    studio = studio_of(request)
    files = [each for each in studio.files(TERMS) if Path(each).name == "owner.toml"]
    chosen = request.query_params.get("file") or (files[0] if files else None)
    books = refused = None
    try:
        books = None if chosen is None else _books(load_owner(studio.inside(chosen, "settings")))
    except ParleyError as error:
        refused = str(error)
    seen = {
        "terms": [each for each in studio.files(TERMS) if each not in files],
        "jobs": studio.jobs.listed("forecast"),
    }
    return page(request, "owner.html", files=files, chosen=chosen, books=books, refused=refused, **seen)


async def look_inside(request: Request) -> Response:
    """Start `parley forecast --inside`: what joining would add for this owner, from its own rows, for its own eyes."""
    form, studio = await fields(request), studio_of(request)
    owner = load_owner(studio.inside(field(form, "settings"), "settings"))
    file = studio.inside(field(form, "file"), "terms")
    command = ["forecast", str(file), "--inside", str(owner.table), "--owner", owner.name]
    job = studio.jobs.start(command, f"Inside view of {owner.name}, {file.name}")
    return Response(status_code=204, headers={"HX-Redirect": f"/jobs/{job.id}"})


def _books(settings: OwnerSettings) -> dict[str, Any]:
    from parley.network.serving.statement import statement  # with libraries that take their time

    content = statement(settings, verify=True)
    return {
        "title": f"Books of {content['owner']}",
        "rows": agreement_rows(content),
        "lifetime": lifetime_line(content),
        "chain": chain_line(content),
        "tables": _tables(settings, content),
        "certificates": _certificates(settings),
    }


def _tables(settings: OwnerSettings, content: dict[str, Any]) -> list[str]:
    """The digests of the tables that agreements were accepted with."""
    from parley.owner.ledger import Ledger

    ledger = Ledger(settings.ledger)
    try:
        found = [ledger.table(each["terms_hash"]) for each in content["agreements"]]
    finally:
        ledger.close()
    return sorted({digest.hex() for digest in found if digest is not None})


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
