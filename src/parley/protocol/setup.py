"""Terms and public knowledge, resolved once: what everybody computes alike before the first question is asked. The path
of a number: terms -> setup -> an owner's stage (bound, mechanism, cost of k answers) -> its answer."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from parley.data.public_numbers import PublicNumbers, pinned_text, preparation_names, preparation_numbers
from parley.durable import write_file
from parley.errors import TermsError
from parley.privacy.accounting import SharedLaw
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.protocol.aggregation import Aggregation, aggregation_of
from parley.protocol.aggregation.mean import own_series
from parley.protocol.aggregation.one_noise import SharedLaws
from parley.protocol.queries import Context, Question
from parley.protocol.queries.question import with_answer_clip
from parley.protocol.stages import Part, Schedule, Stage, StagePlan, make_schedule
from parley.protocol.task import Task, task_of
from parley.terms import Terms
from parley.terms.sections import OWNER_UNIT

KEYS_WITHOUT_EFFECT = {
    "name",
    "data",
    "value",
    "privacy_cost",
    "availability",
}  # of an owner's part of the terms: no question depends on them


@dataclass(frozen=True, eq=False)
class Setup(Context):
    """Everything that the terms and public knowledge fix. Each owner's part is resolved when first asked for."""

    schedule: Schedule

    @property
    def hash(self) -> str:
        return self.terms.hash

    @property
    def task(self) -> Task:
        """The task of these terms."""
        return task_of(self.terms)

    @cached_property
    def aggregation(self) -> Aggregation:
        """How answers become one, and where their noise is drawn."""
        return aggregation_of(self.terms, self)

    @cached_property
    def numbers(self) -> PublicNumbers:
        """The numbers that every party must resolve alike before anything is asked; no private record is in them."""
        first_owner = self.terms.owners[0].name
        numbers = preparation_numbers(self.preparation)
        for place, plan in enumerate(self.plans(first_owner)):
            sizes = {name: [size] for name, size in self.question(plan, first_owner).public_numbers.items()}
            noise = self.part(first_owner).stages[place].series.mechanism
            if isinstance(noise, SharedNoise):
                sizes["grid"] = [float(noise.recipe.exponent), noise.units]
            numbers |= {f"{'score ' if place else ''}{name}": np.array(size) for name, size in sizes.items()}
        return PublicNumbers(numbers, preparation_names(self.preparation))

    @cached_property
    def parts(self) -> Mapping[str, Part]:
        """Every owner's part, in the order of the terms."""
        return {part.name: self.part(part.name) for part in self.terms.owners}

    @cached_property
    def _parts(self) -> dict[str, Part]:
        return {}

    def part(self, name: str) -> Part:
        """Return what the terms fix for the owner of this name."""
        if name not in self._parts:
            epsilon, delta = self.terms.promised_epsilon(name), Fraction(str(self.terms.privacy.delta))
            self._parts[name] = Part(name, epsilon, delta, self._resolved(name))
        return self._parts[name]

    def _resolved(self, name: str) -> tuple[Stage, ...]:
        """Return an owner's stages, resolved once for owners that differ only in names, files and what they value.
        Names count too where batches are drawn."""
        owner = self.terms.owner(name)
        agreed = tuple(getattr(owner, key) for key in type(owner).model_fields if key not in KEYS_WITHOUT_EFFECT)
        resolution_key = agreed, self.schedule.rounds_of(name), name if self.terms.learning.batches is not None else ""
        if resolution_key not in self._alike:
            self._alike[resolution_key] = tuple(self.aggregation.stages(self, name))
        return self._alike[resolution_key]

    @cached_property
    def _alike(self) -> dict[object, tuple[Stage, ...]]:
        return {}

    def under(self, terms: Terms) -> "Setup":
        """Return the same columns and public knowledge under other terms."""
        require_ready(terms)
        preparation = self.preparation.under(terms)
        objective = task_of(terms).objective(terms.model).bounded_by(preparation).around(preparation)
        return Setup(terms, preparation, self.public, objective, make_schedule(terms))

    def variance_at(self, name: str, epsilon: float) -> float:
        """Return the variance of an owner's training noise if training cost this epsilon and others stayed the same."""
        question = self.part(name).training.question
        if question.own_noise is not None:  # it depends on epsilon itself
            terms = self.terms.changed(privacy={"score_epsilon": None}, owners={name: {"epsilon": epsilon}})
            return self.under(terms).part(name).training.series.mechanism.variance
        plan = replace(next(self.plans(name)), epsilon=Fraction(str(epsilon)))
        return own_series(self.terms, plan, question).mechanism.variance

    def law(self, stage: int = 0, epsilon: Fraction | None = None) -> SharedLaw:
        """Return the law of a stage's one noise, if hosts drew it (`aggregation.SharedLaws`)."""
        return self._shared_laws.law(stage, epsilon)

    def most_uses(self, plan: StagePlan) -> int:
        """Return in how many of an owner's answers one record can be, at most over all owners."""
        return self._shared_laws.most_uses(plan)

    @cached_property
    def _shared_laws(self) -> SharedLaws:
        names = self.schedule.names
        plans = list(self.plans(names[0]))
        return SharedLaws(
            self.terms, self.schedule, plans, [[self.question(plan, name) for name in names] for plan in plans]
        )

    def question(self, plan: StagePlan, name: str) -> Question:
        """Return the rules of a stage's questions for one owner."""
        question, privacy = self.task.questions[plan.kind].resolve(self, name), self.terms.privacy
        return (
            with_answer_clip(question, privacy.clip)
            if privacy.unit == OWNER_UNIT and privacy.clip is not None
            else question
        )

    def plans(self, name: str) -> Iterator[StagePlan]:
        """Yield an owner's stages with their noise and cost."""
        terms, privacy = self.terms, self.terms.privacy
        rounds, delta = self.schedule.rounds_of(name), Fraction(str(privacy.delta))
        budget = terms.training_epsilon(name), delta
        yield StagePlan(terms.learning.rules.asks, rounds, privacy.mechanism, *budget, privacy.alpha)
        if privacy.score_epsilon is not None:
            yield StagePlan("score", (terms.rounds,), "laplace", terms.score_epsilon, Fraction(0))


def resolve(terms: Terms, example: pd.DataFrame | None = None, redraw: int | None = None) -> Setup:
    """Return the setup of these terms. `example` gives only column names and kinds, where nothing public lists them;
    `redraw` is for forecasts (`data.fitting`)."""
    require_ready(terms)
    task = task_of(terms)
    preparation, public = task.preparation(terms, example, redraw)
    objective = task.objective(terms.model).bounded_by(preparation).around(preparation)
    return Setup(terms, preparation, public, objective, make_schedule(terms))


def pin(terms: Terms, path: Path) -> Terms:
    """Write the public numbers found here to a file and return terms that name it by its SHA-256
    (`data.public_numbers`)."""
    text = pinned_text(resolve(terms.changed(model={"preparation": None, "preparation_sha256": None})).preparation)
    write_file(path, text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return terms.changed(model={"preparation": str(path.resolve()), "preparation_sha256": digest})


def require_ready(terms: Terms) -> None:
    """Refuse terms that release nothing, or that ask and pay for something first: their epsilon is not all for
    learning."""
    if (why := task_of(terms).unreleased(terms)) is not None:
        raise TermsError(why)
    if terms.privacy.scale_epsilon is not None:
        raise TermsError(
            "privacy.scale_epsilon: these terms require noisy scales before training. Run parley column-stats TERMS "
            "--write READY, then train with the terms file READY"
        )
    if terms.privacy.difference_epsilon is not None:
        raise TermsError(
            "privacy.difference_epsilon: these terms require a measurement of heterogeneity before training. Run "
            "parley heterogeneity TERMS --write READY, then train with the terms file READY"
        )
