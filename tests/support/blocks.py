"""The code blocks of a document: which there are, and what becomes of each when it is typed as it stands."""

import doctest
import io
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from newcomer import typed

from parley.cli.app import PARTS

BLOCK = re.compile(r"(?:<!-- not run: (.+?) -->\n)?^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHELLS = ("sh", "bash", "console")
# A line that takes somebody else: it is read, not run.
ELSEWHERE = re.compile(r"--owners addresses\.toml|owner serve|learner run|--uri |DIR\b|^parley studio")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, its text, and why it is not run, where it is not."""

    page: str
    line: int
    language: str
    text: str
    reason: str | None


def blocks(page: Path) -> list[Block]:
    """Every block of a page that names a language, in its order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page.name, text[: found.start()].count("\n") + 1, found[2], found[3], found[1])
        for found in BLOCK.finditer(text)
    ]


def in_python(text: str, names: dict[str, object]) -> None:
    """Run it; names last from block to block. Where prompts stand there, what is printed is what stands there."""
    if ">>>" not in text:
        exec(compile(text, "block", "exec"), names)
        return
    example = doctest.DocTestParser().get_doctest(text, names, "block", None, 0)
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(example, clear_globs=False)
    names.update(example.globs)
    assert runner.summarize(verbose=False).failed == 0
    assert example.examples


def in_shell(text: str) -> None:
    """Type every line; one that takes somebody else is read."""
    for line, answer, words in lines(text):
        if ELSEWHERE.search(line):
            understood(words)
            continue
        with mock.patch.object(sys, "stdin", io.StringIO(answer)):
            done = typed(*words)
        assert done.code == 0, f"{line}\n{done.said}"


def lines(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """(a line, what is typed into it, its words behind `parley`) for every command of ours, wherever it stands."""
    for line in text.replace("\\\n", " ").splitlines():
        if found := re.search(r"^\s*(?:\w+\$\s+)?(?:echo (\w+) \| )?(?:[\w./-]*/)?parley (?=[\w-])(.*)$", line):
            yield line, f"{found[1]}\n" if found[1] else "", typed_words(found[2])


def typed_words(rest: str) -> list[str]:
    """The words of a command, up to where the shell goes on with something else."""
    words = shlex.split(re.sub(r"\$\(.*?\)", "found", rest), comments=True)
    end = next((place for place, word in enumerate(words) if re.match(r"^(2?>|&|;|\|)", word)), len(words))
    return words[:end]


def understood(words: Sequence[str]) -> None:
    """The command exists and takes these words; nothing is done, and no file has to be there."""
    if words[0].startswith("--") or "…" in words:
        return
    command, args, above = PARTS[words[0]].load(), list(words[1:]), None
    while hasattr(command, "commands"):
        above = command.make_context(None, args, parent=above, resilient_parsing=True)
        assert args[0] in command.commands, words
        command, args = command.commands[args[0]], args[1:]
    try:
        command.make_context(" ".join(words), args, parent=above)
    except Exception as error:
        said = str(getattr(error, "message", error))
        assert "does not exist" in said, f"{words}: {said}"
