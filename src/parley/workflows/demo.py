"""The demo's story of forty credit unions and a bank, told while its commands run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from parley.decisions.games.negotiate import negotiate
from parley.decisions.knowledge.privacy_cost import joining_price
from parley.decisions.outlook.forecast import Forecast, forecast
from parley.demo.folder import (
    BANK_PRIVACY,
    BANKS_FILE,
    EPSILON,
    HOSTS,
    OWN_NOISE_FILE,
    PRIVACY_COST_PER_LOAN,
    SHARED_NOISE_FILE,
    VALUE_PER_LOAN,
    write_banks,
    write_unions,
)
from parley.demo.unions import BANK, PUBLIC_ROWS, UNIONS, Union
from parley.durable import write_file
from parley.learning.algorithms.algorithm import Progress
from parley.learning.outcome.correction import PersonalModel, rows_with_trees
from parley.learning.outcome.guarantee import SIMULATION_NOTE
from parley.learning.outcome.model import make_model
from parley.learning.outcome.personal import alone_and_personal_models, plain_columns
from parley.learning.outcome.verdict import Estimate
from parley.learning.owners import open_owners
from parley.learning.start import starting_point
from parley.learning.train import train
from parley.numerals import number
from parley.owner.owner import Agreement
from parley.protocol.setup import Setup
from parley.report.figures.owner_gains import ONE_NOISE, OWN_NOISE, joined_owners
from parley.report.figures.picture import save
from parley.report.pages.forecast_page import joined_page
from parley.report.sheet import BLANK_LINE, Grid, Line, Part
from parley.report.words import joined
from parley.report.words.forecast import assumption
from parley.report.words.joined import Chapter, Joined
from parley.report.words.negotiation import INTERPOLATION_NOTE
from parley.terms import load_terms
from parley.validate import Floats
from parley.workflows.person import Person

FUTURE_LOANS_PER_OWNER = 10_000  # loans of each owner that are still to come: what only a demo can look at


@dataclass(frozen=True)
class Demo:
    """The story's folder and seed, and the number of unions beside the bank."""

    folder: Path
    seed: int
    unions: int | None
    person: Person

    def told(self) -> Iterator[Part]:
        """Yield the story, each part as soon as it is known, then write its picture and report."""
        count = UNIONS if self.unions is None else self.unions
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.person.progress("writing tables"):
            members, banks = write_unions(self.folder, self.seed, count), write_banks(self.folder, self.seed)
        yield from _question(members, count)
        yield from _heading(
            "1. Who would gain? Forecast before any data moves", f"parley forecast {self.folder / SHARED_NOISE_FILE}"
        )
        expected = self._forecast(SHARED_NOISE_FILE)
        yield from _foreseen_gains(expected)
        bargain = list[str]()
        yield from self._bargained(expected, bargain)
        one_file, own_file = self.folder / "model.json", self.folder / "own_noise.json"
        yield from _heading(
            "3. They train. Was the forecast right?",
            f"parley train {self.folder / SHARED_NOISE_FILE} --seed {self.seed} --save {one_file}",
            f"parley train {self.folder / OWN_NOISE_FILE} --seed {self.seed} --save {own_file}",
            f"parley score {one_file} {self.folder / SHARED_NOISE_FILE} --all",
            f"parley refine {one_file} {self.folder / SHARED_NOISE_FILE} --owner {HOSTS[0]} --save "
            f"{self.folder / HOSTS[0]}.json",
        )
        other_noise = self._forecast(OWN_NOISE_FILE)
        with self.person.progress("training, refining, judging") as progress:
            one, own = learn([expected, other_noise], members, self.seed, progress=progress)
        one.model.save(one_file)
        own.model.save(own_file)
        yield from _outcome(one, own)
        yield from _heading("4. What if three banks train together?", f"parley forecast {self.folder / BANKS_FILE}")
        for_banks = self._forecast(BANKS_FILE)
        with self.person.progress("forecasting and training for three banks") as progress:
            (large,) = learn([for_banks], banks, self.seed, progress=progress)
        yield Line(joined.large_owners_sentence(large), "bold")
        picture, report = self.folder / "unions.png", self.folder / "report.html"
        title = f"{count} credit unions and a large bank: who gains by learning together?"
        figure = joined_owners([(ONE_NOISE, one), (OWN_NOISE, own)], title, large)
        save(figure, picture)
        write_file(report, joined_page(one, own, large, bargain, figure))
        yield Line(f"\nPicture: {picture}  Report: {report}", "bold")
        terms, table = self.folder / SHARED_NOISE_FILE, self.folder / f"{HOSTS[0]}.csv"
        inside = f"parley forecast {terms} --inside {table} --owner {HOSTS[0]}"
        message = f"Next, see one owner's view from its own rows: {inside}\nFor your own files, run parley init"
        yield Line(message, "dim", aside=True)

    def _forecast(self, terms: str) -> Forecast:
        with self.person.progress("forecasting") as progress:
            return foresee(self.folder / terms, progress)

    def _bargained(self, expected: Forecast, bargain: list[str]) -> Iterator[Part]:
        """Yield the bank's terms for joining, without payments and with them; `bargain` keeps them for the report."""
        target = float(number(expected.relative_fitness.mean, 1))
        yield from _heading(
            "2. What would persuade the bank to join?",
            f"parley negotiate {self.folder / SHARED_NOISE_FILE}",
            f"parley negotiate {self.folder / SHARED_NOISE_FILE} --target {target:g}",
        )
        with self.person.progress("negotiating") as progress:
            free = negotiate(expected.terms)
            progress(1, 2)
            paid = negotiate(expected.terms, target=target)
        bargain += joined.bargain(free, paid, BANK)
        yield from map(Line, bargain)
        yield Line(INTERPOLATION_NOTE, "dim")


def _heading(title: str, *commands: str) -> Iterator[Part]:
    yield Line(f"\n{title}", "bold", folded=True)
    yield from (Line(f"$ {command}", "dim") for command in commands)
    yield BLANK_LINE


def _question(members: list[Union], count: int) -> Iterator[Part]:
    *small, large = sorted(union.records for union in members)
    ask = "should we train one model of loan rates together?"
    yield Line(f"{count} credit unions and a large bank ask: {ask}", "bold", folded=True)
    yield Line(
        f"The unions have {small[0]} to {small[-1]:,} loans each, and the bank has {large:,}. Regions differ in their "
        f"borrowers and interest rates. Every owner's privacy budget is ε = {EPSILON:g} (replace-one). "
        f"{', '.join(HOSTS[:-1])} and {HOSTS[-1]} draw shared noise, which no host knows."
    )
    yield Line(
        f"The terms value one squared point of error at ${VALUE_PER_LOAN:g} per loan. Privacy costs a union "
        f"{100 * PRIVACY_COST_PER_LOAN * EPSILON:g} cents per loan, and the bank {100 * BANK_PRIVACY * EPSILON:g} "
        "cents. Joining is worth its price for an owner if the saving exceeds this privacy cost."
    )
    yield Line(SIMULATION_NOTE, "italic", folded=True)


def _foreseen_gains(expected: Forecast) -> Iterator[Part]:
    prices = [joining_price(expected.terms, part.name) or 0.0 for part in expected.terms.owners]
    yield Grid(joined.forecast_rows(expected, prices))
    yield Line(f"\n{joined.forecast_sentence(expected, prices)}", "bold")
    yield Line(f"The forecast uses {PUBLIC_ROWS} public loans and the row counts. {assumption(expected)}", "dim")


def _outcome(one: joined.Chapter, own: joined.Chapter) -> Iterator[Part]:
    yield Grid(joined.outcome_rows(one, own), "Error that joining saves, in % of the error without joining")
    yield Line(f"\n{joined.verdict(one, 'shared noise')}", "bold")
    yield Line(joined.verdict(own, "each owner's own noise"))
    yield from (Line(joined.without_anybody(one)), Line(joined.on_held_out(one)))
    yield Line(
        "The errors compare an owner's personal model with the model it trains alone, both from parley refine, on "
        f"{FUTURE_LOANS_PER_OWNER:,} new loans of that owner. Only a demo can create new loans. The column "
        '"held out, 90%" shows the interval from the owner\'s own held-out rows.',
        "dim",
    )


def foresee(file: Path, progress: Progress = lambda done, total: None) -> Forecast:
    """Return the forecast of these terms, from the public sample and the numbers of rows."""
    return forecast(load_terms(file), progress=progress)


def learn(
    expected: Sequence[Forecast],
    unions: Sequence[Union],
    seed: int,
    future: int = FUTURE_LOANS_PER_OWNER,
    progress: Progress = lambda done, total: None,
) -> list[Chapter]:
    """Train by the terms of every forecast, personalise each model for every owner, and compare with the forecasts."""
    owners = open_owners(expected[0].terms)
    models = [train(each.terms, owners, seed=seed, measure=False).model for each in expected]
    joined: list[list[Joined]] = [[] for _ in expected]
    for place, (union, owner) in enumerate(zip(unions, owners, strict=True)):
        progress(place, len(unions))
        agreement = owner.prepare(expected[0].terms)
        starts = np.array([*(model.theta_ for model in models), _public_fit(agreement.setup)])
        columns, new_columns = plain_columns(owner, agreement)
        alone, personal = alone_and_personal_models(agreement, starts, columns)
        held_out = _held_out(agreement, [alone, *personal], new_columns)
        to_come = _to_come(agreement, [alone, *personal], union.future(future, seed))
        for way, (chapter, expectation) in enumerate(zip(joined, expected, strict=True), start=1):
            chapter.append(
                Joined(
                    name=union.name,
                    records=union.records,
                    price=joining_price(expectation.terms, union.name) or 0.0,
                    foreseen=expectation.owners[place].gain,
                    foreseen_alone=expectation.owners[place].alone,
                    held_out=Estimate.from_values(held_out[0] - held_out[way]),
                    alone=float(to_come[0]),
                    gain=float(to_come[0] - to_come[way]),
                    public=float(to_come[0] - to_come[-1]),
                )
            )
    parts = zip(expected, models, joined, strict=True)
    return [Chapter(expectation, model, tuple(chapter)) for expectation, model, chapter in parts]


def _public_fit(setup: Setup) -> Floats:
    return starting_point(setup.under(setup.terms.changed(learning={"start": "public"})))


def _held_out(agreement: Agreement, models: Sequence[PersonalModel], columns: Floats) -> Floats:
    """Return losses of these models on held-out rows [models, rows], in the target's own units."""
    setup, rows = agreement.setup, agreement.tables.held_out.in_memory()
    made = [rows_with_trees(setup.risk, rows, each.theta, each.trees, columns) for each in models]
    return np.array([setup.risk.record_losses(*each) for each in made]) * setup.preparation.target_scale**2


def _to_come(agreement: Agreement, models: Sequence[PersonalModel], loans: pd.DataFrame) -> Floats:
    """Return mean squared errors of these models on these loans [models]."""
    setup, rates = agreement.setup, loans["int_rate"].to_numpy()
    ready = (make_model(setup.preparation, e.theta, setup.hash, released=False, trees=e.trees) for e in models)
    return np.array([np.mean((each.predict(loans) - rates) ** 2) for each in ready])
