"""Releases from the Train tab: what they would spend is read first, and agreed to; then a job makes them.

A release debits the owners' ledgers, for ever. So it takes two steps: a page that says whose budgets it spends, or why
the owners' side does not allow it, and a form on it in which somebody agrees. What is released is a model or, by terms
that set a part of every epsilon aside for them, scales first.
"""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from parley.errors import BelowBaselineError, ParleyError, SettingError
from parley.numerals import number
from parley.studio.form import decimal, field, fields
from parley.studio.pages import TERMS, Studio, page, studio_of
from parley.terms import Terms, load_terms
from parley.terms.file import require_expected

HERE, ELSEWHERE = "here", "elsewhere"
MODEL = ".json"
ANYWAY = "Release it anyway."
BEGUN = "This release began before: its stored answers are free, and it goes on from there."


def review(request: Request) -> Response:
    """What a release by these terms would spend, and whether the owners' side allows it."""
    from parley.owner.warnings import budget_warning  # with libraries that take their time

    studio, asked = studio_of(request), dict(request.query_params)
    terms, where = load_terms(studio.inside(field(asked, "file"), "terms")), _where(asked)
    refused, scales = None, _asks_scales(terms)
    try:
        require_allowed(studio, terms, asked)
    except ParleyError as error:
        refused = str(error)
    stem = Path(field(asked, "file")).with_suffix("")
    shown = {"scales": scales, "rows": _scale_rows(terms) if scales else _model_rows(terms), "refused": refused}
    shown |= {"seen": _seen(terms) if scales and refused is None else None}
    loud = budget_warning(terms, [part.name for part in terms.owners])
    books = _books(studio, terms, asked) if where == HERE and refused is None else []
    others = _other_books(studio, terms, asked) if where == HERE and refused is None else []
    shown |= {"notes": [*([] if loud is None else [loud.sentence]), *books], "others": others}
    shown |= {"model": f"{stem.name}-model{MODEL}", "ready": f"{stem}-ready{TERMS}"}
    return page(request, "release.html", asked={**asked, "expect": terms.hash}, where=where, **shown)


def _books(studio: Studio, terms: Terms, asked: Mapping[str, str]) -> list[str]:
    """Which ledgers a release makes, for ever."""
    from parley.learning.owners import missing_ledgers
    from parley.report.words.ledgers import made_words

    folder, lifetime = _ledgers(studio, asked), _number(asked, "lifetime")
    missing, said = missing_ledgers(terms, folder), []
    if missing and lifetime is not None:
        said.append(made_words(missing, asked["ledgers"], lifetime, _number(asked, "lifetime_delta") or 0.0))
    return said


def _other_books(studio: Studio, terms: Terms, asked: Mapping[str, str]) -> list[str]:
    """Which other ledgers this account has for the tables, or for some of their people."""
    from parley.learning.owners import other_books_here
    from parley.tasks.column_statistics.agreement import column_statistics_agreement

    agreed = column_statistics_agreement(terms) if _asks_scales(terms) else terms
    found = other_books_here(agreed, _ledgers(studio, asked))
    return studio.named(each.sentence for each in found)


def _model_rows(terms: Terms) -> list[list[str]]:
    rows = [["owner", "records", "ε that it spends", "δ that it spends"]]
    return rows + [[part.name, f"{part.records:,}", *_spent(terms, part.name)] for part in terms.owners]


def _scale_rows(terms: Terms) -> list[list[str]]:
    from parley.tasks.column_statistics.agreement import column_statistics_agreement

    asked, rows = column_statistics_agreement(terms), [["owner", "records", "ε that it spends", "δ that it spends"]]
    rows[0].append("ε that is left to learn with")
    for part in terms.owners:
        left = number(terms.promised_epsilon(part.name) - terms.scale_epsilon, side="below")
        rows.append([part.name, f"{part.records:,}", *_spent(asked, part.name), left])
    return rows


def _spent(terms: Terms, name: str) -> list[str]:
    """(ε, δ) that an owner's ledger is debited for these terms."""
    return [number(each, side="above") for each in (terms.promised_epsilon(name), Fraction(str(terms.privacy.delta)))]


def _seen(terms: Terms) -> str:
    """What can be seen of columns through the noise, as `parley scales` says it."""
    from parley.learning.owners import open_owners
    from parley.protocol.setup import resolve
    from parley.tasks.column_statistics.agreement import column_statistics_agreement
    from parley.tasks.column_statistics.commands import noise_words
    from parley.tasks.column_statistics.run import sight

    asked = column_statistics_agreement(terms)
    example = None if terms.model.features is not None else open_owners(terms)[0].example
    return noise_words(asked, *sight(resolve(asked, example)))


def foreseen(request: Request) -> Response:
    """Whether anybody is expected to gain by a release, which takes seconds to say; where nobody is, a box with which
    somebody releases anyway."""
    from parley.decisions.outlook.forecast import worth_spending  # with libraries that take their time
    from parley.decisions.outlook.worth import require_worth
    from parley.learning.owners import spent_so_far
    from parley.report.words.training import foreseen_words, unforeseen

    studio, asked = studio_of(request), dict(request.query_params)
    (_, terms), said, refused = _read(studio, asked), "", None
    if _where(asked) == HERE and spent_so_far(terms, _ledgers(studio, asked)):
        return page(request, "foreseen.html", said=BEGUN, refused=None)
    try:
        found = worth_spending(terms)
        require_worth(found)
        said = foreseen_words(found)
    except BelowBaselineError as error:
        refused = f"{error}."
    except ParleyError as error:
        said = unforeseen(error)
    return page(request, "foreseen.html", said=said, refused=refused, anyway=ANYWAY, file=field(asked, "file"))


async def start(request: Request) -> Response:
    """Release, once somebody agreed: `parley train --ledgers`, or `parley learner run` with owners elsewhere; before
    that, `parley scales`."""
    form, studio = await fields(request), studio_of(request)
    command = release_command(studio, form)
    where = "on this machine" if _where(form) == HERE else "with owners elsewhere"
    what, tab = ("Scales", "jobs") if command[0] == "scales" else ("Release", "train")
    job = studio.jobs.start(command, f"{what} by {field(form, 'file')} {where}")
    return Response(status_code=204, headers={"HX-Redirect": f"/{tab}/{job.id}"})


def release_command(studio: Studio, form: Mapping[str, str]) -> list[str]:
    """What somebody would type behind `parley`, once they agreed to what it spends."""
    if form.get("agreed") != "on":
        raise SettingError("release: read what it spends, and say that you agree")
    if form.get("foreseen") == "refused" and form.get("anyway") != "on":
        raise SettingError(f'release: it is forecast to be worth no budget; tick "{ANYWAY}" too, or change the terms')
    file, terms = _read(studio, form)
    require_allowed(studio, terms, form)
    scales, expect = _asks_scales(terms), ["--expect", terms.hash]
    if _where(form) == ELSEWHERE:
        again = ["--resume"] if form.get("resume") == "on" else []
        begun = ["scales", str(file)] if scales else ["learner", "run", str(file)]
        return [*begun, *expect, "--owners", str(_addresses(studio, form)), *again, *_written(studio, form, scales)]
    made = [(f"--{key.replace('_', '-')}", _number(form, key)) for key in ("lifetime", "lifetime_delta")]
    given = [str(each) for pair in made if pair[1] is not None for each in pair]
    begun = ["scales" if scales else "train", str(file), *expect, "--ledgers", str(_ledgers(studio, form))]
    reason = form.get("other_books", "").strip()
    if not reason and _other_books(studio, terms, form):
        raise SettingError("release: tables have other books; say in the field below them why they may have these, too")
    why = [f"--other-books={reason}"] if reason else []
    return [*begun, *given, *why, *_written(studio, form, scales)]


def _read(studio: Studio, form: Mapping[str, str]) -> tuple[Path, Terms]:
    """The file and the terms in it, which are those that the page showed."""
    file = studio.inside(field(form, "file"), "terms")
    terms = load_terms(file)
    require_expected(terms, field(form, "expect"))
    return file, terms


def _written(studio: Studio, form: Mapping[str, str], scales: bool) -> list[str]:
    """Where the terms to learn by go, or the model, and whether it is made whatever the forecast says."""
    key, ending, what = ("ready", TERMS, "terms") if scales else ("model", MODEL, "model")
    name = field(form, key)
    file = str(studio.new(name if name.endswith(ending) else name + ending, what))
    if scales:
        return ["--write", file]
    return [*(["--anyway"] if form.get("anyway") == "on" else []), "--save", file, "--json"]


def require_allowed(studio: Studio, terms: Terms, form: Mapping[str, str]) -> None:
    """Refuse what ledgers of this machine have no room for, before anything is spent; owners elsewhere have accepted
    the terms by themselves, or refuse."""
    from parley.learning.owners import require_ledgers  # with libraries that take their time

    if _where(form) == ELSEWHERE:
        _addresses(studio, form)
        terms.require_shared_sample()
    if _asks_scales(terms):
        _require_scales(studio, terms, form)
    elif _where(form) == HERE:
        require_ledgers(terms, _ledgers(studio, form), _number(form, "lifetime"), _number(form, "lifetime_delta"))


def _require_scales(studio: Studio, terms: Terms, form: Mapping[str, str]) -> None:
    """Refuse scales that would be paid for in vain, by what is public, and ledgers without room for them and learning;
    the command looks at the tables, too, before it debits anything."""
    from parley.learning.owners import open_owners, require_ledgers, require_room
    from parley.tasks.column_statistics.agreement import column_statistics_agreement
    from parley.tasks.column_statistics.run import require_learnable

    here = _where(form) == HERE
    require_learnable(terms, open_owners(terms)[0].example if here and terms.model.features is None else None)
    if here:
        ledgers, lifetime = _ledgers(studio, form), (_number(form, "lifetime"), _number(form, "lifetime_delta"))
        require_room(terms, ledgers, *lifetime, "scales")
        require_ledgers(column_statistics_agreement(terms), ledgers, *lifetime)


def _asks_scales(terms: Terms) -> bool:
    return terms.privacy.scale_epsilon is not None


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
