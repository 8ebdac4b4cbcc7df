"""The Train tab: a simulation of the terms, or a release by them, and its outcome drawn over the forecast."""

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from parley.errors import ParleyError
from parley.studio.form import field, fields, whole
from parley.studio.jobs import Job
from parley.studio.pages import TERMS, page, studio_of
from parley.terms import load_terms


def show(request: Request) -> Response:
    """Which terms, how many runs; and what came of earlier ones."""
    studio = studio_of(request)
    played = studio.play.played
    chosen = None if played is None else studio.name_of(played.file)
    return page(request, "train.html", files=studio.files(TERMS), jobs=studio.jobs.listed("train"), chosen=chosen)


async def start(request: Request) -> Response:
    """Start `parley train` on this machine, as a simulation."""
    form, studio = await fields(request), studio_of(request)
    file = studio.inside(field(form, "file"), "terms")
    runs = whole(form.get("replicates") or "1", "runs")
    command = ["train", str(file), "--replicates", str(runs), "--json"]
    seed = form.get("seed", "").strip()
    command += ["--seed", str(whole(seed, "seed"))] if seed else []
    job = studio.jobs.start(command, f"Simulation of {file.name}, {runs} runs", report=True)
    return Response(status_code=204, headers={"HX-Redirect": f"/train/{job.id}"})


def outcome(request: Request) -> Response:
    """A training: how far it is, and at the end its outcome over the forecast."""
    from parley.report.training import outcome_line  # with libraries that take their time

    studio = studio_of(request)
    job = studio.jobs.find(request.path_params["name"])
    state = job.state
    drawn = _drawn(job) if state == "done" else None
    said = [outcome_line(job.result)] if state == "done" else []
    chart = None if drawn is None else json.dumps(drawn)
    seen = {"state": state, "has_report": job.report is not None}
    return page(request, "outcome.html", job=job, sentences=said, chart=chart, **seen)


def _drawn(job: Job) -> dict[str, Any] | None:
    """Relative fitness by rounds: the forecast's, its interval at the end, and the outcome's."""
    from parley.decisions.forecasting import forecast

    fitness = job.result.get("relative_fitness")
    try:
        expected = forecast(load_terms(job.command[1]))
    except (ParleyError, OSError):
        return None
    return {
        "kind": "path",
        "label": "Relative fitness by rounds: the forecast, and what came of it",
        "forecast": [float(value) for value in expected.path],
        "interval": [expected.relative_fitness.low, expected.relative_fitness.high],
        "outcome": None if fitness is None else [fitness["median"], fitness["q25"], fitness["q75"]],
    }


ROUTES = [
    Route("/train", show),
    Route("/train/start", start, methods=["POST"]),
    Route("/train/{name}", outcome),
]
