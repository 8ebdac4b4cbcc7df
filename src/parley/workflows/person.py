"""How a workflow reaches the person whose work it does: remarks, questions and progress, wherever that person sits.

`report.terminal.Terminal` is a person at a terminal; `Nobody` takes usual answers, for notebooks, jobs and tests.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeVar

from parley.errors import SettingError

Answer = TypeVar("Answer", str, int, float)


class Declined(Exception):  # noqa: N818 - an answer, not an error
    """The person said no. Its sentence says that nothing was done; a command ends with exit code 1."""


class Progress(Protocol):
    """How far the work is, and what it is."""

    def __call__(self, done: int, total: int) -> None: ...
    def says(self, label: str) -> None: ...


class Person(Protocol):
    """Somebody who reads remarks and answers questions."""

    @property
    def present(self) -> bool:
        """Whether somebody sits there who can read a question and answer it."""
        ...

    def say(self, sentence: str) -> None:
        """Tell a remark about the work, beside its result."""

    def warn(self, sentence: str) -> None:
        """Tell a sentence that somebody should look at."""

    def ask(self, question: str, usual: Answer) -> Answer:
        """The answer to a question, of the type of its usual answer."""
        ...

    def require(self, question: str) -> str:
        """The answer to a question that has no usual one."""
        ...

    def confirm(self, question: str, usual: bool = False) -> bool:
        """Whether the answer is yes."""
        ...

    def progress(self, label: str) -> AbstractContextManager[Progress]:
        """Show how far a piece of work is while it goes on."""
        ...


class Nobody:
    """Nobody is there: usual answers are taken, and remarks are kept in `heard`."""

    present = False

    def __init__(self) -> None:
        self.heard: list[str] = []

    def say(self, sentence: str) -> None:
        self.heard.append(sentence)

    warn = say

    def ask(self, question: str, usual: Answer) -> Answer:
        return usual

    def require(self, question: str) -> str:
        raise SettingError(f"{question}: there is no terminal to ask at; give it as an option")

    def confirm(self, question: str, usual: bool = False) -> bool:
        return usual

    @contextmanager
    def progress(self, label: str) -> Iterator[Progress]:
        yield _Unshown()


class _Unshown:
    def __call__(self, done: int, total: int) -> None:
        pass

    def says(self, label: str) -> None:
        pass
