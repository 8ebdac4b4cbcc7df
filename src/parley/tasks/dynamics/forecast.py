"""How well owners will know their plant, before anybody answers: from a public pilot's trajectories and the terms."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parley.data import Design
from parley.data.sources import Table, read_table
from parley.errors import DataError, SettingError
from parley.protocol.aggregation import aggregation_of
from parley.protocol.queries.question import limited
from parley.protocol.setup import resolve
from parley.tasks.dynamics.delay import Identified
from parley.tasks.dynamics.question import TrajectoryPreparation
from parley.tasks.dynamics.run import PlantRelease
from parley.terms import Terms

WELL_BELOW = 0.8  # of what the terms allow: from there on a clip is worth proposing


@dataclass(frozen=True, eq=False)
class PlantForecast:
    """Standard errors of the delay, in units of time: together, together if there were no noise, and of each owner
    alone, without noise.

    None: not told at all.
    """

    terms: Terms
    pilot: Identified
    together: float | None
    without_noise: float
    alone: dict[str, float]
    clip: float | None  # that cuts none of the pilot's trajectories, where it is well below what the terms allow
    louder: float  # how many times less noise that would take

    @property
    def gainers(self) -> list[str]:
        """The owners that know the delay better together than alone."""
        return [name for name, error in self.alone.items() if self.together is not None and self.together < error]

    def sentence(self) -> str:
        """One sentence that says what to do."""
        if self.together is None:
            said = (
                "The noise would drown the plant: more trajectories, larger budgets, tighter bounds, or one noise "
                "for all."
            )
        elif not self.gainers:
            said = "Every owner knows its plant better alone."
        else:
            few = (
                f"{len(self.gainers)} of {len(self.alone)} owners"
                if len(self.gainers) < len(self.alone)
                else "Every owner"
            )
            said = f"{few} would know the delay better together than alone."
        if self.clip is None:
            return said
        less = f"{self.louder:.1f} times less noise"
        return f"{said} privacy.clip = {self.clip:g} would cut none of the pilot's trajectories and take {less}."

    def to_json(self) -> dict[str, Any]:
        """The object that `parley forecast --json` prints for a plant."""
        return {
            "delay": float(self.pilot.plant.delays[0]),
            "delay_std": self.together,
            "delay_std_without_noise": self.without_noise,
            "owners": [{"name": name, "delay_std_alone": error} for name, error in self.alone.items()],
            "clip": self.clip,
            "sentence": self.sentence(),
            "terms_hash": self.terms.hash,
        }


def forecast_plant(terms: Terms, pilot: Table | None) -> PlantForecast:
    """Forecast by the pilot's moments in the place of the owners': the same formulas that later judge the release.

    Formal guarantee: no private record is looked at.
    """
    if pilot is None:
        raise SettingError(
            "--pilot: expected a public table of trajectories, measured or simulated, with the terms' columns"
        )
    setup = resolve(terms)
    if not isinstance(setup.preparation, TrajectoryPreparation):
        raise SettingError("forecast: expected terms of a plant")
    records = setup.preparation.records(read_table(pilot), "pilot")
    noise = aggregation_of(terms).noise(setup)
    i, j = np.triu_indices(round((np.sqrt(8 * setup.preparation.width + 1) - 1) / 2))
    moments = np.empty((i[-1] + 1, i[-1] + 1))
    moments[i, j] = moments[j, i] = records.mean(axis=0)
    all_of_them = PlantRelease(
        terms.model,
        moments,
        sum(o.records for o in terms.owners),
        noise.all_together**0.5,
        setup.norm,
        setup.preparation.scale,
    )
    sure = replace(all_of_them, deviation=0.0)
    alone = {o.name: float(replace(sure, trajectories=o.records).identify().delay_std[0]) for o in terms.owners}
    try:
        together: float | None = float(all_of_them.identify().delay_std[0])
    except DataError:
        together = None
    known = sure.identify()
    question = setup.part(terms.owners[0].name).training.question
    design = Design(records, np.zeros(len(records)), np.ones(len(records)))
    allowed, needed = limited(question.bound).value, 1.1 * float(question.record_sizes(design, np.zeros(1)).max())
    clip = float(f"{needed:.2g}") if needed < WELL_BELOW * allowed else None
    return PlantForecast(terms, known, together, float(known.delay_std[0]), alone, clip, allowed / needed)
