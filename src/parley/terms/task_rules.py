"""What terms must say about a task other than prediction: each wing has its rules, loaded when terms name it."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from parley.terms.catalogue import MODELS, PREDICTION, TASKS
from parley.terms.keys import listed, looked_up

# Types of who calls these rules, and is not imported here:
Terms = Any  # terms.agreement.Terms
Model = Any  # terms.model.Model


class Rules:
    """Of prediction: none beyond those that hold for all terms. A wing overrides what it needs; refusals are a
    ValueError, "key|expected what"."""

    expected: ClassVar[Mapping[str, str]] = {}  # of keys of `[model]`: what was expected where something else was found

    def usual_model(self, content: dict[str, Any]) -> dict[str, Any]:
        """The section `[model]` with what need not be said."""
        return content

    def read(self, content: dict[str, Any], folder: Path) -> dict[str, Any]:
        """The content of a terms file in this folder, with the files that it names read."""
        return content

    def check_model(self, model: Model) -> None:
        """Refuse a section `[model]` that does not make sense by itself."""

    def check(self, terms: Terms) -> None:
        """Refuse terms whose sections do not fit together."""


@cache
def rules_of(task: str) -> Rules:
    """The rules of the task that has this name."""
    if task == PREDICTION or not TASKS[task].home:  # none, or registered by a program
        return Rules()
    found = import_module(f"{TASKS[task].home}.terms").RULES
    if not isinstance(found, Rules):
        raise TypeError(f"{TASKS[task].home}.terms: expected RULES, an instance of Rules")
    return found


def named_rules(content: Any) -> Rules:
    """The rules of the task that a section `[model]` as it was read is for; of prediction where that cannot be told."""
    facts = looked_up(MODELS, content.get("kind")) if isinstance(content, dict) else None
    return rules_of(PREDICTION if facts is None else facts.task)


def kinds_of(task: str) -> list[str]:
    """What terms call the models of a task."""
    return [kind for kind, facts in MODELS.items() if facts.task == task]


def require_own_keys(model: Model) -> None:
    """Refuse (ValueError) keys that belong to another task."""
    own = MODELS[model.kind].task
    for name, facts in TASKS.items():
        for key in facts.keys:
            if name != own and getattr(model, key) is not None:
                raise ValueError(f"{key}|expected only with kind = {listed(kinds_of(name))}")


def require_own_algorithm(kind: str, task: str) -> None:
    """Refuse (ValueError) the algorithm of one task for a model of another."""
    for name, facts in TASKS.items():
        if facts.kind is not None and (MODELS[kind].task == name) is not (task == name):
            kinds = listed(kinds_of(name))
            raise ValueError(f"learning.algorithm|expected {facts.algorithm!r} with kind = {kinds}, and with no other")
