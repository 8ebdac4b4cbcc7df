"""What owners do together by some terms. In the trunk: learn to predict a column. Everything else is a wing, which
hands over one `Task`.

A wing is a folder of `tasks/`. Its `terms` says what terms must hold, its `task` registers the one object below; the
catalogue of terms has the line that leads there, and both are loaded when terms name them. No other room knows what a
wing is about.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from parley import losses
from parley.data import Design, Preparation, fit_preparation, listed_features
from parley.errors import DataError, ModelError, TermsError
from parley.losses import Objective
from parley.losses.objective import EmpiricalRisk
from parley.losses.objectives.newton import optimum_by_newton
from parley.protocol.queries import KINDS, Question
from parley.terms import Model, Terms
from parley.terms.catalogue import ALGORITHMS, PREDICTION, TASKS
from parley.terms.file import TermsWarning
from parley.terms.rules import algorithm_rules
from parley.validate import Floats


def public_curvatures(objective: EmpiricalRisk, preparation: Preparation, design: Design) -> Floats:
    """By how much each public row bends the cost at the rows' best fit [n].

    The fit has a ridge of parameters/rows times the mean curvature where a search begins: that of moments of so few
    rows (`data.whitening`), so that it exists where classes separate. No private record is looked at.
    """
    start = objective.start(preparation)
    hessian, found = objective.hessian(design, start), None
    if hessian is not None:
        ridge = min(1.0, len(start) / len(design)) * float(np.trace(hessian)) / len(start)
        ridged = replace(objective, regularisation=objective.regularisation + ridge)
        found = objective.record_curvatures(design, optimum_by_newton(ridged, [design], None, start))
    if found is None:
        raise DataError("model.whitening: the curvature is out of reach; expected fewer columns, or 'public'")
    return found


# Of storeys above, whose types nobody down here imports:
Setup = Any  # protocol.setup.Setup
Agreement = Any  # owner.owner.Agreement
Owner = Any  # owner.owner.Owner
Algorithm = Any  # learning.algorithms.algorithm.Algorithm


@dataclass(frozen=True, eq=False)
class RunSettings:
    """How a run on this machine is done, whatever the task: `parley.train` says what each means."""

    replicates: int = 1
    seed: int | None = None
    progress: Callable[[int, int], None] = lambda done, total: None
    measure: bool = True
    whole_path: bool = True
    start: Floats | None = None
    speeds: Mapping[str, float] | None = None


class Task(ABC):
    """Prediction, and what a wing overrides of it: how tables are prepared, whom a guarantee is about, what is asked,
    how it runs, and how it reads. Where a method returns None, the trunk goes on as for prediction."""

    name: ClassVar[str] = PREDICTION
    unit: ClassVar[str] = "person"  # whom or what a guarantee is about
    record: ClassVar[str] = "record"  # what is bounded
    instead: ClassVar[str] = ""  # what a person should do with these terms who wants a prediction
    predicts: ClassVar[bool] = False  # whether rounds come to a model that predicts a column, wherever owners are
    questions: ClassVar[Mapping[str, type[Question]]] = KINDS
    # module:function of commands of the trunk that a wing does in its own way
    commands: ClassVar[Mapping[str, str]] = {}

    # What terms and public knowledge fix
    def unreleased(self, terms: Terms) -> str | None:
        """Why nothing can be released by these terms; None: it can."""
        return None

    def preparation(
        self, terms: Terms, example: pd.DataFrame | None = None, redraw: int | None = None
    ) -> tuple[Preparation, Design | None]:
        """How tables become records, and the public sample prepared so (`data.fitting.fit_preparation`)."""
        return fit_preparation(terms, example, redraw, partial(_curvatures, terms.model))

    def features(self, terms: Terms, table: pd.DataFrame) -> tuple[str, ...] | None:
        """The features that this table alone would suggest; None where the terms or a public sample list them."""
        return listed_features(terms, table)

    def objective(self, model: Model) -> Objective:
        """The function of the parameters that is minimised."""
        return losses.make(model)

    def fails(self, terms: Terms) -> bool:
        """Whether a part of delta is the probability that its noise protects nobody: there is no zCDP then."""
        return False

    # What a person reads who is asked to accept
    def columns(self, model: Model) -> Sequence[str]:
        """The columns that it reads beside the features."""
        return model.outcome_columns

    def record_column(self, model: Model) -> str | None:
        """The column by which rows belong to one record, those with one name in it; None: every row is a record."""
        return None

    def record_rows(self, model: Model) -> int:
        """How many rows of a record count, at most."""
        return 1

    def listed_cells(self, model: Model, column: str) -> Sequence[object]:
        """What a column that only this task reads may hold; none: the terms do not list it."""
        return ()

    def purpose(self, agreement: Agreement) -> list[str] | None:
        """Sentences that say what the answers are for; None: as for prediction."""
        return None

    def notes(self, agreement: Agreement) -> list[str]:
        """What else a person should know."""
        return []

    def several(self, agreement: Agreement) -> str:
        """What is promised to somebody with several units, where that is not said elsewhere."""
        return ""

    def figures(self, agreement: Agreement) -> dict[str, Any] | None:
        """What limits a record, as numbers."""
        return None

    def limits(self, agreement: Agreement) -> list[str] | None:
        """Sentences that say the same as `figures`; None: as for prediction."""
        return None

    def warnings(self, owner: Owner, agreement: Agreement) -> list[TermsWarning]:
        """What looks wrong about the terms beside the owner's table, and is not said of every table."""
        return []

    def untargeted(self, owner: Owner, agreement: Agreement) -> tuple[int, int, str] | None:
        """(how many rows have no target, of how many, what becomes of them), for the owner's own eyes."""
        return None

    # How it runs
    def model(self, preparation: Preparation, theta: Floats, terms_hash: str, released: bool) -> Any:
        """The fitted model of a parameter [P] (`learning.outcome.make_model`); None: as for prediction."""
        return None

    def stored_theta(self, content: Mapping[str, Any], preparation: Preparation, path: Path) -> Floats:
        """The parameter [P] of a model file at this path that holds none itself."""
        raise ModelError(f"{path}: expected the parameters of the model in it")

    def algorithm(self, setup: Setup) -> Algorithm | None:
        """The algorithm of these terms, its settings fixed from public knowledge."""
        return None

    def expected_cost(self, terms: Terms, public: pd.DataFrame) -> float:
        """What its model will cost on new rows, in the target's own units, as public rows show it."""
        raise TermsError(self.instead)

    @abstractmethod
    def run(self, terms: Terms, owners: Sequence[Owner], settings: RunSettings) -> Any:
        """What comes of these terms with owners on this machine (`parley.train`)."""

    def figure(self, result: Any) -> Any:
        """What `parley train --plot` draws of a simulation; None: as for prediction."""
        return None

    def summary(self, result: Any) -> Any:
        """What a notebook shows of a result (`report.summaries.Summary`); None: as for prediction."""
        return None

    def command(self, name: str) -> Callable[..., None] | None:
        """How it does a command of the trunk; None: as for prediction. What it cannot do is refused (TermsError)."""
        if name not in self.commands:
            if self.name != PREDICTION:
                raise TermsError(self.instead)
            return None
        module, _, function = self.commands[name].partition(":")
        found: Callable[..., None] = getattr(import_module(module), function)
        return found


def _curvatures(model: Model, preparation: Preparation, public: Design) -> Floats:
    """By how much each public row bends the cost that these terms name, at the rows' best fit [n]."""
    return public_curvatures(losses.make(model).bounded_by(preparation), preparation, public)


_LOADED: dict[str, Task] = {}


def register(task: Task) -> Task:
    """Make a task known under its name."""
    _LOADED[task.name] = task
    return task


def task_named(name: str) -> Task:
    """The task of this name, loaded if it is a wing's."""
    if name not in _LOADED:
        import_module(f"{TASKS[name].home}.task")  # registers itself
    return _LOADED[name]


def task_of(terms: Terms) -> Task:
    """What owners do together by these terms."""
    return task_named(terms.task)


def question_of(kind: str) -> type[Question] | None:
    """The rules of a kind of question, whichever task asks it; None: nobody does."""
    if kind in KINDS:
        return KINDS[kind]
    others = ((name, facts.task) for name, facts in ALGORITHMS.items() if facts.task != PREDICTION)
    asking = next((task for name, task in others if algorithm_rules(name).asks == kind), None)
    return None if asking is None else task_named(asking).questions.get(kind)


def require_prediction(terms: Terms) -> None:
    """Refuse terms of another task where one of the trunk's models is wanted."""
    if terms.task != PREDICTION:
        raise TermsError(task_of(terms).instead)


def require_predictor(terms: Terms) -> None:
    """Refuse terms by which rounds do not come to a model that predicts, the trunk's or a wing's."""
    if not task_of(terms).predicts:
        raise TermsError(task_of(terms).instead)
