"""Training between organisations: the same algorithm and the same loop, with owners that are elsewhere.

The learner knows the terms and the public sample. It has no table, so there is no relative fitness. Each owner scores for itself; where
the terms set a part of epsilon aside for it, owners also release a score, debited like every answer.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from parley import objectives
from parley.account import Head
from parley.accounting import shared_record_epsilon
from parley.aggregation import weighted_mean
from parley.data import Preparation, fit_preparation
from parley.errors import SettingError
from parley.exchange import Exchange
from parley.learning.algorithm import Algorithm, State, run
from parley.learning.checkpoint import Checkpoint, load_checkpoint
from parley.learning.model import JointModel, make_model
from parley.learning.released_score import ask_scores
from parley.learning.result import OwnerOutcome, Result
from parley.learning.train import make_algorithm, own_model, released_moments
from parley.mechanisms.bounded import REPLACE_ONE
from parley.owner import Agreement, score_noise
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

    def finished(self, begin: Checkpoint) -> bool:
        """Whether nobody has to be asked any more: all rounds are done, and no score was agreed on."""
        return begin.state.round > self.terms.rounds


def plan_run(terms: Terms) -> Plan:
    """The algorithm and its start, for a learner without a table."""
    preparation, public = fit_preparation(terms)
    for part in terms.owners:
        score_noise(terms, part.name, preparation)  # what cannot be scored is refused now, not after the last round
    algorithm = make_algorithm(terms, objectives.make(terms.model), preparation, public)
    return Plan(terms, preparation, algorithm, algorithm.start(preparation.width))


def open_checkpoint(plan: Plan, path: Path, resume: bool) -> Checkpoint:
    """Where to begin: at the start, or where the checkpoint stands."""
    if path.exists() and not resume:
        raise SettingError(f"{path}: a run by these terms was begun; --resume goes on with it")
    if path.exists():
        return load_checkpoint(path, plan.terms, plan.start)
    return Checkpoint(plan.terms.hash, plan.start, {}, {})


def learn(
    plan: Plan,
    exchange: Exchange,
    begin: Checkpoint,
    save: Callable[[Checkpoint], None],
    spent: Callable[[str], float | None],
    own: Agreement | None = None,
    progress: Callable[[State], None] = lambda state: None,
    made: Callable[[JointModel], None] = lambda model: None,
    catch_up: Callable[[], object] = lambda: None,
    heads: Callable[[], Mapping[str, Head]] = dict,
) -> Result:
    """All rounds from `begin` on, then the score if one is agreed on. `save` is called after each round and must be durable when it
    returns: only then the next is asked. A run that was interrupted before its score asks the same question again.

    `spent` says what an owner has spent by its own word, None if it was not asked: then its last word in `begin` counts. `own` is the
    learner's own agreement if it owns a table too. `made` gets the model before its score is asked: whatever becomes of the score,
    the model is not lost. `catch_up` is called when nothing more will be asked: owners that were late have spent, too. `heads` says
    where the ledgers of owners elsewhere ended when they were last heard.
    """
    began = time.perf_counter()
    terms, used = plan.terms, Counter(begin.answers)

    def combine(answers: Sequence[Answer]) -> Floats:
        used.update(answer.owner for answer in answers)
        return weighted_mean(answers)

    def last_word() -> dict[str, float]:
        heard = {o.name: spent(o.name) for o in terms.owners}
        return {**begin.spent, **{name: epsilon for name, epsilon in heard.items() if epsilon is not None}}

    def keep(state: State) -> None:
        save(Checkpoint(begin.terms, state, dict(used), last_word(), {**begin.heads, **heads()}))

    def after_round(state: State) -> None:
        keep(state)
        progress(state)

    final = run(plan.algorithm, exchange, combine, begin.terms, terms.learning.learner, begin.state, after_round)
    theta = plan.algorithm.model(final)
    model = make_model(plan.preparation, theta, begin.terms, released=True)
    made(model)
    scores = ask_scores(terms, begin.terms, plan.preparation, exchange, theta)
    catch_up()
    if not plan.finished(begin):  # somebody was asked since the last round: for a score, or why it was late
        keep(final)
    return Result(
        terms=terms,
        model=model,
        own_model=None if own is None else own_model(own, theta),
        theta=theta[None, :],
        moments=released_moments(terms, plan.algorithm, final),
        quality=None,
        scores=scores,
        owners=tuple(OwnerOutcome(o.name, o.records, o.epsilon, last_word().get(o.name), None, used[o.name]) for o in terms.owners),
        adjacency=REPLACE_ONE,
        shared_record_epsilon=shared_record_epsilon([o.epsilon for o in terms.owners], terms.privacy.shared_records),
        safe_noise=None,
        released=True,
        by_word=True,
        seconds=time.perf_counter() - began,
    )
