"""Terms and public knowledge, resolved once: what everybody computes alike before the first question is asked.

The way of one number begins here: terms -> setup -> an owner's stage (bound, mechanism, cost of k answers) -> its
answer.
"""

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
from parley.protocol.aggregation import Aggregation, aggregation_of
from parley.protocol.aggregation.mean import own_series
from parley.protocol.aggregation.one_noise import SharedLaws
from parley.protocol.queries import Context, Question
from parley.protocol.queries.question import of_owner
from parley.protocol.stages import Part, Schedule, Stage, StagePlan, make_schedule
from parley.protocol.task import Task, task_of
from parley.terms import Terms
from parley.terms.sections import OWNER

OWN = {"name", "data", "value", "privacy_cost"}  # of an owner's part of the terms: no question depends on them


@dataclass(frozen=True, eq=False)
class Setup(Context):
    """Everything that the terms and public knowledge fix. Each owner's part is resolved when it is first asked for."""

    schedule: Schedule

    @property
    def hash(self) -> str:
        return self.terms.hash

    @property
    def task(self) -> Task:
        """What owners do together by these terms."""
        return task_of(self.terms)

    @cached_property
    def aggregation(self) -> Aggregation:
        """How answers become one, and where their noise is drawn."""
        return aggregation_of(self.terms, self)

    @cached_property
    def numbers(self) -> PublicNumbers:
        """What every party has to resolve alike before anything is asked; no private record is in it."""
        first = self.terms.owners[0].name
        found = preparation_numbers(self.preparation)
        for place, plan in enumerate(self.plans(first)):
            sizes = {name: [size] for name, size in self.question(plan, first).public_numbers.items()}
            if self.terms.noise.summed:
                sizes["grid"] = [float(self.law(place).recipe.exponent), self.law(place).units]
            found |= {f"{'score ' if place else ''}{name}": np.array(size) for name, size in sizes.items()}
        return PublicNumbers(found, preparation_names(self.preparation))

    @cached_property
    def parts(self) -> Mapping[str, Part]:
        """Every owner's part, in the order of the terms."""
        return {part.name: self.part(part.name) for part in self.terms.owners}

    @cached_property
    def _parts(self) -> dict[str, Part]:
        return {}

    def part(self, name: str) -> Part:
        """What the terms fix for the owner of this name."""
        if name not in self._parts:
            epsilon, delta = self.terms.promised_epsilon(name), Fraction(str(self.terms.privacy.delta))
            self._parts[name] = Part(name, epsilon, delta, self._resolved(name))
        return self._parts[name]

    def _resolved(self, name: str) -> tuple[Stage, ...]:
        """An owner's stages. Those alike have the same, resolved once: only draws of batches know an owner's name.

        Alike are owners of whom the terms say the same, whatever it is, but for names, files and what they think things
        are worth.
        """
        owner = self.terms.owner(name)
        agreed = tuple(getattr(owner, key) for key in type(owner).model_fields if key not in OWN)
        like = agreed, self.schedule.rounds_of(name), name if self.terms.learning.batches is not None else ""
        if like not in self._alike:
            self._alike[like] = tuple(self.aggregation.stages(self, name))
        return self._alike[like]

    @cached_property
    def _alike(self) -> dict[object, tuple[Stage, ...]]:
        return {}

    def under(self, terms: Terms) -> "Setup":
        """The same columns and the same public knowledge under other terms."""
        require_ready(terms)
        objective = task_of(terms).objective(terms.model).bounded_by(self.preparation).around(self.preparation)
        return Setup(terms, self.preparation, self.public, objective, make_schedule(terms))

    def variance_at(self, name: str, epsilon: float) -> float:
        """Of an owner's own noise in training, if all of that could cost this epsilon and the others stayed as they
        are."""
        question = self.part(name).training.question
        if question.own_noise is not None:  # it depends on epsilon itself
            terms = self.terms.changed(privacy={"score_epsilon": None}, owners={name: {"epsilon": epsilon}})
            return self.under(terms).part(name).training.series.mechanism.variance
        plan = replace(next(self.plans(name)), epsilon=Fraction(str(epsilon)))
        return own_series(self.terms, plan, question).mechanism.variance

    def law(self, stage: int = 0, epsilon: Fraction | None = None) -> SharedLaw:
        """The law of the one noise of a stage, if hosts drew one (`aggregation.SharedLaws`)."""
        return self._shared_laws.law(stage, epsilon)

    def most_uses(self, plan: StagePlan) -> int:
        """How many of its answers one record can be in, of the owner where that is most."""
        return self._shared_laws.most_uses(plan)

    @cached_property
    def _shared_laws(self) -> SharedLaws:
        """What noise hosts would draw for all owners together."""
        names = self.schedule.names
        plans = list(self.plans(names[0]))
        return SharedLaws(
            self.terms, self.schedule, plans, [[self.question(plan, name) for name in names] for plan in plans]
        )

    def question(self, plan: StagePlan, name: str) -> Question:
        """The rules of a stage's questions for one owner."""
        found, privacy = self.task.questions[plan.kind].resolve(self, name), self.terms.privacy
        return of_owner(found, privacy.clip) if privacy.unit == OWNER and privacy.clip is not None else found

    def plans(self, name: str) -> Iterator[StagePlan]:
        """What an owner is asked, with which noise, at which cost."""
        terms, privacy = self.terms, self.terms.privacy
        rounds, delta = self.schedule.rounds_of(name), Fraction(str(privacy.delta))
        budget = terms.training_epsilon(name), delta
        yield StagePlan(terms.learning.rules.asks, rounds, privacy.mechanism, *budget, privacy.alpha)
        if privacy.score_epsilon is not None:
            yield StagePlan("score", (terms.rounds,), "laplace", terms.score_epsilon, Fraction(0))


def resolve(terms: Terms, example: pd.DataFrame | None = None, redraw: int | None = None) -> Setup:
    """The setup of these terms. `example` is consulted for its column names and kinds alone, and only where nothing
    public lists them; `redraw` is for forecasts (`data.fitting`)."""
    require_ready(terms)
    task = task_of(terms)
    preparation, public = task.preparation(terms, example, redraw)
    objective = task.objective(terms.model).bounded_by(preparation).around(preparation)
    return Setup(terms, preparation, public, objective, make_schedule(terms))


def pin(terms: Terms, path: Path) -> Terms:
    """The terms with the public numbers that are found here written to a file, by whose SHA-256 all parties use them
    (`data.public_numbers`)."""
    text = pinned_text(resolve(terms.changed(model={"preparation": None, "preparation_sha256": None})).preparation)
    write_file(path, text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return terms.changed(model={"preparation": str(path.resolve()), "preparation_sha256": digest})


def require_ready(terms: Terms) -> None:
    """Refuse terms by which nothing can be released, and those of which a part is to be asked, and paid, before
    anything is learned: their epsilon is not what learning may cost."""
    if (why := task_of(terms).unreleased(terms)) is not None:
        raise TermsError(why)
    if terms.privacy.scale_epsilon is not None:
        raise TermsError(
            "privacy.scale_epsilon: these terms ask for scales before training; parley column-stats TERMS --write "
            "READY writes the terms to train under"
        )
    if terms.privacy.difference_epsilon is not None:
        raise TermsError(
            "privacy.difference_epsilon: these terms ask how much owners differ before training; parley heterogeneity "
            "TERMS --write READY writes the terms to train under"
        )
