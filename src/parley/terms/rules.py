"""What terms must say about an algorithm; its rules are loaded when terms name it."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from parley.errors import SettingError
from parley.terms.catalogue import ALGORITHMS, MODELS, PREDICTION, TASKS, AlgorithmFacts
from parley.terms.keys import find_by_name, quoted_choices

if TYPE_CHECKING:
    from parley.terms.sections import CheckableTerms, Learning

KEYS_ONLY_SOME_READ = {  # keys that mean something to some algorithms alone
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
    "owners": ("local_steps", "step", "trust", "availability"),
}
KEYS_DROPPED_WITH_ALGORITHM = (
    "proximal",
    "variates",
    "topology",
    "staleness",
    "top_k",
)  # with the algorithm that read them


class AlgorithmRules:
    """Rules of an algorithm that steps along gradients, and base of others. Refusals are ValueErrors "key|expected
    what"."""

    asks: ClassVar[str] = "gradient"  # the kind of question, as its query names it
    rounds: ClassVar[int] = 100  # where the terms do not say
    average: ClassVar[str | None] = None  # which iterates make the model where the terms do not say
    keys: ClassVar[
        Mapping[str, str]
    ] = {}  # those of `KEYS_ONLY_SOME_READ` that it reads, as section.key, and what each is
    iterative: ClassVar[bool] = True  # whether the learner steps towards the model; else it solves for it
    clips_gradients: ClassVar[bool] = True  # whether `privacy.clip` bounds a record's gradient, not other numbers
    one_owner: ClassVar[bool] = False  # whether it is for a single owner
    corrects_drift: ClassVar[bool] = False  # whether an owner's question is corrected by its answers so far
    unsaid: ClassVar[Mapping[str, str]] = {}  # keys of `[learning]` with what is meant where they are left out

    def usual(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return `[learning]` with defaults filled in and without what older files say, so that both have one hash."""
        meant = {"batch": "full", "start": "zero", "average": self.average, **self.unsaid}
        given_keys = {
            key: value for key, value in content.items() if not isinstance(value, str) or meant.get(key) != value
        }
        return {"horizon": self.rounds, **given_keys}

    def check_learning(self, learning: "Learning") -> None:
        """Refuse a section `[learning]` that is inconsistent by itself."""

    def check(self, terms: "CheckableTerms") -> None:
        """Refuse terms whose sections do not fit together."""

    def rounds_a_step(self, learning: "Learning") -> int:
        """Return the number of rounds in one step of the algorithm."""
        return 1

    def step_unit(self, learning: "Learning", horizon: int) -> float:
        """Return the `step` with which the first round moves by one gradient."""
        return 1.0

    def local_step(self, step: float, steps: int, everybody: Iterable[int]) -> float:
        """Return the length of an owner's local steps, given the terms' `step` and `everybody`'s numbers of steps."""
        return step

    def clip_norm(self, norm: str) -> str:
        """Return the norm in which records are clipped, if the mechanism's is `norm`."""
        return norm

    def tells_heterogeneity(self, norm: str) -> bool:
        """Whether gradients are clipped in this norm, so that owners may be asked how much they differ."""
        return self.asks == "gradient"


class OneRelease(AlgorithmRules):
    """Rules of an algorithm that solves for the model from one answer of each owner: one round, no steps."""

    rounds: ClassVar[int] = 1
    iterative: ClassVar[bool] = False
    clips_gradients: ClassVar[bool] = False
    repeatable: ClassVar[bool] = False  # whether several rounds may be asked all the same, to be averaged

    def check_learning(self, learning: "Learning") -> None:
        if learning.step != "auto":
            raise ValueError("step|not allowed, because this algorithm takes no steps")
        if not self.repeatable and learning.horizon != 1:
            raise ValueError(
                "horizon|expected 1, because this algorithm releases once, and repeated releases under the same "
                "budget are never better"
            )
        if learning.start is not None:
            raise ValueError("start|not allowed, because this algorithm takes no steps")

    def check(self, terms: "CheckableTerms") -> None:
        if self.repeatable:
            return
        if terms.learning.straggler == "skip":
            raise ValueError(
                "learning.straggler|expected 'wait' or 'stop', because this algorithm asks every owner once"
            )
        if terms.learning.participation is not None or any(owner.stride is not None for owner in terms.owners):
            raise ValueError(
                "learning.algorithm|participation and strides need an algorithm with rounds; this algorithm asks "
                "every owner once"
            )


_RULES_BY_NAME: dict[str, AlgorithmRules] = {}


def algorithm_rules(name: str, task: str | None = None) -> AlgorithmRules:
    """Return the rules of the algorithm with this name, or those for this task if it has some."""
    facts = ALGORITHMS[name]
    if task is not None and task in facts.also:
        found: AlgorithmRules = import_module(facts.also[task]).RULES[name]
        return found
    if name not in _RULES_BY_NAME:
        home = import_module(facts.home)
        found = home.RULES[name] if facts.task == PREDICTION else home.ALGORITHM
        if not isinstance(found, AlgorithmRules):
            raise TypeError(f"{facts.home}: the rules of {name!r} must be an instance of AlgorithmRules")
        _RULES_BY_NAME[name] = found
    return _RULES_BY_NAME[name]


def register_rules(name: str, rules: AlgorithmRules, task: str = PREDICTION) -> None:
    """Let terms name a program's own algorithm; a taken name is refused."""
    if name in ALGORITHMS:
        raise SettingError(f"algorithm {name!r}: an algorithm of this name already exists; choose another name")
    ALGORITHMS[name] = AlgorithmFacts(task=task)
    _RULES_BY_NAME[name] = rules


def named_algorithm(name: Any, task: str | None = None) -> AlgorithmRules:
    """Return the rules of the algorithm read from terms; general ones for an unknown name."""
    return AlgorithmRules() if find_by_name(ALGORITHMS, name) is None else algorithm_rules(name, task)


def algorithms_reading(key: str) -> dict[str, str]:
    """Return the prediction algorithms that read section.key, with its meaning for each."""
    known = {name: algorithm_rules(name) for name, facts in ALGORITHMS.items() if facts.task == PREDICTION}
    return {name: rules.keys[key] for name, rules in known.items() if key in rules.keys}


def require_read(rules: AlgorithmRules, section: str, content: Any) -> None:
    """Refuse (ValueError) keys of `[learning]`, or of an owner, that only other algorithms read."""
    for key in KEYS_ONLY_SOME_READ[section]:
        if getattr(content, key) is not None and (full := f"{section}.{key}") not in rules.keys:
            able = algorithms_reading(full)
            what, place = next(iter(able.values())), key if section == "learning" else full
            raise ValueError(f"{place}|allowed only with algorithm = {quoted_choices(able)}: {what}")


def keys_reset_by(update: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of the same section that this update resets, such as the horizon with batches and epochs."""
    if "columns" in update:
        return {"bins": None, "trees": None}
    if "mechanism" in update:
        return {"alpha": None}
    rules = _new_rules(update)
    dropped = {
        key: None for key in KEYS_DROPPED_WITH_ALGORITHM if rules is not None and f"learning.{key}" not in rules.keys
    }
    if update.keys() & {"batches", "epochs"}:
        return {"horizon": None, **dropped}
    return {"epochs": None, **dropped} if "horizon" in update else dropped


def owner_keys_reset_by(update: Mapping[str, Any]) -> dict[str, Any]:
    """Return the owners' keys that this update of `[learning]` resets."""
    rules = _new_rules(update)
    dropped = {key: None for key in ("local_steps", "step") if rules is not None and f"owners.{key}" not in rules.keys}
    waits = (rules is not None and "learning.staleness" not in rules.keys) or (
        "staleness" in update and update["staleness"] is None
    )
    return {**dropped, "answers": None} if waits else dropped


def _new_rules(update: Mapping[str, Any]) -> AlgorithmRules | None:
    """Return the new algorithm's rules; None if it stays or is unknown."""
    name = update.get("algorithm")
    return None if find_by_name(ALGORITHMS, name) is None else algorithm_rules(str(name))


def kinds_of(task: str) -> list[str]:
    """Return the kinds of model of a task."""
    return [kind for kind, facts in MODELS.items() if facts.task == task]


def require_own_algorithm(kind: str, task: str) -> None:
    """Refuse (ValueError) an algorithm of one task for a model of another."""
    for name, facts in TASKS.items():
        if facts.kind is not None and (MODELS[kind].task == name) is not (task == name):
            kinds = quoted_choices(kinds_of(name))
            raise ValueError(
                f"learning.algorithm|kind = {kinds} requires {facts.algorithm!r} or another algorithm for the same "
                "task. No other kind allows these algorithms"
            )
