"""The Play tab: sliders for owners' numbers, and their consequences at once."""

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from parley.errors import SettingError
from parley.report.words.interview import as_list, listed
from parley.studio.pages import TERMS, decimal, field, fields, first_scales, page, studio_of, whole
from parley.studio.playground import OWNERS_PER_PAGE, Played, Playground, Tab
from parley.terms import OwnerTerms, Terms
from parley.terms.catalogue import HOST_DELTAS, UNNAMED_HOSTS

if TYPE_CHECKING:
    from parley.decisions.outlook.forecast import WhatIf

MAX_CHART_OWNERS = 60  # owners in the chart of gains


def show(request: Request) -> Response:
    """Show the tab; the first forecast follows."""
    studio = studio_of(request)
    played = studio.play.played
    if played is None:
        return page(request, "play_empty.html", files=studio.files(TERMS))
    view = _view(played, dict(request.query_params))
    name = studio.name_of(played.file)
    files = {"files": studio.files(TERMS), "file": name}
    shown = {"view": view, "rows": [_row(played, place) for place in view.places], "count": len(played.terms.owners)}
    how = {
        "hosts": as_list([host.name for host in played.terms.hosts]),
        "delta": float(played.terms.privacy.delta),
        "least_delta": f"{HOST_DELTAS[0]:g}",
    }
    how |= {"placeholders": as_list(UNNAMED_HOSTS)}
    how |= {"noise": played.terms.noise, "personal": played.personal, "target": played.target}
    how |= {"tab": secrets.token_hex(8), "loaded": played.turn, "first": first_scales(name, played.terms)}
    return page(request, "play.html", title=played.terms.title, **files, **shown, **how)


@dataclass(frozen=True)
class View:
    """The owners that a page shows: those whose names contain a word, page by page."""

    name: str
    at: int
    pages: int
    places: list[int]


def _view(played: Played, query: Mapping[str, str]) -> View:
    word = query.get("name", "")
    places = [place for place, part in enumerate(played.terms.owners) if word.lower() in part.name.lower()]
    pages = max(1, -(-len(places) // OWNERS_PER_PAGE))
    at = min(max(whole(query.get("page") or "1", "page"), 1), pages)
    return View(word, at, pages, places[(at - 1) * OWNERS_PER_PAGE : at * OWNERS_PER_PAGE])


def _row(played: Played, place: int) -> dict[str, Any]:
    part = played.terms.owners[place]
    cost = part.privacy_cost
    stakes = {"value": _typed(part.value), "cost": _typed(None if cost is None else cost.weight)}
    numbers = {"records": part.records, "epsilon": part.epsilon, "kind": "linear" if cost is None else cost.kind}
    return {"place": place, "name": part.name, **numbers, **stakes}


def _typed(number: float | None) -> str:
    """Format a number as a user would type it; empty if none was stated."""
    return "" if number is None else repr(number).removesuffix(".0")


async def load(request: Request) -> Response:
    """Load another file."""
    form = await fields(request)
    studio = studio_of(request)
    studio.play.load(studio.inside(field(form, "file"), "file"))
    return Response(status_code=204, headers={"HX-Redirect": "/play"})


async def change(request: Request) -> Response:
    """Apply the sliders, and show their consequences at once."""
    return await run_in_threadpool(_changed, request, await fields(request))


def _changed(request: Request, form: dict[str, str]) -> Response:
    play = studio_of(request).play
    owners: dict[str, dict[str, Any]] = {}
    for key, value in form.items():
        kind, dot, place = key.partition(".")
        if dot and kind in ("records", "epsilon", "value", "cost"):
            part = _owner(play.require(), place)
            owners.setdefault(part.name, {}).update(_field_change(kind, value.strip(), part))
    target = form.get("target", "").strip()
    play.change(
        owners,
        noise=form.get("noise"),
        personal=form.get("personal") == "on",
        target=decimal(target, "target") if target else None,
        sent=decimal(form.get("sent") or "0", "sent"),
        tab=_tab(form),
    )
    if play.judged:  # what an owner states leaves the forecast as it is, and the deal follows at once
        return _with_full_forecast(request, play.require().turn, form)
    return page(request, "now.html", **_instant_content(play, form), whole=None)


def _field_change(kind: str, value: str, part: OwnerTerms) -> dict[str, Any]:
    """Return a field's change of an owner; an empty value or privacy cost is not stated."""
    if kind == "records":
        return {kind: whole(value, kind)}
    if kind == "epsilon":
        return {kind: decimal(value, kind)}
    stated = decimal(value, kind) if value else None
    if kind == "value":
        return {kind: stated}
    shape = "linear" if part.privacy_cost is None else part.privacy_cost.kind
    return {"privacy_cost": None if stated is None else {"kind": shape, "weight": stated}}


def _tab(form: Mapping[str, str]) -> Tab | None:
    return Tab(form["tab"], whole(form.get("loaded") or "0", "loaded")) if "tab" in form else None


def _owner(played: Played, place: str) -> OwnerTerms:
    at = whole(place, "owner")
    if not 0 <= at < len(played.terms.owners):
        raise SettingError(f"owner: the terms have no owner at place {at}; load the page again")
    return played.terms.owners[at]


async def everyone(request: Request) -> Response:
    """Set one budget, value or privacy cost for all owners, or multiply all records."""
    form, play = await fields(request), studio_of(request).play
    given = {key: form.get(f"all_{key}", "").strip() for key in ("epsilon", "records", "value", "cost")}
    share, played = decimal(given.pop("records") or "1", "records times"), play.require()
    said: dict[str, dict[str, Any]] = {}
    for part in played.terms.owners:
        said[part.name] = {} if share == 1 else {"records": max(1, round(part.records * share))}
        for kind, value in given.items():
            said[part.name] |= _field_change(kind, value, part) if value else {}
    play.change(said, target=played.target, tab=_tab(form))
    return Response(status_code=204, headers={"HX-Refresh": "true"})


def now(request: Request) -> Response:
    """Show the sliders' consequences at once."""
    play = studio_of(request).play
    return page(request, "now.html", **_instant_content(play, dict(request.query_params)), whole=None)


def first(request: Request) -> Response:
    """Show the first forecast's headline as soon as it is known; gains follow."""
    from parley.report.words import forecast as forecast_words
    from parley.report.words import outlook as words

    play = studio_of(request).play
    play.require()
    forecast = play.first()
    if forecast is None:
        return now(request)
    view = _view(play.require(), dict(request.query_params))
    content = {"headline": forecast_words.headline(forecast), "fitness": words.FITNESS_NOTE, "view": view}
    return page(request, "first.html", **content)


def whole_forecast(request: Request) -> Response:
    """Show the whole forecast for the sliders; nothing if they moved on."""
    asked = dict(request.query_params)
    return _with_full_forecast(request, whole(asked.get("turn", "0"), "turn"), asked)


def _with_full_forecast(request: Request, turn: int, query: Mapping[str, str]) -> Response:
    from parley.report.words import forecast as said
    from parley.report.words.outlook import verdict_sentence

    play = studio_of(request).play
    result = play.whole(turn)
    if result is None:
        return Response(status_code=204)
    parts: dict[str, Callable[[], object]] = {
        "headline": lambda: said.headline(result),
        "details": lambda: [*said.details(result), said.baseline_line(result.worth)],
        "verdicts": lambda: said.verdict_lines(result),
        "for_whom": lambda: verdict_sentence(result.outlook),
        "no": lambda: result.verdict.verdict == "stay",
        "assumption": lambda: said.assumption(result),
        "warnings": lambda: result.warnings,
        "caveat": lambda: said.SCORING_HINT,
    }
    whole = {}
    for name, words in parts.items():  # slow for many owners
        whole[name] = words()
        if play.require().turn != turn:
            return Response(status_code=204)
    return page(request, "now.html", **_instant_content(play, query), whole=whole)


def deal(request: Request) -> Response:
    """Show the budgets that rational owners would choose, and payments."""
    from parley.report.words.negotiation import VALUES_NOTE

    turn = whole(request.query_params.get("turn", "0"), "turn")
    report = studio_of(request).play.negotiation(turn)
    if report is None:
        return Response(status_code=204)
    refused = report if isinstance(report, str) else None
    return page(request, "deal.html", refused=refused, report=report, stated=VALUES_NOTE)


async def save(request: Request) -> Response:
    """Write the terms to a new file of the folder."""
    studio = studio_of(request)
    form = await fields(request)
    name = field(form, "save_as")
    path = studio.new(name if name.endswith(TERMS) else name + TERMS, "file")
    terms = studio.play.save(path, _tab(form), listed(form.get("hosts"), "hosts"))
    return page(request, "said.html", sentences=_saved_lines(path.name, terms))


def _saved_lines(name: str, terms: Terms) -> list[str]:
    """Say that terms were saved, what comes next, and what others read in them."""
    from parley.report.words.negotiation import VALUES_SHARED_NOTE
    from parley.report.words.noise import invented_line

    stated = any(part.value is not None or part.privacy_cost is not None for part in terms.owners)
    step = "open the Train tab" if terms.privacy.scale_epsilon is None else "ask for column scales on the Train tab"
    invented = invented_line(terms)
    lines = [f"Saved as {name}. Next, {step}.", *([VALUES_SHARED_NOTE] if stated else [])]
    return lines if invented is None else [*lines, invented]


def _instant_content(play: Playground, query: Mapping[str, str]) -> dict[str, Any]:
    """Return what the page shows at once, with cells for the owners in view."""
    from parley.report.words import outlook as words

    what_if, played = play.at_once(), play.require()
    view, delta = _view(played, query), float(what_if.terms.privacy.delta)
    return {
        "verdict": words.verdict_line(what_if),
        "personal": played.personal,
        "nobody": what_if.outlook.consortium.verdict == "stay",
        "headline": words.headline(what_if, play.coverage()),
        "tally": words.tally(what_if),
        "sentences": words.sentences(what_if),
        "carried": words.QUICK_ESTIMATE_NOTE,
        "fitness": words.FITNESS_NOTE,
        "cells": [_cell(what_if, place, delta) for place in view.places],
        "chart": json.dumps(_chart(what_if)),
        "turn": played.turn,
        "view": view,
        "few": len(what_if.outlook.owners) <= MAX_CHART_OWNERS,
    }


def _cell(found: "WhatIf", place: int, delta: float) -> dict[str, Any]:
    from parley.report.words import outlook as words

    owner, part = found.outlook.owners[place], found.terms.owners[place]
    return {
        "place": place,
        "gain": words.gain_words(owner),
        "verdict": owner.verdict,
        "verdict_words": words.VERDICTS[owner.verdict],
        "asked": owner.name in found.best_coalition,
        "meaning": words.meaning_words(float(part.epsilon), delta),
    }


def _chart(found: "WhatIf") -> dict[str, Any]:
    ordered = sorted(found.outlook.owners, key=lambda owner: -owner.gain.mean)
    shown = (
        ordered
        if len(ordered) <= MAX_CHART_OWNERS
        else [*ordered[: MAX_CHART_OWNERS // 2], *ordered[-MAX_CHART_OWNERS // 2 :]]
    )
    return {
        "kind": "gains",
        "label": "Expected gain of each owner, in percent of its test error when it trains alone, with a 90% interval",
        "axis": "gain in % of the test error when training alone",
        "names": [owner.name for owner in shown],
        "gains": [
            [100 * each / owner.alone if owner.alone > 0 else each for each in (gain.mean, gain.low, gain.high)]
            for owner, gain in ((owner, owner.gain) for owner in shown)
        ],
        "asked": [owner.name in found.best_coalition for owner in shown],
    }


ROUTES = [
    Route("/play", show),
    Route("/play/load", load, methods=["POST"]),
    Route("/play/change", change, methods=["POST"]),
    Route("/play/everyone", everyone, methods=["POST"]),
    Route("/play/first", first),
    Route("/play/now", now),
    Route("/play/whole", whole_forecast),
    Route("/play/deal", deal),
    Route("/play/save", save, methods=["POST"]),
]
