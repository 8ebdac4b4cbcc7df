"""The code blocks of a document: which there are, and what becomes of each when it is typed as it stands."""

import doctest
import io
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from newcomer import typed

from parley.cli.app import PART_BY_COMMAND

BLOCK = re.compile(r"(?:<!-- (not run|run by): (.+?) -->\n)?^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHELLS = ("sh", "bash", "console")
# A line that takes somebody else: it is read, not run.
ELSEWHERE = re.compile(r"--owners addresses\.toml|owner serve|learner run|--uri |DIR\b|^parley studio")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, its text, and why it is not run, or which test runs it instead."""

    page: str
    line: int
    language: str
    text: str
    reason: str | None
    run_by: str | None


def blocks(page: Path) -> list[Block]:
    """Every block of a page that names a language, in its order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page.name,
            text[: found.start()].count("\n") + 1,
            found[3],
            found[4],
            found[2] if found[1] == "not run" else None,
            found[2] if found[1] == "run by" else None,
        )
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


def in_shell(text: str) -> int:
    """Type every line; one that takes somebody else is read. How many were typed."""
    count = 0
    for line, answer, words in lines(text, "parley|cp"):
        if ELSEWHERE.search(line):
            understood(words)
            continue
        for word in words:
            handed_over(word)
        if re.search(r"\bcp ", line):
            *files, folder = words
            for file in files:
                shutil.copy(file, folder)
            continue
        with mock.patch.object(sys, "stdin", io.StringIO(answer)):
            done = typed(*words)
        assert done.code == 0, f"{line}\n{done.said}"
        count += 1
    return count


def handed_over(word: str) -> None:
    """A file that lies in one folder here, and that somebody sends who types in another, comes along."""
    if re.fullmatch(r"[\w-]+\.(crt|crl|csr)", word) and not Path(word).exists():
        (found,) = Path().glob(f"*/{word}")
        shutil.copy(found, word)


def lines(text: str, programs: str = "parley") -> Iterator[tuple[str, str, list[str]]]:
    """(a line, what is typed into it, its words behind the program) for every command of these, wherever it stands."""
    for line in text.replace("\\\n", " ").splitlines():
        if found := re.search(
            rf"^\s*(?:\w+\$\s+)?(?:echo (\w+) \| )?(?:[\w./-]*/)?(?:{programs}) (?=[\w-])(.*)$", line
        ):
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
    command, args, above = PART_BY_COMMAND[words[0]].load(), list(words[1:]), None
    while hasattr(command, "commands"):
        above = command.make_context(None, args, parent=above, resilient_parsing=True)
        assert args[0] in command.commands, words
        command, args = command.commands[args[0]], args[1:]
    try:
        command.make_context(" ".join(words), args, parent=above)
    except Exception as error:
        said = str(getattr(error, "message", error))
        assert "does not exist" in said, f"{words}: {said}"
