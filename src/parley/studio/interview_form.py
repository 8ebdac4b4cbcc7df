"""The questions of `parley init` as a form about chosen tables: their shared columns, and the answers as options.

Formal guarantee: of private tables the names and declared types of columns are read, and no cell; kinds are read from
rows of the public sample alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parley.errors import DataError, SettingError
from parley.report.words import interview as words
from parley.studio.pages import TABLES, Studio, decimal, whole
from parley.terms.catalogue import MODELS, NOISES, THREE_HOST_SWITCHES
from parley.terms.keys import date_pattern
from parley.terms.sections import SHARED_NOISE

FormFields = Sequence[tuple[str, str]]  # a form's fields
MAX_SHOWN_COLUMNS = 200  # that are shown
TARGETS_WITH_RANGE, TARGETS_WITH_NAMES = (
    ("", "number", "count"),
    ("", "two classes", "classes"),
)  # targets with a range, and with names
UNDECLARED = "type not declared"
KIND_LABELS = {"number": "numbers", "names": "names", "dates": "dates"}


@dataclass(frozen=True)
class Answer:
    """The answer about one column, as it was typed."""

    feature: bool
    low: str = ""
    high: str = ""
    names: str = ""


@dataclass(frozen=True)
class Shared:
    """The columns that all chosen tables share, with declared kinds, and faults of tables."""

    kinds: Mapping[str, str] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()


def require_names(columns: Iterable[object]) -> None:
    """Refuse a table whose line of names holds a number, because it is a record."""
    for name in columns:
        try:
            float(str(name))
        except ValueError:
            continue
        raise DataError("the first line has numbers; add a first line with column names")


def tables_of(given: FormFields) -> list[str]:
    """Return the owners' tables in a form."""
    return [value for key, value in given if key == "table"]


def public_of(studio: Studio, given: FormFields) -> str:
    """Return the public sample in a form, unless it is one of the owners' tables."""
    public = dict(given).get("public", "")
    return "" if public and is_owners(studio, given, public) else public


def is_owners(studio: Studio, given: FormFields, public: str) -> bool:
    """Return whether a public sample is in fact an owner's table."""
    sample = studio.within(public, "public sample")
    tables = [studio.within(name, "tables") for name in tables_of(given)]
    return any(table == sample or (table.exists() and sample.exists() and table.samefile(sample)) for table in tables)


def answers_of(given: FormFields) -> dict[str, Answer]:
    """Return a form's answer about each column that it shows."""
    form, found = dict(given), {}
    for key, column in given:
        kind, _, place = key.partition(".")
        if kind == "column":
            fields = [form.get(f"{each}.{place}", "").strip() for each in ("low", "high", "names")]
            found[column] = Answer(form.get(f"feature.{place}") == "on", *fields)
    return found


def shared_columns(studio: Studio, given: FormFields) -> Shared:
    """Return the columns of all chosen tables, and of the public sample if there is one."""
    from parley.data.headers import column_kinds  # with libraries that take their time
    from parley.data.sources import find_source
    from parley.data.table import is_text

    kinds_by_table: list[dict[str, str]] = []
    wrong: list[str] = []
    public = public_of(studio, given)
    for name in tables_of(given):
        path = studio.inside(name, "tables")
        try:
            example = find_source(path).example
            require_names(example.columns)
        except DataError as error:
            wrong.append(_without_place(error, path, name))
            continue
        declared = not name.lower().endswith(".csv")
        typed = {str(each): KIND_LABELS["names" if is_text(example[each]) else "number"] for each in example.columns}
        kinds_by_table.append({each: kind if declared else UNDECLARED for each, kind in typed.items()})
    columns = (
        [each for each in kinds_by_table[0] if all(each in other for other in kinds_by_table)] if kinds_by_table else []
    )
    kinds = {each: kinds_by_table[0][each] for each in columns}
    if public and kinds:
        path = studio.inside(public, "public sample")
        try:
            kept = [each for each in kinds if each in find_source(path).example.columns.astype(str)]
            kinds = {each: KIND_LABELS[kind] for each, kind in column_kinds(path, kept, "public sample").items()}
        except DataError as error:
            wrong.append(_without_place(error, path, public))
    if tables_of(given) and not wrong and not kinds:
        wrong.append("The chosen tables have no column in common. Choose tables with common columns.")
    return Shared(kinds, tuple(wrong))


def _without_place(error: DataError, path: Path, name: str) -> str:
    """Describe a table's fault by the name that pages use."""
    return f"{name}: {str(error).removeprefix(str(path)).lstrip(': ')}"


def usual_features(columns: Sequence[str], form: Mapping[str, str]) -> list[str]:
    """Return the columns that `parley init` learns from by default."""
    from parley.decisions.from_files.odd_columns import has_identifying_name

    taken = {form.get(key, "") for key in ("target", "person", "exposure", "event")}
    return [column for column in columns if column not in taken and not has_identifying_name(column)]


def interview_fields(studio: Studio, given: FormFields) -> dict[str, Any]:
    """Return the form's questions about the tables chosen so far, with earlier answers."""
    form, tables, public = dict(given), tables_of(given), public_of(studio, given)
    shared = shared_columns(studio, given) if tables else Shared()
    columns, answers = list(shared.kinds), answers_of(given)
    predicts = MODELS[form["kind"]].predicts if form.get("kind", "") in MODELS else ""
    usual = usual_features(columns, {}) if columns else []
    rows = []
    for place, column in enumerate(columns[:MAX_SHOWN_COLUMNS]):
        answer = answers.get(column, Answer(column in usual))
        role = next((key for key in ("target", "person", "event", "exposure") if form.get(key) == column), "")
        ranged = predicts in TARGETS_WITH_RANGE if role == "target" else role in ("", "exposure")
        named = predicts in TARGETS_WITH_NAMES if role == "target" else role == ""
        shown = {"place": place, "name": column, "kind": shared.kinds[column], "role": role}
        rows.append(shown | {"answer": answer, "ranged": ranged, "named": named})
    others = [each for each in studio.files(*TABLES) if each not in tables]
    return {
        "form": {**form, "public": public},
        "tables": tables,
        "samples": others,
        "columns": columns,
        "rows": rows,
        "wrong": shared.wrong,
        "hidden": len(columns) - len(rows),
        "predicts": predicts,
        "kinds": words.kinds_in_words(),
        "switches": THREE_HOST_SWITCHES,
        "words": words,
    }


def init_options(studio: Studio, given: FormFields) -> list[str]:
    """Return the answers as options of `parley init`."""
    form, public = dict(given), public_of(studio, given)
    kind, person = form.get("kind", ""), form.get("person", "")
    if kind and kind not in words.kinds_in_words():
        raise SettingError(f"kind of target: expected one of {', '.join(words.kinds_in_words())}")
    if not kind and not public:
        raise SettingError(
            "kind of target: Parley reads the kind only from a public sample; choose a kind or a public sample"
        )
    predicts = MODELS[kind].predicts if kind else ""
    options = ["--public", str(studio.inside(public, "public sample"))] if public else []
    options += ["--kind", kind] if kind else []
    options += ["--person", person] if person else []
    rows = form.get("records_per_person", "").strip()
    options += ["--records-per-person", str(whole(rows, "rows per person"))] if person and rows else []
    more = {"count": ("exposure",), "survival": ("event", "periods")}.get(predicts, ())
    for key in ("hosts", "missing", *more):
        value = form.get(key, "").strip()
        options += [f"--{key}", value] if value else []
    return [*options, *_host_switches(form), *_column_options(studio, given, predicts)]


def _host_switches(form: Mapping[str, str]) -> list[str]:
    """Return the options for what three hosts may also do."""
    ticked = [key for key in THREE_HOST_SWITCHES if form.get(key) == "on"]
    if ticked and len(words.listed(form.get("hosts"), "hosts")) != NOISES[SHARED_NOISE].hosts:
        raise SettingError("hosts: enter the names of three hosts, or clear the boxes below the field “Hosts”")
    return [f"--{key.replace('_', '-')}" for key in ticked]


def _column_options(studio: Studio, given: FormFields, predicts: str) -> list[str]:
    """Return the options about columns: features, ranges and names."""
    from parley.workflows.interview import two_names  # with libraries that take their time

    form, answers = dict(given), answers_of(given)
    if not answers:
        return []
    taken, target = {form.get(key, "") for key in ("target", "person", "event", "exposure")}, form.get("target", "")
    features = [column for column, answer in answers.items() if answer.feature and column not in taken]
    if not features:
        raise SettingError("columns: tick “learn from it” for at least one column to learn from")
    options: list[str] = []
    shared = shared_columns(studio, given)
    if shared.wrong:
        raise SettingError(shared.wrong[0])
    options += ["--features", words.as_list(features)]
    for column in (*features, *(each for each in (target, form.get("exposure", "")) if each in answers)):
        options += _spread(column, answers[column], predicts if column == target else "")
    named = answers[target].names if target in answers else ""
    if predicts != "two classes" or not (named or not public_of(studio, given)):
        return options
    if not named:
        asked_for = words.TWO_NAMES.format(target=target)
        raise SettingError(f"{target}: missing: {asked_for[0].lower()}{asked_for[1:]}")
    return [*options, "--positive", two_names(target, named)[-1]]


def _spread(column: str, answer: Answer, predicts: str) -> list[str]:
    """Return a column's range or names as an option; empty if neither was given."""
    ranged, named = bool(answer.low or answer.high), bool(answer.names)
    ranged, named = ranged and predicts in TARGETS_WITH_RANGE, named and predicts in TARGETS_WITH_NAMES
    if (ranged or named) and "=" in column:
        raise SettingError(f"{column}: a column with '=' in its name cannot have a range or names; rename the column")
    written = ["--dates", f"{column}={answer.names}"] if named and date_pattern(answer.names) else []
    if ranged and named and not written:
        raise SettingError(f"{column}: give either a range or names, not both")
    if named and not written:
        words.listed(answer.names, column)  # refused here, where it can be typed again
        return ["--categories", f"{column}={answer.names}"]
    if not ranged:
        return written
    from parley.decisions.from_files.column_dates import range_ends  # with libraries that take their time

    ends = range_ends([answer.low, answer.high])
    dated = ends is not None and ends[1]  # the earlier first
    if not dated and not decimal(answer.low, f"{column}, low") < decimal(answer.high, f"{column}, high"):
        raise SettingError(f"{column}: the low end must be below the high end")
    return [*written, "--bounds", f"{column}={answer.low},{answer.high}"]
