"""What terms must say about an algorithm: rules that are loaded when terms name it."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from parley.errors import SettingError
from parley.terms.catalogue import ALGORITHMS, MODELS, PREDICTION, TASKS, AlgorithmFacts
from parley.terms.keys import listed, looked_up

if TYPE_CHECKING:
    from parley.terms.sections import CheckableTerms, Learning

SOME_READ = {  # keys that mean something to some algorithms alone
    "learning": (
        "local_steps",
        "proximal",
        "variates",
        "batches",
        "epochs",
        "sampling",
        "optimiser",
        "batch_seed",
        "average",
        "decay",
        "momentum",
        "topology",
        "staleness",
        "top_k",
    ),
    "owners": ("local_steps", "step", "trust"),
}
FORGOTTEN = ("proximal", "variates", "topology", "staleness", "top_k")  # with the algorithm that read them


class AlgorithmRules:
    """Of an algorithm that asks for gradients and steps along them.

    Others override what they need; refusals are a ValueError, "key|expected what".
    """

    asks: ClassVar[str] = "gradient"  # the kind of question, as its query names it
    rounds: ClassVar[int] = 100  # where the terms do not say
    average: ClassVar[str | None] = None  # which iterates make the model where the terms do not say
    keys: ClassVar[Mapping[str, str]] = {}  # those of `SOME_READ` that it reads, as section.key, and what each is
    iterative: ClassVar[bool] = True  # whether the learner steps towards the model; else it solves for it
    clips_gradients: ClassVar[bool] = True  # whether `privacy.clip` bounds a record's gradient, not other numbers
    one_owner: ClassVar[bool] = False  # whether it is for a single owner
    corrects_drift: ClassVar[bool] = False  # whether an owner's question is corrected by its answers so far
    unsaid: ClassVar[Mapping[str, str]] = {}  # keys of `[learning]` with what is meant where they are left out

    def usual(self, content: dict[str, Any]) -> dict[str, Any]:
        """The section `[learning]` with what need not be said, and without what older files say: one hash for both."""
        meant = {"batch": "full", "start": "zero", "average": self.average, **self.unsaid}
        said = {key: value for key, value in content.items() if not isinstance(value, str) or meant.get(key) != value}
        return {"horizon": self.rounds, **said}

    def check_learning(self, learning: "Learning") -> None:
        """Refuse a section `[learning]` that does not make sense by itself."""

    def check(self, terms: "CheckableTerms") -> None:
        """Refuse terms whose sections do not fit together."""

    def rounds_a_step(self, learning: "Learning") -> int:
        """The number of rounds that make one step of the algorithm."""
        return 1

    def step_unit(self, learning: "Learning", horizon: int) -> float:
        """The `step` with which the first of so many rounds moves by one gradient."""
        return 1.0

    def local_step(self, step: float, steps: int, everybody: Iterable[int]) -> float:
        """How long the steps of an owner are that takes so many, beside those that `everybody` takes; the terms' is
        `step`."""
        return step

    def clip_norm(self, norm: str) -> str:
        """The norm in which a record is clipped where the mechanism's is `norm`."""
        return norm

    def tells_heterogeneity(self, norm: str) -> bool:
        """Whether a record's gradient is clipped in this norm, so that owners may be asked how much they differ."""
        return self.asks == "gradient"


class OneRelease(AlgorithmRules):
    """Of an algorithm that solves for the model from one answer of everybody: there is one round, and no step."""

    rounds: ClassVar[int] = 1
    iterative: ClassVar[bool] = False
    clips_gradients: ClassVar[bool] = False
    repeatable: ClassVar[bool] = False  # whether several rounds may be asked all the same, to be averaged

    def check_learning(self, learning: "Learning") -> None:
        if learning.step != "auto":
            raise ValueError("step|not allowed: this algorithm takes no steps")
        if not self.repeatable and learning.horizon != 1:
            raise ValueError(
                "horizon|expected 1: this algorithm releases once, and repeating it under one budget is never better"
            )
        if learning.start is not None:
            raise ValueError("start|not allowed: this algorithm takes no steps")

    def check(self, terms: "CheckableTerms") -> None:
        if self.repeatable:
            return
        if terms.learning.straggler == "skip":
            raise ValueError("learning.straggler|expected 'wait' or 'stop': this algorithm asks every owner once")
        if terms.learning.participation is not None or any(owner.stride is not None for owner in terms.owners):
            raise ValueError(
                "learning.algorithm|participation and strides need an algorithm with rounds; statistics are asked once"
            )


_LOADED: dict[str, AlgorithmRules] = {}


def algorithm_rules(name: str) -> AlgorithmRules:
    """The rules of the algorithm that has this name."""
    if name not in _LOADED:
        facts = ALGORITHMS[name]
        home = import_module(facts.home)
        found = home.RULES[name] if facts.task == PREDICTION else home.ALGORITHM
        if not isinstance(found, AlgorithmRules):
            raise TypeError(f"{facts.home}: expected ALGORITHM, an instance of AlgorithmRules")
        _LOADED[name] = found
    return _LOADED[name]


def register_rules(name: str, rules: AlgorithmRules, task: str = PREDICTION) -> None:
    """Let terms name an algorithm of a program's own; a name that is taken already is refused."""
    if name in ALGORITHMS:
        raise SettingError(f"algorithm {name!r}: expected a name that no algorithm has yet")
    ALGORITHMS[name] = AlgorithmFacts(task=task)
    _LOADED[name] = rules


def named_algorithm(name: Any) -> AlgorithmRules:
    """The rules of an algorithm as it was read; of none in particular where that is not the name of one."""
    return AlgorithmRules() if looked_up(ALGORITHMS, name) is None else algorithm_rules(name)


def readers(key: str) -> dict[str, str]:
    """The algorithms of prediction that read a key, section.key, and what it is to each."""
    known = {name: algorithm_rules(name) for name, facts in ALGORITHMS.items() if facts.task == PREDICTION}
    return {name: rules.keys[key] for name, rules in known.items() if key in rules.keys}


def require_read(rules: AlgorithmRules, section: str, content: Any) -> None:
    """Refuse (ValueError) keys of `[learning]`, or of an owner, that other algorithms read and this one does not."""
    for key in SOME_READ[section]:
        if getattr(content, key) is not None and (full := f"{section}.{key}") not in rules.keys:
            able = readers(full)
            what, place = next(iter(able.values())), key if section == "learning" else full
            raise ValueError(f"{place}|allowed only with algorithm = {listed(able)}: {what}")


def following(update: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of their section that change with these: the horizon with batches and epochs, epochs with the horizon,
    what columns are made of with what they become, the index of a law with the law."""
    if "columns" in update:
        return {"bins": None, "trees": None}
    if "mechanism" in update:
        return {"alpha": None}
    rules = _new_rules(update)
    dropped = {key: None for key in FORGOTTEN if rules is not None and f"learning.{key}" not in rules.keys}
    if update.keys() & {"batches", "epochs"}:
        return {"horizon": None, **dropped}
    return {"epochs": None, **dropped} if "horizon" in update else dropped


def following_owners(update: Mapping[str, Any]) -> dict[str, Any]:
    """The owners' keys that change with these of `[learning]`."""
    rules = _new_rules(update)
    dropped = {key: None for key in ("local_steps", "step") if rules is not None and f"owners.{key}" not in rules.keys}
    waits = (rules is not None and "learning.staleness" not in rules.keys) or (
        "staleness" in update and update["staleness"] is None
    )
    return {**dropped, "answers": None} if waits else dropped


def _new_rules(update: Mapping[str, Any]) -> AlgorithmRules | None:
    """Those of the algorithm that is new; None: it stays, or is none."""
    name = update.get("algorithm")
    return None if looked_up(ALGORITHMS, name) is None else algorithm_rules(str(name))


def kinds_of(task: str) -> list[str]:
    """What terms call the models of a task."""
    return [kind for kind, facts in MODELS.items() if facts.task == task]


def require_own_algorithm(kind: str, task: str) -> None:
    """Refuse (ValueError) the algorithm of one task for a model of another."""
    for name, facts in TASKS.items():
        if facts.kind is not None and (MODELS[kind].task == name) is not (task == name):
            kinds = listed(kinds_of(name))
            raise ValueError(f"learning.algorithm|expected {facts.algorithm!r} with kind = {kinds}, and with no other")
