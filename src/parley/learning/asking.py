"""Owners asked for something else than a model, on this machine or elsewhere: the rounds, what they came to, and what
they cost."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from parley.learning.algorithms.algorithm import Algorithm, Asker, Progress, State, run
from parley.learning.checkpoint import Checkpoint
from parley.learning.deployed import DeployedRun, KeptRun, Peers
from parley.learning.owners import exchange_with, gather, in_order
from parley.owner.owner import Owner
from parley.protocol.aggregation import aggregation_of
from parley.protocol.setup import Setup
from parley.terms import Terms
from parley.validate import Floats, upper


@dataclass(frozen=True, eq=False)
class Asked:
    """What came of asking owners: the last state, and what it cost."""

    setup: Setup
    final: State
    spent: Mapping[str, float | None]  # by the owners' ledgers; None: one elsewhere that could not be asked
    released: bool
    seconds: float
    unheard: tuple[str, ...] = ()  # owners elsewhere that were not heard of at the end


def ask_here(
    terms: Terms,
    owners: Sequence[Owner],
    begin: Callable[[Setup], tuple[Algorithm, Floats]],
    replicates: int = 1,
    seed: int | None = None,
    progress: Progress = lambda done, total: None,
) -> Asked:
    """Ask owners on this machine by the algorithm that `begin` makes, from the point that it gives.

    Owners with durable ledgers release: each must have accepted the terms. Owners without take part in a study.
    """
    began = time.perf_counter()
    parties, agreements, shape = gather(terms, in_order(terms, owners), replicates, seed)
    setup = agreements[0].setup
    algorithm, origin = begin(setup)
    with exchange_with(setup, parties, seed) as exchange:
        final = run(
            algorithm,
            exchange,
            aggregation_of(terms),
            Asker.of(setup),
            algorithm.start(origin, shape),
            lambda state, _: progress(state.round - 1, algorithm.horizon),
        )
    spent = {party.name: upper(party.ledger.account(setup.hash).spent) for party in parties}
    return Asked(setup, final, spent, parties[0].releases, time.perf_counter() - began)


def ask_elsewhere(
    deployed: DeployedRun, peers: Peers, begin: Checkpoint, progress: Callable[[State], None] = lambda state: None
) -> Asked:
    """The same of owners behind daemons, by the algorithm of the prepared run."""
    began, kept = time.perf_counter(), KeptRun(deployed, peers, begin)
    final = kept.rounds(progress)
    unheard, spent = kept.catch_up(final), kept.last_spent()
    said = {name: spent.get(name) for name in deployed.setup.schedule.names}
    return Asked(deployed.setup, final, said, True, time.perf_counter() - began, tuple(unheard))
