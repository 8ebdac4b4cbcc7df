"""Identified plants and their forecasts in tables and sentences."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parley.data import Design
from parley.data.sources import Table, read_table
from parley.errors import DataError, SettingError
from parley.numerals import number
from parley.privacy.events import Adjacency
from parley.protocol.aggregation import aggregation_of
from parley.protocol.queries.question import limited
from parley.protocol.setup import resolve
from parley.tasks.dynamics.delay import Identified
from parley.tasks.dynamics.question import TrajectoryPreparation
from parley.tasks.dynamics.run import PlantRelease, PlantResult
from parley.tasks.dynamics.terms import PlantModel
from parley.terms import Terms
from parley.validate import Floats

CLIP_PROPOSAL_SHARE = 0.8  # of what the terms allow: from there on a clip is worth proposing


@dataclass(frozen=True, eq=False)
class PlantForecast:
    """Standard errors of the delay: together, together without noise, each owner alone. None: no estimate."""

    terms: Terms
    pilot: Identified
    together: float | None
    without_noise: float
    alone: dict[str, float]
    clip: float | None  # that cuts none of the pilot's trajectories, where it is well below what the terms allow
    louder: float  # how many times less noise that would take

    @property
    def gainers(self) -> list[str]:
        """The owners whose estimate of the delay is better together than alone."""
        return [name for name, error in self.alone.items() if self.together is not None and self.together < error]

    def sentence(self) -> str:
        """Say in one sentence what to do."""
        if self.together is None:
            sentence = (
                "The noise would hide the plant: use more trajectories, larger budgets, tighter bounds, or shared "
                "noise."
            )
        elif not self.gainers:
            sentence = "No owner would estimate the delay better together than alone."
        else:
            few = (
                f"{len(self.gainers)} of {len(self.alone)} owners"
                if len(self.gainers) < len(self.alone)
                else "Every owner"
            )
            sentence = f"{few} would estimate the delay better together than alone."
        if self.clip is None:
            return sentence
        less = f"by a factor of {self.louder:.1f}"
        return (
            f"{sentence} privacy.clip = {self.clip:g} would clip none of the pilot's trajectories and reduce the noise "
            f"{less}."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley forecast --json` prints for a plant."""
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
    """Forecast from the pilot's moments, by the formulas that later judge the release.

    Formal guarantee: no private record is read.
    """
    if pilot is None:
        raise SettingError(
            "--pilot: expected a public table of trajectories, measured or simulated, with the terms' columns"
        )
    setup = resolve(terms)
    if not isinstance(setup.preparation, TrajectoryPreparation):
        raise SettingError("forecast: expected terms for a plant, kind = 'delayed-dynamics'")
    records = setup.preparation.records(read_table(pilot), "pilot")
    noise = aggregation_of(terms).noise(setup)
    i, j = np.triu_indices(round((np.sqrt(8 * setup.preparation.width + 1) - 1) / 2))
    moments = np.empty((i[-1] + 1, i[-1] + 1))
    moments[i, j] = moments[j, i] = records.mean(axis=0)
    all_of_them = PlantRelease(
        setup.preparation.model,
        moments,
        sum(o.records for o in terms.owners),
        noise.all_together**0.5,
        setup.norm,
        setup.preparation.scale,
    )
    without_noise = replace(all_of_them, deviation=0.0)
    alone = {
        o.name: float(replace(without_noise, trajectories=o.records).identify().delay_std[0]) for o in terms.owners
    }
    try:
        together: float | None = float(all_of_them.identify().delay_std[0])
    except DataError:
        together = None
    known = without_noise.identify()
    question = setup.part(terms.owners[0].name).training.question
    design = Design(records, np.zeros(len(records)), np.ones(len(records)))
    allowed, needed = limited(question.bound).value, 1.1 * float(question.record_sizes(design, np.zeros(1)).max())
    clip = float(f"{needed:.2g}") if needed < CLIP_PROPOSAL_SHARE * allowed else None
    return PlantForecast(terms, known, together, float(known.delay_std[0]), alone, clip, allowed / needed)


Z90 = 1.6448536269514722


def plant_rows(found: PlantForecast) -> list[list[str]]:
    """Return the forecast standard errors of the delay as a table."""
    plan = found.terms
    together = "not told" if found.together is None else number(found.together, 3)
    rows = [["who", "trajectories", "standard error"]]
    rows += [[f"{o.name} alone", f"{o.records:,}", number(found.alone[o.name], 3)] for o in plan.owners]
    total = f"{sum(o.records for o in plan.owners):,}"
    return [
        *rows,
        ["together, no noise", total, number(found.without_noise, 3)],
        ["together, under these terms", total, together],
    ]


def matrix_rows(name: str, head: list[str], side: list[str], matrix: Floats) -> list[list[str]]:
    """Return a matrix as a table with names for rows and columns."""
    return [[name, *head], *([row, *map(number, cells)] for row, cells in zip(side, matrix, strict=True))]


def delay_sentence(delay: float, error: float, period: float, largest: float, name: str = "") -> str:
    """State a delay with its interval."""
    low, high = max(delay - Z90 * error, 0.0), min(delay + Z90 * error, largest)
    whose = f"delay of {name}" if name else "delay"
    return (
        f"{whose} {number(delay, 6)} = {number(delay / period, 5)} periods; with 90% confidence between "
        f"{number(low, 6)} and {number(high, 6)} (standard error {number(error, 2)})"
    )


def plant_json(found: Identified, terms: Terms) -> dict[str, object]:
    """Return the identified plant as JSON."""
    plant, error = found.plant, float(found.delay_std[0])
    max_delay = PlantModel.expect(terms.model).max_delay
    A_d, blocks = plant.sampled(max_delay)
    n, m = plant.B.shape
    return {
        "A": plant.A.tolist(),
        "B": plant.B.tolist(),
        "Ad": A_d.tolist(),
        "input_blocks": blocks.reshape(n, -1, m).transpose(1, 0, 2).tolist(),
        "delay": float(plant.delays[0]),
        "delay_std": error,
        "delay_interval": {
            "level": 0.9,
            "low": max(float(plant.delays[0]) - Z90 * error, 0.0),
            "high": float(np.minimum(plant.delays[0] + Z90 * error, max_delay * plant.period)),
        },
        "period": plant.period,
    }


def owner_rows(result: PlantResult) -> list[list[str]]:
    """Return a table of each owner's trajectories and spending."""
    rows = [["owner", "trajectories", f"ε ({Adjacency.REPLACE_ONE})", "ε spent"]]
    for owner in result.terms.owners:
        promised, spent = float(result.terms.promised_epsilon(owner.name)), result.spent.get(owner.name)
        rows.append(
            [
                owner.name,
                f"{owner.records:,}",
                number(promised),
                "unknown" if spent is None else number(spent, side="above"),
            ]
        )
    return rows
