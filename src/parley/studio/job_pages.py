"""The Jobs tab: running and finished jobs, to follow, stop and open; also starts audits and plans."""

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from parley.errors import ParleyError, SettingError
from parley.studio.jobs import Job
from parley.studio.pages import TERMS, field, fields, first_scales, page, studio_of, whole
from parley.terms import load_terms

REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"
POLL_INTERVAL_S = 0.3  # seconds between two looks at a job
STOP_CHECKS = 50  # looks at a job that was asked to stop, before it is ended at once


def show(request: Request) -> Response:
    """All jobs."""
    jobs = studio_of(request).jobs.listed()
    return page(request, "jobs.html", jobs=jobs)


def job(request: Request) -> Response:
    """Show one job: its command, state and output. An inside view is shown once and removed."""
    shown_job = studio_of(request).jobs.find(request.path_params["name"])
    state, written = shown_job.state, shown_job.written
    seen: dict[str, Any] = {
        "state": state,
        "has_report": shown_job.report is not None,
        "said": studio_of(request).named(shown_job.result.get("said", [])),
    }
    name = None if written is None or state != "done" else studio_of(request).name_of(written)
    seen |= {"written": name, "first": None if name is None or written is None else _first_scales(name, written)}
    seen["scores"] = _scores(shown_job) if state == "done" and shown_job.command[0] == "score" else None
    shown = page(request, "job.html", job=shown_job, typed=typed(shown_job), log=shown_job.log, **seen)
    if shown_job.own_eyes and state != "running" and request.method == "GET":
        shown_job.forget()
    return shown


def _first_scales(name: str, file: Path) -> dict[str, str] | None:
    try:
        return first_scales(name, load_terms(file))
    except ParleyError:
        return None  # terms that wait for a person: who opens them is told


def _scores(found: Job) -> dict[str, Any] | None:
    """Return all owners' scores as a headline, a table and a chart; None without JSON scores."""
    from parley.report.words.verdict import owners_scores

    owners = found.result.get("owners", [])
    if not owners or any(None in each["personal_gain"].values() for each in owners):
        return None
    try:
        several = load_terms(found.command[2]).privacy.records_per_person
    except (ParleyError, OSError):
        several = 1
    words, gains = owners_scores(owners, several)
    chart = {
        "kind": "gains",
        "axis": "saving in test cost per held-out row",
        "label": "Each owner's saving in test cost from joining, per held-out row",
        "names": [each["name"] for each in owners],
        "gains": [[gain.mean, gain.low, gain.high] for gain in gains],
        "asked": [gain.low > 0 for gain in gains],
    }
    return {**words, "chart": json.dumps(chart)}


def typed(found: Job) -> str:
    """Return the command as a user would type it."""
    return shlex.join(("parley", *found.command))


def report(request: Request) -> Response:
    """Serve the page that a command wrote, sandboxed, with its own styles and figures."""
    found = studio_of(request).jobs.find(request.path_params["name"]).report
    if found is None:
        raise SettingError("report: this job wrote no report; the job's page shows the output")
    return HTMLResponse(found, headers={"content-security-policy": REPORT_POLICY})


async def events(request: Request) -> Response:
    """Stream a job's progress until it ends."""
    found = studio_of(request).jobs.find(request.path_params["name"])
    return StreamingResponse(_progress(found, request), media_type="text/event-stream")


async def _progress(found: Job, request: Request) -> AsyncIterator[str]:
    said = None
    while found.state == "running" and not await request.is_disconnected():
        progress = found.progress
        if progress != said:
            yield f"event: progress\ndata: {json.dumps(vars(progress))}\n\n"
            said = progress
        await asyncio.sleep(POLL_INTERVAL_S)
    yield "event: end\ndata: {}\n\n"


async def stop(request: Request) -> Response:
    """End a job."""
    found = studio_of(request).jobs.find(request.path_params["name"])
    for at_once in (False, True):
        found.stop(at_once)
        for _ in range(STOP_CHECKS):
            if not found.running:
                break
            await asyncio.sleep(0.05)
    return Response(status_code=204, headers={"HX-Refresh": "true"})


def show_audit(request: Request) -> Response:
    """Show the choice of terms to attack, and earlier audits."""
    studio = studio_of(request)
    return page(request, "audit.html", files=studio.files(TERMS), jobs=studio.jobs.listed("audit"))


async def start_audit(request: Request) -> Response:
    """Start `parley audit` on made-up tables; nobody's data are read."""
    form, studio = await fields(request), studio_of(request)
    file = studio.inside(field(form, "file"), "terms")
    runs = whole(form.get("runs") or "100000", "runs")
    command = ["audit", str(file), "--runs", str(runs), "--json"]
    job = studio.jobs.start(command, f"Audit of {file.name}", report=True)
    return Response(status_code=204, headers={"HX-Redirect": f"/jobs/{job.id}"})


async def start_plan(request: Request) -> Response:
    """Start `parley plan`, which writes its best terms to a new file."""
    form, studio = await fields(request), studio_of(request)
    file, name = studio.inside(field(form, "file"), "terms"), field(form, "write")
    write = studio.new(name if name.endswith(TERMS) else name + TERMS, "terms")
    job = studio.jobs.start(["plan", str(file), "--write", str(write)], f"Plan beside {file.name}")
    return Response(status_code=204, headers={"HX-Redirect": f"/jobs/{job.id}"})


ROUTES = [
    Route("/jobs", show),
    Route("/jobs/{name}", job),
    Route("/jobs/{name}/events", events),
    Route("/jobs/{name}/report", report),
    Route("/jobs/{name}/stop", stop, methods=["POST"]),
    Route("/audit", show_audit),
    Route("/audit/start", start_audit, methods=["POST"]),
    Route("/plan/start", start_plan, methods=["POST"]),
]
