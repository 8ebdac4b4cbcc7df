"""Errors in terms as sentences: the key, the value, and what was expected."""

import difflib
import re
from collections.abc import Sequence
from typing import Any

from parley.terms.catalogue import ALL_MECHANISMS, MODELS
from parley.terms.join import Join
from parley.terms.keys import NUMBER_RANGE_TEXT, Section, find_by_name, quoted_choices
from parley.terms.model import Model, kinds_with, section_of
from parley.terms.sections import (
    PARTY,
    WHY_STUDIES_ONLY,
    Aggregation,
    Host,
    Learning,
    OwnerTerms,
    Privacy,
    PrivacyCost,
    privacy_section,
)
from parley.terms.topology import EXPECTED_TOPOLOGY as TOPOLOGY

MAX_EXPLAINED_ERRORS = 20  # errors that are explained at once; each takes a while to look up

_SECTION_CLASSES: dict[str, type[Section]] = {
    "learning": Learning,
    "privacy": Privacy,
    "owners": OwnerTerms,
    "hosts": Host,
    "aggregation": Aggregation,
    "join": Join,
    "privacy_cost": PrivacyCost,
}


def _step_name(place: list[Any], depth: int, content: Any) -> str:
    """Name one step on the way to a key: owners and hosts by valid, unique names, else by place, from 1."""
    part = place[depth]
    if not isinstance(part, int):
        return str(part)
    names = (
        [_name(each) for each in content[place[0]]]
        if depth == 1 and place[0] in ("owners", "hosts") and content
        else []
    )
    name = names[part] if part < len(names) else ""
    known = re.fullmatch(PARTY, name) and names.count(name) == 1 and place[2:] != ["name"]
    return name if known else str(part + 1)


def _name(entry: Any) -> str:
    name = entry.get("name") if isinstance(entry, dict) else getattr(entry, "name", None)
    return name if isinstance(name, str) else ""


def _choices(place: tuple[Any, ...], value: Any, expected: str, content: Any) -> str:
    """List the choices, with the closest to a misspelt value, or why stable noise is not among them."""
    if place == ("privacy", "mechanism"):
        model = content.get("model") if isinstance(content, dict) else None
        facts = find_by_name(MODELS, model.get("kind") if isinstance(model, dict) else getattr(model, "kind", None))
        own = None if facts is None else facts.task
        released = {name: noise for name, noise in ALL_MECHANISMS.items() if not noise.studied}
        expected = quoted_choices({name: None for name, noise in released.items() if noise.task in (None, own)})
        if isinstance(value, str) and "stable" in value.lower():
            return f"{expected}; {WHY_STUDIES_ONLY}, and its name is 'stable'"
    near = difflib.get_close_matches(str(value), re.findall(r"'([^']*)'", expected), n=1, cutoff=0.6)
    return f"{expected}; did you mean {near[0]!r}?" if near else expected


def _section(content: Any) -> type[Model]:
    """Return the section `[model]` of the kind that was read."""
    model = content.get("model") if isinstance(content, dict) else None
    return section_of(model.get("kind") if isinstance(model, dict) else getattr(model, "kind", None))


def explained(errors: Sequence[Any], root: type[Section], content: Any = None) -> list[str]:
    """Explain every error once: the first `MAX_EXPLAINED_ERRORS`, then the number of others."""
    places = [error["loc"] for error in errors]
    echoes = [
        error["type"] == "too_short"
        and any(place != error["loc"] and place[: len(error["loc"])] == error["loc"] for place in places)
        for error in errors
    ]
    errors_to_explain = [error for error, echo in zip(errors, echoes, strict=True) if not echo]
    sentences = list(dict.fromkeys(explain(error, root, content) for error in errors_to_explain[:MAX_EXPLAINED_ERRORS]))
    return (
        [*sentences, f"and {len(errors_to_explain) - MAX_EXPLAINED_ERRORS:,} more"]
        if len(errors_to_explain) > MAX_EXPLAINED_ERRORS
        else sentences
    )


def explain(error: Any, root: type[Section], content: Any = None) -> str:
    """Explain one pydantic error of the `root` section: key = value: what was expected. `content` gives names."""
    if error["loc"][:2] == ("learning", "step"):
        return f"learning.step = {error['input']!r}: expected a number {NUMBER_RANGE_TEXT}, or 'auto'"
    if error["loc"][:2] == ("model", "bounds") and len(error["loc"]) > 2:
        return f"model.bounds.{error['loc'][2]}: expected [low, high], two finite numbers"
    if error["loc"][:2] == ("model", "missing"):
        return "model.missing: expected 'refuse' or 'fill', or a table that gives each column 'refuse' or 'fill'"
    if error["loc"][:1] == ("model",) and error["type"] != "extra_forbidden":
        model, own = _section(content), error["loc"][1:2]
        known = model.expected.get(own[0]) if own else None
        inner = None if known is None else model.model_fields[own[0]].annotation
        if known is not None and not (error["loc"][2:] and isinstance(inner, type) and issubclass(inner, Section)):
            return f"model.{error['loc'][1]}: {'missing; ' if error['type'] == 'missing' else ''}expected {known}"
    if error["loc"][:2] == ("learning", "topology"):
        return f"learning.topology: expected {TOPOLOGY}"
    place = list(error["loc"])
    if len(place) > 1 and place[-1] == "[key]":
        place.pop()
    key = ".".join(_step_name(place, depth, content) for depth in range(len(place)))
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    if kind == "extra_forbidden":
        named = [part for part in place[:-1] if isinstance(part, str)]
        if named == ["model"] and (others := kinds_with(place[-1])):
            return f"{key}: allowed only with kind = {quoted_choices(others)}"
        noises = ALL_MECHANISMS if named == ["privacy"] else ()
        if own := [name for name in noises if place[-1] in privacy_section(name).model_fields]:
            return f"{key}: allowed only with mechanism = {quoted_choices(own)}"
        section = _section(content) if named == ["model"] else _SECTION_CLASSES.get(named[-1], root) if named else root
        near = difflib.get_close_matches(str(place[-1]), section.model_fields, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(section.model_fields)}"
        return f"{key}: unknown key; {hint}"
    if kind == "missing":
        return f"{key}: missing; this key is required"
    if kind == "value_error":
        where, _, expectation = str(context["error"]).partition("|")
        return f"{'.'.join([*key.split('.'), where]) if key else where}: {expectation}"
    if kind in ("literal_error", "one_of"):
        return f"{key} = {value!r}: expected {_choices(error['loc'], value, context['expected'], content)}"
    if kind == "too_short":
        return f"{key}: expected at least {context['min_length']}"
    bounds = {"greater_than": "gt", "greater_than_equal": "ge", "less_than": "lt", "less_than_equal": "le"}
    signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
    if kind in bounds:
        name = bounds[kind]
        return f"{key} = {value!r}: expected a number {signs[name]} {context[name]:g}"
    expected = {
        "float_type": "a number",
        "int_type": "a whole number",
        "bool_type": "true or false",
        "string_type": "text",
        "finite_number": "a finite number",
        "tuple_type": "a list",
        "dict_type": "a table of keys",
        "model_type": "a table of keys",
        "string_too_short": "a name",
        "string_pattern_mismatch": "letters, digits, '-', '_' and '.'"
        if place[-1] == "name"
        else "64 hexadecimal digits",
    }.get(kind, error["msg"][:1].lower() + error["msg"][1:])
    return f"{key} = {value!r}: expected {expected}"
