"""Terms back to TOML: what somebody wrote, with other budgets, as a file that every command reads; and whether a file
still holds the terms that somebody read."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parley.durable import store_address, write_file
from parley.errors import SettingError
from parley.terms.agreement import Terms
from parley.terms.keys import Section
from parley.terms.sections import Host, OwnerTerms

DIGITS = 8  # of a hash, at least: fewer would fit other terms by chance
SHOWN = {
    "algorithm",
    "horizon",
    "step",
    "mechanism",
    "rule",
}  # written even where they are what a file without them means


def write_terms(terms: Terms, path: Path, head: Sequence[str] = (), notes: Mapping[str, str] | None = None) -> None:
    """Write a terms file; paths inside it become relative to its folder, comments of the original are lost.

    Keys that say what a file without them means are left out, so the hash stays. `notes` are comments by key
    ("privacy.clip"; of owners the first one gets them), `head` is text above everything.
    """
    folder = str(path.resolve().parent)
    content = terms.model_dump(mode="json", exclude_none=True, exclude_unset=True)
    for part in (content["model"], *content["owners"]):
        for key in ("public", "preparation", "data"):
            if key in part:
                part[key] = store_address(part[key]) or os.path.relpath(part[key], folder)
    lines = [*(f"# {text}".rstrip() for text in head), *([""] if head else [])]
    lines += [f"{key} = {_value(value)}" for key, value in content.items() if isinstance(value, str) and value]
    for name in ("model", "learning", "privacy", "aggregation"):
        if name in content:
            lines += ["", f"[{name}]", *_entries(_needed(getattr(terms, name), content[name]), name, notes or {})]
    for name, kind in (("owners", OwnerTerms), ("hosts", Host)):
        for place, part in enumerate(content.get(name, ())):
            told = (notes or {}) if place == 0 else {}
            lines += [
                "",
                f"[[{name}]]",
                *_entries({key: part[key] for key in kind.model_fields if key in part}, name, told),
            ]
    write_file(path, "\n".join(lines).lstrip("\n") + "\n")


def head_of(path: Path) -> list[str]:
    """The comments above everything in a terms file, as `write_terms` takes them."""
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    end = next((place for place, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return [line[1:].strip() for line in lines[:end]]


def require_expected(terms: Terms, expected: str | None) -> None:
    """Refuse terms whose hash does not begin with these digits; None: whatever terms they are."""
    if expected is None:
        return
    if re.fullmatch(f"[0-9a-f]{{{DIGITS},64}}", expected) is None:
        raise SettingError(f"--expect: expected the first {DIGITS} to 64 digits of the terms' hash")
    if not terms.hash.startswith(expected):
        raise SettingError(
            f"these are terms {terms.hash[:16]}…, and {expected[:16]}… were read: the file was changed meanwhile; read "
            "it again. Nothing was spent"
        )


def _needed(section: Section, content: dict[str, Any]) -> dict[str, Any]:
    """The keys that do not merely say what their absence means."""
    fields = type(section).model_fields
    usual = {key: fields[key].get_default(call_default_factory=True) for key in content}
    return {key: value for key, value in content.items() if key in SHOWN or getattr(section, key) != usual[key]}


def _entries(section: dict[str, Any], name: str, notes: Mapping[str, str]) -> list[str]:
    """A line a key, with its comment behind it, or above a line that is long."""
    lines = []
    for key, value in section.items():
        line, note = f"{key} = {_value(value)}", notes.get(f"{name}.{key}")
        if note is None:
            lines.append(line)
        elif len(line) + len(note) <= 126:
            lines.append(f"{line:<36}  # {note}")
        else:
            lines += [f"# {note}", line]
    return lines


def _value(value: Any) -> str:
    """A TOML value: JSON's strings, numbers and booleans are TOML's too; tables are written inline with quoted keys."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_value(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(inner) for inner in value) + "]"
    # TOML knows no surrogates, and wants DEL escaped
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
