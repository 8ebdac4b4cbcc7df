"""A document and what it shows: figures, tables and studies, each with the function that computes it and the one that
draws it.

`--help` and `--list` read this and nothing else. So functions are named as "module:function", of the document's own
folder or of `parley.` something, and loaded when somebody asks for what they show.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from parley.errors import SettingError
from parley.privacy.events import Adjacency
from parley.report.extras import extras
from parley_lab.papers.printed import Printed
from parley_lab.papers.records import Comparison, rounded

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int, int], None]
Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Titled:
    """A table to be printed: its title, and rows of which the first is the head."""

    title: str
    rows: Rows


Parts = list[Titled | str]


@dataclass(frozen=True, eq=False)
class Shown:
    """What came out of one exhibit: fields for the JSON, tables and remarks in the order of printing, what its picture
    is drawn from.

    `notes` and `findings` are the document's: notes come first, findings last, and each once, however many exhibits
    have it.
    """

    content: Mapping[str, Any] = field(default_factory=dict)
    parts: Parts = field(default_factory=list)
    drawn: tuple[Any, ...] = ()
    files: Mapping[str, "pd.DataFrame"] = field(default_factory=dict)  # by name, written as CSV
    notes: Sequence[str] = ()
    findings: Sequence[Sequence[str]] = ()
    real: bool = True  # whether it is of the document's data, or needs none: no record is kept of synthetic data


@dataclass(frozen=True)
class Exhibit:
    """One figure, table or study: the option and the word that ask for it, what it shows, and how.

    `compute` takes (bench, word, progress) and returns `Shown`; `draw` takes what that holds as `drawn` and returns a
    figure. `options` are those that nothing else takes; `data` names the files that it reads.
    """

    option: str
    word: str
    line: str
    compute: str
    draw: str | None = None
    options: tuple[str, ...] = ()
    data: str = ""

    @property
    def name(self) -> str:
        """What its files are called.

        >>> Exhibit("figure", "3", "", "").name, Exhibit("figure", "best-alpha", "", "").name
        ('figure-3', 'best-alpha')
        """
        return f"{self.option}-{self.word}" if self.word[0].isdigit() else self.word


@dataclass(frozen=True)
class Document:
    """A source document: its command, what it shows, and the table at the end: its title and what stands beside
    "what"."""

    name: str
    exhibits: tuple[Exhibit, ...]
    title: str = ""
    printed: tuple[Printed, ...] = ()  # its own figures and tables, all of them, in its order
    findings: tuple[str, tuple[str, ...]] | None = None
    prefix: str = ""  # of pictures' names, where at most one is drawn at a time
    # of every epsilon in it; None: exhibits say it, each for itself
    adjacency: Adjacency | None = Adjacency.REPLACE_ONE

    @property
    def folder(self) -> str:
        """The package in which its functions are."""
        return f"{__package__}.{self.name.replace('-', '_')}"

    def load(self, function: str) -> Callable[..., Any]:
        """A function by its "module:function"; where it needs an extra that is missing, that is said."""
        module, _, name = function.partition(":")
        with extras():
            found = import_module(module if module.startswith("parley.") else f"{self.folder}.{module}")
        return cast(Callable[..., Any], getattr(found, name))

    def words(self, option: str) -> list[str]:
        """The words that may follow an option, in the order of the document."""
        return [each.word for each in self.exhibits if each.option == option]

    def find(self, option: str, word: str) -> Exhibit:
        """What `--option word` asks for."""
        for each in self.exhibits:
            if (each.option, each.word) == (option, word):
                return each
        known = ", ".join(self.words(option))
        raise SettingError(f"--{option} {word}: expected one of {known}{self._suggestion(option, word)}")

    def _suggestion(self, option: str, word: str) -> str:
        other = next((each.option for each in self.exhibits if each.word == word and each.option), None)
        if other is not None:
            return f"; did you mean --{other} {word}?"
        near = [] if word.isdigit() else get_close_matches(word.lower(), self.words(option), 1)
        return f"; did you mean {near[0]}?" if near else ""

    def exhibit_of(self, printed: Printed) -> Exhibit | None:
        """The exhibit that is asked for by a figure's or table's own number; None where another command or none shows
        it."""
        return next((each for each in self.exhibits if f"{each.option} {each.word}" == printed.number), None)

    def needs_of(self, printed: Printed) -> tuple[str, ...]:
        """The names of the exhibits whose numbers are compared with a figure or table."""
        exhibit = self.exhibit_of(printed)
        return printed.needs or (() if exhibit is None else (exhibit.name,))

    def compared(self, shown: Mapping[str, Shown]) -> dict[str, tuple[Comparison, ...]]:
        """The comparisons of every figure and table whose exhibits are all `shown`, by number."""
        found = {}
        for each in self.printed:
            needs = self.needs_of(each)
            if each.compare is not None and needs and all(name in shown for name in needs):
                found[each.number] = rounded(self.load(each.compare)({name: shown[name] for name in needs}))
        return found

    def title_of(self, printed: Printed) -> str:
        """What a figure or table shows, in our words: its own line, or that of its exhibit."""
        exhibit = self.exhibit_of(printed)
        return printed.title or ("" if exhibit is None else exhibit.line)

    def command_of(self, printed: Printed) -> str | None:
        """What to type for a figure or table; None where nothing shows it."""
        exhibit, asked = self.exhibit_of(printed), printed.asked
        if asked is None and exhibit is not None:
            asked = f"--{exhibit.option} {exhibit.word}"
        own = f"parley reproduce {self.name} {asked}".strip()
        return asked if asked is None or asked.startswith("parley ") else own

    def require_options(self, chosen: Sequence[Exhibit], given: Mapping[str, object]) -> None:
        """Refuse an option that was given and that nothing of what was chosen takes."""
        for option, value in given.items():
            takers = [each.name for each in self.exhibits if option in each.options]
            absent = value is None or value is False or value == []
            if not absent and not any(each.name in takers for each in chosen):
                raise SettingError(f"--{option}: expected {' or '.join(takers)}, to which it belongs")


@dataclass(frozen=True, eq=False)
class Asked:
    """What somebody wants to see: exhibits by their names, the folder of real data if there is one, and one for files
    in between."""

    names: tuple[str, ...]
    folder: Path | None
    scratch: Path
    progress: Progress

    def required_folder(self, what: str) -> Path:
        """The folder of real data, where nothing else will do."""
        if self.folder is None:
            raise SettingError(f"--data: expected the folder that holds {what}, or PARLEY_DATA set to it")
        return self.folder
