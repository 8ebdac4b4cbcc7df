"""Several owners identify one plant, on this machine or elsewhere: what came out, and what it cost."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.aggregation import aggregation_of
from parley.errors import DataError, GuaranteeError
from parley.learning.algorithm import Asker, State, run
from parley.learning.checkpoint import Checkpoint
from parley.learning.deployed import DeployedRun, KeptRun, Peers
from parley.learning.identification import Identification
from parley.learning.train import Progress, exchange_with, gather, in_order
from parley.outcome.dynamics import PlantRelease
from parley.owner import Owner
from parley.setup import Setup
from parley.sysid.delay import Identified
from parley.terms import Terms
from parley.validate import Floats, upper


@dataclass(frozen=True, eq=False)
class PlantResult:
    """What owners released about their plant, and what it cost them."""

    terms: Terms
    releases: tuple[PlantRelease, ...]  # one for each replicate of a study
    spent: Mapping[str, float | None]  # by the owners' ledgers; None: one elsewhere that could not be asked
    released: bool
    seconds: float

    def identified(self) -> Identified:
        """The plant of the first replicate, or a `DataError` where the noise drowned it."""
        return self.releases[0].identify()

    def errors(self, delay: float) -> Floats:
        """In a study: how far each replicate's delay is from the true one; NaN where none could be told."""
        found = []
        for release in self.releases:
            try:
                found.append(float(release.identify().plant.delays[0]) - delay)
            except DataError:
                found.append(float("nan"))
        return np.array(found)

    def to_json(self) -> dict[str, Any]:
        """What `parley identify TERMS --json` prints beside the plant."""
        return {
            "title": self.terms.title,
            "owners": [
                {"name": o.name, "trajectories": o.records, "epsilon_spent": self.spent.get(o.name)} for o in self.terms.owners
            ],
            "deviation": self.releases[0].deviation,
            "repaired": self.releases[0].repaired,
            "released": self.released,
            "terms_hash": self.terms.hash,
            "seconds": self.seconds,
        }


def identify_together(
    terms: Terms,
    owners: Sequence[Owner],
    replicates: int = 1,
    seed: int | None = None,
    progress: Progress = lambda done, total: None,
) -> PlantResult:
    """Identify one plant from the trajectories of owners on this machine.

    Owners with durable ledgers release; owners without take part in a study of `replicates` parallel runs.
    """
    began = time.perf_counter()
    parties, agreements, worlds = gather(terms, in_order(terms, owners), replicates, seed)
    setup = agreements[0].setup
    algorithm = _algorithm(setup)
    with exchange_with(setup, parties, seed) as exchange:
        final = run(
            algorithm,
            exchange,
            aggregation_of(terms),
            Asker.of(setup),
            algorithm.start(np.zeros(1), worlds),
            lambda state, _: progress(state.round - 1, algorithm.horizon),
        )
    spent = {party.name: upper(party.ledger.account(setup.hash).spent) for party in parties}
    return PlantResult(terms, tuple(algorithm.releases(final, setup)), spent, parties[0].releases, time.perf_counter() - began)


def identify_elsewhere(
    deployed: DeployedRun, peers: Peers, begin: Checkpoint, progress: Callable[[State], None] = lambda state: None
) -> tuple[PlantResult, list[str]]:
    """The same with owners behind daemons."""
    began, setup = time.perf_counter(), deployed.setup
    algorithm = _algorithm(setup)
    kept = KeptRun(deployed, peers, begin)
    final = kept.rounds(progress)
    unheard, spent = kept.catch_up(final), kept.last_word()
    said = {name: spent.get(name) for name in setup.schedule.names}
    releases = tuple(algorithm.releases(final, setup))
    return PlantResult(setup.terms, releases, said, True, time.perf_counter() - began), unheard


def _algorithm(setup: Setup) -> Identification:
    if not setup.terms.learning.facts.identifies:
        raise GuaranteeError("identification: expected terms of a plant, kind = 'delayed-dynamics'")
    return Identification.make(setup)
