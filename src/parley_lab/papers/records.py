"""Records of runs: each compares the numbers that a document prints with those that a run found.

`parley reproduce DOCUMENT ... --record` writes one file per document, `parley_lab/results/<document>.json`; the listing
reads them. The outcome follows from the comparisons alone.
"""

import json
import math
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from parley.errors import DataError, SettingError
from parley_lab.papers.printed import Outcome

RESULTS_FOLDER = Path(__file__).parents[1] / "results"
SIGNIFICANT_DIGITS = 6  # significant digits that a record keeps


class Relation(StrEnum):
    """How the number found must lie to the printed one."""

    EQUAL = "="
    AT_MOST = "<="
    AT_LEAST = ">="


class Reading(StrEnum):
    """What a comparison decides."""

    DOCUMENT = "document"  # the document's own experiment: decides whether it comes out
    SOUND = "sound"  # the same claim, read so that its guarantee holds
    FITTED = "fitted"  # a setting was chosen to meet it: decides nothing
    BESIDE = "beside"  # for comparison: decides nothing


@dataclass(frozen=True)
class Comparison:
    """One printed number beside the one found, and how far apart they may be.

    >>> slope = Comparison("slope", -2, -1.96, 0.1, "ours: fit of one run")
    >>> slope.holds, Comparison("slope", -2, -1.8, 0.1, "").holds, Comparison("slope", -2, -1.8).holds
    (True, False, False)
    >>> Comparison("cost", 0.1, 0.02, relation=Relation.AT_MOST).holds
    True
    """

    what: str
    published: float
    found: float
    tolerance: float = 0.0
    tolerance_source: str = ""
    relation: Relation = Relation.EQUAL
    reading: Reading = Reading.DOCUMENT

    @property
    def holds(self) -> bool:
        """Whether the number found agrees within the tolerance; one that is not finite never does."""
        return self.excess <= self.tolerance

    def facts(self) -> dict[str, Any]:
        """Its fields for JSON: null where no finite number was found."""
        return {**asdict(self), "found": _kept(self.found)}

    @property
    def excess(self) -> float:
        """How far the number found is from where the printed one says it lies."""
        return max(0.0, self._gap)

    @property
    def strain(self) -> float:
        """How far the number found is from its limit, without a unit: at most 1 where it agrees, more the farther off.

        In tolerances; without a tolerance, in shares of the printed number, or of the one found if 0 is printed.

        >>> Comparison("share", 1, 0.75, 0.5).strain, Comparison("count", 4, 4).strain, Comparison("count", 4, 5).strain
        (0.5, 0.0, 1.25)
        """
        if self.relation is Relation.EQUAL and self.found == self.published:
            return 0.0
        if self.tolerance > 0:
            return self._gap / self.tolerance
        return 1 + self._gap / (abs(self.published) or abs(self.found) or 1.0)

    @property
    def _gap(self) -> float:
        """From the printed number to the one found, on the side where it may not lie; below 0 on the other side."""
        if not math.isfinite(self.found):
            return math.inf
        above = self.found - self.published
        return {Relation.EQUAL: abs(above), Relation.AT_MOST: above, Relation.AT_LEAST: -above}[self.relation]


@dataclass(frozen=True)
class Record:
    """What one run found for one figure or table of a document."""

    item: str
    date: str
    commit: str
    command: str
    seconds: float
    comparisons: tuple[Comparison, ...]

    @property
    def outcome(self) -> Outcome:
        """Comes out if every comparison of the document's own reading holds; as drawn if only a sound one fails;
        undecided without any of the document's own reading."""
        for reading, outcome in ((Reading.DOCUMENT, Outcome.DIFFERS), (Reading.SOUND, Outcome.AS_DRAWN)):
            if not all(each.holds for each in self.comparisons if each.reading is reading):
                return outcome
        decides = any(each.reading is Reading.DOCUMENT for each in self.comparisons)
        return Outcome.COMES_OUT if decides else Outcome.UNDECIDED


def record_file(document: str, folder: Path = RESULTS_FOLDER) -> Path:
    """Where the records of a document lie."""
    return folder / f"{document}.json"


def read_records(document: str, folder: Path = RESULTS_FOLDER) -> dict[str, Record]:
    """The records of a document by item; none where nothing was recorded."""
    path = record_file(document, folder)
    if not path.is_file():
        return {}
    found = (_record(path, content) for content in json.loads(path.read_text(encoding="utf-8"))["records"])
    return {record.item: record for record in found}


def _record(path: Path, content: Mapping[str, Any]) -> Record:
    facts = dict(content)
    outcome, comparisons = facts.pop("outcome"), facts.pop("comparisons")
    record = Record(**facts, comparisons=tuple(_comparison(each) for each in comparisons))
    if record.outcome != outcome:
        raise DataError(
            f"{path}, {record.item}: its figures say '{record.outcome}', it says '{outcome}'; record it again"
        )
    return record


def _comparison(content: Mapping[str, Any]) -> Comparison:
    facts = {**content, "relation": Relation(content["relation"]), "reading": Reading(content["reading"])}
    return Comparison(**{**facts, "found": math.nan if facts["found"] is None else facts["found"]})


def write_records(
    document: str, records: Iterable[Record], order: Sequence[str], folder: Path = RESULTS_FOLDER
) -> Path:
    """Add records to the document's file, in the `order` of its items; a newer one replaces the older."""
    known = read_records(document, folder) | {record.item: record for record in records}
    lines = [_content(known[item]) for item in order if item in known]
    path = record_file(document, folder)
    path.write_text(json.dumps({"document": document, "records": lines}, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path


def _content(record: Record) -> dict[str, Any]:
    facts = {name: getattr(record, name) for name in ("item", "date", "commit", "command", "seconds")}
    comparisons = [each.facts() for each in record.comparisons]
    return {**facts, "outcome": record.outcome, "comparisons": comparisons}


def _kept(value: float) -> float | None:
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if math.isfinite(value) else None


def rounded(comparisons: Iterable[Comparison]) -> tuple[Comparison, ...]:
    """The comparisons with as many digits as a file keeps, so that an outcome is the same before and after."""
    from dataclasses import replace

    return tuple(
        replace(each, published=_short(each.published), found=_short(each.found), tolerance=_short(each.tolerance))
        for each in comparisons
    )


def _short(value: float) -> float:
    kept = _kept(value)
    return math.nan if kept is None else kept


def commit_of_source() -> str:
    """The commit that the source is at; refused where it was changed since, or is no checkout."""
    source = Path(__file__).parents[2]
    try:
        changed = _git(source, "status", "--porcelain", "--", ".", ":!parley_lab/results")
        commit = _git(source, "rev-parse", "--short=12", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        raise SettingError("--record: expected a git checkout, whose commit a record names") from None
    if changed:
        raise SettingError("--record: src has changes that are not committed; commit them, then record")
    return commit


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    run = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - words of our own
    return run.stdout.strip()


def today() -> str:
    """The date in UTC, as records have it."""
    return datetime.now(UTC).date().isoformat()
