"""Joint identification of one plant, on this machine or elsewhere: result and cost."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from parley.errors import DataError, GuaranteeError, ModelError
from parley.learning.algorithms.algorithm import Algorithm, Asker, Progress, State
from parley.learning.deployed import Asked, ask_here
from parley.owner.owner import Owner
from parley.privacy.events import Adjacency
from parley.privacy.mechanisms import Norm
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup
from parley.tasks.dynamics import Plant
from parley.tasks.dynamics.delay import Identified, Regression, factor_of, identify
from parley.tasks.dynamics.question import TrajectoriesQuery, layout_of, rows_of
from parley.tasks.dynamics.terms import PlantModel
from parley.tasks.records import packed_scale, scale_of
from parley.terms import Model, Terms
from parley.validate import Floats

FORMAT = "parley-plant-1"


@dataclass(frozen=True, eq=False)
class PlantRelease:
    """Released moments [width, width] of rows in [-1, 1]; `deviation` is the noise of one packed number."""

    model: PlantModel
    moments: Floats
    trajectories: int
    deviation: float
    norm: Norm
    scale: Floats  # of states, then inputs

    @classmethod
    def from_packed(
        cls, model: Model, packed: Floats, trajectories: int, deviation: float, norm: Norm, scale: Floats
    ) -> "PlantRelease":
        """Return the release of packed numbers as owners answer them."""
        width = layout_of(model).width
        moments = np.empty((width, width))
        i, j = np.triu_indices(width)
        moments[i, j] = moments[j, i] = packed / packed_scale(len(packed), scale_of(norm))
        return cls(PlantModel.expect(model), moments, trajectories, deviation, norm, scale)

    @property
    def rows(self) -> int:
        """The number of rows behind the moments, if every trajectory has its full length."""
        return self.trajectories * rows_of(self.model)

    def identify(self) -> Identified:
        """Return the plant, with a covariance from both sampling and noise."""
        layout, period = layout_of(self.model), self.model.period
        if not self.deviation > 0:
            regression = Regression.from_factor(layout, factor_of(layout, self.moments * self.rows), self.rows)
        else:
            factor = factor_of(layout, self.moments * self.rows, self._noise_level * self.rows)
            regression = Regression.from_factor(layout, factor, self.rows, noise=self._noise)
        return in_own_units(identify(regression, period), self.scale[: layout.states], self.scale[layout.states :])

    @property
    def _noise_level(self) -> float:
        """The level above the noise: about the largest eigenvalue of a symmetric noise matrix."""
        size = layout_of(self.model).instruments
        return float(2 * self.deviation * np.sqrt(size) / (1.0 if self.norm == "l1" else np.sqrt(2)))

    @property
    def repaired(self) -> bool:
        """Whether a direction of the instruments drowned in noise and was lifted: stated errors are too small."""
        z = layout_of(self.model).instruments
        return bool(np.linalg.eigvalsh(self.moments[:z, :z])[0] < self._noise_level)

    def _noise(self, coefficients: Floats, carried: Floats) -> Floats:
        """Return the covariance of the coefficients, row by row, due to noise in the moments, to first order: F'
        changes by `carried` times (change of the instruments' moments with x[k+1], less that with the regressors times
        F')."""
        layout = layout_of(self.model)
        width, z, n = layout.width, layout.instruments, layout.states
        effect = np.zeros((width, n))  # residuals x[k+1] - F (...) as a combination of columns
        effect[-n:] = np.eye(n)
        effect[layout.regressors] -= coefficients.T
        full = np.zeros((len(carried), width))
        full[:, :z] = carried
        total = np.zeros((coefficients.size, coefficients.size))
        i, j = np.triu_indices(width)
        scale = self.deviation * self.rows / packed_scale(len(i), scale_of(self.norm))
        for a, b, size in zip(i, j, scale, strict=True):
            change = np.outer(full[:, a], effect[b]) + (0 if a == b else np.outer(full[:, b], effect[a]))
            g = size * change.T.reshape(-1)
            total += np.outer(g, g)
        return total

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "model": self.model.model_dump(mode="json", exclude_none=True),
            "moments": self.moments.tolist(),
            "trajectories": self.trajectories,
            "deviation": self.deviation,
            "norm": self.norm,
            "scale": self.scale.tolist(),
        }

    @classmethod
    def load(cls, path: str | Path) -> "PlantRelease":
        """Read what `parley identify TERMS --save` wrote."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if content["format"] != FORMAT:
                raise ModelError(f"{path}: expected the format {FORMAT!r}")
            arrays = (np.array(content[name], dtype=float) for name in ("moments", "scale"))
            moments, scale = arrays
            model = PlantModel.model_validate(content["model"])
            return cls(
                model, moments, int(content["trajectories"]), float(content["deviation"]), content["norm"], scale
            )
        except OSError as error:
            raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise ModelError(f"{path}: not a plant saved by Parley ({type(error).__name__})") from None


def in_own_units(found: Identified, states: Floats, inputs: Floats) -> Identified:
    """Undo the scaling x = S x', u = U u': A = S A' S^-1, B = S B' U^-1; delays keep units of time."""
    plant = found.plant
    n, m = plant.B.shape
    A, B = states[:, None] * plant.A / states, states[:, None] * plant.B / inputs
    own = np.concatenate([np.outer(states, 1 / states).reshape(-1), np.outer(states, 1 / inputs).reshape(-1)])
    own = np.append(own, np.ones(len(found.covariance) - n * n - n * m))
    return Identified(Plant(A, B, plant.delays, plant.period), found.covariance * np.outer(own, own), found.misfit)


@dataclass(frozen=True)
class Identification(Algorithm):
    """One round; the state keeps the released moments, and theta does not change."""

    norm: Norm
    deviation: float
    records: int
    size: int

    memory_name: ClassVar[str | None] = "moments"

    @classmethod
    def make(cls, setup: Setup) -> Self:
        noise = setup.aggregation.noise(setup)
        return cls(
            setup.objective,
            setup.terms.learning.horizon,
            None,
            setup.norm,
            noise.all_together**0.5,
            int(noise.records.sum()),
            setup.preparation.width,
        )

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        return State(1, np.zeros((*replicates, 1)), {"moments": np.zeros((*replicates, self.size))})

    def query(self, state: State, asker: Asker) -> TrajectoriesQuery:
        return TrajectoriesQuery.ask(asker.terms_hash, asker.learner, state.round)

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        return State(state.round + 1, state.theta, {"moments": combined})

    def releases(self, state: State, setup: Setup) -> list[PlantRelease]:
        """Return the release of every replicate."""
        moments = state.memory["moments"].reshape(-1, self.size)
        model, scale = setup.terms.model, setup.preparation.scale
        return [
            PlantRelease.from_packed(model, packed, self.records, self.deviation, self.norm, scale)
            for packed in moments
        ]


@dataclass(frozen=True, eq=False)
class PlantResult:
    """The owners' released moments, and their cost."""

    terms: Terms
    releases: tuple[PlantRelease, ...]  # one for each replicate of a study
    spent: Mapping[str, float | None]  # by the owners' ledgers; None: one elsewhere that could not be asked
    released: bool
    seconds: float

    def identified(self) -> Identified:
        """Return the plant of the first replicate; a `DataError` if noise hides it."""
        return self.releases[0].identify()

    def errors(self, delay: float) -> Floats:
        """Return each replicate's error of the delay; NaN where it has no estimate."""
        found = []
        for release in self.releases:
            try:
                found.append(float(release.identify().plant.delays[0]) - delay)
            except DataError:
                found.append(float("nan"))
        return np.array(found)

    def to_json(self) -> dict[str, Any]:
        """Return what `parley identify TERMS --json` prints beside the plant."""
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
    """Identify one plant from the trajectories of owners on this machine. Owners with durable ledgers release; owners
    without take part in a study of `replicates` parallel runs."""
    return plant_result(
        ask_here(terms, owners, lambda setup: (_algorithm(setup), np.zeros(1)), replicates, seed, progress)
    )


def plant_result(asked: Asked) -> PlantResult:
    """Return the result of one round under terms of a plant."""
    releases = tuple(_algorithm(asked.setup).releases(asked.final, asked.setup))
    return PlantResult(asked.setup.terms, releases, asked.spent, asked.released, asked.seconds)


def _algorithm(setup: Setup) -> Identification:
    if setup.terms.task != "dynamics":
        raise GuaranteeError("identification: expected terms for a plant, kind = 'delayed-dynamics'")
    return Identification.make(setup)
