"""What was foreseen for each owner, and what became of it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from parley.decisions.knowledge.privacy_cost import joining_price
from parley.decisions.outlook.forecast import Forecast, forecast
from parley.demo.unions import Union
from parley.learning.algorithms.algorithm import Progress
from parley.learning.outcome.correction import PersonalModel, rows_with_trees
from parley.learning.outcome.model import make_model
from parley.learning.outcome.personal import compared, plain_columns
from parley.learning.outcome.verdict import Estimate
from parley.learning.owners import open_owners
from parley.learning.start import starting_point
from parley.learning.train import train
from parley.owner.owner import Agreement
from parley.protocol.setup import Setup
from parley.report.words.joined import Chapter, Joined
from parley.terms import load_terms
from parley.validate import Floats

FUTURE = 10_000  # loans of each owner that are still to come: what only a demo can look at


def foresee(file: Path, progress: Progress = lambda done, total: None) -> Forecast:
    """What `parley forecast` says of these terms, from the public sample and the numbers of rows."""
    return forecast(load_terms(file), progress=progress)


def learn(
    expected: Sequence[Forecast],
    unions: Sequence[Union],
    seed: int,
    future: int = FUTURE,
    progress: Progress = lambda done, total: None,
) -> list[Chapter]:
    """Train by the terms of every forecast, refine each model for every owner, and judge what came out beside what was
    foreseen."""
    owners = open_owners(expected[0].terms)
    models = [train(each.terms, owners, seed=seed, measure=False).model for each in expected]
    joined: list[list[Joined]] = [[] for _ in expected]
    for place, (union, owner) in enumerate(zip(unions, owners, strict=True)):
        progress(place, len(unions))
        agreement = owner.prepare(expected[0].terms)
        starts = np.array([*(model.theta_ for model in models), _public_fit(agreement.setup)])
        columns, new_columns = plain_columns(owner, agreement)
        alone, personal = compared(agreement, starts, columns)
        held_out = _held_out(agreement, [alone, *personal], new_columns)
        to_come = _to_come(agreement, [alone, *personal], union.future(future, seed))
        for way, (chapter, told) in enumerate(zip(joined, expected, strict=True), start=1):
            chapter.append(
                Joined(
                    name=union.name,
                    records=union.records,
                    price=joining_price(told.terms, union.name) or 0.0,
                    foreseen=told.owners[place].gain,
                    foreseen_alone=told.owners[place].alone,
                    held_out=Estimate.from_values(held_out[0] - held_out[way]),
                    alone=float(to_come[0]),
                    gain=float(to_come[0] - to_come[way]),
                    public=float(to_come[0] - to_come[-1]),
                )
            )
    parts = zip(expected, models, joined, strict=True)
    return [Chapter(told, model, tuple(chapter)) for told, model, chapter in parts]


def _public_fit(setup: Setup) -> Floats:
    """The best model of the public sample [P], for which nobody has to be asked."""
    return starting_point(setup.under(setup.terms.changed(learning={"start": "public"})))


def _held_out(agreement: Agreement, models: Sequence[PersonalModel], columns: Floats) -> Floats:
    """Losses of these models on held-out rows [models, rows], in the target's own units."""
    setup, rows = agreement.setup, agreement.tables.held_out.in_memory()
    made = [rows_with_trees(setup.risk, rows, each.theta, each.trees, columns) for each in models]
    return np.array([setup.risk.record_losses(*each) for each in made]) * setup.preparation.target_scale**2


def _to_come(agreement: Agreement, models: Sequence[PersonalModel], loans: pd.DataFrame) -> Floats:
    """Mean squared errors of these models on these loans [models]."""
    setup, rates = agreement.setup, loans["int_rate"].to_numpy()
    ready = (make_model(setup.preparation, e.theta, setup.hash, released=False, trees=e.trees) for e in models)
    return np.array([np.mean((each.predict(loans) - rates) ** 2) for each in ready])
