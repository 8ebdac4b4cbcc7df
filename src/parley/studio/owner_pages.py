"""The Owner tab, with ledgers and certificates, and the Inbox tab, with proposals and a person's decision."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from parley.errors import CertificateError, ParleyError, SettingError
from parley.network.identity import certificates
from parley.network.identity.settings import OwnerSettings, load_owner
from parley.network.serving.acceptance import terms_folder
from parley.network.serving.inbox import Inbox, Proposal, open_inbox
from parley.report.words.ledgers import (
    LEDGER_HEADER,
    agreement_rows,
    books_row,
    chain_line,
    inbox_rows,
    lifetime_line,
    proposal_line,
)
from parley.studio.pages import LEDGER, TABLES, TERMS, Studio, field, fields, page, studio_of
from parley.terms import load_terms
from parley.validate import printable

HASH_DIGITS_TYPED = 16  # of the terms' hash, typed by whoever accepts them
MEANING_CHANGED_MESSAGE = (
    "the consequences of accepting have changed since this page showed them; nothing was accepted. Press “What would "
    "accepting mean?” again"
)
MAX_VERIFIED_LEDGERS = 40  # whose chains are recomputed for one page


@dataclass(frozen=True)
class Books:
    """One owner's ledger, by its settings or, if the folder has none, by its file's name."""

    file: str
    name: str
    ledger: Path
    accepted: Path
    settings: OwnerSettings | None = None

    def read(self) -> tuple[dict[str, Any], list[str]]:
        """Return (the ledger's statement, its chain recomputed from the first row; the digests of its tables)."""
        from parley.network.serving.opening import ledger_statement, table_digests  # slow to load

        content = ledger_statement(self.name, self.ledger, self.accepted, verify=True)
        return content, table_digests(self.ledger)


def show(request: Request) -> Response:
    """Show every ledger of the folder, verified; for the chosen one its agreements and certificates, too."""
    studio = studio_of(request)
    files, book_rows = _files(studio), []
    faults: list[str] = []
    chosen = request.query_params.get("file") or (files[0] if files else None)
    books = refused = None
    for each in _every(studio, files[:MAX_VERIFIED_LEDGERS], faults):
        try:
            book_rows.append((each.file, books_row(*each.read())))
        except ParleyError as error:
            faults.append(str(error))
    try:
        books = None if chosen is None else _content(_open_books(studio, chosen))
    except ParleyError as error:
        refused = str(error)
    terms = [each for each in studio.files(TERMS) if Path(each).name != "owner.toml"]
    seen = {"terms": terms, "jobs": studio.jobs.listed("forecast"), "more": len(files[MAX_VERIFIED_LEDGERS:])}
    seen["tables"] = studio.files(*TABLES)
    listed = {
        "files": files,
        "head": LEDGER_HEADER,
        "found": book_rows,
        "faults": [each for each in faults if each != refused],
    }
    return page(request, "owner.html", chosen=chosen, books=books, refused=refused, **listed, **seen)


async def look_inside(request: Request) -> Response:
    """Start `parley forecast --inside`: what joining would add for this owner, by its own rows, for its own eyes."""
    form, studio = await fields(request), studio_of(request)
    file = studio.inside(field(form, "file"), "terms")
    if "table" in form:
        table, name = str(studio.inside(form["table"], "table")), load_terms(file).owner(field(form, "owner")).name
    else:
        owner = load_owner(studio.inside(field(form, "settings"), "settings"))
        table, name = str(owner.table), owner.name
    command = ["forecast", str(file), "--inside", table, "--owner", name]
    job = studio.jobs.start(command, f"Inside view of {name}, {file.name}")
    return Response(status_code=204, headers={"HX-Redirect": f"/jobs/{job.id}"})


def _files(studio: Studio) -> list[str]:
    settings = [each for each in studio.files(TERMS) if Path(each).name == "owner.toml"]
    known = {books.ledger.resolve() for books in _every(studio, settings, [])}
    return settings + [each for each in studio.files(LEDGER) if (studio.folder / each).resolve() not in known]


def _every(studio: Studio, files: list[str], faults: list[str]) -> Iterator[Books]:
    """Yield these files' books; faults are added to `faults`."""
    for each in files:
        try:
            yield _open_books(studio, each)
        except ParleyError as error:
            faults.append(str(error))


def _open_books(studio: Studio, file: str) -> Books:
    path = studio.inside(file, "settings")
    if path.suffix == LEDGER:
        return Books(file, path.stem, path, terms_folder(path))
    settings = load_owner(path)
    return Books(file, settings.name, settings.ledger, settings.accepted, settings)


def _content(books: Books) -> dict[str, Any]:
    content, tables = books.read()
    return {
        "title": f"Ledger of {content['owner']}",
        "rows": agreement_rows(content),
        "lifetime": lifetime_line(content),
        "chain": chain_line(content),
        "tables": tables,
        "serves": books.settings is not None,
        "certificates": [] if books.settings is None else _certificates(books.settings),
    }


def _certificates(settings: OwnerSettings) -> list[list[str]]:
    if settings.identity is None:
        return []
    rows = [["certificate", "for", "valid until", "days left"]]
    for path in (settings.identity.certificate, settings.identity.authority):
        try:
            certificate = certificates.read_certificate(path)
        except CertificateError:
            rows.append([path.name, "–", "–", "missing or unreadable"])
            continue
        names = ", ".join(certificates.names(certificate)) or "the authority itself"
        rows.append(
            [path.name, names, f"{certificate.not_valid_after_utc:%Y-%m-%d}", str(certificates.days_left(certificate))]
        )
    return rows


@dataclass(frozen=True)
class Decision:
    """One proposal at one owner, with its settings file in the studio's folder."""

    studio: Studio
    file: str
    settings: OwnerSettings
    inbox: Inbox
    proposal: Proposal

    @property
    def address(self) -> str:
        """Its page."""
        return f"/inbox/{self.proposal.terms_hash}?{urlencode({'file': self.file})}"

    def meaning(self, form: Mapping[str, str], accept: bool = False) -> tuple[dict[str, Any], str]:
        """Return (what accepting means now, its digest); with `accept`, accept if it equals what the page showed.
        Nothing written earlier is shown to the person who decides."""
        from parley.network.serving.offer import consider_proposal  # with libraries that take their time

        own = {key: self.studio.inside(field(form, key), key) for key in self.proposal.needs}
        given = self.inbox, self.proposal, self.settings, own.get("public"), own.get("preparation")
        offer, content = consider_proposal(*given, peer=bool(self.proposal.peers))
        try:
            digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
            if accept and digest != form.get("meant"):
                raise SettingError(MEANING_CHANGED_MESSAGE)
            if accept:
                offer.require_room()
                with self.inbox.unchanged(self.proposal):
                    offer.accept()
        finally:
            offer.close()
        return content, digest


def show_inbox(request: Request) -> Response:
    """Show the proposals to an owner of the folder."""
    studio = studio_of(request)
    files = [each for each in studio.files(TERMS) if Path(each).name == "owner.toml"]
    chosen = request.query_params.get("file") or (files[0] if files else None)
    rows, refused, hashes, damaged = [], None, [], []
    try:
        if chosen is not None:
            inbox = open_inbox(load_owner(studio.inside(chosen, "settings")))
            content = {"proposals": [inbox.facts(each) for each in inbox.proposals()]}
            damaged = inbox.damaged()
            rows, hashes = inbox_rows(content, 80), [each["terms_hash"] for each in content["proposals"]]
    except ParleyError as error:
        refused = str(error)
    page_fields = {"rows": rows, "hashes": hashes, "damaged": damaged, "refused": refused}
    return page(request, "inbox.html", files=files, chosen=chosen, **page_fields)


def one(request: Request) -> Response:
    """Show one proposal: who sent it, and how to decide."""
    decision = _decision(studio_of(request), request.query_params.get("file", ""), request.path_params["terms"])
    facts = decision.inbox.facts(decision.proposal)
    files = {"public": decision.studio.files(*TABLES), "preparation": decision.studio.files(".json")}
    return page(
        request,
        "proposal.html",
        file=decision.file,
        facts=facts,
        line=proposal_line(facts),
        text=printable(decision.proposal.text, len(decision.proposal.text)),
        needs=[(key, digest, files[key]) for key, digest in decision.proposal.needs.items()],
    )


async def look(request: Request) -> Response:
    """Show what accepting means now, and the form to accept; the table is read, nothing is accepted."""
    form = await fields(request)
    found = _decision(studio_of(request), field(form, "file"), field(form, "terms"))
    meaning, digest = await run_in_threadpool(found.meaning, form)
    given = {"file": found.file, "terms": found.proposal.terms_hash, "meant": digest}
    given |= {key: field(form, key) for key in found.proposal.needs}
    return page(request, "meaning.html", meaning=meaning, given=given, digits=HASH_DIGITS_TYPED)


async def accept(request: Request) -> Response:
    """Accept for a person who read what it means now and typed the beginning of the hash."""
    form = await fields(request)
    found = _decision(studio_of(request), field(form, "file"), field(form, "terms"))
    if not form.get("meant"):
        raise SettingError("press “What would accepting mean?” before you accept")
    typed = field(form, "digits")
    if len(typed) < HASH_DIGITS_TYPED or not found.proposal.terms_hash.startswith(typed):
        raise SettingError(
            f"“First {HASH_DIGITS_TYPED} digits of the hash”: the entry does not match the terms' hash; nothing was "
            "accepted. Compare the hash and type the digits again"
        )
    await run_in_threadpool(found.meaning, form, accept=True)
    return _redirect_back(found)


async def refuse(request: Request) -> Response:
    """Refuse a proposal, with a reason for its learner."""
    form = await fields(request)
    found = _decision(studio_of(request), field(form, "file"), field(form, "terms"))
    found.inbox.refuse(found.proposal, field(form, "reason"))
    return _redirect_back(found)


def _decision(studio: Studio, file: str, terms: str) -> Decision:
    settings = load_owner(studio.inside(file, "settings"))
    inbox = open_inbox(settings)
    return Decision(studio, file, settings, inbox, inbox.find(terms))


def _redirect_back(found: Decision) -> Response:
    return Response(status_code=204, headers={"HX-Redirect": found.address})


ROUTES = [
    Route("/owner", show),
    Route("/owner/inside", look_inside, methods=["POST"]),
    Route("/inbox", show_inbox),
    Route("/inbox/look", look, methods=["POST"]),
    Route("/inbox/accept", accept, methods=["POST"]),
    Route("/inbox/refuse", refuse, methods=["POST"]),
    Route("/inbox/{terms}", one),
]
