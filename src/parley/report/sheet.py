"""What a command shows of its report: tables and sentences in order, or one JSON object. No report prints itself."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class Part:
    """A piece of what is printed: a line or a table."""


@dataclass(frozen=True)
class Line(Part):
    """A sentence; `folded` between words where a screen is narrow, `aside` on stderr."""

    text: str = ""
    style: str | None = None
    folded: bool = False
    aside: bool = False


@dataclass(frozen=True)
class Grid(Part):
    """A table whose first row is its head; `bold` is the row to point out."""

    rows: Sequence[Sequence[str]]
    title: str = ""
    bold: int | None = None


BLANK = Line()


class Report(Protocol):
    """What a workflow returns."""

    @property
    def inside(self) -> bool:
        """Whether anything in it was computed from private rows without safe noise."""
        ...

    def to_json(self) -> Mapping[str, Any]:
        """The object that --json prints, without `inside`."""
        ...

    def parts(self) -> Iterable[Part]:
        """What is printed without --json."""
        ...

    def require_done(self) -> None:
        """Refuse, once all else was shown, what could not be done."""


class Finished:
    """A report of what was done whole."""

    def require_done(self) -> None:
        """Nothing is left to be done."""


@dataclass(frozen=True)
class Sheet(Finished):
    """A report that was written already."""

    content: Mapping[str, Any]
    shown: Sequence[Part]
    inside: bool = field(kw_only=True)

    def to_json(self) -> Mapping[str, Any]:
        """The object that --json prints."""
        return self.content

    def parts(self) -> Sequence[Part]:
        """What is printed without --json."""
        return self.shown


def lines(sentences: Iterable[str | None], style: str | None = None, folded: bool = False) -> list[Line]:
    """A line for each sentence that there is."""
    return [Line(each, style, folded) for each in sentences if each is not None]
