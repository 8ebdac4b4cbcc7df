"""Training by the terms: every owner answers T noisy queries, the learner follows the algorithm.

The walk of one number: terms -> setup (bound, mechanism, cost of k answers) -> run -> Algorithm.questions -> Owner.answer (bounded,
debited, noisy) -> aggregation -> Algorithm.update -> Result. A study of R replicates and a release take the same walk; the study's
arrays have one more axis.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from parley.errors import SettingError, TermsError
from parley.learning.algorithms.algorithm import Asker, State
from parley.learning.algorithms.algorithm import Progress as Progress
from parley.learning.algorithms.asynchronous import check_speeds, clocked
from parley.learning.algorithms.asynchronous import run_by_terms as run
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.outcome.result import OwnerOutcome, Result, make_result
from parley.learning.outcome.scores import ask_scores
from parley.learning.outcome.study import Study
from parley.learning.owners import require_own_tables
from parley.learning.start import starting_point
from parley.network.exchange import Exchange, InProcess
from parley.network.exchange.sums import StudiedSum
from parley.network.hosting.sums import HostedSum
from parley.owner.ledger import Ledger
from parley.owner.owner import Agreement, Owner
from parley.protocol.aggregation import aggregation_of
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup
from parley.protocol.task import task_of
from parley.terms import Terms
from parley.validate import Floats, upper, whole


def train(
    terms: Terms,
    owners: Sequence[Owner],
    replicates: int = 1,
    seed: int | None = None,
    progress: Progress = lambda done, total: None,
    measure: bool = True,
    whole_path: bool = True,
    start: Floats | None = None,
    speeds: Mapping[str, float] | None = None,
) -> Result | Any:
    """Train one joint model by these terms. Terms of another task than prediction give what its wing returns (`tasks`).

    Owners with durable ledgers release: the terms must have been accepted by each (`Owner.accept`), there is one replicate, and
    nothing computed from their tables but the noisy answers is looked at. Owners without take part in a study of `replicates`
    parallel runs; `measure` adds relative fitness and task metrics, computed from the private tables, after every round or
    (`whole_path` false: faster) after the last alone. `start` is where the search begins, something public: [P], or [replicates, P] in a
    study; left out, it begins where the objective says. `speeds` (asynchronous terms): how many answers an owner gives in a unit of a
    virtual clock's time, by name, 0: none ever; left out, owners are as fast as they have answers, and all give their last at once.

    >>> import parley
    >>> book = parley.data.synthetic_lending(4000, seed=1)
    >>> terms = parley.Terms.from_dict({
    ...     "model": {"kind": "linear-regression", "target": "int_rate", "features": ["fico", "dti"], "intercept": True,
    ...               "bounds": {"fico": [600, 850], "dti": [0, 45], "int_rate": [5, 31]}, "radius": 30.0},
    ...     "learning": {"horizon": 20, "step": 1e-6},
    ...     "privacy": {"clip": 2e4},
    ...     "owners": [{"name": "bank", "records": 4000, "epsilon": 1.0}],
    ... })
    >>> result = parley.train(terms, [parley.Owner("bank", book)], replicates=8, seed=0)
    >>> result.owners[0].epsilon_spent, result.path.shape
    (1.0, (20, 8))
    """
    own = task_of(terms).run(terms, owners, replicates=replicates, seed=seed, progress=progress, measure=measure)
    if own is not None:
        return own
    check_speeds(terms, speeds)
    began = time.perf_counter()
    parties, agreements, worlds = gather(terms, in_order(terms, owners), replicates, seed)
    release, setup = parties[0].releases, agreements[0].setup
    algorithm, aggregation = make_algorithm(setup), aggregation_of(terms)
    study = Study(agreements) if measure and not release else None

    void: list[int] = []

    def after_round(state: State, answers: Sequence[Answer]) -> None:
        if not answers and setup.schedule.waits:
            void.append(state.round - 1)
        if study is not None and (whole_path or state.round > algorithm.horizon):
            study.record(algorithm.model(state))
        progress(state.round - 1, algorithm.horizon)

    begin = algorithm.start(_origin(setup, start, worlds), worlds)
    with exchange_with(setup, parties, seed, speeds) as exchange:
        final = run(algorithm, exchange, aggregation, Asker.of(setup), begin, after_round)
        if study is not None and not whole_path and final.round <= algorithm.horizon:  # somebody never answered
            study.record(algorithm.model(final))
        scores = ask_scores(setup, aggregation, exchange, algorithm.model(final))
    theta, late = algorithm.model(final).reshape(-1, setup.parameters), algorithm.late(final)
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
        apart=algorithm.apart(final),
        void_rounds=void,
        seconds=time.perf_counter() - began,
    )


def _origin(setup: Setup, start: Floats | None, worlds: tuple[int, ...]) -> Floats:
    """Where the search begins; that it lies in the box, the owners check."""
    if start is None:
        return starting_point(setup)
    origin = np.asarray(start, dtype=np.float64)
    if origin.shape not in ((setup.parameters,), (*worlds, setup.parameters)):
        raise SettingError(f"start: expected {setup.parameters} numbers, or as many for each replicate; got shape {origin.shape}")
    return origin


@contextmanager
def exchange_with(
    setup: Setup, parties: list[Owner], seed: int | None, speeds: Mapping[str, float] | None = None
) -> Iterator[Exchange]:
    """How the owners are asked: each for its own noisy answer (on a virtual clock where nobody is waited for), or all for a sum to which
    one noise is added.

    Where they release, three hosts in this process draw it; their journals lie beside the first owner's ledger.
    """
    first = parties[0].ledger
    if not setup.schedule.waits:
        yield clocked(InProcess(parties), setup.schedule, speeds)
    elif not setup.terms.noise.summed:
        yield InProcess(parties)
    elif isinstance(first, Ledger):
        hosted = HostedSum(setup, parties, first.path.with_name(f"{first.path.name}.hosts"))
        try:
            yield hosted
        finally:
            hosted.close()
    else:
        yield StudiedSum(parties, np.random.SeedSequence(seed).spawn(len(parties) + 1)[-1])


def in_order(terms: Terms, owners: Sequence[Owner]) -> list[Owner]:
    """The owners in the order of the terms; exactly those that the terms name."""
    by_name = {owner.name: owner for owner in owners}
    if len(by_name) < len(owners):
        raise SettingError("owners: expected different names")
    expected = [part.name for part in terms.owners]
    if set(by_name) != set(expected):
        raise TermsError(f"owners: the terms name {expected}, the call brings {sorted(by_name)}")
    return [by_name[name] for name in expected]


def gather(
    terms: Terms, owners: list[Owner], replicates: int, seed: int | None
) -> tuple[list[Owner], list[Agreement], tuple[int, ...]]:
    """Who answers (rehearsing copies in a study), by which agreement, for how many parallel runs."""
    replicates = whole(replicates, "replicates")
    require_own_tables(terms, {owner.name: owner.source for owner in owners})
    if seed is not None:
        whole(seed, "seed", least=0)
    if not any(owner.releases for owner in owners):
        seeds = np.random.SeedSequence(seed).spawn(len(owners))
        parties = [owner.rehearse(s, replicates) for owner, s in zip(owners, seeds, strict=True)]
        setup = parties[0].resolve(terms)
        return parties, [party.accept(setup) for party in parties], (replicates,)
    if seed is not None:
        raise SettingError("seed: a release has fresh noise; seeds are for studies")
    if replicates > 1:
        raise SettingError("replicates: owners with durable ledgers release once; replicates are for studies")
    if not all(owner.releases for owner in owners):
        raise SettingError("owners: expected all of them with durable ledgers, or none")
    return owners, [owner.agreement(terms.hash) for owner in owners], ()


def _outcome(party: Owner, agreement: Agreement, theta: Floats | None, late: int) -> OwnerOutcome:
    """What the owner promised and spent, and in a study how many of its records the bound scales down at theta [P]."""
    terms, training = agreement.setup.terms.owner(party.name), agreement.part.training
    clipped = None
    if theta is not None:
        clipped = training.question.scaled_share(agreement.tables, theta)
    account = party.ledger.account(agreement.hash)
    answers = account.answers - (account.answered > training.rounds[-1])  # the model is not made of its score
    promised, step = upper(agreement.setup.terms.promised_epsilon(party.name)), upper(agreement.part.step_epsilon)
    return OwnerOutcome(party.name, terms.records, promised, upper(account.spent), clipped, answers - late, step, late)
