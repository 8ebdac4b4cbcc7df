"""What training by terms gives on average: the part of a forecast that everything else follows from, and that a release
looks at before it spends."""

from collections.abc import Mapping
from dataclasses import dataclass

from parley.data.sources import Table
from parley.decisions.expectation.expectation import REPLICATES, Expectation, expect
from parley.decisions.expectation.invented_laws import LAWS, Law, invented_laws, middle_law
from parley.decisions.knowledge.pilot import open_pilot
from parley.decisions.knowledge.sources import Source
from parley.errors import DataError
from parley.learning.algorithms.algorithm import Progress
from parley.terms import Terms
from parley.validate import Floats

NO_OPTIMUM = (
    "most versions of the pilot have no finite optimum (separable classes?): set model.regularisation or model.radius"
)


@dataclass(frozen=True, eq=False)
class Prospect:
    """Relative fitness after each round [T], models as they may come out [R, P], and what they rest on."""

    expected: Expectation
    path: Floats
    models: Floats
    laws: tuple[Law, ...] = ()  # that were invented, where there is no public sample
    failed: int = 0  # of them, those that allow no forecast

    @property
    def fitness(self) -> float:
        """Expected relative fitness of the finished model."""
        return float(self.path[-1])


def prospect(
    terms: Terms,
    pilot: Table | Source | None = None,
    seed: int = 0,
    speeds: Mapping[str, float] | None = None,
    laws: int | None = None,
    progress: Progress = lambda done, total: None,
) -> Prospect:
    """What is expected of these terms from public knowledge: the same figure for the same seed, whoever asks. No
    private record is looked at. `laws`: about how many are invented, where there is no public sample."""
    expected = expect(open_pilot(terms, pilot, speeds))
    if not expected.pilot.source.invented:
        return Prospect(expected, *expected.outcome(seed, progress=progress))
    found, failed = invented_laws(expected, seed, LAWS if laws is None else laws, progress)
    if not found or failed > len(found):
        raise DataError(NO_OPTIMUM)
    middle = middle_law(found)
    return Prospect(middle, *middle.outcome(seed, REPLICATES), tuple(found), failed)
