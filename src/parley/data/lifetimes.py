"""How long a subject was watched, and whether what is waited for happened: the label of discrete-time survival.

The terms cut time into periods by their ends; the first begins with time. A label is 2 s + e: s periods were survived
from end to end and, if e = 1, it happened in the next one. An end belongs to its period: what happens there happened in
it, and who is lost there survived it. Who is lost within a period tells nothing about it; whatever happens after the
last period is not seen.

Formal guarantee: a label is a function of the subject's own two cells and the terms, one of 0 to 2 K.
"""

import numpy as np

from parley.data.sources import Rows
from parley.data.table import numbers
from parley.errors import DataError
from parley.terms import Model
from parley.validate import Floats, printable


def labels(model: Model, rows: Rows, name: str) -> Floats:
    """2 s + e of each subject [n]. A cell that does not say whether it happened is refused with its row, and never
    shown. A time below 0 counts as one in the first period: whether a table is refused must not hang on it."""
    column, ends = str(model.event), np.array(model.periods or ())
    time = numbers(rows, model.target, name, hint="a time is a number")
    event = numbers(rows, column, name, hint="1: it happened; 0: it had not by then")
    wrong = np.flatnonzero(~np.isin(event, (0.0, 1.0)))
    if wrong.size:
        raise DataError(f"{name}: column {column!r}, row {wrong[0] + 1}: expected 1 (it happened) or 0 (not by then)")
    happens = np.searchsorted(ends, time, side="left")
    happened = (event == 1) & (happens < len(ends))
    survived = np.where(happened, happens, np.searchsorted(ends, time, side="right"))
    return np.asarray(2.0 * survived + happened)


def words(model: Model) -> str:
    """What is waited for, as a sentence.

    >>> words(Model(kind="survival", target="days", event="died", periods=(30.0, 90.0)))
    "Target 'days': time until 'died' (1: it happened, 0: not by then), in 2 periods that end at 30, 90."
    """
    ends = ", ".join(f"{end:g}" for end in model.periods or ())
    waited = f"time until '{printable(str(model.event))}' (1: it happened, 0: not by then)"
    return f"Target '{printable(model.target)}': {waited}, in {len(model.periods or ())} periods that end at {ends}."
