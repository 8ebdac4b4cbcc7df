"""What a source document prints, figure by figure and table by table, and whether it comes out here."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """What became of a figure or table."""

    COMES_OUT = "comes out"
    AS_DRAWN = "comes out as drawn; the sound reading differs"
    DIFFERS = "comes out differently"
    NO_DATA = "no data"
    LONG = "not run here (long)"
    PICTURE = "nothing to measure"


@dataclass(frozen=True)
class Printed:
    """A figure or table by the document's own number ("figure 3"), what became of it, and why in a sentence.

    `title` and `asked` (options of the document's own command, or a whole command) may be left out where an exhibit has
    this number. `quick`: the tests run it, and hold the sentence against what comes out.
    """

    number: str
    outcome: Outcome
    why: str = ""
    title: str = ""
    asked: str | None = None
    quick: bool = False


def pictures(titles: Mapping[str, str]) -> tuple[Printed, ...]:
    """Figures and tables that show a method, data or notation, by number."""
    return tuple(Printed(number, Outcome.PICTURE, title=title) for number, title in titles.items())
