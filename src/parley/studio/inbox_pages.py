"""The Inbox tab: terms proposed to an owner, what accepting them would mean, and a person's decision."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from parley.errors import ParleyError, SettingError
from parley.network.identity.settings import load_owner
from parley.network.serving.inbox import Inbox, open_inbox
from parley.network.serving.proposal import Proposal
from parley.report.words.proposals import inbox_rows, proposal_line
from parley.studio.form import field, fields
from parley.studio.jobs import Job
from parley.studio.pages import TABLES, TERMS, Studio, page, studio_of
from parley.validate import printable

DIGITS = 16  # of the terms' hash, typed by whoever accepts them


@dataclass(frozen=True)
class Decision:
    """One proposal at one owner, whose settings have this name in the studio's folder."""

    studio: Studio
    file: str
    inbox: Inbox
    proposal: Proposal

    @property
    def address(self) -> str:
        """Its page."""
        return f"/inbox/{self.proposal.terms_hash}?{urlencode({'file': self.file})}"

    def command(self, verb: str, *options: str) -> list[str]:
        """What somebody would type behind `parley`."""
        place, terms = str(self.studio.inside(self.file, "settings")), self.proposal.terms_hash
        named = [place, terms] if verb == "inbox" else [terms, "--owner", place]
        return ["owner", verb, *named, *options, "--json"]

    def job(self, verb: str) -> Job | None:
        """The latest job of that command; None: there was none."""
        start = tuple(self.command(verb)[:-1])
        return next((job for job in self.studio.jobs.listed("owner") if job.command[: len(start)] == start), None)


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
    """One proposal: who sent it, what it would mean if somebody looked at that, and how to decide."""
    found = _decision(studio_of(request), request.query_params.get("file", ""), request.path_params["terms"])
    looked, accepting = found.job("inbox"), found.job("accept")
    jobs = [job for job in (accepting, looked) if job is not None]
    facts = found.inbox.facts(found.proposal)
    files = {"public": found.studio.files(*TABLES), "preparation": found.studio.files(".json")}
    return page(
        request,
        "proposal.html",
        file=found.file,
        facts=facts,
        line=proposal_line(facts),
        digits=DIGITS,
        text=printable(found.proposal.text, len(found.proposal.text)),
        needs=[(key, digest, files[key]) for key, digest in found.proposal.needs.items()],
        meaning=looked.result if looked is not None and looked.state == "done" else None,
        looked=None if looked is None else looked.started,
        failed=[job for job in jobs if job.state == "failed"],
        job=next((job for job in jobs if job.state == "running"), None),
    )


async def look(request: Request) -> Response:
    """Start `parley owner inbox OWNER TERMS`: the table is read, nothing is accepted."""
    form = await fields(request)
    found = _decision(studio_of(request), field(form, "file"), field(form, "terms"))
    options = ["--peer"] if found.proposal.peers else []
    for key in found.proposal.needs:
        options += [f"--{key}", str(found.studio.inside(field(form, key), key))]
    found.studio.jobs.start(found.command("inbox", *options), f"What accepting {_short(found)} means")
    return _back(found)


async def accept(request: Request) -> Response:
    """Start `parley owner accept` with what was looked at, for somebody who typed how the hash begins."""
    form = await fields(request)
    found = _decision(studio_of(request), field(form, "file"), field(form, "terms"))
    looked, typed = found.job("inbox"), field(form, "digits")
    if looked is None or looked.state != "done" or looked.result["proposal"]["key"] != found.proposal.fingerprint:
        raise SettingError("look at what accepting means first")
    if len(typed) < DIGITS or not found.proposal.terms_hash.startswith(typed):
        raise SettingError(f"digits: expected the first {DIGITS} of the terms' hash; nothing was accepted")
    seen = looked.command[len(found.command("inbox")) - 1 : -1]
    found.studio.jobs.start(found.command("accept", *seen, "--yes"), f"Accepting {_short(found)}")
    return _back(found)


async def refuse(request: Request) -> Response:
    """Refuse a proposal, with the reason that its learner reads."""
    form = await fields(request)
    found = _decision(studio_of(request), field(form, "file"), field(form, "terms"))
    found.inbox.refuse(found.proposal, field(form, "reason"))
    return _back(found)


def _decision(studio: Studio, file: str, terms: str) -> Decision:
    inbox = open_inbox(load_owner(studio.inside(file, "settings")))
    return Decision(studio, file, inbox, inbox.find(terms))


def _back(found: Decision) -> Response:
    return Response(status_code=204, headers={"HX-Redirect": found.address})


def _short(found: Decision) -> str:
    return f"{found.proposal.terms_hash[:16]}…"


ROUTES = [
    Route("/inbox", show),
    Route("/inbox/look", look, methods=["POST"]),
    Route("/inbox/accept", accept, methods=["POST"]),
    Route("/inbox/refuse", refuse, methods=["POST"]),
    Route("/inbox/{terms}", one),
]
