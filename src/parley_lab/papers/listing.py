"""Every figure and table of all source documents: what it shows, what its recorded run found, and what to type."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from parley.numerals import number
from parley.report.terminal import console, print_json
from parley_lab.papers.document import Document
from parley_lab.papers.printed import Outcome, Printed
from parley_lab.papers.records import Comparison, Reading, Record, Relation, read_records

INDENT = " " * 14
MAX_COMPARISONS_LISTED = 4  # comparisons that a line prints all; of more, the farthest off


def record_of(document: Document, printed: Printed) -> Record | None:
    """The record of a figure or table; that of the document that prints it first, where two do."""
    name, item = printed.again or (document.name, printed.number)
    return read_records(name).get(item)


def outcome_of(printed: Printed, record: Record | None) -> Outcome:
    """What became of it: where a run can decide it, what the record says, and nothing without one."""
    if printed.without is not None:
        return printed.without
    return Outcome.NOT_RUN if record is None else record.outcome


def show_printed(documents: Sequence[Document], as_json: bool) -> None:
    """Print them, document by document, and how many there are of each outcome; or one JSON object."""
    lines = [(document, each, record_of(document, each)) for document in documents for each in document.printed]
    if as_json:
        print_json({"printed": [_facts(*line) for line in lines]}, inside=False)
        return
    last = None
    for document, printed, record in lines:
        if document is not last:
            console.print(f"{document.name}: {document.title}", style="bold", soft_wrap=True, markup=False)
        _print(document, printed, record)
        last = document
    console.print()
    counts = Counter(outcome_of(printed, record) for _, printed, record in lines)
    console.print("; ".join(f"{outcome}: {counts[outcome]}" for outcome in Outcome), soft_wrap=True, markup=False)


def _facts(document: Document, printed: Printed, record: Record | None) -> dict[str, Any]:
    run = None
    if record is not None:
        facts = {name: getattr(record, name) for name in ("date", "commit", "command", "seconds")}
        run = {**facts, "comparisons": [{**each.facts(), "holds": each.holds} for each in record.comparisons]}
    return {
        "document": document.name,
        "number": printed.number,
        "title": document.title_of(printed),
        "outcome": outcome_of(printed, record),
        "note": printed.note,
        "command": document.command_of(printed),
        "tested": printed.quick,
        "run": run,
    }


def _print(document: Document, printed: Printed, record: Record | None) -> None:
    head = f"{printed.number:<14}{document.title_of(printed)}: {outcome_of(printed, record)}"
    console.print(head, soft_wrap=True, markup=False, highlight=False)
    lines = [] if record is None else comparison_lines(record.comparisons)
    if printed.note:
        lines.append(printed.note)
    for line in lines:
        console.print(f"{INDENT}{line}", soft_wrap=True, markup=False, highlight=False)
    command = document.command_of(printed)
    if record is not None:
        tested = "; a test computes these figures again" if printed.quick else ""
        command = f"{record.command}  ({record.date}, {record.commit}{tested})"
    if command is not None:
        console.print(f"{INDENT}{command}", style="dim", soft_wrap=True, markup=False, highlight=False)


def comparison_lines(comparisons: Sequence[Comparison]) -> list[str]:
    """The figures of a run; of more than a few, how many agree and the one farthest off in its own tolerance, by
    reading."""
    lines = []
    for reading in Reading:
        some = [each for each in comparisons if each.reading is reading]
        if len(some) <= MAX_COMPARISONS_LISTED:
            lines += [_line(each) for each in some]
            continue
        worst, agree = max(some, key=lambda each: each.strain), sum(each.holds for each in some)
        if reading is Reading.BESIDE:
            lines.append(f"{len(some)} figures beside; farthest off: {_line(worst)}")
            continue
        place = "nearest its limit" if agree == len(some) else "farthest off"
        lines.append(f"{agree} of {len(some)} figures agree{_read(reading)}; {place}: {_line(worst)}")
    return lines


def _line(each: Comparison) -> str:
    words = {"=": "", "<=": "at most ", ">=": "at least "}[each.relation]
    found = f"{each.what}: {_whose(each)} {words}{number(each.published)}, found {number(each.found)}"
    if each.reading is Reading.BESIDE:
        return f"{found} (beside)"
    source = f"; {each.tolerance_source}" if each.tolerance_source else ""
    verdict = "" if each.holds else ", beyond the tolerance"
    return f"{found}, tolerance {number(each.tolerance)}{source}{verdict}{_read(each.reading)}"


def _whose(each: Comparison) -> str:
    """Return "published" for a printed figure; limits, and 0 and 1 for never and always, say a claim in our numbers."""
    return "published" if each.relation is Relation.EQUAL and each.published not in (0, 1) else "expected"


def _read(reading: Reading) -> str:
    return {Reading.SOUND: " (sound reading)", Reading.FITTED: " (fitted)"}.get(reading, "")
