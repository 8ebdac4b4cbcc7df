"""What has to be so before owners are asked for column statistics: that something can be seen through the noise, and
that what comes out can be learned by, as far as public knowledge tells; on one machine, that the tables themselves can
be. All of it before anything is debited."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from parley.errors import DataError, SettingError
from parley.learning.algorithms.catalogue import make_algorithm
from parley.numerals import number
from parley.owner.owner import Owner
from parley.privacy.mechanisms.name_counts import MOST_NAMES, Stability
from parley.protocol.setup import Setup, resolve
from parley.tasks.column_statistics.agreement import column_statistics_agreement
from parley.tasks.column_statistics.cell_table import CellColumn, CellPreparation, CellTable
from parley.tasks.column_statistics.question import BINS
from parley.tasks.column_statistics.ready import make_ready
from parley.tasks.column_statistics.release import ReleasedColumn, StatisticsReader
from parley.terms import Terms

UNASKED = "Nobody was asked"  # behind why, in every refusal by what is public
SEEN = 0.1  # of all rows: a bin that needs more of them tells next to nothing
CLASSES = 0.5  # of an owner's rows: one class of two can have so many, and both must be above the threshold for names


def require_learnable(terms: Terms, example: pd.DataFrame | None = None, anyway: bool = False) -> None:
    """Refuse terms whose column statistics would be paid for in vain; `anyway`: or nearly so.

    Whatever the tables hold: a noise through which no column can be seen, classes whose names cannot leave, and keys
    that learning would refuse afterwards. `example` is consulted for the names of columns alone, where the terms list
    no features.
    """
    setup = resolve(column_statistics_agreement(terms), example)
    reader = StatisticsReader.of(setup)
    _require_class_names(terms, setup, reader)
    _require_sight(terms, reader, 1.0 if anyway else SEEN)
    columns = tuple(_as_if(terms, column) for column in reader.columns)
    make_algorithm(resolve(make_ready(terms, setup.preparation.features, columns, reader.named).terms))


def require_learnable_tables(terms: Terms, owners: Sequence[Owner]) -> None:
    """Refuse tables on this machine that learning would refuse afterwards: a word among numbers, a gap where none may
    be.

    They are prepared as for learning, with ranges and names that are made up; what they are refused for is said to who
    runs this, as by any command that reads them, and nothing of it is sent.
    """
    asked = [owner.prepare(column_statistics_agreement(terms)) for owner in owners]
    tables = [agreement.tables.train for agreement in asked]
    preparation = asked[0].setup.preparation
    if not isinstance(preparation, CellPreparation):
        raise SettingError("column statistics: expected terms that ask for them")
    cells = [part for table in tables if isinstance(table, CellTable) for part in table.parts()]
    columns = [_as_if(terms, column, [part[place] for part in cells]) for place, column in enumerate(preparation.asked)]
    ready = make_ready(terms, preparation.features, columns).terms
    try:
        for owner in owners:
            owner.prepare(ready)
    except DataError as error:
        raise DataError(
            f"{error}. Learning would refuse that after the column statistics were paid for: nobody was asked"
        ) from None


def _require_sight(terms: Terms, reader: StatisticsReader, most: float) -> None:
    least = reader.clear(BINS)
    if least < most:
        return
    rows = sum(part.records for part in terms.owners)
    none = "none of which could be read" if least >= 1 else "little of which could be read"
    hosts = "" if terms.noise.summed else ", let hosts draw one noise for all"
    enough = number(1.1 * least / most * float(terms.scale_epsilon), 2)
    raise SettingError(
        f"privacy.scale_epsilon = {number(terms.privacy.scale_epsilon)}: too little for {len(reader.columns)} "
        f"columns of {rows:,} rows, {none}: a bin would need {least * rows:,.0f} of them. "
        f"{UNASKED}: declare model.bounds or model.categories of all of them, and no scales are needed; or list "
        f"names in model.categories, leave some out of model.features{hosts}, or set {enough} or more aside"
        f"{'' if least >= 1 else ' (--anyway asks all the same)'}"
    )


def _require_class_names(terms: Terms, setup: Setup, reader: StatisticsReader) -> None:
    target = terms.model.target
    if terms.model.predicts != "classes" or target not in reader.columns:
        return
    noises = [part.training.series.mechanism for part in setup.parts.values()]
    least = min((noise.threshold for noise in noises if isinstance(noise, Stability)), default=np.inf)
    if reader.named and least < CLASSES:
        return
    why = (
        "names leave only with a delta and each owner's own noise"
        if not reader.named
        else f"a name leaves an owner only if more than {least:.0%} of its rows hold it"
    )
    raise SettingError(f"model.categories.{target}: expected the classes of the target: {why}. {UNASKED}")


def _frequent(cells: Sequence[CellColumn], most: int | None) -> list[str]:
    """The names in these cells, sorted; the most frequent of them where at most so many would come out."""
    counts = Counter[str]()
    for part in cells:
        often = np.bincount(part.place[part.place >= 0], minlength=len(part.names))
        counts.update(dict(zip(part.names, often.tolist(), strict=True)))
    return sorted(name for name, _ in counts.most_common(most))


def _as_if(terms: Terms, column: str, cells: Sequence[CellColumn] = ()) -> ReleasedColumn:
    """How a column may come out: as names where these cells are mostly text, else as numbers within its bounds."""
    model = terms.model
    numbers = sum(int(np.isfinite(part.values).sum()) for part in cells)
    text = sum(int((np.isnan(part.values) & ~part.missing).sum()) for part in cells)
    if (column == model.target and model.predicts == "classes") or (text > numbers and column not in model.bounds):
        found = _frequent(cells, None if column == model.target else MOST_NAMES) or ["a", "b"]
        return ReleasedColumn(column, "names", 0.0, names=tuple((name, 1 / len(found)) for name in found))
    low, high = model.bounds.get(column, (1.0, 2.0))
    edges = np.linspace(low, high, BINS + 1)
    made = ReleasedColumn(column, "numbers", 0.0, float(low), float(high), tuple(edges.tolist()))
    return replace(made, shares=(0.0, *(1 / BINS,) * BINS, 0.0))
