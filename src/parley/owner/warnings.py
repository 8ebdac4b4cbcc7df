"""What a person should see before accepting terms: the figures that bound a record, in words, and what looks wrong in
them. Warnings look at the owner's table, so they are shown to whoever accepts, and neither logged nor sent. They hold
shares and ratios, never a record's value. No warning does not mean no attack: the guarantee does not rest on them."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.data import Design
from parley.data.cells import plain_name
from parley.data.fitting import dropped_rows, grown_here
from parley.data.headers import Range, ranges
from parley.data.holdout import CountedRows, counted_rows, parts_of
from parley.data.sources import TableSource
from parley.data.sources.source import column_names
from parley.data.table import PERSON_NAME, codes, names_of
from parley.numerals import counted, number, percent
from parley.owner.disclosure import limit_words, place_warnings, role_warnings
from parley.owner.owner import Agreement, Owner
from parley.protocol.setup import Setup
from parley.protocol.task import Task, task_of
from parley.protocol.tree_folds import worse_trees
from parley.terms import Terms
from parley.terms.catalogue import MECHANISMS
from parley.terms.file import TermsWarning
from parley.terms.keys import fold_name
from parley.terms.sections import OWNER_UNIT
from parley.validate import few_names, printable

MAX_TABLE_OVER_RANGE = 100.0  # a table that spans this many times the agreed range was not meant by it
MAX_SHARE_OUTSIDE = 0.1  # nor was one of which this share of the rows lies beyond it
MAX_RANGE_OVER_TABLE = 1000.0  # a range that spans this many times the table
MAX_CLASS_WEIGHT = 100.0  # how often a class may count more, or less, than once
MAX_CLIP_RATIO = 1e6  # how far the clip may lie from what records measure
MAX_EPSILON = 20.0  # beyond, an epsilon is a number and no promise
MAX_DELTA = 0.01
MAX_SHARE_UNLISTED = 0.25  # share of rows whose name is none of the agreed
MAX_SHARE_MISSPELT = 0.02  # the same, if one of the agreed names is in no row: it may be misspelt
MAX_SHARE_COPIES = 0.01  # share of rows that are copies of another row
USUAL_DELTA = 1e-6  # at which noises are compared where the terms have none
MAX_SHARE_FAMILIAR = 0.05  # share of public rows that the private table holds once
PERSON_COLUMN = re.compile(
    r"(^|_)(id|ids|ssn|person|people|customer|client|patient|member|account|user|borrower|subject|name|email)(_|$)"
)


def figures(agreement: Agreement) -> dict[str, Any]:
    """Return what limits a record, as numbers."""
    return agreement.setup.task.figures(agreement)


def sentences(agreement: Agreement) -> list[str]:
    """Return sentences that say the same as `figures`."""
    return agreement.setup.task.limits(agreement)


def record_figures(agreement: Agreement) -> dict[str, Any]:
    """Return the figures of records bounded one by one; None as record bound: they are counted, nothing else limits
    them."""
    terms, preparation, training = agreement.setup.terms, agreement.setup.preparation, agreement.part.training
    mechanism = training.series.mechanism
    bound, trees = training.question.bound, terms.model.trees
    forest, lined = preparation.forest, trees is not None and trees.refitted == 0
    return {
        "clip": terms.privacy.clip,
        "record_bound": None if bound is None else bound.value,
        "norm": training.question.norm if bound is None else bound.norm,
        "clips": bound is not None and bound.clips,
        "sensitivity": mechanism.sensitivity,
        "noise_scale": mechanism.noise_scale,
        "class_weight": dict(terms.model.class_weight),
        "radius": terms.model.radius,
        "bounds": {
            c: [_finite_or_none(low), _finite_or_none(high)] for c, (low, high) in agreed_ranges(agreement).items()
        },
        "categories": {column: len(names) for column, names in preparation.categories.items()},
        "public_sha256": public_digest(terms),
        "preparation_sha256": terms.model.preparation_sha256,
        "columns": terms.model.columns,
        "trees": trees.count if trees is not None and lined else forest.trees if forest is not None else None,
        "leaves": None if forest is None or lined else forest.leaves,
    }


def record_sentences(agreement: Agreement) -> list[str]:
    """Return sentences that say the same as `record_figures`."""
    facts, terms = figures(agreement), agreement.setup.terms
    lines = [
        limit_words(agreement, facts),
        "Parley clips values to these ranges: " + "; ".join(_range_words(agreement)) + ".",
    ]
    choice = noise_choice(agreement.setup, agreement.part.name)
    lines += [] if choice is None else [choice]
    if facts["public_sha256"] is not None:
        name = printable(Path(str(terms.model.public)).name)
        lines.append(
            f"Public sample: {name}, SHA-256 {facts['public_sha256']}. The public sample sets ranges and scales, and "
            "must not contain private rows."
        )
        dropped = dropped_rows(terms.model)
        lines += [] if dropped is None else [dropped]
    if facts["preparation_sha256"] is not None:
        trees = " Parley uses the pinned trees without change." if terms.model.trees is not None else ""
        lines.append(
            f"The file of pinned public numbers has SHA-256 {facts['preparation_sha256']}. Up to rounding, the pinned "
            "numbers equal the numbers that this machine computes from the public sample. All parties use the same "
            f"pinned numbers.{trees}"
        )
    if (tree_structure := grown_here(agreement.setup.preparation)) is not None:
        lines.append(
            "The pinned trees equal the trees that this machine grows on the public sample."
            if tree_structure
            else "The pinned trees DIFFER from the trees that this machine grows on the public sample. Another "
            "processor or library may have chosen other splits of equal quality, or the trees were grown on "
            "other rows. Ask the author of the terms for the reason. The pinned trees may make the model worse, or "
            "wrong about some rows. Each record still lies in exactly one leaf of each tree."
        )
    if (worse := worse_trees(agreement.setup)) is not None:
        lines.append(f"{worse[0].upper()}{worse[1:]}. Parley's learner refuses to train under these terms.")
    return lines


def noise_choice(setup: Setup, name: str) -> str | None:
    """Say which mechanism needs less noise, and how much, where records are clipped in another norm than the
    mechanism's."""
    terms = setup.terms
    if terms.privacy.clip_norm is None:
        return None
    delta = terms.privacy.delta or USUAL_DELTA
    deviations = {}
    for mechanism in ("laplace", "gaussian"):
        needs = MECHANISMS[mechanism].approximate or terms.noise.approximate
        # Named even where it is the mechanism's own: terms drop it then, and mean the same.
        privacy = {"mechanism": mechanism, "delta": delta if needs else 0.0, "clip_norm": terms.privacy.clip_norm}
        training = setup.under(terms.changed(privacy=privacy)).part(name).training
        deviations[mechanism] = training.series.mechanism.variance**0.5
    cheaper = min(deviations, key=deviations.__getitem__)
    figures = " and ".join(
        f"{number(deviation, 3)} with {mechanism} noise" for mechanism, deviation in deviations.items()
    )
    at = "" if terms.privacy.delta > 0 else f" (gaussian noise at δ = {USUAL_DELTA:g}, which these terms do not allow)"
    mine = "laplace" if MECHANISMS[terms.privacy.mechanism].grid else terms.privacy.mechanism
    smaller = f"smaller than {max(deviations, key=deviations.__getitem__)} noise"
    verdict = (
        f"These terms use {cheaper} noise, which is {smaller}"
        if mine == cheaper
        else f"{cheaper.capitalize()} noise would be {smaller}"
    )
    return (
        f"With records clipped in {terms.privacy.clip_norm.upper()}, the noise of each number has a standard deviation "
        f"of {figures}{at}. {verdict}."
    )


def agreed_ranges(agreement: Agreement) -> dict[str, tuple[float, float]]:
    """Return the range of every feature and of the target: declared, of names, or from the public sample."""
    preparation = agreement.setup.preparation
    found, model = preparation.ranges, agreement.setup.terms.model
    read = agreement.setup.task.columns(model)
    aimed = model.predicts in ("number", "count") and model.target in read  # at a number: its range counts, too
    outcome_ranges = {column: model.bounds[column] for column in model.outcome_columns[1:] if column in model.bounds}
    return found | {model.target: preparation.target_bounds} | outcome_ranges if aimed else found


def public_digest(terms: Terms) -> str | None:
    """Return the SHA-256 of the public sample that lies here."""
    return None if terms.model.public is None else hashlib.sha256(Path(terms.model.public).read_bytes()).hexdigest()


def find_warnings(owner: Owner, agreement: Agreement) -> list[TermsWarning]:
    """Return what looks like a mistake or an attack, with the owner's table beside it."""
    table, terms = owner.table, agreement.setup.terms
    kept = counted_rows(table, terms.privacy, owner.name)
    frame = None if table.streams else rows_looked_at(table, kept, PERSON_COLUMN)
    own = agreement.setup.task.warnings(owner, agreement)
    if agreement.part.training.question.bound is None:  # rows are counted, and nothing else limits them
        counted = [] if frame is None else person_warnings(frame, terms)
        counted += alike_people(table, terms.privacy.person, owner.name)
        return [*place_warnings(table.placed_by), *role_warnings(terms), *counted, *own]
    wanted = {c: r for c, r in agreed_ranges(agreement).items() if c not in agreement.setup.preparation.categories}
    warnings = [
        warning
        for column, seen in ranges(table, wanted, owner.name, kept, terms.model.dates).items()
        if (warning := range_warning(column, *wanted[column], seen))
    ]
    warning_about_budget = budget_warning(terms, [owner.name])
    warnings += [] if warning_about_budget is None else [warning_about_budget]
    warnings += [*place_warnings(table.placed_by), *weight_warnings(terms.model.class_weight)]
    warnings += class_warnings(agreement)
    warnings += clip_warnings(agreement)
    warnings += role_warnings(terms)
    warnings += name_warnings(owner, agreement)
    warnings += target_warnings(owner, agreement)
    warnings += alike_people(table, terms.privacy.person, owner.name)
    if frame is not None:
        warnings += person_warnings(frame, terms)
        warnings += familiar_warnings(agreement)
    return warnings + own


def range_warning(column: str, low: float, high: float, seen: Range) -> TermsWarning | None:
    """Warn of an agreed range that is far from the table's own."""
    agreed, own = high - low, seen.high - seen.low
    about, start = (
        f"model.bounds.{column}",
        f"The agreed range of column {printable(column)!r}, {number(low)} to {number(high)}, is far ",
    )
    if not np.isfinite(agreed):
        return None
    if seen.outside > MAX_SHARE_OUTSIDE or own > MAX_TABLE_OVER_RANGE * agreed:
        explanation = (
            f"from the column's range in your table. {percent(seen.outside)} of your rows lie outside the agreed "
            f"range, and the column's range in your table is {_times(own, agreed)} as wide. A wrong range makes people "
            "look alike or singles out some people."
        )
        return TermsWarning(about, start + explanation)
    if agreed > MAX_RANGE_OVER_TABLE * own > 0:
        wide = _times(agreed, own)
        explanation = (
            f"wider than the column's range in your table ({wide} as wide). The noise covers the whole agreed range. "
            "Check the units."
        )
        return TermsWarning(about, start + explanation)
    return None


def budget_warning(terms: Terms, names: Sequence[str]) -> TermsWarning | None:
    """Warn of these owners' budgets if an epsilon, or else the delta, promises next to nothing."""
    loud = {name: terms.promised_epsilon(name) for name in names if not terms.promised_epsilon(name) <= MAX_EPSILON}
    if not loud and terms.privacy.delta > MAX_DELTA:
        delta = number(terms.privacy.delta)
        return TermsWarning(
            "privacy.delta",
            f"A delta of {delta} gives almost no protection: with probability {delta} the answers may reveal anything "
            "about a person. To protect people, delta must be below one divided by the number of records, for example "
            "1e-6.",
        )
    if not loud:
        return None
    worst = max(loud, key=loud.__getitem__)
    others = f" (and of {counted(len(loud) - 1, 'more owner')})" if len(loud) > 1 else ""
    epsilon = number(float(loud[worst]))
    return TermsWarning(
        f"owners.{worst}.epsilon",
        f"An epsilon of {epsilon} gives the people of {printable(worst)}{others} almost no protection: the answers may "
        f"turn even odds about a person into odds of e^{epsilon} to 1. To protect people, epsilon must be below 10.",
    )


def weight_warnings(class_weight: Any) -> list[TermsWarning]:
    """Warn of classes that count far more, or far less, than once."""
    return [
        TermsWarning(
            f"model.class_weight.{name}",
            f"Each record of class {name} counts {number(weight)} times. If class weights are far from 1, the "
            "answers describe only one class, or no class at all.",
        )
        for name, weight in sorted(class_weight.items())
        if not 1 / MAX_CLASS_WEIGHT <= weight <= MAX_CLASS_WEIGHT
    ]


def class_warnings(agreement: Agreement) -> list[TermsWarning]:
    """Warn of a class that nobody in the table belongs to: a name may be spelled otherwise here."""
    preparation, rows = agreement.setup.preparation, agreement.tables.train
    if preparation.model.predicts != "two classes" or not len(rows):
        return []
    positive = float(rows.sum(lambda block: np.array([np.count_nonzero((block.y > 0) & block.present)]))[0])
    if 0 < positive < len(rows) - rows.untargeted or rows.untargeted == len(rows):
        return []
    sentence = (
        f"The target of every record in your table counts as {int(positive > 0)}. {preparation.target_words} Check "
        "that your table spells the class name as the terms do."
    )
    return [TermsWarning("model.positive", sentence)]


def name_warnings(owner: Owner, agreement: Agreement) -> list[TermsWarning]:
    """Warn of columns in which many rows hold none of the agreed names: they may be spelled otherwise here."""
    preparation, warnings = agreement.setup.preparation, []
    listed_columns = [c for c in preparation.features if c in preparation.categories]
    if not listed_columns or owner.table.streams or not len(owner.table):
        return []
    frame = owner.table.frame(listed_columns)
    for column in listed_columns:
        listed = preparation.categories[column]
        merged = column in preparation.model.merged
        found_codes = codes(frame, column, listed, owner.name, gaps=True, merged=merged)
        others = float((found_codes == len(listed)).mean())
        unused = [name for code, name in enumerate(listed) if not (found_codes == code).any()]
        if others > MAX_SHARE_UNLISTED or (unused and others > MAX_SHARE_MISSPELT):
            rows = f"{percent(others)} of the rows of {printable(owner.name)}"
            known = f"{rows} have none of the names listed for column {printable(column)!r} ({few_names(listed)})"
            absent = f" No row has {few_names(unused)}." if unused else ""
            warnings.append(
                TermsWarning(
                    f"model.categories.{column}",
                    f"{known}.{absent} Check how the table spells the names: capitals, spaces, commas or another "
                    "language.",
                )
            )
    return warnings


def target_warnings(owner: Owner, agreement: Agreement) -> list[TermsWarning]:
    """Warn of rows without a target, whose number is as private as they are."""
    words = target_words(owner, agreement)
    return [] if words is None else [TermsWarning("model.target", words)]


def target_words(owner: Owner, agreement: Agreement) -> str | None:
    """Say how many of the owner's rows have no target, for its own eyes; None if all have one."""
    missing, rows, what = agreement.setup.task.untargeted(owner, agreement)
    if not missing:
        return None
    return f"In your table {missing:,} of {rows:,} {what}. This count stays with you and is never sent."


def clip_warnings(agreement: Agreement) -> list[TermsWarning]:
    """Warn of a clip far from the usual size of a record."""
    clip, usual = agreement.setup.terms.privacy.clip, usual_size(agreement)
    if agreement.setup.terms.privacy.unit == OWNER_UNIT:  # it is no record's
        return []
    if clip is None or not usual > 0 or usual / MAX_CLIP_RATIO <= clip <= usual * MAX_CLIP_RATIO:
        return []
    if clip < usual:
        relation = (
            f"is too small: the norm of a typical record is {_times(usual, clip)} as large. Nearly every record is "
            "clipped to the same norm, so an answer counts records instead of averaging them."
        )
    else:
        larger = f"is {_times(clip, usual)} as large as the norm of a typical record"
        relation = f"{larger}, so almost no record is clipped. Check the units."
    return [TermsWarning("privacy.clip", f"The clip, {number(clip)}, {relation}")]


def usual_size(agreement: Agreement) -> float:
    """Return a record's average size where training starts; NaN without records."""
    design, question = agreement.tables.train, agreement.part.training.question
    start = agreement.setup.objective.start(agreement.setup.preparation)
    total = (
        design.sum(lambda block: np.array([question.record_sizes(block, start).sum()]))
        if len(design)
        else np.array([np.nan])
    )
    return float(total[0] / max(design.divisor, 1))


def person_warnings(frame: pd.DataFrame, terms: Terms) -> list[TermsWarning]:
    """Warn of rows that look like several of one person, where the terms take every row for a person of its own."""
    # units are told apart by a column of their own
    if terms.privacy.person is not None or task_of(terms).unit != Task.unit or terms.privacy.unit == OWNER_UNIT:
        return []
    about, warnings = "privacy.person", []
    meaning = (
        "The terms protect single rows. If a person may have several rows, privacy.person must name the column that "
        "tells people apart."
    )
    used = {*(terms.model.features or ()), *terms.model.outcome_columns}
    try:
        for column in frame.columns:
            repeated = frame[column].duplicated().mean() if column not in used and _names_people(column) else 0.0
            if repeated > 0:
                rows = (
                    f"{percent(repeated)} of the rows repeat a value of column {printable(str(column))!r}, which may "
                    "identify people."
                )
                warnings.append(TermsWarning(about, f"{rows} {meaning}"))
        copies = float(frame.duplicated().mean()) if len(frame) else 0.0
    except (TypeError, NotImplementedError):  # cells that cannot be compared
        return warnings
    if copies > MAX_SHARE_COPIES and not warnings:
        warnings.append(TermsWarning(about, f"{percent(copies)} of the rows are copies of an earlier row. {meaning}"))
    return warnings


def _names_people(column: object) -> bool:
    """Return whether a column's name says that it tells people apart, however its words are joined."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[-\s.]+", "_", str(column))
    return PERSON_COLUMN.search(words.lower()) is not None


def unnamed_people_warning(columns: Iterable[str], terms: Terms) -> TermsWarning | None:
    """Warn of columns whose names, which are public, say that they may tell people apart, where the terms name none."""
    if terms.privacy.person is not None or task_of(terms).unit != Task.unit or terms.privacy.unit == OWNER_UNIT:
        return None
    used = {*(terms.model.features or ()), *terms.model.outcome_columns}
    named = [str(column) for column in columns if column not in used and _names_people(column)]
    if not named:
        return None
    sentence = (
        f"Column {printable(named[0])!r} may tell people apart, but the terms name no column that identifies people. "
        "The terms protect single rows: someone with m rows has m times the "
        f"epsilon{' and a larger delta' if terms.privacy.delta > 0 else ''}. If people may have several rows, name the "
        "column in privacy.person."
    )
    return TermsWarning("privacy.person", sentence)


def alike_people(table: TableSource, column: str | None, name: str) -> list[TermsWarning]:
    """Warn of people's names that differ only in capitalisation, spaces or decimal zeros: each counts as a person."""
    names = (
        set() if column is None or table.streams else {*names_of(table.frame([column]), column, name, PERSON_NAME)[1]}
    )
    name_counts = Counter(fold_name(plain_name(name.strip())) for name in names)
    several = sum(count for count in name_counts.values() if count > 1)
    if not several:
        return []
    sentence = (
        f"{several:,} names in column {printable(str(column))!r} differ from another name only in capitalisation, "
        "spaces or decimal zeros (12 and 12.0). Each spelling counts as a separate person. Spell each person's name "
        "the same way in every row."
    )
    return [TermsWarning("privacy.person", sentence)]


def familiar_warnings(agreement: Agreement) -> list[TermsWarning]:
    """Warn of a public sample made of the owner's own rows: it is read without noise."""
    if agreement.setup.public is None:
        return []
    tables = agreement.tables.train.in_memory(), agreement.tables.held_out.in_memory()
    if agreement.setup.terms.model.holdout_by is not None:
        tables = tables[0].targeted(), tables[1].targeted()
    own, counts = np.unique(np.concatenate([_rows(table) for table in tables]), return_counts=True)
    share = float(np.isin(_rows(agreement.setup.public), own[counts == 1]).mean())  # rows that many share say nothing
    if not share > MAX_SHARE_FAMILIAR:
        return []
    sentence = (
        f"{percent(share)} of the public sample's rows occur exactly once in your table. A public sample must not "
        "contain private rows."
    )
    return [TermsWarning("model.public", sentence)]


def _rows(design: Design) -> NDArray[Any]:
    """Return every row as one value to compare."""
    cells = np.ascontiguousarray(np.column_stack([design.X, design.y]) + 0.0)
    return cells.view(np.dtype((np.void, cells.itemsize * cells.shape[1]))).ravel()


def _range_words(agreement: Agreement) -> list[str]:
    """Return the range of every feature and of the target, in words."""
    names = agreement.setup.preparation.categories
    lines = []
    for column, (low, high) in agreed_ranges(agreement).items():
        limits = f"{number(low)} to {number(high)}" if np.isfinite([low, high]).all() else "none"
        lines.append(
            f"{printable(column)} {limits}" + (f" ({len(names[column])} names and others)" if column in names else "")
        )
    return lines


def _times(large: float, small: float) -> str:
    """Say how many times `small` goes into `large`."""
    ratio = large / small if small > 0 else np.inf
    return (
        "infinitely many times"
        if not np.isfinite(ratio)
        else f"{ratio:.2g} times"
        if ratio > 1e6
        else f"{number(ratio, 3)} times"
    )


def _finite_or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None


def rows_looked_at(table: TableSource, kept: CountedRows, people: re.Pattern[str]) -> pd.DataFrame:
    """Return the rows that count; of a long table, columns that sound like people, and hashes that tell copies."""
    if table.long:
        return hashed_rows(table, kept, people)
    return table.frame() if kept is None else table.frame()[kept]


def hashed_rows(table: TableSource, kept: CountedRows, whole: re.Pattern[str]) -> pd.DataFrame:
    """Return a hash of every row that counts, beside the columns whose names have the pattern `whole`. Rows that are
    alike have one hash, and others of a billion rows with a probability below 3 %."""
    names = column_names(table.example)
    found = []
    for _, rows in parts_of(table, names, kept):
        frame = rows if isinstance(rows, pd.DataFrame) else rows.to_pandas()
        named_columns = frame[[name for name in names if whole.search(name.lower())]].copy()
        named_columns.insert(
            0, "all cells", pd.util.hash_pandas_object(frame, index=False).to_numpy(), allow_duplicates=True
        )
        found.append(named_columns)
    return pd.concat(found, ignore_index=True) if found else table.example
