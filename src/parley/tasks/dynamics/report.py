"""Identified plants in tables and sentences."""

import numpy as np

from parley.numerals import number
from parley.privacy.adjacency import Adjacency
from parley.tasks.dynamics.delay import Identified
from parley.tasks.dynamics.forecast import PlantForecast
from parley.tasks.dynamics.run import PlantResult
from parley.terms import Terms
from parley.validate import Floats

Z90 = 1.6448536269514722


def plant_rows(found: PlantForecast) -> list[list[str]]:
    """Standard errors of the delay, forecast."""
    plan = found.terms
    together = "not told" if found.together is None else number(found.together, 3)
    rows = [["who", "trajectories", "standard error"]]
    rows += [[f"{o.name} alone, no noise", f"{o.records:,}", number(found.alone[o.name], 3)] for o in plan.owners]
    total = f"{sum(o.records for o in plan.owners):,}"
    return [
        *rows,
        ["together, no noise", total, number(found.without_noise, 3)],
        ["together, by these terms", total, together],
    ]


def matrix_rows(name: str, head: list[str], side: list[str], matrix: Floats) -> list[list[str]]:
    """A matrix as a table, with names for rows and columns."""
    return [[name, *head], *([row, *map(number, cells)] for row, cells in zip(side, matrix, strict=True))]


def delay_sentence(delay: float, error: float, period: float, largest: float, name: str = "") -> str:
    """A sentence that gives a delay with its interval."""
    low, high = max(delay - Z90 * error, 0.0), min(delay + Z90 * error, largest)
    whose = f"delay of {name}" if name else "delay"
    return (
        f"[bold]{whose} {number(delay, 6)}[/bold] = {number(delay / period, 5)} periods; with 90 % confidence between "
        f"{number(low, 6)} and {number(high, 6)} (standard error {number(error, 2)})"
    )


def plant_json(found: Identified, terms: Terms) -> dict[str, object]:
    """The identified plant as numbers."""
    plant, error = found.plant, float(found.delay_std[0])
    A_d, blocks = plant.sampled(terms.model.max_delay)
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
            "high": float(np.minimum(plant.delays[0] + Z90 * error, (terms.model.max_delay or 1) * plant.period)),
        },
        "period": plant.period,
    }


def owner_rows(result: PlantResult) -> list[list[str]]:
    """What each owner gave and spent."""
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
