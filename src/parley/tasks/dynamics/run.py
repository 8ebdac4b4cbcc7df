"""Several owners identify one plant, on this machine or elsewhere: what came out, and what it cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.errors import DataError, GuaranteeError
from parley.learning.algorithms.algorithm import Progress
from parley.learning.asking import Asked, ask_here
from parley.owner.owner import Owner
from parley.privacy.adjacency import Adjacency
from parley.protocol.setup import Setup
from parley.tasks.dynamics.algorithm import Identification
from parley.tasks.dynamics.delay import Identified
from parley.tasks.dynamics.release import PlantRelease
from parley.terms import Terms
from parley.validate import Floats


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
                {"name": o.name, "trajectories": o.records, "epsilon_spent": self.spent.get(o.name)}
                for o in self.terms.owners
            ],
            "adjacency": Adjacency.REPLACE_ONE,
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
    return plant_result(
        ask_here(terms, owners, lambda setup: (_algorithm(setup), np.zeros(1)), replicates, seed, progress)
    )


def plant_result(asked: Asked) -> PlantResult:
    """What one round by terms of a plant came to."""
    releases = tuple(_algorithm(asked.setup).releases(asked.final, asked.setup))
    return PlantResult(asked.setup.terms, releases, asked.spent, asked.released, asked.seconds)


def _algorithm(setup: Setup) -> Identification:
    if setup.terms.task != "dynamics":
        raise GuaranteeError("identification: expected terms of a plant, kind = 'delayed-dynamics'")
    return Identification.make(setup)
