"""Terms back to TOML: what somebody wrote, with other budgets, as a file that every command reads."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parley.terms.agreement import Terms


def write_terms(terms: Terms, path: Path, note: Sequence[str] = ()) -> None:
    """Write a terms file; paths inside it become relative to its folder, comments of the original are lost. `note`: lines on top."""
    folder = str(path.resolve().parent)
    content = terms.model_dump(mode="json", exclude_none=True, exclude_unset=True)
    for part in (content["model"], *content["owners"]):
        for key in ("public", "data"):
            if key in part:
                part[key] = os.path.relpath(part[key], folder)
    owners = content.pop("owners")
    content = {key: _said(value) if isinstance(value, dict) else value for key, value in content.items() if value != []}
    lines = [f"# {line}" for line in note]
    lines += [f"{key} = {_value(value)}" for key, value in content.items() if not isinstance(value, dict)]
    for name, section in content.items():
        if isinstance(section, dict):
            lines += ["", f"[{name}]", *_entries(section)]
    for owner in owners:
        lines += ["", "[[owners]]", *_entries(owner)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _said(section: dict[str, Any]) -> dict[str, Any]:
    """A section without its empty tables: they say nothing."""
    return {key: value for key, value in section.items() if value != {}}


def _entries(section: dict[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in section.items()]


def _value(value: Any) -> str:
    """A TOML value: JSON's strings, numbers and booleans are TOML's too; tables are written inline with quoted keys."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_value(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(inner) for inner in value) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML knows no surrogates, and wants DEL escaped
