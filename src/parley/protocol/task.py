"""What owners do together by some terms: a `Task`, which a wing of `tasks/` registers when terms name it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from parley.data import Design, Preparation
from parley.errors import ModelError, TermsError
from parley.losses import Objective
from parley.protocol.queries import QUESTION_KINDS, Question
from parley.terms import Model, Terms
from parley.terms.catalogue import ALGORITHMS, PREDICTION, TASKS
from parley.terms.file import TermsWarning
from parley.terms.rules import algorithm_rules
from parley.validate import Floats

if TYPE_CHECKING:
    from parley.learning.algorithms.algorithm import Algorithm
    from parley.learning.outcome.model import JointModel
    from parley.owner.owner import Agreement, Owner
    from parley.privacy.sharing.matching.match import MatchPlan
    from parley.protocol.setup import Setup
    from parley.report.figures.picture import Picture
    from parley.report.summaries import Summary


@dataclass(frozen=True, eq=False)
class RunSettings:
    """How any task runs on this machine; `parley.train` explains each setting."""

    replicates: int = 1
    seed: int | None = None
    progress: Callable[[int, int], None] = lambda done, total: None
    measure: bool = True
    whole_path: bool = True
    start: Floats | None = None
    speeds: Mapping[str, float] | None = None


class Task(ABC):
    """A kind of work: how tables are prepared, whom a guarantee is about, what is asked, how it runs and reads.
    Prediction (`tasks.prediction`) is one; methods that are not abstract have defaults that suit most tasks."""

    name: ClassVar[str]
    unit: ClassVar[str] = "person"  # whom or what a guarantee is about
    record: ClassVar[str] = "record"  # what is bounded
    refusal: ClassVar[str]  # why these terms are not for a prediction, and what runs them
    predicts: ClassVar[bool] = False  # whether rounds come to a model that predicts a column, wherever owners are
    questions: ClassVar[Mapping[str, type[Question]]]
    # module:function of commands that it does in its own way, and the commands that it does as they are
    commands: ClassVar[Mapping[str, str]] = {}
    usual_commands: ClassVar[tuple[str, ...]] = ()

    # What terms and public knowledge fix
    def unreleased(self, terms: Terms) -> str | None:
        """Return why these terms can release nothing, or None."""
        return None

    @abstractmethod
    def preparation(
        self, terms: Terms, example: pd.DataFrame | None = None, redraw: int | None = None
    ) -> tuple[Preparation, Design | None]:
        """Return how tables become records, and the prepared public sample (`data.fitting.fit_preparation`)."""

    def features(self, terms: Terms, table: pd.DataFrame) -> tuple[str, ...] | None:
        """Return the features this table alone would suggest; None where terms or a public sample list them."""
        return None

    @abstractmethod
    def objective(self, model: Model) -> Objective:
        """Return the function of the parameters that is minimised."""

    def noise_may_fail(self, terms: Terms) -> bool:
        """Whether part of delta is the probability that the noise protects nobody: there is no zCDP then."""
        return False

    def match_plan(self, setup: "Setup") -> "MatchPlan | None":
        """Return how hosts match owners' tables; None: they add up answers."""
        return None

    # What a person reads who is asked to accept
    def columns(self, model: Model) -> Sequence[str]:
        """Return the columns it reads beside the features."""
        return model.outcome_columns

    def record_column(self, model: Model) -> str | None:
        """Return the column whose equal names make rows one record; None: every row is a record."""
        return None

    def record_rows(self, model: Model) -> int:
        """Return how many rows of a record count at most."""
        return 1

    def listed_cells(self, model: Model, column: str) -> Sequence[object]:
        """Return the values allowed in a column that only this task reads; empty: the terms do not list them."""
        return ()

    @abstractmethod
    def purpose(self, agreement: "Agreement") -> list[str]:
        """Return sentences that say what the answers are for."""

    def notes(self, agreement: "Agreement") -> list[str]:
        """Return what else a person should know."""
        return []

    def group_promise(self, agreement: "Agreement") -> str:
        """Return the promise to somebody with several units, where it is not made elsewhere."""
        return ""

    @abstractmethod
    def figures(self, agreement: "Agreement") -> dict[str, Any]:
        """Return the limits on a record as numbers."""

    @abstractmethod
    def limits(self, agreement: "Agreement") -> list[str]:
        """Return sentences that say the same as `figures`."""

    def warnings(self, owner: "Owner", agreement: "Agreement") -> list[TermsWarning]:
        """Return what looks wrong about the terms beside the owner's table, beyond warnings for every table."""
        return []

    def untargeted(self, owner: "Owner", agreement: "Agreement") -> tuple[int, int, str]:
        """Return (rows without a target, all rows, what becomes of them), for the owner's own eyes."""
        train, held_out = agreement.tables.train, agreement.tables.held_out
        missing, rows = train.untargeted + held_out.untargeted, len(train) + len(held_out)
        if agreement.setup.terms.model.holdout_by is not None:  # every row counts 0 on one side
            missing, rows = missing - len(train), len(train)
        return missing, rows, "rows have no target: they count as records and contribute nothing"

    # How it runs
    def model(self, preparation: Preparation, theta: Floats, terms_hash: str, released: bool) -> "JointModel":
        """Return the fitted model of a parameter [P] (`outcome.model.make_model`)."""
        raise ModelError(self.refusal)

    def stored_theta(self, content: Mapping[str, Any], preparation: Preparation, path: Path) -> Floats:
        """Return the parameter [P] of the model file at this path that holds none itself."""
        raise ModelError(f"{path}: the file contains no model parameters; give a model file that Parley wrote")

    @abstractmethod
    def algorithm(self, setup: "Setup") -> "Algorithm":
        """Return the algorithm of these terms, its settings fixed from public knowledge."""

    def expected_cost(self, terms: Terms, public: pd.DataFrame) -> float:
        """Return the model's expected cost on new rows, in the target's own units, judged by public rows."""
        raise TermsError(self.refusal)

    @abstractmethod
    def run(self, terms: Terms, owners: Sequence["Owner"], settings: RunSettings) -> Any:
        """Run these terms with owners on this machine (`parley.train`) and return a result of the task's own."""

    def figure(self, result: Any) -> "Picture | None":
        """Return what `parley train --plot` draws of a simulation, or None."""
        return None

    def summary(self, result: Any) -> "Summary | None":
        """Return what a notebook shows of a result of the task's own, or None."""
        return None

    def command(self, name: str) -> Callable[..., Any] | None:
        """Return the function that does a command in the task's own way, or None; refuse impossible ones."""
        if name in self.commands:
            module, _, function = self.commands[name].partition(":")
            implementation: Callable[..., Any] = getattr(import_module(module), function)
            return implementation
        if name not in self.usual_commands:
            raise TermsError(self.refusal)
        return None


_LOADED: dict[str, Task] = {}


def register(task: Task) -> Task:
    """Make a task known under its name."""
    _LOADED[task.name] = task
    return task


def task_named(name: str) -> Task:
    """Return the task of this name, loaded when first asked for."""
    if name not in _LOADED:
        import_module(TASKS[name].home)  # registers itself
    return _LOADED[name]


def task_of(terms: Terms) -> Task:
    """Return the task of these terms."""
    return task_named(terms.task)


def question_of(kind: str) -> type[Question] | None:
    """Return the rules of a kind of question of any task; None: no task asks it."""
    if kind in QUESTION_KINDS:
        return QUESTION_KINDS[kind]
    others = [(name, facts.task) for name, facts in ALGORITHMS.items() if facts.task != PREDICTION]
    others += [(name, task) for name, facts in ALGORITHMS.items() for task in facts.also]
    asking = next((task for name, task in others if algorithm_rules(name, task).asks == kind), None)
    return None if asking is None else task_named(asking).questions.get(kind)


def require_prediction(terms: Terms) -> None:
    """Refuse terms of another task where a prediction model is wanted."""
    if terms.task != PREDICTION:
        raise TermsError(task_of(terms).refusal)


def require_predictor(terms: Terms) -> None:
    """Refuse terms whose rounds do not yield a model that predicts."""
    if not task_of(terms).predicts:
        raise TermsError(task_of(terms).refusal)
