"""What follows where terms are changed: keys to be computed anew, and keys that another algorithm has no use for."""

from collections.abc import Mapping
from typing import Any

from parley.terms.algorithm_rules import AlgorithmRules, algorithm_rules
from parley.terms.catalogue import ALGORITHMS
from parley.terms.keys import looked_up

FORGOTTEN = ("proximal", "variates", "topology", "staleness", "top_k")  # with the algorithm that read them


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
