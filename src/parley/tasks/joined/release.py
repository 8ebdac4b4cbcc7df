"""A released model from joined tables: one question to all owners, answered by their hosts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from parley.errors import AbortedRound
from parley.learning.algorithms.algorithm import Algorithm, Asker, Progress, State
from parley.learning.deployed import Asked, ask_here
from parley.learning.outcome.model import JointModel, make_model
from parley.owner.owner import Owner
from parley.privacy.events import Adjacency
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup
from parley.tasks.joined.fitting import Fitted, MeanMoments, fit_moments, mean_moments
from parley.tasks.joined.plan import JoinPlan
from parley.tasks.joined.question import JoinedQuery, opened_sums, plan_of
from parley.terms import Terms
from parley.validate import Floats, upper


@dataclass(frozen=True)
class JoinedMoments(Algorithm):
    """One round; the state keeps the opened moments. `size` numbers are opened, over `records` rows of all tables."""

    size: int
    records: int

    memory_name: ClassVar[str | None] = "moments"

    @classmethod
    def make(cls, setup: Setup) -> Self:
        records = sum(owner.records for owner in setup.terms.owners)
        return cls(setup.objective, setup.terms.learning.horizon, None, plan_of(setup).law.noise.size, records)

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        return State(1, np.zeros((*replicates, 1)), {"moments": np.zeros((*replicates, self.size))})

    def query(self, state: State, asker: Asker) -> JoinedQuery:
        return JoinedQuery.ask(asker.terms_hash, asker.learner, state.round)

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        return State(state.round + 1, state.theta, {"moments": combined})


@dataclass(frozen=True, eq=False)
class JoinedRelease:
    """The model that the opened moments imply, and what it cost."""

    plan: JoinPlan
    moments: MeanMoments
    fitted: Fitted
    spent: Mapping[str, float | None]  # by the owners' ledgers; None: one elsewhere that could not be asked
    seconds: float

    @classmethod
    def from_answers(cls, asked: Asked) -> "JoinedRelease":
        """Return the release of a finished round."""
        plan, algorithm = plan_of(asked.setup), JoinedMoments.make(asked.setup)
        unit, opened = plan.law.unit, asked.final.memory["moments"].reshape(-1)
        if asked.final.round <= algorithm.horizon or not np.any(opened):
            raise AbortedRound(
                "join: the hosts opened nothing, because the round was aborted. Its budget remains spent; agree on new "
                "terms"
            )
        moments = mean_moments(opened_sums(opened, algorithm.records, unit), unit, plan.law.deviation)
        return cls(plan, moments, fit_moments(plan, moments), asked.spent, asked.seconds)

    @property
    def terms(self) -> Terms:
        return self.plan.terms

    @property
    def model(self) -> JointModel:
        """The released model."""
        return make_model(self.plan.whole, self.fitted.theta, self.terms.hash, True, self.fitted.posterior)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley train --ledgers --json` and `parley learner run --json` print."""
        law, terms = self.plan.law, self.terms
        return {
            "title": terms.title,
            "owners": [
                {"name": owner.name, "records": owner.records, "epsilon_spent": self.spent.get(owner.name)}
                for owner in terms.owners
            ],
            "epsilon": upper(terms.common_epsilon),
            "delta": terms.privacy.delta,
            "matches_epsilon": self.plan.join.epsilon,
            "matches_delta": self.plan.join.delta,
            "adjacency": Adjacency.REPLACE_ONE,
            "deviation": law.deviation,
            "people": self.moments.people,
            "drowned": self.fitted.drowned,
            "released": True,
            "terms_hash": terms.hash,
            "seconds": self.seconds,
        }


def release_joined(terms: Terms, owners: Sequence[Owner], progress: Progress) -> JoinedRelease:
    """Return the release of owners with ledgers on this machine, their hosts beside them."""
    asked = ask_here(terms, owners, lambda setup: (JoinedMoments.make(setup), np.zeros(1)), progress=progress)
    return JoinedRelease.from_answers(asked)
