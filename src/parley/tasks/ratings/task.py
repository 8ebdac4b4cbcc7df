"""The task "ratings" as the rest of the package sees it: items learned from ratings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from parley.data import Design, Preparation
from parley.losses import Objective
from parley.owner.owner import Agreement, Owner
from parley.protocol.setup import Setup
from parley.protocol.task import RunSettings, register
from parley.tasks.ratings.question import ItemFactorsQuestion
from parley.tasks.ratings.table import rating_preparation, unlisted_words
from parley.tasks.ratings.terms import RatingsModel
from parley.tasks.records import BoundedRecords
from parley.terms import Model, Terms
from parley.terms.catalogue import RATING_MECHANISMS
from parley.terms.file import TermsWarning
from parley.validate import Floats, printable

START_DEVIATION = 0.1  # deviation of the items' factors at first: at 0 nobody could tell one factor from another


@dataclass(frozen=True)
class ItemObjective(Objective):
    """Items' V = [b, Q], theta row by row: a rating is about middle + b_i + a_u + p_u.q_i, and (a_u, p_u) never leave
    their owner. Owners answer with what each user says once its factors are solved (`question`), not with a gradient at
    common parameters."""

    def parameters(self, preparation: Preparation) -> int:
        model = RatingsModel.expect(preparation.model)
        return model.item_count * (model.factors + 1)

    def start(self, preparation: Preparation) -> Floats:
        """Return b = 0, and factors drawn by the terms' public seed."""
        model = RatingsModel.expect(preparation.model)
        V = np.zeros((model.item_count, model.factors + 1))
        V[:, 1:] = START_DEVIATION * np.random.default_rng(model.seed).standard_normal(V[:, 1:].shape)
        return V.ravel()


class Ratings(BoundedRecords):
    """A task whose record is one user with all ratings, and whose result is items' factors."""

    name = "ratings"
    unit = "user"
    record = "user"
    refusal = (
        "model.kind: terms that learn items from ratings cannot be planned, negotiated or learned like other models; "
        "use parley train or parley learner (in Python: parley.train)"
    )
    questions: ClassVar = {"item-factors": ItemFactorsQuestion}
    commands: ClassVar[Mapping[str, str]] = {
        "train": "parley.tasks.ratings.commands:train_ratings",
        "learner run": "parley.tasks.ratings.commands:run_ratings",
        "score": "parley.tasks.ratings.commands:score_ratings",
        "refine": "parley.tasks.ratings.commands:refine_ratings",
        "forecast": "parley.tasks.ratings.commands:forecast_ratings",
    }

    def unreleased(self, terms: Terms) -> str | None:
        """Refuse to release changed ratings: no ledger can tell if they were changed once or for every question."""
        if terms.privacy.mechanism not in RATING_MECHANISMS:
            return None
        return (
            f"privacy.mechanism = {terms.privacy.mechanism!r}: mechanisms that change ratings are only for simulations "
            "(parley train without --ledgers); for a release, use 'gaussian' or 'laplace' noise on updates"
        )

    def preparation(
        self, terms: Terms, example: pd.DataFrame | None = None, redraw: int | None = None
    ) -> tuple[Preparation, Design | None]:
        return rating_preparation(terms.model), None

    def objective(self, model: Model) -> ItemObjective:
        return ItemObjective(regularisation=model.penalty)

    def columns(self, model: Model) -> Sequence[str]:
        ratings = RatingsModel.expect(model)
        return ratings.user, ratings.item, ratings.target

    def record_column(self, model: Model) -> str:
        return RatingsModel.expect(model).user

    def record_rows(self, model: Model) -> int:
        return RatingsModel.expect(model).item_count

    def listed_cells(self, model: Model, column: str) -> Sequence[object]:
        ratings = RatingsModel.expect(model)
        return ratings.item_names if column == ratings.item else ()

    def notes(self, agreement: Agreement) -> list[str]:
        """Say whom a promise about ratings protects, and what never leaves."""
        terms = agreement.setup.terms
        user = printable(RatingsModel.expect(terms.model).user)
        limit_words = (
            f"the first {terms.privacy.records_per_person:,} ratings"
            if terms.privacy.person is not None
            else "all ratings"
        )
        return [
            f"Rows with the same name in {user!r} belong to one user: {limit_words} of a user count, and are protected "
            "together. Users' own factors are computed again for every answer and never leave this machine."
        ]

    def warnings(self, owner: Owner, agreement: Agreement) -> list[TermsWarning]:
        """Warn of a public list with few, or none, of the items rated here."""
        model = agreement.setup.terms.model
        words = unlisted_words(rating_preparation(model).unlisted(owner.table, owner.name), model)
        return [] if words is None else [TermsWarning("model.items", f"In your table, {words}")]

    def untargeted(self, owner: Owner, agreement: Agreement) -> tuple[int, int, str]:
        missing, rows = rating_preparation(agreement.setup.terms.model).unrated(owner.table, owner.name)
        return missing, rows, "rows hold no rating: these rows are left out, but their users are not"

    def algorithm(self, setup: Setup) -> Any:
        from parley.tasks.ratings.algorithm import ItemFactors

        return ItemFactors.make(setup)

    def run(self, terms: Terms, owners: Sequence[Owner], settings: RunSettings) -> Any:
        if terms.privacy.mechanism in RATING_MECHANISMS:
            from parley.tasks.ratings.noisy_ratings import learn_from_noisy

            return learn_from_noisy(terms, owners, settings.replicates, settings.seed, settings.progress)
        from parley.tasks.ratings.measured import measured
        from parley.tasks.ratings.run import learn_items

        result = learn_items(terms, owners, settings.replicates, settings.seed, settings.progress)
        return result if result.released or not settings.measure else measured(result, owners, settings.progress)

    def summary(self, result: Any) -> Any:
        from parley.tasks.ratings.report import items_summary

        return items_summary(result)

    def figure(self, result: Any) -> Any:
        from parley.tasks.ratings.report import items_gains

        return items_gains(result)


register(Ratings())
