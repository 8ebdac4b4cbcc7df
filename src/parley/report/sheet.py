"""A command's report: tables and sentences in order, or one JSON object. Reports do not print themselves."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class Part:
    """A line or a table to print."""


@dataclass(frozen=True)
class Line(Part):
    """A sentence; `folded`: wrapped on a narrow screen, `aside`: printed on stderr."""

    text: str = ""
    style: str | None = None
    folded: bool = False
    aside: bool = False


@dataclass(frozen=True)
class Grid(Part):
    """A table whose first row is its head; `bold` is the row to highlight."""

    rows: Sequence[Sequence[str]]
    title: str = ""
    bold: int | None = None


BLANK_LINE = Line()


class Report(Protocol):
    """The result of a workflow."""

    @property
    def inside(self) -> bool:
        """Whether anything in it was computed from private rows without safe noise."""
        ...

    def to_json(self) -> Mapping[str, Any]:
        """Return the object that --json prints, without `inside`."""
        ...

    def parts(self) -> Iterable[Part]:
        """Return what is printed without --json."""
        ...

    def require_done(self) -> None:
        """Raise an error for anything that could not be done, after the rest was shown."""


class Finished:
    """A report of work that was completed."""

    def require_done(self) -> None:
        """Do nothing: all is done."""


@dataclass(frozen=True)
class Sheet(Finished):
    """A report that is already written."""

    content: Mapping[str, Any]
    shown: Sequence[Part]
    inside: bool = field(kw_only=True)

    def to_json(self) -> Mapping[str, Any]:
        """Return the object that --json prints."""
        return self.content

    def parts(self) -> Sequence[Part]:
        """Return what is printed without --json."""
        return self.shown


def lines(sentences: Iterable[str | None], style: str | None = None, folded: bool = False) -> list[Line]:
    """Return a line for each sentence that is not None."""
    return [Line(each, style, folded) for each in sentences if each is not None]
