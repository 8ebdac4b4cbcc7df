"""How far one person, or an owner's whole table, can move an answer, in words."""

from collections.abc import Mapping
from typing import Any

from parley.numerals import number
from parley.owner.owner import Agreement
from parley.terms.sections import OWNER


def limit_words(agreement: Agreement, found: Mapping[str, Any]) -> str:
    """The sentence about what limits an answer; `found` are the same as figures (`warnings.figures`)."""
    moves = _whole(found) if agreement.setup.terms.privacy.unit == OWNER else _of_records(agreement, found)
    return (
        f"{moves} an answer by at most {number(found['sensitivity'])}; the noise has scale "
        f"{number(found['noise_scale'])}."
    )


def _whole(found: Mapping[str, Any]) -> str:
    return (
        f"What your answer as a whole counts at most: {number(found['clip'])} in {found['norm'].upper()}, by "
        f"privacy.clip (parameters: {_box(found)}). All of your rows together move"
    )


def _of_records(agreement: Agreement, found: Mapping[str, Any]) -> str:
    task = agreement.setup.task
    if found["record_bound"] is None:
        return f"A {task.unit} moves"
    by = "one leaf a tree" if found["leaves"] is not None else "what public rows reach"
    by = "privacy.clip" if found["clips"] else "the ranges below" if found["trees"] is None else by
    clip = "none" if found["clip"] is None else number(found["clip"])
    weights = ", ".join(f"{number(weight)} for class {name}" for name, weight in sorted(found["class_weight"].items()))
    return (
        f"What one {task.record} counts at most: {number(found['record_bound'])} in {found['norm'].upper()}, by "
        f"{by} (clip: {clip}; weights: {weights or '1 for all'}; parameters: {_box(found)}). A {task.unit} moves"
    )


def _box(found: Mapping[str, Any]) -> str:
    return "anything" if found["radius"] is None else f"±{number(found['radius'])}"
