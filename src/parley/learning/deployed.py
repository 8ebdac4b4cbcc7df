"""Training between organisations: the same algorithm and the same loop, with owners that are elsewhere.

The learner knows the terms and the public sample. It has no table, so there is no relative fitness; each owner scores for itself.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from parley import objectives
from parley.accounting import shared_record_epsilon
from parley.aggregation import weighted_mean
from parley.data import Preparation, fit_preparation
from parley.errors import SettingError
from parley.exchange import Exchange
from parley.learning.algorithm import Algorithm, State, run
from parley.learning.checkpoint import Checkpoint, load_checkpoint
from parley.learning.model import make_model
from parley.learning.result import OwnerOutcome, Result
from parley.learning.train import make_algorithm, own_model, released_moments
from parley.mechanisms.bounded import REPLACE_ONE
from parley.owner import Agreement
from parley.queries import Answer
from parley.terms import Terms
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class Plan:
    """What a learner fixes before the first question, from the terms and public knowledge alone."""

    terms: Terms
    preparation: Preparation
    algorithm: Algorithm
    start: State

    @property
    def answer_size(self) -> int:
        """How many numbers an answer has."""
        return len(self.start.memory)


def plan_run(terms: Terms) -> Plan:
    """The algorithm and its start, for a learner without a table."""
    preparation, public = fit_preparation(terms)
    algorithm = make_algorithm(terms, objectives.make(terms.model), preparation, public)
    return Plan(terms, preparation, algorithm, algorithm.start(preparation.width))


def open_checkpoint(plan: Plan, path: Path, resume: bool) -> Checkpoint:
    """Where to begin: at the start, or where the checkpoint stands."""
    if path.exists() and not resume:
        raise SettingError(f"{path}: a run by these terms was begun; --resume goes on with it")
    if path.exists():
        return load_checkpoint(path, plan.terms.hash, plan.start)
    return Checkpoint(plan.terms.hash, plan.start, {}, {})


def learn(
    plan: Plan,
    exchange: Exchange,
    begin: Checkpoint,
    save: Callable[[Checkpoint], None],
    spent: Callable[[str], float | None],
    own: Agreement | None = None,
    progress: Callable[[State], None] = lambda state: None,
) -> Result:
    """All rounds from `begin` on. `save` is called after each round and must be durable when it returns: only then the next is asked.

    `spent` says what an owner has spent by its own word, None if it was not asked: then its last word in `begin` counts. `own` is the
    learner's own agreement if it owns a table too.
    """
    began = time.perf_counter()
    terms, used = plan.terms, Counter(begin.answers)

    def combine(answers: Sequence[Answer]) -> Floats:
        used.update(answer.owner for answer in answers)
        return weighted_mean(answers)

    def last_word() -> dict[str, float]:
        heard = {o.name: spent(o.name) for o in terms.owners}
        return {**begin.spent, **{name: epsilon for name, epsilon in heard.items() if epsilon is not None}}

    def after_round(state: State) -> None:
        save(Checkpoint(begin.terms, state, dict(used), last_word()))
        progress(state)

    final = run(plan.algorithm, exchange, combine, begin.terms, terms.learning.learner, begin.state, after_round)
    theta = plan.algorithm.model(final)
    return Result(
        terms=terms,
        model=make_model(plan.preparation, theta, begin.terms, released=True),
        own_model=None if own is None else own_model(own, theta),
        theta=theta[None, :],
        moments=released_moments(terms, plan.algorithm, final),
        quality=None,
        owners=tuple(OwnerOutcome(o.name, o.records, o.epsilon, last_word().get(o.name), None, used[o.name]) for o in terms.owners),
        adjacency=REPLACE_ONE,
        shared_record_epsilon=shared_record_epsilon([o.epsilon for o in terms.owners], terms.privacy.shared_records),
        safe_noise=True,
        released=True,
        seconds=time.perf_counter() - began,
    )
