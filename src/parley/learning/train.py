"""Training by the terms: every owner answers T noisy queries, the learner follows the algorithm.

The walk of one number: terms -> Owner.accept (bound, mechanism, cost a round) -> run -> Algorithm.point -> Owner.answer (gradient,
clip, noise, debit) -> weighted_mean -> Algorithm.update -> Result. A study of R replicates and a release take the same walk; the
study's arrays have one more axis.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from parley.accounting import shared_record_epsilon
from parley.aggregation import mean_variance, weighted_mean
from parley.data import Design, Preparation
from parley.errors import DataError, SettingError, TermsError
from parley.exchange import InProcess
from parley.learning.algorithm import Algorithm, Descent, State, run
from parley.learning.averaged_subgradient import AveragedSubgradient
from parley.learning.federated_averaging import FederatedAveraging
from parley.learning.gradient_descent import GradientDescent
from parley.learning.model import JointModel, make_model
from parley.learning.own_step import own_step
from parley.learning.released_score import ask_scores
from parley.learning.result import OwnerOutcome, Result
from parley.learning.step import step_size
from parley.learning.study import Study
from parley.learning.sufficient_statistics import SufficientStatistics
from parley.mechanisms.bounded import REPLACE_ONE
from parley.objectives import MarginObjective, optimum
from parley.objectives.moments import moment_norms
from parley.owner import Agreement, Owner, owner_plan
from parley.terms import Terms
from parley.validate import Floats, whole

Progress = Callable[[int, int], None]  # rounds done, rounds in all

DESCENTS: dict[str, type[Descent]] = {
    "averaged-subgradient": AveragedSubgradient,
    "gradient-descent": GradientDescent,
    "federated-averaging": FederatedAveraging,
}


def train(
    terms: Terms,
    owners: Sequence[Owner],
    replicates: int = 1,
    seed: int | None = None,
    progress: Progress = lambda done, total: None,
    measure: bool = True,
    whole_path: bool = True,
) -> Result:
    """Train one joint model by these terms.

    Owners with durable ledgers release: the terms must have been accepted by each (`Owner.accept`), there is one replicate, and
    nothing computed from their tables but the noisy answers is looked at. Owners without take part in a study of `replicates`
    parallel runs; `measure` adds relative fitness and task metrics, computed from the private tables, after every round or
    (`whole_path` false: faster) after the last alone.

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
    began = time.perf_counter()
    owners = _in_order(terms, owners)
    release = any(owner.releases for owner in owners)
    parties, agreements, worlds = _gather(terms, owners, replicates, seed, release)
    first = agreements[0]
    algorithm = make_algorithm(terms, first.objective, first.preparation, first.public)
    study = Study(agreements) if measure and not release else None

    def after_round(state: State) -> None:
        if study is not None and (whole_path or state.round > algorithm.horizon):
            study.record(algorithm.model(state))
        progress(state.round - 1, terms.learning.horizon)

    start = algorithm.start(first.train.width, worlds)
    exchange = InProcess(parties)
    final = run(algorithm, exchange, weighted_mean, first.hash, terms.learning.learner, start, after_round)
    scores = ask_scores(terms, first.hash, first.preparation, exchange, algorithm.model(final))
    theta = algorithm.model(final).reshape(-1, first.train.width)
    own = next((a for a, part in zip(agreements, terms.owners, strict=True) if part.name == terms.learning.learner), None)
    return Result(
        terms=terms,
        model=make_model(first.preparation, theta[0], first.hash, release),
        own_model=None if own is None else own_model(own, theta[0]),
        theta=theta,
        moments=released_moments(terms, algorithm, final),
        quality=None if study is None else study.quality(theta),
        scores=scores,
        owners=tuple(_outcome(p, a, None if study is None else theta[0]) for p, a in zip(parties, agreements, strict=True)),
        adjacency=REPLACE_ONE,
        shared_record_epsilon=shared_record_epsilon([o.epsilon for o in terms.owners], terms.privacy.shared_records),
        safe_noise=all(party.noise.safe for party in parties),
        released=release,
        seconds=time.perf_counter() - began,
    )


def alone(terms: Terms, owner: Owner) -> Floats:
    """What the owner gets without the others: the optimum on its own training rows, without noise, for its own use."""
    agreement = owner.prepare(terms)
    return optimum(agreement.objective, [agreement.train], terms.model.radius)


def make_algorithm(terms: Terms, objective: MarginObjective, preparation: Preparation, public: Design | None) -> Algorithm:
    """The algorithm that the terms name, its settings fixed from public knowledge."""
    learning, radius = terms.learning, terms.model.radius
    if not learning.asks_statistics:
        step = step_size(terms, objective, preparation, public)
        own = {} if learning.local_steps is None else {"local_steps": learning.local_steps}
        return DESCENTS[learning.algorithm](objective, learning.horizon, radius, step, **own)
    rows = np.array([float(terms.train_rows(part.name)) for part in terms.owners])
    mechanisms = [owner_plan(terms, part.name, preparation, objective)[1].mechanism for part in terms.owners]
    variance = mean_variance(rows, np.array([mechanism.variance for mechanism in mechanisms]))
    return SufficientStatistics(objective, learning.horizon, radius, mechanisms[0].norm, variance**0.5)


def _in_order(terms: Terms, owners: Sequence[Owner]) -> list[Owner]:
    """The owners in the order of the terms; exactly those that the terms name."""
    by_name = {owner.name: owner for owner in owners}
    if len(by_name) < len(owners):
        raise SettingError("owners: expected different names")
    expected = [part.name for part in terms.owners]
    if set(by_name) != set(expected):
        raise TermsError(f"owners: the terms name {expected}, the call brings {sorted(by_name)}")
    return [by_name[name] for name in expected]


def _gather(
    terms: Terms, owners: list[Owner], replicates: int, seed: int | None, release: bool
) -> tuple[list[Owner], list[Agreement], tuple[int, ...]]:
    """Who answers (rehearsing copies in a study), by which agreement, for how many parallel runs."""
    replicates = whole(replicates, "replicates")
    if seed is not None:
        whole(seed, "seed", least=0)
    if release:
        if seed is not None:
            raise SettingError("seed: a release has fresh noise; seeds are for studies")
        if replicates > 1:
            raise SettingError("replicates: owners with durable ledgers release once; replicates are for studies")
        if not all(owner.releases for owner in owners):
            raise SettingError("owners: expected all of them with durable ledgers, or none")
        return owners, _same_columns(owners, [owner.agreement(terms.hash) for owner in owners]), ()
    seeds = np.random.SeedSequence(seed).spawn(len(owners))
    parties = [owner.rehearse(s, replicates) for owner, s in zip(owners, seeds, strict=True)]
    return parties, _same_columns(owners, [party.accept(terms) for party in parties]), (replicates,)


def _same_columns(owners: list[Owner], agreements: list[Agreement]) -> list[Agreement]:
    for owner, agreement in zip(owners, agreements, strict=True):
        if agreement.preparation.features != agreements[0].preparation.features:
            raise DataError(f"{owner.name}: its columns differ from {owners[0].name}'s; list model.features in the terms")
    return agreements


def own_model(own: Agreement, theta: Floats) -> JointModel | None:
    """The learning owner's refinement of the joint model; None if its own data have no optimum to move towards."""
    try:
        refined = own_step(own.objective, own.train, own.held_out, theta, own.terms.model.radius)
    except SettingError:
        return None
    return make_model(own.preparation, refined, own.hash, released=False)


def released_moments(terms: Terms, algorithm: Algorithm, final: State) -> dict[str, Any] | None:
    """The released second moments, where the algorithm asked for them."""
    if not isinstance(algorithm, SufficientStatistics):
        return None
    return algorithm.released(final, sum(terms.train_rows(part.name) for part in terms.owners))


def _outcome(party: Owner, agreement: Agreement, theta: Floats | None) -> OwnerOutcome:
    part = agreement.terms.owner(party.name)
    clipped = None
    if theta is not None:
        if agreement.terms.learning.asks_statistics:
            norms = moment_norms(agreement.train, agreement.bound.norm)
        else:
            norms = agreement.objective.record_norms(agreement.train, theta, agreement.bound.norm)
        clipped = float(np.mean(norms > agreement.bound.value))
    account = party.ledger.account(agreement.hash)
    answers = account.answers - (account.answered > agreement.terms.learning.horizon)  # the model is not made of its score
    return OwnerOutcome(party.name, part.records, part.epsilon, float(account.spent), clipped, answers)
