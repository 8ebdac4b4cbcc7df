"""Owners on this machine learn to predict a column: terms -> setup (bound, mechanism, cost of k answers) -> run ->
Algorithm.questions -> Owner.answer (bounded, debited, noisy) -> aggregation -> Algorithm.update -> Result. A study's
arrays have one more axis than a release's."""

import time
from collections.abc import Sequence

import numpy as np

from parley.data.blocks import one_blas
from parley.errors import SettingError
from parley.learning.algorithms.algorithm import Asker, State
from parley.learning.algorithms.asynchronous import check_speeds
from parley.learning.algorithms.asynchronous import run_by_terms as run
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.outcome.metrics import Study
from parley.learning.outcome.notices import Watch
from parley.learning.outcome.result import OwnerOutcome, Result, ask_scores, make_result
from parley.learning.owners import exchange_with, gather, in_order
from parley.learning.start import starting_point
from parley.owner.owner import Agreement, Owner
from parley.protocol.lost_answers import LossyExchange
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup
from parley.protocol.task import RunSettings
from parley.protocol.tree_folds import require_as_good
from parley.terms import Terms
from parley.validate import Floats, upper


@one_blas
def learn_model(terms: Terms, owners: Sequence[Owner], settings: RunSettings) -> Result:
    """Train one joint model by these terms; return it with its cost and, in a study, its quality."""
    check_speeds(terms, settings.speeds)
    began = time.perf_counter()
    parties, agreements, replicates = gather(terms, in_order(terms, owners), settings.replicates, settings.seed)
    release, setup = parties[0].releases, agreements[0].setup
    require_as_good(setup)
    algorithm, aggregation = make_algorithm(setup), setup.aggregation
    study = Study(agreements) if settings.measure and not release else None

    aborted: list[int] = []
    watch = Watch(setup)

    def after_round(state: State, answers: Sequence[Answer]) -> None:
        watch.hear(answers)
        if not answers and setup.schedule.waits:
            aborted.append(state.round - 1)
        if study is not None and (settings.whole_path or state.round > algorithm.horizon):
            study.record(algorithm.model(state))
        settings.progress(state.round - 1, algorithm.horizon)

    begin = algorithm.start(_origin(setup, settings.start, replicates), replicates)
    with exchange_with(setup, parties, settings.seed, settings.speeds) as exchange:
        final = run(algorithm, exchange, aggregation, Asker.from_setup(setup), begin, after_round)
        # somebody never answered
        if study is not None and not settings.whole_path and final.round <= algorithm.horizon:
            study.record(algorithm.model(final))
        scores = ask_scores(setup, aggregation, exchange, algorithm.model(final))
    theta, late = algorithm.model(final).reshape(-1, setup.parameters), algorithm.late(final)
    if isinstance(exchange, LossyExchange):
        late = exchange.lost
    return make_result(
        setup,
        theta,
        owners=[
            _outcome(p, a, None if study is None else theta[0], late.get(p.name, 0))
            for p, a in zip(parties, agreements, strict=True)
        ],
        own=next((a for a in agreements if a.part.name == terms.learning.learner), None),
        moments=algorithm.released(final, setup),
        posterior=algorithm.posterior(final),
        quality=None if study is None else study.quality(theta),
        scores=scores,
        safe_noise=all(party.noise.safe for party in parties),
        released=release,
        consensus_error=algorithm.consensus_error(final),
        aborted_rounds=aborted,
        notices=watch.notices(),
        seconds=time.perf_counter() - began,
    )


def _origin(setup: Setup, start: Floats | None, replicates: tuple[int, ...]) -> Floats:
    """Return where the search begins; owners check that it lies in the box."""
    if start is None:
        return starting_point(setup)
    origin = np.asarray(start, dtype=np.float64)
    if origin.shape not in ((setup.parameters,), (*replicates, setup.parameters)):
        raise SettingError(
            f"start: expected {setup.parameters} numbers, or {setup.parameters} for each replicate, found an array of "
            f"shape {origin.shape}"
        )
    return origin


def _outcome(party: Owner, agreement: Agreement, theta: Floats | None, late: int) -> OwnerOutcome:
    """Return what the owner promised and spent and, in a study, the share of its records clipped at theta [P]."""
    terms, training = agreement.setup.terms.owner(party.name), agreement.part.training
    clipped = None
    if theta is not None:
        clipped = training.question.scaled_share(agreement.tables, theta)
    account = party.ledger.account(agreement.hash)
    answers = account.answers - (account.answered > training.rounds[-1])  # the model is not made of its score
    promised, step = upper(agreement.setup.terms.promised_epsilon(party.name)), upper(agreement.part.step_epsilon)
    return OwnerOutcome(party.name, terms.records, promised, upper(account.spent), clipped, answers - late, step, late)
