"""What was foreseen for each owner, and what became of it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from parley.decisions.forecasting import Forecast, forecast
from parley.decisions.games.price import joining_price
from parley.demo.unions import Union
from parley.learning.algorithms.algorithm import Progress
from parley.learning.outcome.personal import own_model, personal_model
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
        starts = [*(model.theta_ for model in models), _public_fit(agreement.setup)]
        thetas = np.array([own_model(agreement).theta, *(personal_model(agreement, start).theta for start in starts)])
        held_out, to_come = _held_out(agreement, thetas), _to_come(agreement, thetas, union.future(future, seed))
        for way, (chapter, said) in enumerate(zip(joined, expected, strict=True), start=1):
            chapter.append(
                Joined(
                    name=union.name,
                    records=union.records,
                    price=joining_price(said.terms, union.name) or 0.0,
                    foreseen=said.owners[place].gain,
                    foreseen_alone=said.owners[place].alone,
                    held_out=Estimate.of(held_out[0] - held_out[way]),
                    alone=float(to_come[0]),
                    gain=float(to_come[0] - to_come[way]),
                    public=float(to_come[0] - to_come[-1]),
                )
            )
    parts = zip(expected, models, joined, strict=True)
    return [Chapter(said, model, tuple(chapter)) for said, model, chapter in parts]


def _public_fit(setup: Setup) -> Floats:
    """The best model of the public sample [P], for which nobody has to be asked."""
    return starting_point(setup.under(setup.terms.changed(learning={"start": "public"})))


def _held_out(agreement: Agreement, thetas: Floats) -> Floats:
    """Losses of models [K, P] on held-out rows [K, rows], in the target's own units."""
    setup, rows = agreement.setup, agreement.tables.held_out.in_memory()
    return np.array([setup.risk.record_losses(rows, theta) for theta in thetas]) * setup.preparation.target_scale**2


def _to_come(agreement: Agreement, thetas: Floats, loans: pd.DataFrame) -> Floats:
    """Mean squared errors of models [K, P] on these loans [K]."""
    prepared = agreement.setup.preparation
    rates = thetas @ prepared.matrix(loans, "loans").T * prepared.target_scale + prepared.target_centre
    return np.asarray(np.mean((rates - loans["int_rate"].to_numpy()) ** 2, axis=1))
