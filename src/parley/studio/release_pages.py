"""Releases from the Train tab: what they would spend is read first, and agreed to; then a job makes them.

A release debits the owners' ledgers, for ever. So it takes two steps: a page that says whose budgets it spends, or why
the owners' side does not allow it, and a form on it in which somebody agrees.
"""

from collections.abc import Mapping
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from parley.errors import BelowBaselineError, ParleyError, SettingError
from parley.numerals import number
from parley.studio.form import decimal, field, fields
from parley.studio.pages import Studio, page, studio_of
from parley.terms import Terms, load_terms

HERE, ELSEWHERE = "here", "elsewhere"
MODEL = ".json"
BEGUN = "This release began before: its stored answers are free, and it goes on from there."


def review(request: Request) -> Response:
    """What a release by these terms would spend, and whether the owners' side allows it."""
    studio, asked = studio_of(request), dict(request.query_params)
    terms, where = load_terms(studio.inside(field(asked, "file"), "terms")), _where(asked)
    refused = None
    try:
        require_allowed(studio, terms, asked)
    except ParleyError as error:
        refused = str(error)
    rows = [["owner", "records", "ε that it spends"]]
    for part in terms.owners:
        rows.append([part.name, f"{part.records:,}", number(float(terms.promised_epsilon(part.name)), side="above")])
    model = Path(field(asked, "file")).stem + "-model" + MODEL
    return page(request, "release.html", asked=asked, where=where, model=model, rows=rows, refused=refused)


def foreseen(request: Request) -> Response:
    """Whether anybody is expected to gain by a release, which takes seconds to say; where nobody is, a box with which
    somebody releases anyway."""
    from parley.decisions.forecasting import require_worth, worth_spending  # with libraries that take their time
    from parley.learning.owners import spent_so_far
    from parley.report.words.released import gaining_words, unforeseen

    studio, asked = studio_of(request), dict(request.query_params)
    terms, said, refused = load_terms(studio.inside(field(asked, "file"), "terms")), "", None
    if _where(asked) == HERE and spent_so_far(terms, _ledgers(studio, asked)):
        return page(request, "foreseen.html", said=BEGUN, refused=None)
    try:
        found = worth_spending(terms)
        require_worth(found)
        said = gaining_words(found, len(terms.owners))
    except BelowBaselineError as error:
        refused = f"{error}."
    except ParleyError as error:
        said = unforeseen(error)
    return page(request, "foreseen.html", said=said, refused=refused)


async def start(request: Request) -> Response:
    """Release, once somebody agreed: `parley train --ledgers`, or `parley learner run` with owners elsewhere."""
    form, studio = await fields(request), studio_of(request)
    command = release_command(studio, form)
    where = "on this machine" if _where(form) == HERE else "with owners elsewhere"
    job = studio.jobs.start(command, f"Release by {field(form, 'file')} {where}")
    return Response(status_code=204, headers={"HX-Redirect": f"/train/{job.id}"})


def release_command(studio: Studio, form: Mapping[str, str]) -> list[str]:
    """What somebody would type behind `parley`, once they agreed to what it spends."""
    if form.get("agreed") != "on":
        raise SettingError("release: read what it spends, and say that you agree")
    file, name = studio.inside(field(form, "file"), "terms"), field(form, "model")
    require_allowed(studio, load_terms(file), form)
    model = studio.new(name if name.endswith(MODEL) else name + MODEL, "model")
    saved = [*(["--anyway"] if form.get("anyway") == "on" else []), "--save", str(model), "--json"]
    if _where(form) == ELSEWHERE:
        again = ["--resume"] if form.get("resume") == "on" else []
        return ["learner", "run", str(file), "--owners", str(_addresses(studio, form)), *again, *saved]
    made = [(f"--{key.replace('_', '-')}", _number(form, key)) for key in ("lifetime", "lifetime_delta")]
    given = [str(each) for pair in made if pair[1] is not None for each in pair]
    return ["train", str(file), "--ledgers", str(_ledgers(studio, form)), *given, *saved]


def require_allowed(studio: Studio, terms: Terms, form: Mapping[str, str]) -> None:
    """Refuse what ledgers of this machine have no room for, before anything is spent; owners elsewhere have accepted
    the terms by themselves, or refuse."""
    from parley.learning.owners import require_ledgers  # with libraries that take their time

    if _where(form) == ELSEWHERE:
        _addresses(studio, form)
        terms.require_shared_sample()
        return
    ledgers = _ledgers(studio, form)
    require_ledgers(terms, ledgers, _number(form, "lifetime"), _number(form, "lifetime_delta"))


def _where(form: Mapping[str, str]) -> str:
    if form.get("where") not in (HERE, ELSEWHERE):
        raise SettingError("release: expected owners here or elsewhere")
    return form["where"]


def _ledgers(studio: Studio, form: Mapping[str, str]) -> Path:
    return studio.within(field(form, "ledgers"), "ledgers")


def _addresses(studio: Studio, form: Mapping[str, str]) -> Path:
    return studio.inside(field(form, "addresses"), "addresses")


def _number(form: Mapping[str, str], key: str) -> float | None:
    given = form.get(key, "").strip()
    return decimal(given, key.replace("_", " ")) if given else None


ROUTES = [
    Route("/train/release", review),
    Route("/train/release/foreseen", foreseen),
    Route("/train/release/start", start, methods=["POST"]),
]
