"""The task "column-statistics" as the rest of the package sees it."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from parley import losses
from parley.data import Design, Preparation, chosen_features, listed_features
from parley.losses import Objective
from parley.numerals import number, percent
from parley.owner.owner import Agreement, Owner
from parley.privacy.mechanisms.name_counts import Stability
from parley.protocol.setup import Setup
from parley.protocol.task import RunSettings, Task, register
from parley.tasks.statistics.column_statistics.question import (
    CellPreparation,
    CellTable,
    ColumnStatisticsQuestion,
    cell_preparation,
)
from parley.terms import Model, Terms
from parley.terms.file import TermsWarning
from parley.validate import printable


class ColumnStatistics(Task):
    """A task that counts rows on grids by column, and releases names above a threshold; nothing is learned."""

    name = "column-statistics"
    refusal = (
        "learning.algorithm: these terms ask for column statistics and learn nothing; parley column-stats runs them"
    )
    questions: ClassVar = {"scales": ColumnStatisticsQuestion}

    def preparation(
        self, terms: Terms, example: pd.DataFrame | None = None, redraw: int | None = None
    ) -> tuple[Preparation, Design | None]:
        return cell_preparation(terms.model, chosen_features(terms, example)), None

    def features(self, terms: Terms, table: pd.DataFrame) -> tuple[str, ...] | None:
        return listed_features(terms, table)

    def objective(self, model: Model) -> Objective:
        return losses.make(model)

    def noise_may_fail(self, terms: Terms) -> bool:
        """Whether a single person's name may leave, with a probability that is part of delta."""
        return terms.privacy.delta > 0

    def purpose(self, agreement: Agreement) -> list[str]:
        asked = ", ".join(map(printable, _asked(agreement)))
        return [
            f"No model yet: the questions are about the spread of the columns {asked}, so that a model can be learned "
            "later."
        ]

    def figures(self, agreement: Agreement) -> dict[str, Any]:
        mechanism = agreement.part.training.series.mechanism
        names_from = mechanism.threshold if isinstance(mechanism, Stability) else None
        return {
            "sensitivity": mechanism.sensitivity,
            "noise_scale": mechanism.noise_scale,
            "columns": list(_asked(agreement)),
            "names_from": names_from if names_from is None or names_from < 1 else None,
        }

    def limits(self, agreement: Agreement) -> list[str]:
        facts, records = self.figures(agreement), agreement.setup.terms.owner(agreement.part.name).records
        names = (
            "Names never leave"
            if facts["names_from"] is None
            else f"A name is released only if more than about {number(facts['names_from'] * records, 3)} rows hold it"
        )
        return [
            f"One record counts at most once in each of {len(facts['columns'])} columns. A person moves an answer by "
            f"at most {number(facts['sensitivity'])}; the noise has scale {number(facts['noise_scale'])}. {names}."
        ]

    def warnings(self, owner: Owner, agreement: Agreement) -> list[TermsWarning]:
        """Warn of text among a column's numbers, which learning refuses later."""
        table, warnings = agreement.tables.train, []
        if not isinstance(table, CellTable) or not len(table):
            return []
        counts = np.zeros((len(table.columns), 2))
        for part in table.parts():
            counts += [
                [(np.isnan(cells.values) & ~cells.missing).sum(), np.isfinite(cells.values).sum()] for cells in part
            ]
        for column, (text, numbers) in zip(table.columns, counts / len(table), strict=True):
            if 0 < text <= numbers:
                message = (
                    f"{percent(text)} of your rows contain text in the numeric column {printable(column)!r}, and "
                    "training will refuse this text"
                )
                warnings.append(
                    TermsWarning(
                        f"model.categories.{column}",
                        f"{message}. Remove the text from these cells, or list the names under model.categories.",
                    )
                )
        return warnings

    def algorithm(self, setup: Setup) -> Any:
        from parley.tasks.statistics.column_statistics.run import ColumnStatistics

        return ColumnStatistics.make(setup)

    def run(self, terms: Terms, owners: Sequence[Owner], settings: RunSettings) -> Any:
        from parley.tasks.statistics.column_statistics.run import ask_columns

        return ask_columns(terms, owners, settings.seed, settings.progress)


def _asked(agreement: Agreement) -> tuple[str, ...]:
    preparation = agreement.setup.preparation
    return preparation.asked if isinstance(preparation, CellPreparation) else ()


register(ColumnStatistics())
