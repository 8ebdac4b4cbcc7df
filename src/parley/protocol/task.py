"""What owners do together by some terms: a `Task`, which a wing of `tasks/` hands over.

Its `terms` says what terms must hold, its `task` registers the one object below; the catalogue of terms has the lines
that lead there, and both are loaded when terms name them. No other room knows what a wing is about.
"""

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
from parley.protocol.queries import KINDS, Question
from parley.terms import Model, Terms
from parley.terms.catalogue import ALGORITHMS, PREDICTION, TASKS
from parley.terms.file import TermsWarning
from parley.terms.rules import algorithm_rules
from parley.validate import Floats

if TYPE_CHECKING:
    from parley.learning.algorithms.algorithm import Algorithm
    from parley.learning.outcome.model import JointModel
    from parley.owner.owner import Agreement, Owner
    from parley.protocol.setup import Setup
    from parley.report.figures.picture import Picture
    from parley.report.summaries import Summary


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
    """A kind of work: how tables are prepared, whom a guarantee is about, what is asked, how it runs, how it reads.

    Prediction is one of them (`tasks.prediction`). What is not abstract has a value that suits most tasks.
    """

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
        """Why nothing can be released by these terms; None: it can."""
        return None

    @abstractmethod
    def preparation(
        self, terms: Terms, example: pd.DataFrame | None = None, redraw: int | None = None
    ) -> tuple[Preparation, Design | None]:
        """How tables become records, and the public sample prepared so (`data.fitting.fit_preparation`)."""

    def features(self, terms: Terms, table: pd.DataFrame) -> tuple[str, ...] | None:
        """The features that this table alone would suggest; None where the terms or a public sample list them."""
        return None

    @abstractmethod
    def objective(self, model: Model) -> Objective:
        """The function of the parameters that is minimised."""

    def noise_may_fail(self, terms: Terms) -> bool:
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

    @abstractmethod
    def purpose(self, agreement: "Agreement") -> list[str]:
        """Sentences that say what the answers are for."""

    def notes(self, agreement: "Agreement") -> list[str]:
        """What else a person should know."""
        return []

    def group_promise(self, agreement: "Agreement") -> str:
        """What is promised to somebody with several units, where that is not said elsewhere."""
        return ""

    @abstractmethod
    def figures(self, agreement: "Agreement") -> dict[str, Any]:
        """What limits a record, as numbers."""

    @abstractmethod
    def limits(self, agreement: "Agreement") -> list[str]:
        """Sentences that say the same as `figures`."""

    def warnings(self, owner: "Owner", agreement: "Agreement") -> list[TermsWarning]:
        """What looks wrong about the terms beside the owner's table, and is not said of every table."""
        return []

    def untargeted(self, owner: "Owner", agreement: "Agreement") -> tuple[int, int, str]:
        """(how many rows have no target, of how many, what becomes of them), for the owner's own eyes."""
        train, held_out = agreement.tables.train, agreement.tables.held_out
        missing, rows = train.untargeted + held_out.untargeted, len(train) + len(held_out)
        if agreement.setup.terms.model.holdout_by is not None:  # every row counts 0 on one side
            missing, rows = missing - len(train), len(train)
        return missing, rows, "rows have no target: they count as records and contribute nothing"

    # How it runs
    def model(self, preparation: Preparation, theta: Floats, terms_hash: str, released: bool) -> "JointModel":
        """The fitted model of a parameter [P] (`outcome.model.make_model`)."""
        raise ModelError(self.refusal)

    def stored_theta(self, content: Mapping[str, Any], preparation: Preparation, path: Path) -> Floats:
        """The parameter [P] of a model file at this path that holds none itself."""
        raise ModelError(f"{path}: the file has no parameters of a model")

    @abstractmethod
    def algorithm(self, setup: "Setup") -> "Algorithm":
        """The algorithm of these terms, its settings fixed from public knowledge."""

    def expected_cost(self, terms: Terms, public: pd.DataFrame) -> float:
        """What its model will cost on new rows, in the target's own units, as public rows show it."""
        raise TermsError(self.refusal)

    @abstractmethod
    def run(self, terms: Terms, owners: Sequence["Owner"], settings: RunSettings) -> Any:
        """What comes of these terms with owners on this machine (`parley.train`): a result of the task's own."""

    def figure(self, result: Any) -> "Picture | None":
        """What `parley train --plot` draws of a simulation; None: nothing."""
        return None

    def summary(self, result: Any) -> "Summary | None":
        """What a notebook shows of a result of the task's own; None: it has none."""
        return None

    def command(self, name: str) -> Callable[..., Any] | None:
        """What does a command in its own way and returns its report; None: nothing does. What it
        cannot do is refused (TermsError)."""
        if name in self.commands:
            module, _, function = self.commands[name].partition(":")
            found: Callable[..., Any] = getattr(import_module(module), function)
            return found
        if name not in self.usual_commands:
            raise TermsError(self.refusal)
        return None


_LOADED: dict[str, Task] = {}


def register(task: Task) -> Task:
    """Make a task known under its name."""
    _LOADED[task.name] = task
    return task


def task_named(name: str) -> Task:
    """The task of this name, loaded when it is first asked for."""
    if name not in _LOADED:
        import_module(TASKS[name].home)  # registers itself
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
        raise TermsError(task_of(terms).refusal)


def require_predictor(terms: Terms) -> None:
    """Refuse terms by which rounds do not come to a model that predicts, the trunk's or a wing's."""
    if not task_of(terms).predicts:
        raise TermsError(task_of(terms).refusal)
