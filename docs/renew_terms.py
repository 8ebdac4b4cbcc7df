"""Renew the tables of docs/terms.md from the schema: python docs/renew_terms.py

A row is `| key | type | default | meaning |` below a heading that names its section. Types and defaults come from the
schema (`parley.terms`); meanings are written by hand, and so is what it means to leave out a key whose default is None.
A key of the schema without a row, or a row without a key, is an error.
"""

import re
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from parley.terms import Host, Learning, Model, OwnerTerms, Privacy
from parley.terms.catalogue import ALL_MECHANISMS, MODELS
from parley.terms.join import Join
from parley.terms.keys import Section
from parley.terms.model import section_of
from parley.terms.sections import Aggregation, privacy_section

TERMS = Path(__file__).parent / "terms.md"
SECTIONS: dict[str, type[Section]] = {
    "model": Model,
    "learning": Learning,
    "privacy": Privacy,
    "aggregation": Aggregation,
    "join": Join,
    "owners": OwnerTerms,
    "hosts": Host,
}
HEADING = re.compile(r"## `\[+(\w+)\]+`")
ROW = re.compile(r"\| `([\w.]+)` \|([^|]*)\|([^|]*)\| (.*) \|")
MOST = 10**9  # limits beyond this are for machines, and not for readers


def keys(section: type[Section], above: str = "") -> dict[str, tuple[str, FieldInfo]]:
    """Every key below a section, with its type in words and what the schema holds of it; those of an inner section
    stand in its place."""
    found: dict[str, tuple[str, FieldInfo]] = {}
    hints = get_type_hints(section, include_extras=True)
    fields = dict(section.model_fields)
    if section is Model:  # with those that some kinds alone have
        for kind in MODELS:
            hints |= get_type_hints(section_of(kind), include_extras=True)
            fields |= section_of(kind).model_fields
    for mechanism in ALL_MECHANISMS if section is Privacy else ():
        hints |= get_type_hints(privacy_section(mechanism), include_extras=True)
        fields |= privacy_section(mechanism).model_fields
    for name, field in fields.items():
        inner = [
            part
            for part in (hints[name], *get_args(hints[name]))
            if isinstance(part, type) and issubclass(part, Section)
        ]
        if not inner:
            found[above + name] = in_words(hints[name]), field
        for part in inner:
            found |= keys(part, f"{above}{name}.")
    return found


def in_words(kind: Any) -> str:
    """A type as a reader of a table has it.

    >>> in_words(Annotated[int, FieldInfo(annotation=int)] | None), in_words(Literal["a", "b"] | None)
    ('integer', '`a`, `b`')
    """
    if get_origin(kind) is Annotated:
        base, *more = get_args(kind)
        limits = [limit for field in more if isinstance(field, FieldInfo) for limit in field.metadata]
        said = {
            name: getattr(limit, name) for limit in limits for name in ("ge", "gt", "le", "lt") if hasattr(limit, name)
        }
        return " ".join([in_words(base), *_limits(base, said)])
    if get_origin(kind) is Literal:
        return ", ".join(f"`{str(name).lower() if isinstance(name, bool) else name}`" for name in get_args(kind))
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(dict.fromkeys(in_words(part) for part in get_args(kind) if part is not NoneType))
    plain = {bool: "true or false", int: "integer", float: "number", str: "text", dict: "table", tuple: "list"}
    return plain[get_origin(kind) or kind]


def _limits(base: Any, said: dict[str, Any]) -> list[str]:
    """Its limits in words; none where readers do not meet them."""
    shown = {name: f"{limit:g}" for name, limit in said.items() if base in (int, float) and abs(limit) < MOST}
    if {"ge", "le"} <= shown.keys():
        return [f"{shown['ge']} to {shown['le']}"]
    signs = {"gt": ">{}", "ge": "≥{}", "lt": "<{}", "le": "≤{}"}
    limits = ", ".join(sign.format(shown[name]) for name, sign in signs.items() if name in shown)
    return [limits] if limits else []


def default(field: FieldInfo, written: str) -> str:
    """What leaving out a key means; where the schema says None, what the document says."""
    if field.is_required():  # of a file; some kinds fill it in (`Model.usual`), and the document says with what
        return "required" if written in ("", "–") else written
    usual = field.default if field.default is not PydanticUndefined else field.default_factory()  # type: ignore[call-arg,misc]
    if usual is None:
        return written
    if usual in ({}, ()):
        return written or "none"
    return f"`{usual}`" if isinstance(usual, str) else f"{usual:g}"


def renewed(text: str) -> str:
    """The document with types and defaults of the schema.

    Raises ValueError for keys without a row, rows without a key, and keys that have two.
    """
    section, left, lines = "", dict[str, tuple[str, FieldInfo]](), []
    for line in [*text.split("\n"), "## `[end]`"]:
        if line.startswith("## ") and section:
            if left:
                raise ValueError(f"[{section}] has no row for {', '.join(left)}")
            section = ""
        if heading := HEADING.match(line):
            section = heading[1]
            left = keys(SECTIONS[section]) if section in SECTIONS else {}
        if section and (row := ROW.fullmatch(line)):
            if row[1] not in left:
                raise ValueError(f"[{section}] has no key {row[1]}, or two rows for it")
            kind, field = left.pop(row[1])
            line = f"| `{row[1]}` | {kind} | {default(field, row[3].strip())} | {row[4]} |"
        lines.append(line)
    return "\n".join(lines[:-1])


if __name__ == "__main__":
    TERMS.write_text(renewed(TERMS.read_text(encoding="utf-8")), encoding="utf-8")
