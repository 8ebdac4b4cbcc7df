"""The reference of all commands, made of what `--help` says; the manual's page `commands` holds it."""

import re
from collections.abc import Iterator
from typing import Any

from parley.cli.app import PART_BY_COMMAND


def page() -> str:
    """A section for every command: how it is typed, what it does, its options."""
    return "\n\n".join(line for words, command in commands() for line in _section(words, command))


def commands() -> Iterator[tuple[str, Any]]:
    """(what is typed, the command) for each, those of a group behind it."""
    for name, part in PART_BY_COMMAND.items():
        command = part.load()
        yield f"parley {name}", command
        for inner, within in getattr(command, "commands", {}).items():
            yield f"parley {name} {inner}", within


def _section(words: str, command: Any) -> Iterator[str]:
    context = command.make_context(words, [], resilient_parsing=True)
    yield f"{'##' if words.count(' ') == 1 else '###'} {words}"
    yield f"```text\n{words} {' '.join(command.collect_usage_pieces(context))}\n```"
    for paragraph in re.sub(r"\[/?bold\]", "", command.help or "").split("\n\n"):
        if text := " ".join(paragraph.split()):
            yield f"```text\n{text.partition(':')[2].strip()}\n```" if text.startswith("Example:") else _plain(text)
    records = [param.get_help_record(context) for param in command.params]
    if told := [f"- `{record[0].strip()}`  {_plain(record[1])}" for record in records if record]:
        yield "\n".join(told)


def _plain(text: str) -> str:
    r"""Text in which nothing is taken for a mark, except for names in backticks.

    >>> _plain("write `a_b` to *.toml [default: 1]")
    'write `a_b` to \\*.toml \\[default: 1\\]'
    """
    parts = text.replace("\\[", "[").split("`")
    return "`".join(
        part if place % 2 else re.sub(r"([\\*_\[\]<>#|])", r"\\\1", part) for place, part in enumerate(parts)
    )
