"""The task "dynamics" as the rest of the package sees it: a plant identified from recordings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from parley.data import Design, Preparation
from parley.losses import Objective
from parley.owner.owner import Agreement, Owner
from parley.protocol.setup import Setup
from parley.protocol.task import RunSettings, register
from parley.tasks.dynamics.question import TrajectoriesQuestion, layout_of, trajectory_preparation
from parley.tasks.dynamics.terms import PlantModel
from parley.tasks.records import BoundedRecords, several_recordings
from parley.terms import Model, Terms


@dataclass(frozen=True)
class DelayedDynamics(Objective):
    """One-step prediction of a plant with delayed inputs: loss = |x[k+1] - F (x[k], u[k], ..., u[k-R])|^2, theta = F
    row by row. A record is a trajectory's mean of z z' (`question`); the plant is identified from its released mean
    (`plant`), without gradients."""

    def parameters(self, preparation: Preparation) -> int:
        layout = layout_of(preparation.model)
        return layout.states * len(layout.regressors)


class Dynamics(BoundedRecords):
    """A task whose record and unit of privacy is a whole recording, and whose result is a plant."""

    name = "dynamics"
    unit = "recording"
    refusal = "learning.algorithm: these terms identify a plant; parley identify runs them"
    questions: ClassVar = {"trajectories": TrajectoriesQuestion}
    commands: ClassVar[Mapping[str, str]] = {
        "train": "parley.tasks.dynamics.commands:run_dynamics",
        "learner run": "parley.tasks.dynamics.commands:run_dynamics",
        "forecast": "parley.tasks.dynamics.commands:forecast_dynamics",
    }

    def preparation(
        self, terms: Terms, example: pd.DataFrame | None = None, redraw: int | None = None
    ) -> tuple[Preparation, Design | None]:
        return trajectory_preparation(terms.model), None

    def objective(self, model: Model) -> DelayedDynamics:
        return DelayedDynamics(regularisation=model.penalty)

    def columns(self, model: Model) -> Sequence[str]:
        return ()

    def record_column(self, model: Model) -> str:
        return PlantModel.expect(model).trajectory

    def record_rows(self, model: Model) -> int:
        return PlantModel.expect(model).samples

    def group_promise(self, agreement: Agreement) -> str:
        return several_recordings(agreement.setup, agreement.part.name)

    def algorithm(self, setup: Setup) -> Any:
        from parley.tasks.dynamics.run import Identification

        return Identification.make(setup)

    def run(self, terms: Terms, owners: Sequence[Owner], settings: RunSettings) -> Any:
        from parley.tasks.dynamics.run import identify_together

        return identify_together(terms, owners, settings.replicates, settings.seed, settings.progress)


register(Dynamics())
