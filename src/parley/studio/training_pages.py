"""The Train tab: a simulation of the terms, or a release by them, and its outcome over the forecast.

A release debits the owners' ledgers for ever, so it takes two steps: a review of what it spends, or why the owners'
side forbids it, and a form to agree. It releases a model or, if terms reserve a part of every epsilon for them,
statistics of columns first.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from parley.errors import ParleyError, SettingError
from parley.numerals import counted
from parley.studio.jobs import Job
from parley.studio.pages import TERMS, Studio, decimal, field, fields, first_scales, page, studio_of, whole
from parley.terms import Terms, load_terms
from parley.terms.file import require_expected

if TYPE_CHECKING:
    from parley.workflows.release import Books


HERE, ELSEWHERE = "here", "elsewhere"
MODEL_SUFFIX = ".json"
RELEASE_ANYWAY_LABEL = "Release the model anyway."


def show(request: Request) -> Response:
    """Show the choice of terms and runs, and earlier trainings."""
    studio, query = studio_of(request), dict(request.query_params)
    played = studio.play.played
    chosen = query.get("file") or (None if played is None else studio.name_of(played.file))
    jobs = sorted((*studio.jobs.listed("train"), *studio.jobs.listed("learner")), key=lambda job: job.id, reverse=True)
    files = studio.files(TERMS)
    addresses = [each for each in files if Path(each).name.startswith("addresses")]
    return page(request, "train.html", files=files, addresses=addresses, jobs=jobs, chosen=chosen, asked=query)


def first(request: Request) -> Response:
    """Show what must happen before training by the chosen terms, if anything."""
    name = request.query_params.get("file", "")
    try:
        found = first_scales(name, load_terms(studio_of(request).inside(name, "terms")))
    except ParleyError:
        found = None  # said when somebody trains by them
    return page(request, "first_scales.html", first=found) if found else Response("", media_type="text/html")


async def start(request: Request) -> Response:
    """Start `parley train` on this machine, as a simulation."""
    from parley.workflows.train import require_ready  # with libraries that need seconds to load

    form, studio = await fields(request), studio_of(request)
    file = studio.inside(field(form, "file"), "terms")
    require_ready(file)
    runs = whole(form.get("replicates") or "1", "runs")
    command = ["train", str(file), "--replicates", str(runs), "--json"]
    seed = form.get("seed", "").strip()
    command += ["--seed", str(whole(seed, "seed"))] if seed else []
    job = studio.jobs.start(command, f"Simulation of {file.name}, {counted(runs, 'run')}", report=True)
    return Response(status_code=204, headers={"HX-Redirect": f"/train/{job.id}"})


def outcome(request: Request) -> Response:
    """Show a training's progress and, at the end, its outcome over the forecast."""
    from parley.report.words.training import (
        NOTHING_NEW_NOTE,  # with libraries that take their time
        outcome_line,
        spent_rows,
    )

    studio = studio_of(request)
    job = studio.jobs.find(request.path_params["name"])
    state = job.state
    released = job.command[:1] == ("learner",) or "--ledgers" in job.command
    content = job.result if state == "done" else {}
    drawn = _fitness_chart(job) if content and not released else None
    added_lines = [outcome_line(content)] if content and not released else []
    chart = None if drawn is None else json.dumps(drawn)
    rows = spent_rows(content) if content and released else []
    added_lines += [f"{NOTHING_NEW_NOTE}."] if content.get("repeated") else []
    job_lines = [line for line in studio.named(content.get("said", [])) if not line.startswith("Next:")]
    seen = {"state": state, "has_report": job.report is not None, "released": released, "told": job_lines}
    saved = Path(job.command[job.command.index("--save") + 1]).name if "--save" in job.command else None
    shown = {
        "sentences": [*job_lines, *added_lines],
        "chart": chart,
        "rows": rows,
        "saved": saved,
        "scored": _is_scored(job) and job_lines,
    }
    return page(request, "outcome.html", job=job, log=job.log, **shown, **seen)


def _is_scored(job: Job) -> bool:
    """Return whether a job released a model here, which each owner's rows can judge."""
    return job.command[:1] == ("train",) and {"--ledgers", "--save"} <= {*job.command} and job.state == "done"


def score(request: Request) -> Response:
    """Start `parley score --all` with a released model; each owner's own rows judge it."""
    studio = studio_of(request)
    job = studio.jobs.find(request.path_params["name"])
    if not _is_scored(job):
        raise SettingError(
            "score: this job has no model to score; choose a finished release on this machine that saved its model"
        )
    terms, model = Path(job.command[1]), Path(job.command[job.command.index("--save") + 1])
    require_expected(load_terms(terms), job.result.get("terms_hash"))
    title = f"Scores of {model.name} for every owner"
    scored = studio.jobs.start(["score", str(model), str(terms), "--all", "--json"], title, report=True)
    return Response(status_code=204, headers={"HX-Redirect": f"/jobs/{scored.id}"})


def _fitness_chart(job: Job) -> dict[str, Any] | None:
    """Return the chart of relative fitness by round: forecast with interval, and outcome."""
    from parley.workflows.forecast import foresee

    fitness = job.result.get("relative_fitness")
    try:
        expected = foresee(load_terms(job.command[1]))
    except (ParleyError, OSError):
        return None
    return {
        "kind": "path",
        "label": "Relative fitness by round: forecast and result",
        "forecast": [float(value) for value in expected.path],
        "interval": [expected.relative_fitness.low, expected.relative_fitness.high],
        "outcome": None if fitness is None else [fitness["median"], fitness["q25"], fitness["q75"]],
    }


def review(request: Request) -> Response:
    """Show what a release by these terms would spend, and whether the owners' side allows it."""
    from parley.workflows.release import review_release  # with libraries that take their time

    studio, query = studio_of(request), dict(request.query_params)
    terms, where = load_terms(studio.inside(field(query, "file"), "terms")), _owners_location(query)
    books = refused = None
    try:
        books = _books(studio, query)
    except ParleyError as error:
        refused = str(error)
    reviewed = review_release(terms, books, query.get("ledgers", ""), refused)
    stem = Path(field(query, "file")).with_suffix("")
    shown = {
        "model": f"{stem.name}-model{MODEL_SUFFIX}",
        "ready": f"{stem}-ready{TERMS}",
        "scales": reviewed.statistics,
    }
    shown |= {"rows": reviewed.rows, "refused": reviewed.refused, "seen": reviewed.seen, "notes": reviewed.notes}
    query, shown["others"] = {**query, "expect": terms.hash}, studio.named(reviewed.other_books)
    return page(request, "release.html", asked=query, where=where, **shown)


def foreseen(request: Request) -> Response:
    """Show whether anybody is expected to gain by a release; if nobody is, a box to release anyway."""
    from parley.workflows.release import foresee_release  # with libraries that take their time

    studio, query = studio_of(request), dict(request.query_params)
    (_, terms), books = _read_terms(studio, query), _books(studio, query)
    forecast = foresee_release(terms, books)
    return page(
        request,
        "foreseen.html",
        said=forecast.said,
        refused=forecast.refused,
        anyway=RELEASE_ANYWAY_LABEL,
        file=field(query, "file"),
    )


async def release(request: Request) -> Response:
    """Start an agreed release: `parley train --ledgers`, `parley learner run` or `parley column-stats`."""
    form, studio = await fields(request), studio_of(request)
    command = release_command(studio, form)
    where = "on this machine" if _owners_location(form) == HERE else "with owners elsewhere"
    what, tab = ("Scales", "jobs") if command[0] == "column-stats" else ("Release", "train")
    job = studio.jobs.start(command, f"{what} by {field(form, 'file')} {where}")
    return Response(status_code=204, headers={"HX-Redirect": f"/{tab}/{job.id}"})


def release_command(studio: Studio, form: Mapping[str, str]) -> list[str]:
    """Return the command of a release; refuse a form in which nobody agreed to the spending."""
    if form.get("agreed") != "on":
        raise SettingError("release: read what the release spends, then tick “I have read what this release spends”")
    if form.get("foreseen") == "refused" and form.get("anyway") != "on":
        raise SettingError(
            f"release: according to the forecast, the release is not worth its budget; tick “{RELEASE_ANYWAY_LABEL}” "
            "too, or change the terms"
        )
    from parley.workflows.release import asks_statistics, other_books, require_allowed

    (file, terms), books = _read_terms(studio, form), _books(studio, form)
    require_allowed(terms, books)
    scales, expect = asks_statistics(terms), ["--expect", terms.hash]
    if books is None:
        again = ["--resume"] if form.get("resume") == "on" else []
        begun = ["column-stats", str(file)] if scales else ["learner", "run", str(file)]
        return [
            *begun,
            *expect,
            "--owners",
            str(_addresses(studio, form)),
            *again,
            *_output_options(studio, form, scales),
        ]
    made = [("--lifetime", books.lifetime), ("--lifetime-delta", books.lifetime_delta)]
    given = [str(each) for pair in made if pair[1] is not None for each in pair]
    begun = ["column-stats" if scales else "train", str(file), *expect, "--ledgers", str(books.folder)]
    reason = form.get("other_books", "").strip()
    if not reason and other_books(terms, books):
        raise SettingError(
            "release: these tables already have ledgers; give a reason in the field “Why may these tables have a "
            "second ledger?”"
        )
    why = [f"--other-books={reason}"] if reason else []
    return [*begun, *given, *why, *_output_options(studio, form, scales)]


def _read_terms(studio: Studio, form: Mapping[str, str]) -> tuple[Path, Terms]:
    """Return the file and its terms, which must be those that the page showed."""
    file = studio.inside(field(form, "file"), "terms")
    terms = load_terms(file)
    require_expected(terms, field(form, "expect"))
    return file, terms


def _output_options(studio: Studio, form: Mapping[str, str], scales: bool) -> list[str]:
    """Return the options for the output file, and for a release against the forecast."""
    key, ending, purpose = ("ready", TERMS, "terms") if scales else ("model", MODEL_SUFFIX, "model")
    name = field(form, key)
    file = str(studio.new(name if name.endswith(ending) else name + ending, purpose))
    if scales:
        return ["--write", file]
    return [*(["--force"] if form.get("anyway") == "on" else []), "--save", file, "--json"]


def _books(studio: Studio, form: Mapping[str, str]) -> "Books | None":
    """Return the ledgers that a release debits; None if the owners elsewhere have their own."""
    from parley.workflows.release import Books

    if _owners_location(form) == ELSEWHERE:
        _addresses(studio, form)
        return None
    folder = studio.within(field(form, "ledgers"), "ledgers")
    return Books(folder, _number(form, "lifetime"), _number(form, "lifetime_delta"))


def _owners_location(form: Mapping[str, str]) -> str:
    if form.get("where") not in (HERE, ELSEWHERE):
        raise SettingError("release: the form does not say where the owners are; open the Train tab again")
    return form["where"]


def _addresses(studio: Studio, form: Mapping[str, str]) -> Path:
    return studio.inside(field(form, "addresses"), "addresses")


def _number(form: Mapping[str, str], key: str) -> float | None:
    given = form.get(key, "").strip()
    return decimal(given, key.replace("_", " ")) if given else None


ROUTES = [
    Route("/train", show),
    Route("/train/first", first),
    Route("/train/start", start, methods=["POST"]),
    Route("/train/release", review),
    Route("/train/release/foreseen", foreseen),
    Route("/train/release/start", release, methods=["POST"]),
    Route("/train/{name}", outcome),
    Route("/train/{name}/score", score, methods=["POST"]),
]
