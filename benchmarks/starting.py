"""How long it takes until a command says what it does: CPU seconds of `parley COMMAND --help`, each in a process of its
own.

The ratio is to `parley --help`, which loads no command: what lies above it are libraries that the command loads before
it knows its work.
"""

import argparse
import os
import subprocess
import sys

from parley.cli.app import PART_BY_COMMAND

SLOW = ("numpy", "pydantic", "scipy", "sklearn", "pandas", "matplotlib", "opendp", "dp_accounting", "grpc", "numba")
CODE = f"""
import sys
from parley.cli.app import app
try:
    app([*sys.argv[1:], "--help"], prog_name="parley")
except SystemExit:
    print("", *(name for name in {SLOW} if name in sys.modules))
"""


def commands() -> list[list[str]]:
    """Every command and every part of a group, as people type them; first nothing at all."""
    found: list[list[str]] = [[]]
    for name, part in PART_BY_COMMAND.items():
        found += [[name], *([name, inner] for inner in getattr(part.load(), "commands", {}))]
    return found


def help_seconds(words: list[str], repeats: int) -> tuple[float, str]:
    """The least CPU seconds of some runs, and which large libraries were loaded."""
    seconds = []
    for _ in range(repeats):
        before = os.times()
        run = subprocess.run([sys.executable, "-c", CODE, *words], capture_output=True, text=True, check=True)
        after = os.times()
        seconds.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return min(seconds), run.stdout.splitlines()[-1].strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="only commands that begin with one of these words")
    given = parser.parse_args()
    chosen = [words for words in commands() if not words or not given.only or words[0] in given.only]
    alone = None
    for words in chosen:
        seconds, loaded = help_seconds(words, given.repeats)
        alone = alone or seconds
        print(
            f"{' '.join(['parley', *words, '--help']):<42} {seconds:.2f} CPU s  {seconds / alone:4.1f} times  {loaded}",
            flush=True,
        )


if __name__ == "__main__":
    main()
