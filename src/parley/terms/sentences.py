"""What is wrong with terms, in sentences: the key, the value, and what was expected."""

import difflib
from typing import Any

from parley.terms.sections import RANGE, Host, Learning, Model, OwnerTerms, Privacy, PrivacyCost, Section

_SECTIONS: dict[str, type[Section]] = {
    "model": Model,
    "learning": Learning,
    "privacy": Privacy,
    "owners": OwnerTerms,
    "hosts": Host,
    "privacy_cost": PrivacyCost,
}


def explain(error: Any, root: type[Section]) -> str:
    """One pydantic error of the `root` section as: key = value: what was expected."""
    if error["loc"][:2] == ("learning", "step"):
        return f"learning.step = {error['input']!r}: expected a number {RANGE}, or 'auto'"
    if error["loc"][:2] == ("model", "bounds") and len(error["loc"]) > 2:
        return f"model.bounds.{error['loc'][2]}: expected [low, high], two finite numbers"
    if error["loc"][:2] == ("model", "missing"):
        return "model.missing: expected 'refuse' or 'fill', or a table of columns with one of the two each"
    place = list(error["loc"])
    if len(place) > 1 and place[-1] == "[key]":
        place.pop()
    key = ".".join(str(part + 1) if isinstance(part, int) else part for part in place)
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    if kind == "extra_forbidden":
        named = [part for part in place[:-1] if isinstance(part, str)]
        section = _SECTIONS.get(named[-1], root) if named else root
        near = difflib.get_close_matches(str(place[-1]), section.model_fields, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(section.model_fields)}"
        return f"{key}: unknown key; {hint}"
    if kind == "missing":
        return f"{key}: missing; this key is needed"
    if kind == "value_error":
        where, _, expectation = str(context["error"]).partition("|")
        return f"{'.'.join([*key.split('.'), where]) if key else where}: {expectation}"
    if kind in ("literal_error", "one_of"):
        return f"{key} = {value!r}: expected {context['expected']}"
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
        "string_pattern_mismatch": "letters, digits, '-', '_' and '.'" if place[-1] == "name" else "64 hexadecimal digits",
    }.get(kind, error["msg"][:1].lower() + error["msg"][1:])
    return f"{key} = {value!r}: expected {expected}"
