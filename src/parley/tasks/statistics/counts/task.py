"""The task "counts" as the rest of the package sees it: counts and histograms."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from parley.data import Design, Preparation
from parley.losses import Objective
from parley.numerals import number, percent
from parley.owner.owner import Agreement, Owner
from parley.owner.warnings import budget_warning
from parley.privacy.mechanisms.randomised_response import RandomisedResponse
from parley.protocol.setup import Setup
from parley.protocol.task import RunSettings, Task, register
from parley.tasks.statistics.counts.question import CellCounts, CountPreparation, CountsQuestion, count_preparation
from parley.tasks.statistics.counts.terms import cell_names
from parley.terms import Model, Terms
from parley.terms.file import TermsWarning
from parley.validate import printable

MAX_CELLS_LISTED = 12  # cells that are listed
MOST_ELSEWHERE = 0.5  # of an owner's rows


@dataclass(frozen=True)
class CellShares(Objective):
    """The released shares of all cells as theta; nothing is minimised."""

    def parameters(self, preparation: Preparation) -> int:
        return len(cell_names(preparation.model))


class Counting(Task):
    """A task that counts rows in declared cells; nothing is learned."""

    name = "counts"
    refusal = "model.kind: these terms count records and learn nothing; parley count runs them"
    questions: ClassVar = {"counts": CountsQuestion}

    def preparation(
        self, terms: Terms, example: pd.DataFrame | None = None, redraw: int | None = None
    ) -> tuple[CountPreparation, Design | None]:
        return count_preparation(terms.model), None

    def objective(self, model: Model) -> CellShares:
        return CellShares()

    def purpose(self, agreement: Agreement) -> list[str]:
        """Say what is counted."""
        model, column = agreement.setup.terms.model, printable(agreement.setup.terms.model.target)
        if model.kind == "count":
            return [f"No model: the question is how many records have {_counted(model)} in the column {column}."]
        names = cell_names(model)
        listed = ", ".join(printable(name, 40) for name in names[:MAX_CELLS_LISTED])
        more = f" and {len(names) - MAX_CELLS_LISTED:,} more" if len(names) > MAX_CELLS_LISTED else ""
        return [f"No model: the question is how many records lie in each cell of the column {column}: {listed}{more}."]

    def figures(self, agreement: Agreement) -> dict[str, Any]:
        """Return how far a person moves the counts, and the noise on them."""
        mechanism, records = agreement.part.training.series.mechanism, agreement.part.training.question.records
        return {
            "cells": agreement.part.training.question.size,
            "sensitivity": mechanism.sensitivity * records,
            "noise_scale": mechanism.noise_scale * records,
            "truthful": mechanism.share if isinstance(mechanism, RandomisedResponse) else None,
        }

    def limits(self, agreement: Agreement) -> list[str]:
        """Return the figures in sentences."""
        found = self.figures(agreement)
        moved = f"A record counts once; a person moves the counts by at most {number(found['sensitivity'])} in all"
        if found["truthful"] is None:
            return [f"{moved}; the noise has scale {number(found['noise_scale'])}, in records."]
        return [
            f"{moved}. An answer is drawn for every record separately: the true name with probability "
            f"{percent(found['truthful'])}, and otherwise a random name. Nobody who sees an answer knows whether the "
            "answer is true. You hold the true rows and draw the answers."
        ]

    def warnings(self, owner: Owner, agreement: Agreement) -> list[TermsWarning]:
        """Warn of cells that do not fit the table, and of a budget that is no promise."""
        terms, rows = agreement.setup.terms, agreement.tables.train
        found = [budget_warning(terms, [owner.name])]
        away = rows.counts[-1] / max(len(rows), 1) if isinstance(rows, CellCounts) else 0.0
        if terms.model.kind == "histogram" and away > MOST_ELSEWHERE:
            key = "categories" if terms.model.categories else "bounds"
            message = (
                f"{percent(away)} of your rows lie outside the names or bins of the terms: check that the terms fit "
                "this table."
            )
            found.append(TermsWarning(f"model.{key}.{terms.model.target}", message))
        return [warning for warning in found if warning is not None]

    def algorithm(self, setup: Setup) -> Any:
        from parley.tasks.statistics.counts.run import Counts

        return Counts.make(setup)

    def run(self, terms: Terms, owners: Sequence[Owner], settings: RunSettings) -> Any:
        from parley.tasks.statistics.counts.run import ask_counts

        return ask_counts(terms, owners, None, settings.seed, settings.progress)


def _counted(model: Model) -> str:
    if model.target in model.categories:
        names = [printable(name, 40) for name in model.categories[model.target]]
        return " or ".join(
            [*names[:MAX_CELLS_LISTED], *(["others that the terms list"] if len(names) > MAX_CELLS_LISTED else [])]
        )
    low, high = model.bounds[model.target]
    return f"a number from {number(low)} to {number(high)}"


register(Counting())
