"""The target of a model of two classes: which cells count as 1, which as 0, and the same in words."""

from collections.abc import Mapping

import numpy as np

from parley.data.sources import Rows
from parley.data.table import codes, numbers
from parley.errors import DataError
from parley.terms import Model
from parley.validate import Floats, few_names, printable

Categories = Mapping[str, tuple[str, ...]]
HELP = "name the one that counts as 1 in model.positive, or learn all of them with softmax-regression"


def signs(model: Model, categories: Categories, rows: Rows, name: str) -> Floats:
    """1 and -1 [n]. A cell that counts as neither is refused with its row, and never shown."""
    y = _coded(model, categories, rows, name)
    wrong = np.flatnonzero(~np.isin(y, (-1.0, 0.0, 1.0)))
    if not wrong.size:
        return np.where(y > 0, 1.0, -1.0)
    if model.target in categories:
        raise DataError(
            f"{name}: column {model.target!r}, row {wrong[0] + 1}: expected one of the listed names "
            f"({few_names(categories[model.target])}); capitals and spaces count"
        )
    values = np.unique(y).size
    more = f" (the column has {values} different values: {HELP})" if values > 2 else ""
    raise DataError(f"{name}: column {model.target!r}, row {wrong[0] + 1}: expected a class, 1 or 0 (or -1){more}")


def _coded(model: Model, categories: Categories, rows: Rows, name: str) -> Floats:
    """1, 0 or -1, or any other number where the cell is none of the classes [n]."""
    column, positive = model.target, model.positive
    if column in categories:
        y = codes(rows, column, categories[column], name)
        return y if positive is None or positive == categories[column][1] else np.where(y < 2, 1 - y, y)
    if positive is not None:
        return 1 - codes(rows, column, (positive,), name)
    return numbers(rows, column, name, hint="for a column of names say in model.positive which of them counts as 1")


def counted(model: Model, categories: Categories) -> tuple[str, str]:
    """What counts as 1 and what as 0, in words.

    >>> counted(Model(kind="linear-svm", target="sick", positive="yes"), {})
    ("'yes'", 'every other name')
    """
    names = categories.get(model.target, () if model.positive is None else (model.positive,))
    said = [f"'{printable(name, 40)}'" for name in names]
    if not names:
        return "1 (or True)", "0 (or -1, False)"
    if model.positive is not None:
        one = names.index(model.positive)
        return said[one], said[1 - one] if len(names) > 1 else "every other name"
    return said[1] if len(names) > 1 else "every other name", said[0]


def class_names(model: Model, categories: Categories) -> tuple[str, str] | None:
    """(the class that counts as 0, the one that counts as 1) by their names; None where they are numbers.

    >>> class_names(Model(kind="linear-svm", target="sick", positive="yes"), {})
    ('not yes', 'yes')
    """
    listed = categories.get(model.target, ())
    one = model.positive if model.positive is not None else listed[1] if len(listed) == 2 else None
    if one is None:
        return None
    return next((name for name in listed if name != one), f"not {one}"), one


def words(model: Model, categories: Categories) -> str:
    """The same as a sentence.

    >>> words(Model(kind="linear-svm", target="sick", positive="yes"), {})
    "Target 'sick': 'yes' counts as 1, every other name as 0."
    """
    one, zero = counted(model, categories)
    return f"Target '{printable(model.target)}': {one} counts as 1, {zero} as 0."
