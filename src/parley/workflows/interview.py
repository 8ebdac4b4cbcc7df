"""People's wishes for first terms: as they typed them, and by questions if neither they nor a public sample says more.

Formal guarantee: of private files this reads the names of columns, how many rows count and, to guess a kind, whether
the target holds numbers, names or dates. The person sees the guess, and the terms' comments say it. Otherwise only the
person's answers are written.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from parley.data.headers import column_kinds, read_header
from parley.data.sources import read_table
from parley.decisions.from_files.column_choice import wanted_columns
from parley.decisions.from_files.column_dates import AmbiguousDatesError, dates_as_target, range_ends, require_format
from parley.decisions.from_files.known_columns import Wishes
from parley.decisions.from_files.odd_columns import alike_words, has_identifying_name, spelled_alike
from parley.decisions.from_files.terms_from_files import usual_delta
from parley.errors import SettingError
from parley.report.words import interview as said
from parley.terms import Terms
from parley.terms.catalogue import MODELS, NOISES, THREE_HOST_SWITCHES, kinds_from_files
from parley.terms.sections import SHARED_NOISE
from parley.workflows.person import Person

UNPARSED_OPTIONS = (  # options that are wishes as they are
    *("target", "public", "kind", "exposure", "event", "positive", "holdout", "score_epsilon", "title", "person"),
    *("records_per_person", "delta", "draw", *THREE_HOST_SWITCHES),
)
ALWAYS_ASKED_OPTIONS = ("epsilon", "delta", "person", "hosts", "missing")  # of everybody who has not said it


def typed_wishes(typed: Mapping[str, Any]) -> Wishes:
    """Parse the options of `parley init` as wishes; None: not stated."""
    missing = typed["missing"]
    if missing not in (None, "fill", "refuse"):
        raise SettingError(f"--missing: expected fill or refuse; got {missing!r}")
    ranges = dict(map(_range, typed["bounds"] or ()))
    dates = {column: "" for column, (_, dated) in ranges.items() if dated} | dict(map(_format, typed["dates"] or ()))
    words: dict[str, Any] = {
        "periods": _numbers(typed["periods"]),
        "features": said.listed(typed["features"]) or None,
        "bounds": {column: ends for column, (ends, _) in ranges.items()},
        "dates": dates,
        "merged": tuple(typed["merge"] or ()),
        "owners": dict(map(_owner, typed["owner"] or ())),
        "categories": dict(map(_names, typed["categories"] or ())),
        "columns": wanted_columns(typed["columns"]),
        "hosts": said.listed(typed["hosts"]),
    }
    words |= {key: typed[key] for key in UNPARSED_OPTIONS}
    return Wishes(**words, **{key: typed[key] for key in ("epsilon", "missing") if typed[key] is not None})


def with_usual(files: Sequence[Path], wishes: Wishes, unsaid: Collection[str]) -> Wishes:
    """Add a delta that suits the largest table, unless one was stated."""
    rows = [read_header(file).rows for file in files] + [records for records, _ in wishes.owners.values()]
    return replace(wishes, delta=usual_delta(max(rows))) if "delta" in unsaid else wishes


def asked_wishes(files: Sequence[Path], wishes: Wishes, unsaid: Collection[str], person: Person) -> Wishes:
    """Add a person's answers, question by question; unanswered questions stay open."""
    wishes = asked_kind(files, wishes, person)
    answers: dict[str, Any] = {}
    for key, question, usual in (("epsilon", said.EPSILON, 1.0), ("delta", said.DELTA, wishes.delta or 0.0)):
        if key in unsaid:
            answers[key] = person.ask(question, usual)
    if "person" in unsaid and (column := person.ask(said.PERSON, "")):
        rows = wishes.records_per_person
        rows = person.ask(f"{said.PERSON_ROWS} {said.FIRST_ROWS}", 3) if rows == 1 else rows
        answers |= {"person": column, "records_per_person": rows}
    if "hosts" in unsaid:
        answers["hosts"] = said.listed(person.ask(said.HOSTS, ""))
        if len(answers["hosts"]) == NOISES[SHARED_NOISE].hosts:
            answers |= {key: person.confirm(question) for key, question in said.THREE_HOSTS.items()}
    if "missing" in unsaid:
        answers["missing"] = "fill" if person.confirm(said.MISSING, True) else "refuse"
    wishes = replace(wishes, **answers)
    return asked_merges(asked_columns(columns_to_ask(files, wishes), wishes, person), person)


def asked_kind(files: Sequence[Path], wishes: Wishes, person: Person) -> Wishes:
    """Add the kind of model and what it needs, asked for unless the target is known."""
    target = wishes.target
    known = bool(wishes.positive) or target in wishes.bounds or target in wishes.categories
    if wishes.public is None and not (wishes.kind or known):
        wishes = replace(wishes, kind=_kind(files, target, person), target_read=True)
    if wishes.kind is None or wishes.public is not None or wishes.kind not in MODELS:
        return wishes
    predicts = MODELS[wishes.kind].predicts
    if predicts == "survival":
        event = wishes.event or person.require(said.EVENT)
        return replace(wishes, event=event, periods=wishes.periods or _numbers(person.require(said.PERIODS)))
    if known:
        return wishes
    if predicts == "two classes":
        names = two_names(target, person.require(said.TWO_NAMES.format(target=target)))
        return replace(wishes, positive=names[-1], categories={**wishes.categories, target: names})
    return asked_columns([target], wishes, person)


def two_names(target: str, text: str) -> tuple[str, ...]:
    """Parse the names of two classes, the one that counts as 1 last."""
    names = said.listed(text, target)
    if (len(names), len({*names})) != (2, 2):
        raise SettingError(f"{target}: {said.NOT_TWO_MESSAGE}")
    return names


def _kind(files: Sequence[Path], target: str, person: Person) -> str:
    """Ask for the kind of model, with a guess by whether the target holds numbers or names."""
    held = {column_kinds(file, [target], str(file))[target] for file in files}
    if "dates" in held:
        raise dates_as_target(target)
    holds, usual = ("names", "logistic-regression") if "names" in held else ("numbers", "linear-regression")
    offered = "; ".join(f"{kind}: {words}" for kind, words in said.kinds_in_words().items())
    person.say(f"{target} contains {holds}, according to the files. Kinds of model: {offered}.")
    while (answer := person.ask(f"What is {target}", usual)) not in kinds_from_files():
        person.say(f"{answer}: expected one of {', '.join(kinds_from_files())}.")
    return answer


def columns_to_ask(files: Sequence[Path], wishes: Wishes) -> list[str]:
    """List the columns to learn from whose spread nobody has stated."""
    if wishes.public is not None:
        return []
    headers = [read_header(file).columns for file in files]
    shared = [column for column in headers[0] if all(column in each for each in headers)]
    wanted = (
        [column for column in shared if not has_identifying_name(column)]
        if wishes.features is None
        else wishes.features
    )
    known = {*wishes.outcome, wishes.person, *wishes.bounds, *wishes.categories}
    return [column for column in wanted if column in shared and column not in known]


def unsaid_columns(terms: Terms) -> list[str]:
    """List the columns of drafted terms that owners would be asked about, since nobody stated what they hold."""
    model = terms.model
    candidate_columns = (*(model.features or ()), *((model.target,) if model.predicts in ("number", "classes") else ()))
    return [column for column in candidate_columns if column not in {*model.bounds, *model.categories}]


def asked_columns(columns: Sequence[str], wishes: Wishes, person: Person) -> Wishes:
    """Add ranges and names that a person states for these columns; unanswered ones stay open."""
    bounds, categories, dates = dict(wishes.bounds), dict(wishes.categories), dict(wishes.dates)
    for column in columns:
        answer = said.listed(person.ask(f"{column}: {said.SPREAD}", ""))
        ends = range_ends(answer)
        if ends is not None and ends[0][0] < ends[0][1]:
            bounds[column] = ends[0]
            dates |= {column: dates.get(column, "")} if ends[1] else {}
        elif answer:
            categories[column] = answer
    return replace(wishes, bounds=bounds, categories=categories, dates=dates)


def asked_merges(wishes: Wishes, person: Person) -> Wishes:
    """Add columns whose names count as one if they differ only in capitalisation or spaces."""
    if wishes.public is None:
        return wishes
    public = read_table(wishes.public)
    known = {*wishes.outcome, wishes.person, *wishes.bounds, *wishes.dates, *wishes.merged}
    columns = [str(column) for column in public.columns if str(column) not in known]
    wanted = [column for column in columns if wishes.features is None or column in wishes.features]
    kinds = column_kinds(public, [column for column in wanted if not has_identifying_name(column)], "public sample")
    found = {column: spelled_alike(public, column) for column, kind in kinds.items() if kind == "names"}
    chosen = [
        column
        for column, groups in found.items()
        if groups and person.confirm(f"{alike_words(column, groups)}. {said.MERGE}")
    ]
    return replace(wishes, merged=(*wishes.merged, *chosen))


def asked_dates(unclear: AmbiguousDatesError, wishes: Wishes, person: Person) -> Wishes:
    """Ask for the format of a column whose dates can be read in several ways."""
    question = said.DATES.format(column=unclear.column, ways=" or ".join(unclear.formats))
    while (answer := person.require(question).strip()) not in unclear.formats:
        person.say(f"{answer}: expected {' or '.join(unclear.formats)}.")
    return replace(wishes, dates={**wishes.dates, unclear.column: answer})


def _numbers(text: str | None) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in said.listed(text))
    except ValueError:
        raise SettingError(f"--periods {text}: expected numbers, such as 30,90,365") from None


def _names(text: str) -> tuple[str, tuple[str, ...]]:
    column, _, listed = text.partition("=")
    return column.strip(), said.listed(listed, f"--categories {column}")


def _range(text: str) -> tuple[str, tuple[tuple[float, float], bool]]:
    """Parse a column, its range, and whether that was given as dates."""
    column, _, ends = text.partition("=")
    found = range_ends([end.strip() for end in ends.split(",")])
    if found is None:
        raise SettingError(f"--bounds {text}: expected COLUMN=LOW,HIGH, two numbers or dates such as 2015-01-01")
    return column.strip(), found


def _format(text: str) -> tuple[str, str]:
    column, _, written = text.partition("=")
    return column.strip(), require_format(column.strip(), written.strip())


def _owner(text: str) -> tuple[str, tuple[int, float | None]]:
    name, _, values = text.partition("=")
    try:
        records, _, epsilon = values.partition(",")
        return name.strip(), (int(records), float(epsilon) if epsilon else None)
    except ValueError:
        raise SettingError(
            f"--owner {text}: expected NAME=RECORDS, such as bank-a=25000, or NAME=RECORDS,EPS"
        ) from None
