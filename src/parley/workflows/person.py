"""A workflow's contact to its user: remarks, questions and progress."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeVar

from parley.errors import SettingError

Answer = TypeVar("Answer", str, int, float)


class Declined(Exception):  # noqa: N818 - an answer, not an error
    """The person declined. The message says that nothing was done; a command ends with exit code 1."""


class Progress(Protocol):
    """The progress of the work, and its name."""

    def __call__(self, done: int, total: int) -> None: ...
    def says(self, label: str) -> None: ...


class Person(Protocol):
    """Somebody who reads remarks and answers questions."""

    @property
    def present(self) -> bool:
        """Whether somebody is there to read a question and answer it."""
        ...

    def say(self, sentence: str) -> None:
        """Show a remark about the work, beside its result."""

    def warn(self, sentence: str) -> None:
        """Show a warning."""

    def ask(self, question: str, usual: Answer) -> Answer:
        """Return the answer to a question, of the type of its usual answer."""
        ...

    def require(self, question: str) -> str:
        """Return the answer to a question that has no usual one."""
        ...

    def confirm(self, question: str, usual: bool = False) -> bool:
        """Return whether the answer is yes."""
        ...

    def progress(self, label: str) -> AbstractContextManager[Progress]:
        """Show the progress of a piece of work."""
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
        raise SettingError(f"{question}: Parley cannot ask without a terminal; give the answer as an option")

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
