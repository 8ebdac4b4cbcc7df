"""People's wishes about their columns, public knowledge of each, and the section `[model]` that follows.

Formal guarantee: as of `terms_from_files`. Of private files only names of columns are known here and, if neither a
public sample nor a declaration says so, whether a column holds numbers, names or dates, and how dates are written.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from parley.data.headers import Header, Kind, column_kinds
from parley.data.sources import Table, find_source, read_table
from parley.data.table import codes, days, names, numbers, require_columns
from parley.data.targets import dropped_rows_sentence, with_target
from parley.decisions.from_files.column_choice import Wanted
from parley.decisions.from_files.column_dates import (
    date_words,
    dates_as_target,
    found_format,
    option_words,
    require_format,
)
from parley.decisions.from_files.odd_columns import (
    alike_words,
    has_identifying_name,
    identifies_people,
    odd_columns,
    spelled_alike,
)
from parley.errors import DataError, SettingError
from parley.numerals import counted
from parley.terms import Terms
from parley.terms.catalogue import MODELS, kinds_from_files
from parley.terms.keys import fold_name
from parley.validate import Floats, printable

NUMBER: Kind = "number"
NAMES: Kind = "names"
DATES: Kind = "dates"
MAX_NAMES = 50  # that a column of names may have: with more it tells people apart rather than kinds of them


@dataclass(frozen=True)
class Wishes:
    """People's wishes for terms; None: not stated."""

    target: str
    public: Path | None = None
    epsilon: float = 1.0
    delta: float | None = None
    kind: str | None = None
    exposure: str | None = None
    event: str | None = None
    periods: tuple[float, ...] = ()
    features: tuple[str, ...] | None = None
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # without names: those of the public sample
    dates: Mapping[str, str] = field(default_factory=dict)  # how they are written; "": as found
    merged: tuple[str, ...] = ()  # columns in whose names capitals and spaces do not count
    positive: str | None = None
    person: str | None = None
    records_per_person: int = 1
    hosts: tuple[str, ...] = ()
    draw: str | None = None  # "together": two hosts draw one noise
    hosts_may_cheat: bool = False  # three hosts verify each other
    check_answers: bool = False  # three hosts check that answers keep their bounds
    holdout: float = 0.2
    score_epsilon: float | None = None
    columns: Wanted = "best"
    missing: str = "fill"  # or "refuse": no cell is missing, and no column says so
    title: str = ""
    owners: Mapping[str, tuple[int, float | None]] = field(default_factory=dict)  # without a file: (records, epsilon)
    target_read: bool = False  # whether private files were looked at for whether the target holds numbers or names

    @property
    def outcome(self) -> tuple[str, ...]:
        """The target's column, and those that belong to it."""
        return tuple(column for column in (self.target, self.exposure, self.event) if column is not None)


@dataclass(frozen=True, eq=False)
class KnownColumns:
    """The columns that all files share, and public knowledge of each."""

    wishes: Wishes
    columns: tuple[str, ...]  # in all files, and in the public sample if there is one
    elsewhere: tuple[str, ...]  # in some files only
    public: pd.DataFrame | None
    kinds: Mapping[str, Kind]
    read: tuple[str, ...]  # columns whose kind was read from private files
    dropped: str | None = None  # of the public sample's rows without a target, in words
    dates: Mapping[str, str] = field(default_factory=dict)  # how columns of dates are written
    said: tuple[str, ...] = ()  # of them

    @classmethod
    def from_headers(cls, files: Sequence[Path], headers: Sequence[Header], wishes: Wishes) -> "KnownColumns":
        public, dropped = _open_public(files, wishes)
        for file, header in zip(files, headers, strict=True):
            require_columns(pd.DataFrame(columns=list(header.columns)), wishes.outcome, str(file))
        listed = [header.columns for header in headers]
        listed += [] if public is None else [tuple(map(str, public.columns))]
        columns = [column for column in listed[0] if all(column in each for each in listed)]
        others = {column for header in headers for column in header.columns} - set(columns)
        _require_known(wishes, columns)
        declared: dict[str, Kind] = {**dict.fromkeys(wishes.bounds, NUMBER), **dict.fromkeys(wishes.categories, NAMES)}
        declared |= dict.fromkeys(wishes.dates, DATES)
        wanted = [column for column in columns if column not in declared and column != wishes.person]
        if public is not None:
            kinds = column_kinds(public, wanted, "public sample") | declared
            known = cls(wishes, tuple(columns), tuple(sorted(others)), public, kinds, (), dropped)
            return known._with_dates([public], "the public sample")
        wanted = [column for column in wanted if column not in wishes.outcome and not has_identifying_name(column)]
        wanted = [column for column in wanted if wishes.features is None or column in wishes.features]
        kinds_by_file = [column_kinds(file, wanted, str(file)) for file in files]
        kinds = {c: NAMES if len({each[c] for each in kinds_by_file}) > 1 else kinds_by_file[0][c] for c in wanted}
        read = (*wanted, *(column for column, written in wishes.dates.items() if not written))
        read = (*read, wishes.target) if wishes.target_read else read
        known = cls(wishes, tuple(columns), tuple(sorted(others)), None, {**kinds, **declared}, read)
        return known._with_dates(files, "the files")

    def _with_dates(self, tables: Sequence[Table], where: str) -> "KnownColumns":
        """Add the format of every column of dates that may be learned from."""
        if self.kinds.get(self.wishes.target) == DATES:
            raise dates_as_target(self.wishes.target)
        wishes, dates, date_sentences = self.wishes, dict[str, str](), list[str]()
        wanted = self.columns if wishes.features is None else wishes.features
        for column in (c for c in wanted if self.kinds.get(c) == DATES and c not in wishes.outcome):
            if given := wishes.dates.get(column):
                dates[column] = require_format(column, given)
                date_sentences.append(f"{date_words(column, given)}{self._unread(column, given)}.")
            elif column in wishes.dates or not has_identifying_name(column):
                dates[column], sentence = found_format(tables, column, where, self.public is not None)
                date_sentences.append(sentence)
        return replace(self, dates=dates, said=tuple(date_sentences))

    def _unread(self, column: str, written: str) -> str:
        """Say how many public rows have no date in this format; raise an error if none has one."""
        if self.public is None:
            return ""
        read = ~np.isnan(days(self.public, column, written, "public sample", gaps=True))
        if not read.any():
            raise SettingError(
                f"--dates {printable(column, 60)}={written}: no row of the public sample has a date in this format"
            )
        none = int((~read).sum())
        return f"; {none:,} of {counted(len(read), 'public row')} hold none, and count as missing cells" if none else ""

    def task(self) -> tuple[str, str | None]:
        """Return the model's kind and, for two classes with names, the class that counts as 1."""
        wishes, target = self.wishes, self.wishes.target
        if wishes.kind is not None and wishes.kind not in kinds_from_files():
            known = wishes.kind in MODELS
            beside = (
                "; terms for it are written by hand, docs/terms.md says where each kind is explained" if known else ""
            )
            raise SettingError(f"--kind {wishes.kind}: expected one of {', '.join(kinds_from_files())}{beside}")
        listed = wishes.categories.get(target) or (
            () if self.public is None else tuple(names(self.public, target, "public sample"))
        )
        numeric = self.kinds.get(target) == "number"
        if wishes.kind is not None:
            kind = wishes.kind
        elif wishes.positive is not None or len(listed) == 2:
            kind = "logistic-regression"
        elif target in wishes.bounds or (listed and numeric and target not in wishes.categories):
            kind = "linear-regression"
        elif listed:
            kind = "softmax-regression"
        else:
            raise SettingError(
                f"--kind: without a public sample, Parley cannot tell what kind of target {target!r} is. Give --kind "
                "linear-regression for a number, --positive NAME for the one of two classes that counts as 1, or "
                "--kind softmax-regression for several classes. Without --yes, Parley asks for the kind"
            )
        if MODELS[kind].predicts in ("number", "count", "survival") and listed and not numeric:
            raise SettingError(
                f"--kind {kind}: the target {target!r} contains names; expected logistic-regression or "
                "softmax-regression"
            )
        return kind, self._positive(kind, listed) if MODELS[kind].predicts == "two classes" else None

    def _positive(self, kind: str, listed: Sequence[str]) -> str | None:
        if self.wishes.positive is not None or {*listed} <= {"0", "1", "-1"} or {*listed} <= {"True", "False"}:
            return self.wishes.positive
        if len(listed) != 2:
            raise SettingError(
                f"--positive: expected the name of the class that counts as 1; the target {self.wishes.target!r} has "
                f"{counted(len(listed), 'class', 'classes')}. For more than two classes, give --kind softmax-regression"
            )
        if self.public is None:
            return listed[1]
        coded = codes(self.public, self.wishes.target, listed, "public sample")
        # the rarer one: what people look for
        return listed[int(np.argmin(np.bincount(coded.astype(int), minlength=2)[:2]))]

    def features(self) -> tuple[str, ...]:
        """Return the columns to learn from: those named, else all but the target, people, and useless columns."""
        if self.wishes.features is not None:
            untold = [column for column in self.wishes.features if self._cannot_be_told(column)]
            if untold:
                raise SettingError(
                    f"--categories: expected the names in {_list(untold)}, such as {untold[0]}=A,B,C. With shared "
                    "noise, Parley cannot ask owners for category names"
                )
            return self.wishes.features
        columns = tuple(
            c for c in self.columns if c not in (*self.wishes.outcome, self.wishes.person) and self._useless(c) is None
        )
        if not columns:
            raise DataError(
                "no column is left to learn from; give --features, or files that share columns with each other"
            )
        return columns

    def _useless(self, column: str) -> str | None:
        """Say why a column is not learned from; None if it is."""
        wishes = self.wishes
        if column in wishes.bounds or column in wishes.categories or column in wishes.dates:
            return None
        if has_identifying_name(column):
            return "tells people apart"
        if self._cannot_be_told(column):
            return "names, which Parley cannot ask for with shared noise (--categories COLUMN=A,B,C)"
        if self.public is None:
            return None
        many = len(names(self.public, column, "public sample", gaps=True))
        if many <= 1:
            return "never changes"
        if self.kinds[column] != DATES and identifies_people(self.public, column, self.kinds[column] == NUMBER):
            return "nearly every row has a value of its own: it tells people apart"
        return f"more than {MAX_NAMES} names" if self.kinds[column] == NAMES and many > MAX_NAMES else None

    def _numbers(self, column: str) -> Floats:
        """Return the public sample's numbers in a column, days for dates, NaN for gaps."""
        if self.public is None:
            return np.empty(0)
        if column in self.dates:
            return days(self.public, column, self.dates[column], "public sample", gaps=True)
        return numbers(self.public, column, "public sample", gaps=True)

    def _cannot_be_told(self, column: str) -> bool:
        """Return whether a column holds names that nobody listed and owners cannot release."""
        return bool(self.wishes.hosts) and not self.describes(column) and self.kinds.get(column) == NAMES

    def describes(self, column: str) -> bool:
        """Return whether public knowledge gives a column's spread or names."""
        wishes = self.wishes
        return self.public is not None or column in wishes.bounds or bool(wishes.categories.get(column))

    def model(self, kind: str, positive: str | None, features: tuple[str, ...], scales: bool) -> dict[str, Any]:
        """Return the section `[model]` of the terms."""
        if MODELS[kind].task == "trees":
            return self._trees(kind, positive, features)
        wishes, used = self.wishes, {*features, *self.wishes.outcome}
        content: dict[str, Any] = {
            "kind": kind,
            "target": wishes.target,
            "features": features,
            "coding": "one-hot",
            "missing": wishes.missing,
        }
        content |= {} if positive is None else {"positive": positive}
        beside = {"exposure": wishes.exposure, "event": wishes.event, "periods": wishes.periods or None}
        content |= {key: given for key, given in beside.items() if given is not None}
        bounds = {column: ends for column, ends in wishes.bounds.items() if column in used}
        bounds |= self._counted(bounds) if MODELS[kind].predicts == "count" else {}
        content |= {"bounds": bounds} if bounds else {}
        lists = {column: self._listed(column) for column in wishes.categories if column in used}
        # both names, so that predictions have them; of several, all but this one are the other class
        if positive is not None:
            lists[wishes.target] = both if len(both := self._listed(wishes.target)) == 2 and positive in both else ()
        lists = {column: each for column, each in lists.items() if each}
        content |= {"categories": lists} if lists else {}
        content |= self._reading(features)
        if wishes.public is not None:
            digest = hashlib.sha256(wishes.public.read_bytes()).hexdigest()
            content |= {"public": str(wishes.public.resolve()), "public_sha256": digest}
        elif not scales:
            scaled = {c: ends for c, ends in bounds.items() if c in features or kind == "linear-regression"}
            content |= {"centres": {c: (low + high) / 2 for c, (low, high) in scaled.items()}}
            content |= {"scales": {c: float(f"{(high - low) / 4:.6g}") for c, (low, high) in scaled.items()}}
        content |= {"intercept": True} if kind == "linear-regression" else {}
        return content | self._held_out

    def _trees(self, kind: str, positive: str | None, features: tuple[str, ...]) -> dict[str, Any]:
        """Return the section `[model]` for boosted trees, which split within stated ranges and names."""
        wishes = self.wishes
        used = features if MODELS[kind].predicts == "two classes" else (*features, wishes.target)
        unsaid = [column for column in used if not self.describes(column)]
        if unsaid:
            raise SettingError(
                f"--bounds, --categories: expected ranges or names for {_list(unsaid)}; boosted trees split only "
                "within declared ranges and names. Give --bounds COLUMN=LOW,HIGH or --categories COLUMN=A,B,C, or "
                "drop these columns with --features"
            )
        lists = {column: self._names_of(column) for column in used if column not in wishes.bounds}
        lists = {column: listed for column, listed in lists.items() if listed}
        if positive is not None and len(both := self._listed(wishes.target)) == 2:
            lists[wishes.target] = both
        bounds = {column: self._range_of(column) for column in used if column not in lists}
        content: dict[str, Any] = {
            "kind": kind,
            "target": wishes.target,
            "features": features,
            "missing": wishes.missing,
        }
        content |= {} if positive is None else {"positive": positive}
        content |= {"bounds": bounds} if bounds else {}
        content |= {"categories": lists} if lists else {}
        return content | self._reading(features) | self._held_out

    @property
    def _held_out(self) -> dict[str, Any]:
        wishes = self.wishes
        by = {"holdout_by": "person"} if wishes.person is not None and wishes.holdout else {}
        return {"holdout": wishes.holdout, **by}

    def _reading(self, features: Sequence[str]) -> dict[str, Any]:
        """Return the keys for dates and for columns whose capitals do not count."""
        dates = {column: written for column, written in self.dates.items() if column in features}
        merged = tuple(column for column in self.wishes.merged if column in features)
        return ({"merged": merged} if merged else {}) | ({"dates": dates} if dates else {})

    def _names_of(self, column: str) -> tuple[str, ...]:
        """Return a column's names, as listed or else the public sample's, if it holds names."""
        if column in self.wishes.categories:
            return self._listed(column)
        return () if self.public is None or self.kinds.get(column) != NAMES else self._listed(column)

    def _range_of(self, column: str) -> tuple[float, float]:
        """Return the range of a column of numbers: as declared, else the public sample's."""
        if self.public is None or column in self.wishes.bounds:
            return self.wishes.bounds[column]
        known = self._numbers(column)
        return float(np.nanmin(known)), float(np.nanmax(known))

    def _counted(self, declared: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
        """Return bounds of undeclared counts (0 to the public sample's largest) and exposures (the public sample's)."""
        bounds: dict[str, tuple[float, float]] = {}
        for column in (column for column in self.wishes.outcome if column not in declared):
            if self.public is None:
                raise SettingError(f"--bounds {column}=LOW,HIGH: required for poisson-regression without --public")
            known = numbers(self.public, column, "public sample")
            bounds[column] = (0.0 if column == self.wishes.target else float(known.min()), float(known.max()))
        return bounds

    def _listed(self, column: str) -> tuple[str, ...]:
        """Return the names of a column of names: as listed, else the public sample's."""
        given = self.wishes.categories.get(column, ())
        if given or self.public is None:
            return given
        public_names = names(self.public, column, "public sample", gaps=True)
        return tuple(sorted({*map(fold_name, public_names)}) if column in self.wishes.merged else public_names)

    def sentences(self, terms: Terms, features: Sequence[str], missing: Sequence[str]) -> list[str]:
        """Say what was read, where the rest comes from, and what was left out."""
        files = f"{counted(len(terms.owners) - len(self.wishes.owners), 'private file')}"
        lines, rows = (
            [f"Parley read only the column names and the number of rows of {files}."],
            "the number of rows",
        )
        person, most = self.wishes.person, self.wishes.records_per_person
        if person is not None:
            called = printable(person, 60)
            rows = f"the number of counted rows ({_first(most)} of each person, by the column {called!r})"
            lines = [f"Parley read only the column names and {rows} of {files}."]
        if self.read:
            kinds = "numbers or names" if not self.said else "numbers, names or dates, and how dates are written"
            lines = [
                f"Parley read the column names and {rows} of {files}. Without a public sample, Parley also read "
                f"whether these columns contain {kinds}: {_list(self.read)}. The terms make the kinds of columns "
                "public. Parley does not read the kind of a column that --dates, --categories or numeric --bounds "
                "describes."
            ]
        if self.wishes.owners:
            who = _list([*self.wishes.owners])
            stated = f"Parley checks these owners' stated numbers of rows when the owners accept the terms: {who}."
            lines = [
                *(lines if len(terms.owners) > len(self.wishes.owners) else ["Parley read no private file."]),
                stated,
            ]
        if person is not None:
            lines.append(
                "`records` becomes public with the terms. `records` stays the same if a person is replaced by someone "
                "with the same number of rows who is not in the table. The number of people and the number of rows of "
                "each person are not protected."
            )
        lines.append(
            f"A private row without a target ({printable(self.wishes.target, 60)}) counts in `records` but "
            "contributes nothing to the model. Only the owner learns how many rows have no target."
        )
        if self.public is not None:
            lines.append(
                f"Ranges, scales and names of categories come from {self.wishes.public}, which all parties will see."
            )
            lines += [] if self.dropped is None else [self.dropped]
        elif missing:
            lines.append(
                f"No public sample or option describes these columns: {_list(missing)}. Owners will release column "
                f"statistics with noise, which costs {terms.privacy.scale_epsilon} of each owner's epsilon. Each "
                "further column makes all column statistics noisier; use --features to keep only columns that matter."
            )
        else:
            lines.append("Parley uses the declared ranges and names of categories.")
        unused = [c for c in self.columns if c not in (*features, *self.wishes.outcome, self.wishes.person)]
        if unused and self.wishes.features is None:
            why = {column: self._useless(column) or "" for column in unused}
            groups = [[column for column in unused if why[column] == each] for each in dict.fromkeys(why.values())]
            listed = "; ".join(f"{_list(group)} ({why[group[0]]})" for group in groups)
            lines.append(f"These columns are not used unless you name them with --features: {listed}.")
        lines += self.said
        if self.public is not None:
            for column in (c for c in features if self.kinds.get(c) == NAMES):
                if groups := spelled_alike(self.public, column):
                    apart = (
                        "Parley distinguishes names that differ only in capitalisation or spaces; "
                        f"{option_words('--merge', column)} merges such names"
                    )
                    joined = "Parley merges names that differ only in capitalisation or spaces"
                    read = joined if column in self.wishes.merged else apart
                    lines.append(f"{alike_words(column, groups)}. {read}.")
            lines += odd_columns(
                self.public, [c for c in self.columns if c != self.wishes.target and self.kinds.get(c) == "names"]
            )
        if self.elsewhere and self.wishes.features is None:
            lines.append(f"These columns are not used, because some owners lack them: {_list(self.elsewhere)}.")
        return lines


def _first(most: int) -> str:
    return "the first row" if most == 1 else f"the first {most:,} rows"


def _list(columns: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(printable(column, 60) for column in columns[:most])
    return shown if len(columns) <= most else f"{shown} and {len(columns) - most} more"


def _open_public(files: Sequence[Path], wishes: Wishes) -> tuple[pd.DataFrame | None, str | None]:
    """Return the public sample's rows that have a target, and a sentence about the others."""
    if wishes.public is None:
        return None, None
    for file in files:
        if find_source(file).holds(wishes.public):
            raise DataError(
                f"{wishes.public}: this file is the private table {file}, or a part or copy of it; give a public "
                f"sample without private rows"
            )
    public = read_table(wishes.public)
    require_columns(public, wishes.outcome, "public sample")
    listed = {*wishes.categories.get(wishes.target, ()), *(() if wishes.positive is None else (wishes.positive,))}
    return with_target(public, wishes.outcome, listed, "public sample"), dropped_rows_sentence(
        public, wishes.outcome, listed, "public sample"
    )


def _require_known(wishes: Wishes, columns: Sequence[str]) -> None:
    frame = pd.DataFrame(columns=list(columns))
    for option, named in (
        ("--bounds", wishes.bounds),
        ("--categories", wishes.categories),
        ("--features", wishes.features or ()),
        ("--dates", wishes.dates),
        ("--merge", wishes.merged),
    ):
        require_columns(frame, list(named), option)
