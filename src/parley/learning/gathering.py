"""The owners of a run on this machine: who takes part, by which agreement, and how they are asked."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from parley.errors import SettingError, TermsError
from parley.learning.algorithms.asynchronous import clocked
from parley.learning.owners import require_own_tables
from parley.network.exchange import Exchange, InProcess
from parley.network.exchange.in_process import SimulatedSum
from parley.network.hosting.sums import HostedSum
from parley.owner.ledger import Ledger
from parley.owner.owner import Agreement, Owner
from parley.protocol.setup import Setup
from parley.terms import Terms
from parley.validate import whole


@contextmanager
def exchange_with(
    setup: Setup, parties: list[Owner], seed: int | None, speeds: Mapping[str, float] | None = None
) -> Iterator[Exchange]:
    """How the owners are asked: each for its own noisy answer (on a virtual clock where nobody is waited for), or all
    for a sum to which one noise is added.

    Where they release, hosts in this process draw it; their journals lie beside the first owner's ledger.
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
        yield SimulatedSum(parties, np.random.SeedSequence(seed).spawn(len(parties) + 1)[-1])


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
    """Who answers (simulating copies in a study), by which agreement, for how many parallel runs."""
    replicates = whole(replicates, "replicates")
    require_own_tables(terms, {owner.name: owner.table for owner in owners})
    if seed is not None:
        whole(seed, "seed", least=0)
    if not any(owner.releases for owner in owners):
        seeds = np.random.SeedSequence(seed).spawn(len(owners))
        parties = [owner.simulate(s, replicates) for owner, s in zip(owners, seeds, strict=True)]
        setup = parties[0].resolve(terms)
        return parties, [party.accept(setup) for party in parties], (replicates,)
    if seed is not None:
        raise SettingError("seed: a release has fresh noise; seeds are for studies")
    if replicates > 1:
        raise SettingError("replicates: owners with durable ledgers release once; replicates are for studies")
    if not all(owner.releases for owner in owners):
        raise SettingError("owners: expected all of them with durable ledgers, or none")
    return owners, [owner.agreement(terms.hash) for owner in owners], ()
