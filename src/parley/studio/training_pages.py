"""The Train tab: a simulation of the terms, or a release by them, and its outcome drawn over the forecast."""

import json
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from parley.errors import ParleyError, SettingError
from parley.numerals import counted
from parley.studio.form import field, fields, whole
from parley.studio.jobs import Job
from parley.studio.pages import TERMS, first_scales, page, studio_of
from parley.terms import load_terms
from parley.terms.file import require_expected


def show(request: Request) -> Response:
    """Which terms, how many runs; and what came of earlier ones."""
    studio, asked = studio_of(request), dict(request.query_params)
    played = studio.play.played
    chosen = asked.get("file") or (None if played is None else studio.name_of(played.file))
    jobs = sorted((*studio.jobs.listed("train"), *studio.jobs.listed("learner")), key=lambda job: job.id, reverse=True)
    files = studio.files(TERMS)
    addresses = [each for each in files if Path(each).name.startswith("addresses")]
    return page(request, "train.html", files=files, addresses=addresses, jobs=jobs, chosen=chosen, asked=asked)


def first(request: Request) -> Response:
    """What has to be done before anything is learned by the chosen terms, if anything."""
    name = request.query_params.get("file", "")
    try:
        found = first_scales(name, load_terms(studio_of(request).inside(name, "terms")))
    except ParleyError:
        found = None  # said when somebody trains by them
    return page(request, "first_scales.html", first=found) if found else Response("", media_type="text/html")


async def start(request: Request) -> Response:
    """Start `parley train` on this machine, as a simulation."""
    from parley.protocol.setup import require_ready  # with libraries that take their time

    form, studio = await fields(request), studio_of(request)
    file = studio.inside(field(form, "file"), "terms")
    require_ready(load_terms(file))
    runs = whole(form.get("replicates") or "1", "runs")
    command = ["train", str(file), "--replicates", str(runs), "--json"]
    seed = form.get("seed", "").strip()
    command += ["--seed", str(whole(seed, "seed"))] if seed else []
    job = studio.jobs.start(command, f"Simulation of {file.name}, {counted(runs, 'run')}", report=True)
    return Response(status_code=204, headers={"HX-Redirect": f"/train/{job.id}"})


def outcome(request: Request) -> Response:
    """A training: how far it is, and at the end its outcome over the forecast."""
    from parley.report.words.training import (
        REPEATED,  # with libraries that take their time
        outcome_line,
        spent_rows,
    )

    studio = studio_of(request)
    job = studio.jobs.find(request.path_params["name"])
    state = job.state
    released = job.command[:1] == ("learner",) or "--ledgers" in job.command
    content = job.result if state == "done" else {}
    drawn = _drawn(job) if content and not released else None
    said = [outcome_line(content)] if content and not released else []
    chart = None if drawn is None else json.dumps(drawn)
    rows = spent_rows(content) if content and released else []
    said += [f"{REPEATED}."] if content.get("repeated") else []
    told = studio.named(content.get("said", []))
    seen = {"state": state, "has_report": job.report is not None, "released": released, "told": told}
    saved = Path(job.command[job.command.index("--save") + 1]).name if "--save" in job.command else None
    shown = {"sentences": said, "chart": chart, "rows": rows, "saved": saved, "scored": _is_scored(job) and told}
    return page(request, "outcome.html", job=job, log=job.log, **shown, **seen)


def _is_scored(job: Job) -> bool:
    """Whether a job released a model here, where each owner's rows can judge it."""
    return job.command[:1] == ("train",) and {"--ledgers", "--save"} <= {*job.command} and job.state == "done"


def score(request: Request) -> Response:
    """Start `parley score --all` with the model that a release wrote: each owner's own rows judge it."""
    studio = studio_of(request)
    job = studio.jobs.find(request.path_params["name"])
    if not _is_scored(job):
        raise SettingError("score: expected a release of this machine that is done and wrote its model")
    terms, model = Path(job.command[1]), Path(job.command[job.command.index("--save") + 1])
    require_expected(load_terms(terms), job.result.get("terms_hash"))
    title = f"Scores of {model.name} for every owner"
    scored = studio.jobs.start(["score", str(model), str(terms), "--all"], title, report=True)
    return Response(status_code=204, headers={"HX-Redirect": f"/jobs/{scored.id}"})


def _drawn(job: Job) -> dict[str, Any] | None:
    """Relative fitness by rounds: the forecast's, its interval at the end, and the outcome's."""
    from parley.decisions.outlook.forecast import forecast

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
    Route("/train/first", first),
    Route("/train/start", start, methods=["POST"]),
    Route("/train/{name}", outcome),
    Route("/train/{name}/score", score, methods=["POST"]),
]
