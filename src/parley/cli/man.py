"""`parley man`: manual pages of all commands, from their help."""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperArgument, TyperGroup

from parley.cli.app import PART_BY_COMMAND, Command, app_command
from parley.durable import make_folder
from parley.report.terminal import console
from parley.version import __version__

EXIT_CODES = {
    0: "The command succeeded, or a daemon finished its calls and stopped on request.",
    1: "The command failed, for example because the user answered no, an audit found more leakage than promised, or "
    "another program closed the output early. A traceback means a fault in Parley.",
    2: "The command refused to continue or found a mistake, and printed one sentence with the reason. The command left "
    "nothing half done, so repeating the command gives the same result.",
    130: "The user interrupted the command from the keyboard.",
}
EXAMPLE = "Example:"


def man_command(
    to: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the manual pages, which replace pages of earlier versions.")
    ],
) -> None:
    """Write manual pages for all commands, to read with `man parley`, `man parley-train` and so on.

    Example:  parley man --to ~/.local/share/man/man1
    """

    make_folder(to)
    pages = man_pages()
    for name, text in pages.items():
        (to / name).write_text(text, encoding="utf-8")
    console.print(f"{to}  {len(pages)} pages; man {to / 'parley.1'} shows the first page", soft_wrap=True)


def man_pages() -> Mapping[str, str]:
    """Return every page by its file name, such as `parley-owner-accept.1`."""
    every = {("parley",): app_command(), **dict(_commands())}
    lines = {words: _first_sentence(_paragraphs(command.help or "")[0]) for words, command in every.items()}
    return {
        f"{'-'.join(words)}.1": man_page(words, command, {path: lines[path] for path in every if path[:-1] == words})
        for words, command in every.items()
    }


def _commands() -> Iterator[tuple[tuple[str, ...], Command]]:
    for name, part in PART_BY_COMMAND.items():
        command = part.load()
        yield ("parley", name), command
        for inner, within in command.commands.items() if isinstance(command, TyperGroup) else ():
            yield ("parley", name, inner), cast(Command, within)


def man_page(words: Sequence[str], command: Command, parts: Mapping[tuple[str, ...], str]) -> str:
    """Return the roff page of one command; `parts` are its subcommands, one line each."""
    context = command.make_context(" ".join(words), [], resilient_parsing=True)
    paragraphs = _paragraphs(command.help or "")
    description = [text for text in paragraphs if not text.startswith(EXAMPLE)]
    examples = [text.removeprefix(EXAMPLE).lstrip() for text in paragraphs if text.startswith(EXAMPLE)]
    records = [(isinstance(param, TyperArgument), _record(param, context)) for param in command.params]
    usage = " ".join(command.collect_usage_pieces(context))
    name = _plain("-".join(words))
    lists = {
        "COMMANDS": [("-".join(path) + "(1)", line) for path, line in parts.items()],
        "ARGUMENTS": [record for argument, record in records if argument],
        "OPTIONS": [record for argument, record in records if not argument],
        "EXIT STATUS": [(str(code), text) for code, text in EXIT_CODES.items()],
    }
    return "\n".join(
        [
            f'.TH {name.upper()} 1 "" "Parley {__version__}" "Parley"',
            *(".SH NAME", f"{name} \\- {_plain(_first_sentence(description[0]))}"),
            *(".SH SYNOPSIS", f".B {_plain(' '.join(words))}", _plain(usage)),
            *_section("DESCRIPTION", [line for text in description for line in (".PP", _plain(text))]),
            *_section("EXAMPLES", [line for text in examples for line in (".PP", ".nf", _plain(text), ".fi")]),
            *(line for heading, entries in lists.items() for line in _section(heading, _entries(entries))),
            *_section("SEE ALSO", [f".BR {_plain('-'.join(words[:-1]))} (1)"] if len(words) > 1 else []),
            "",
        ]
    )


def _section(heading: str, lines: Sequence[str]) -> Sequence[str]:
    """Return a section, or nothing if it is empty."""
    return (f".SH {heading}", *lines) if lines else ()


def _entries(entries: Sequence[tuple[str, str]]) -> Sequence[str]:
    return [line for term, text in entries for line in (".TP", f".B {_plain(term)}", _plain(text))]


def _record(option: Any, context: Any) -> tuple[str, str]:
    """Return (how it is typed, what it does), as `--help` has it, without colour escapes."""
    typed, does = option.get_help_record(context) or (option.name, "")
    return typed, does.replace("\\[", "[")


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a help text, one line each, without emphasis marks."""
    plain = re.sub(r"\[/?bold\]", "", inspect.cleandoc(text))
    return [" ".join(paragraph.split()) for paragraph in plain.split("\n\n") if paragraph.strip()]


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.?!])\s", text)[0].rstrip(".")


def _plain(text: str) -> str:
    r"""Escape text so that roff takes none of it as a request.

    >>> _plain(".so --file C:\\x")
    '\\&.so \\-\\-file C:\\ex'
    """
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
