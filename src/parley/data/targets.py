"""The target of a row: a number, one of two classes, a count or a lifetime; and rows without one.

Formal guarantee: whether a row has a target is a function of its own cell, the column's declared type and the terms. A
row without one is prepared as zeros of weight 0, whatever its other cells hold. Its gradient, its second moments and
its part of a score are 0, which every bound on one record allows. So a table in which it has a target is a neighbour
like any other.

A count is learned as the rate count/w with weight w: the exposure, clipped to its declared bounds, times the typical
rate; the count is clipped to its bounds. Exposure and typical rate default to 1.

Formal guarantee: both are functions of the record, the terms and the public sample, and lie within `rate_ends` and
`weight_ends`, in floating point too: each operation keeps the order of numbers.

A lifetime becomes the label of discrete-time survival, 2 s + e: the subject survived s whole periods and, if e = 1, the
event happened in the next one. The terms give the periods' ends; the first begins at time 0. An end belongs to its
period: an event there happened in it, and a subject lost there survived it. A subject lost within a period says nothing
about it, and events after the last period are not seen.

Formal guarantee: a label is a function of the subject's own two cells and the terms, one of 0 to 2 K.
"""

from collections.abc import Mapping, Sequence, Set

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.data.sources import Rows
from parley.data.table import codes, is_gap, numbers
from parley.errors import DataError
from parley.terms import Model
from parley.terms.outcomes import CountModel, SurvivalModel
from parley.validate import LARGEST, SMALLEST, Floats, few_names, printable


def has_target(rows: Rows, model: Model, name: str) -> NDArray[np.bool_]:
    """Mark the rows in which no cell of the target's columns is a gap [n]; listed classes are never gaps."""
    return ~_gaps(rows, model.outcome_columns, listed_classes(model), name)


def listed_classes(model: Model) -> set[str]:
    """Return the names of classes that the terms list."""
    return {*model.categories.get(model.target, ()), *(() if model.positive is None else (model.positive,))}


def with_target(public: pd.DataFrame, target: Sequence[str], listed: Set[str], name: str) -> pd.DataFrame:
    """Return a public sample's rows that have a target; the others need not be counted."""
    if not {*target} <= {*public.columns}:
        return public  # said where columns are asked for
    gaps = _gaps(public, target, listed, name)
    return public[~gaps].reset_index(drop=True) if gaps.any() else public


def dropped_rows_sentence(public: pd.DataFrame, target: Sequence[str], listed: Set[str], name: str) -> str | None:
    """Say how many rows of a public sample have no target; None if all have one."""
    missing = len(public) - len(with_target(public, target, listed, name))
    return (
        None
        if not missing
        else f"{missing:,} of the public sample's {len(public):,} rows have no target and are not used."
    )


def _gaps(rows: Rows, columns: Sequence[str], listed: Set[str], name: str) -> NDArray[np.bool_]:
    """Mark the rows that miss any of the target's columns [n]; `listed` are class names in the first."""
    first, *others = columns
    gaps = is_gap(rows, first, name, listed)
    for column in others:
        gaps = gaps | is_gap(rows, column, name)
    return gaps


Categories = Mapping[str, tuple[str, ...]]
TWO_CLASSES_HINT = "name the class that counts as 1 in model.positive, or learn all classes with softmax-regression"


def class_signs(model: Model, categories: Categories, rows: Rows, name: str) -> Floats:
    """Return 1 and -1 [n]. A cell that is neither class is refused by its row number, and never shown."""
    y = _coded(model, categories, rows, name)
    wrong = np.flatnonzero(~np.isin(y, (-1.0, 0.0, 1.0)))
    if not wrong.size:
        return np.where(y > 0, 1.0, -1.0)
    if model.target in categories:
        raise DataError(
            f"{name}: column {model.target!r}, row {wrong[0] + 1}: the value is not one of the listed names "
            f"({few_names(categories[model.target])}). Names are case-sensitive; fix the file or model.categories"
        )
    values = np.unique(y).size
    more = f" (the column has {values} different values: {TWO_CLASSES_HINT})" if values > 2 else ""
    raise DataError(
        f"{name}: column {model.target!r}, row {wrong[0] + 1}: the value is not a class; expected 1 or 0 (or -1){more}"
    )


def _coded(model: Model, categories: Categories, rows: Rows, name: str) -> Floats:
    column, positive = model.target, model.positive
    if column in categories:
        y = codes(rows, column, categories[column], name)
        return y if positive is None or positive == categories[column][1] else np.where(y < 2, 1 - y, y)
    if positive is not None:
        return 1 - codes(rows, column, (positive,), name)
    return numbers(rows, column, name, hint="for a column of names, name the class that counts as 1 in model.positive")


def names_of_one_and_zero(model: Model, categories: Categories) -> tuple[str, str]:
    """Say in words what counts as 1 and what as 0.

    >>> names_of_one_and_zero(Model(kind="linear-svm", target="sick", positive="yes"), {})
    ("'yes'", 'every other name')
    """
    names = categories.get(model.target, () if model.positive is None else (model.positive,))
    quoted = [f"'{printable(name, 40)}'" for name in names]
    if not names:
        return "1 (or True)", "0 (or -1, False)"
    if model.positive is not None:
        positive_place = names.index(model.positive)
        return quoted[positive_place], quoted[1 - positive_place] if len(names) > 1 else "every other name"
    return quoted[1] if len(names) > 1 else "every other name", quoted[0]


def class_names(model: Model, categories: Categories) -> tuple[str, str] | None:
    """Return the names of the classes that count as 0 and as 1; None if they are numbers.

    >>> class_names(Model(kind="linear-svm", target="sick", positive="yes"), {})
    ('not yes', 'yes')
    """
    listed = categories.get(model.target, ())
    positive = model.positive if model.positive is not None else listed[1] if len(listed) == 2 else None
    if positive is None:
        return None
    return next((name for name in listed if name != positive), f"not {positive}"), positive


def class_words(model: Model, categories: Categories) -> str:
    """Say in a sentence what counts as 1 and what as 0.

    >>> class_words(Model(kind="linear-svm", target="sick", positive="yes"), {})
    "Target 'sick': 'yes' counts as 1, every other name as 0."
    """
    one, zero = names_of_one_and_zero(model, categories)
    return f"Target '{printable(model.target)}': {one} counts as 1, {zero} as 0."


def exposure_weights(model: Model, typical: float, rows: Rows, name: str) -> Floats:
    """Return the weight of each record [n], from `SMALLEST` to `LARGEST`."""
    column = CountModel.expect(model).exposure
    if column is None:
        return np.full(len(rows), _weights(typical, np.array(1.0)))
    exposure = numbers(rows, column, name, hint="an exposure is a number")
    return _weights(typical, np.clip(exposure, *model.bounds[column]))


def weight_ends(model: Model, typical: float) -> tuple[float, float]:
    """Return the smallest and the largest possible weight of a record."""
    column = CountModel.expect(model).exposure
    ends = (1.0, 1.0) if column is None else model.bounds[column]
    low, high = _weights(typical, np.array(ends))
    return float(low), float(high)


def rate_ends(model: Model, typical: float, counts: tuple[float, float]) -> tuple[float, float]:
    """Return the smallest and the largest rate, limited to `LARGEST`."""
    low, high = weight_ends(model, typical)
    return min(counts[0] / high, LARGEST), min(counts[1] / low, LARGEST)


def count_words(model: Model) -> str:
    """Say in a sentence what is counted.

    >>> count_words(CountModel(kind="poisson-regression", target="claims", bounds={"claims": (0, 20)}))
    "Target 'claims': a count, cut to 0 to 20."
    """
    low, high = model.bounds[model.target]
    counts = f"Target '{printable(model.target)}': a count, cut to {low:g} to {high:g}"
    exposure = CountModel.expect(model).exposure
    if exposure is None:
        return f"{counts}."
    low, high = model.bounds[exposure]
    return f"{counts}; per unit of '{printable(exposure)}', cut to {low:g} to {high:g}."


def _weights(typical: float, exposure: Floats) -> Floats:
    return np.clip(exposure * (typical if typical > 0 else 1.0), SMALLEST, LARGEST)


def lifetime_labels(model: Model, rows: Rows, name: str) -> Floats:
    """Return 2 s + e of each subject [n]. An event other than 0 or 1 is refused by row number, and never shown. A time
    below 0 counts in the first period: refusing it would reveal it."""
    survival = SurvivalModel.expect(model)
    column, ends = survival.event, np.array(survival.periods)
    time = numbers(rows, model.target, name, hint="a time is a number")
    event = numbers(rows, column, name, hint="1: the event happened; 0: no event by then")
    wrong = np.flatnonzero(~np.isin(event, (0.0, 1.0)))
    if wrong.size:
        raise DataError(
            f"{name}: column {column!r}, row {wrong[0] + 1}: the value is not an event; expected 1 (the event "
            "happened) or 0 (no event by then)"
        )
    happens = np.searchsorted(ends, time, side="left")
    happened = (event == 1) & (happens < len(ends))
    survived = np.where(happened, happens, np.searchsorted(ends, time, side="right"))
    return np.asarray(2.0 * survived + happened)


def lifetime_words(model: Model) -> str:
    """Say in a sentence which event is waited for.

    >>> lifetime_words(SurvivalModel(kind="survival", target="days", event="died", periods=(30.0, 90.0)))
    "Target 'days': time until 'died' (1: the event happened, 0: no event by then), in 2 periods that end at 30, 90."
    """
    survival = SurvivalModel.expect(model)
    ends = ", ".join(f"{end:g}" for end in survival.periods)
    waited = f"time until '{printable(survival.event)}' (1: the event happened, 0: no event by then)"
    return f"Target '{printable(model.target)}': {waited}, in {len(survival.periods)} periods that end at {ends}."
