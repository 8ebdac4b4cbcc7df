"""The Inbox tab: terms proposed to an owner, what accepting them would mean, and a person's decision."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from parley.errors import ParleyError, SettingError
from parley.network.identity.settings import OwnerSettings, load_owner
from parley.network.serving.inbox import Inbox, Proposal, open_inbox
from parley.report.words.ledgers import inbox_rows, proposal_line
from parley.studio.form import field, fields
from parley.studio.pages import TABLES, TERMS, Studio, page, studio_of
from parley.validate import printable

DIGITS = 16  # of the terms' hash, typed by whoever accepts them
CHANGED = "what accepting means is not what this page showed any more; nothing was accepted: look at it again"


@dataclass(frozen=True)
class Decision:
    """One proposal at one owner, whose settings have this name in the studio's folder."""

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
        """(what accepting means at this moment, a digest of it); with `accept` it is accepted, if it is what the form's
        page showed. Nothing that was written down earlier is shown to whoever decides."""
        from parley.network.serving.offer import consider_proposal  # with libraries that take their time

        own = {key: self.studio.inside(field(form, key), key) for key in self.proposal.needs}
        given = self.inbox, self.proposal, self.settings, own.get("public"), own.get("preparation")
        offer, said = consider_proposal(*given, peer=bool(self.proposal.peers))
        try:
            digest = hashlib.sha256(json.dumps(said).encode()).hexdigest()
            if accept and digest != form.get("meant"):
                raise SettingError(CHANGED)
            if accept:
                offer.require_room()
                with self.inbox.unchanged(self.proposal):
                    offer.accept()
        finally:
            offer.close()
        return said, digest


def show(request: Request) -> Response:
    """What was proposed to an owner of the folder."""
    studio = studio_of(request)
    files = [each for each in studio.files(TERMS) if Path(each).name == "owner.toml"]
    chosen = request.query_params.get("file") or (files[0] if files else None)
    rows, refused, hashes, damaged = [], None, [], []
    try:
        if chosen is not None:
            inbox = open_inbox(load_owner(studio.inside(chosen, "settings")))
            content = {"proposals": [inbox.facts(each) for each in inbox.proposals()]}
            damaged = inbox.damaged()
            rows, hashes = inbox_rows(content), [each["terms_hash"] for each in content["proposals"]]
    except ParleyError as error:
        refused = str(error)
    found = {"rows": rows, "hashes": hashes, "damaged": damaged, "refused": refused}
    return page(request, "inbox.html", files=files, chosen=chosen, **found)


def one(request: Request) -> Response:
    """One proposal: who sent it, and how to decide."""
    found = _decision(studio_of(request), request.query_params.get("file", ""), request.path_params["terms"])
    facts = found.inbox.facts(found.proposal)
    files = {"public": found.studio.files(*TABLES), "preparation": found.studio.files(".json")}
    return page(
        request,
        "proposal.html",
        file=found.file,
        facts=facts,
        line=proposal_line(facts),
        text=printable(found.proposal.text, len(found.proposal.text)),
        needs=[(key, digest, files[key]) for key, digest in found.proposal.needs.items()],
    )


async def look(request: Request) -> Response:
    """What accepting means at this moment, and the form to accept it; the table is read, nothing is accepted."""
    form = await fields(request)
    found = _decision(studio_of(request), field(form, "file"), field(form, "terms"))
    meaning, digest = await run_in_threadpool(found.meaning, form)
    given = {"file": found.file, "terms": found.proposal.terms_hash, "meant": digest}
    given |= {key: field(form, key) for key in found.proposal.needs}
    return page(request, "meaning.html", meaning=meaning, given=given, digits=DIGITS)


async def accept(request: Request) -> Response:
    """Accept, for somebody who read what it means at this moment, and typed how the hash begins."""
    form = await fields(request)
    found = _decision(studio_of(request), field(form, "file"), field(form, "terms"))
    if not form.get("meant"):
        raise SettingError("look at what accepting means first")
    typed = field(form, "digits")
    if len(typed) < DIGITS or not found.proposal.terms_hash.startswith(typed):
        raise SettingError(f"digits: expected the first {DIGITS} of the terms' hash; nothing was accepted")
    await run_in_threadpool(found.meaning, form, accept=True)
    return _back(found)


async def refuse(request: Request) -> Response:
    """Refuse a proposal, with the reason that its learner reads."""
    form = await fields(request)
    found = _decision(studio_of(request), field(form, "file"), field(form, "terms"))
    found.inbox.refuse(found.proposal, field(form, "reason"))
    return _back(found)


def _decision(studio: Studio, file: str, terms: str) -> Decision:
    settings = load_owner(studio.inside(file, "settings"))
    inbox = open_inbox(settings)
    return Decision(studio, file, settings, inbox, inbox.find(terms))


def _back(found: Decision) -> Response:
    return Response(status_code=204, headers={"HX-Redirect": found.address})


ROUTES = [
    Route("/inbox", show),
    Route("/inbox/look", look, methods=["POST"]),
    Route("/inbox/accept", accept, methods=["POST"]),
    Route("/inbox/refuse", refuse, methods=["POST"]),
    Route("/inbox/{terms}", one),
]
