"""The figures and tables that a source document prints, by number, and what compares each with ours."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """What became of a figure or table."""

    COMES_OUT = "comes out"
    AS_DRAWN = "comes out as drawn; the sound reading differs"
    DIFFERS = "comes out differently"
    UNDECIDED = "recorded; nothing decides it"
    NOT_RUN = "no run recorded"
    NO_DATA = "no data"
    PICTURE = "nothing to measure"


@dataclass(frozen=True)
class Printed:
    """A figure or table by the document's own number ("figure 3").

    Its outcome and figures are those of its record (`records`), never written here. `note` says what a reader of the
    figures must know. `title` and `asked` (options of the document's own command, or a whole command) are needed only
    where no exhibit has this number. `compare` names the function that compares ("module:function", in the document's
    folder); it takes what each of the exhibits `needs` shows, by name. `again` is the document and number whose record
    this is, where another document prints the same figure. `quick`: a test computes the record's figures again.
    `without`: the outcome where no run can decide it; a record beside it is evidence, not an outcome.
    """

    number: str
    note: str = ""
    title: str = ""
    asked: str | None = None
    compare: str | None = None
    needs: tuple[str, ...] = ()
    again: tuple[str, str] | None = None
    quick: bool = False
    without: Outcome | None = None


def pictures(titles: Mapping[str, str]) -> tuple[Printed, ...]:
    """Figures and tables that show a method, data or notation, by number."""
    return tuple(Printed(number, title=title, without=Outcome.PICTURE) for number, title in titles.items())
