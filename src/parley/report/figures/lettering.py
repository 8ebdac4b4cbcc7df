"""Names in figures: short enough, free of what the library takes for formulas, and drawn by fonts that are here."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import groupby

from matplotlib import rc_context
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, fontManager, get_font
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter

from parley.validate import printable

FAMILY = "DejaVu Sans"  # comes with the library: figures look alike everywhere
OTHERS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Noto Sans Bengali",
    "Arial Unicode MS",
)  # for letters that it lacks, where they are installed
LONGEST = 28  # letters of a name
NUMBERED = "Names that no font here can draw are numbered; an .svg has them."


def lettered(text: str, longest: int = LONGEST) -> str:
    """Somebody's name as figures show it: a long one keeps its beginning and its end, which tell it from its like.

    >>> lettered("Regional Hospital of the North, Ward A", 18), lettered("_$x$")
    ('Regional Ho…Ward A', '\\u2009_\\\\$x\\\\$')
    """
    said = printable(text)
    if _width(said) > longest:
        tail = said[-(longest // 3) :]
        while _width(tail) > longest // 3:
            tail = tail[1:]
        head = said[:longest]
        while _width(head) + 1 + _width(tail) > longest:
            head = head[:-1]
        said = f"{head}…{tail}"
    said = said.replace("$", r"\$")  # else a formula
    return f"\u2009{said}" if said.startswith("_") else said  # else no legend shows it


def first_names(names: Iterable[str], shown: int) -> str:
    """Some of the names, and how many more there are.

    >>> first_names("abcd", 2)
    'a, b and 2 more'
    """
    every = list(names)
    more = len(every) - shown
    return ", ".join(every[:shown]) + (f" and {more:,} more" if more > 0 else "")


@contextmanager
def fonts() -> Iterator[None]:
    """Draw with the fonts of figures, whatever the machine's settings are."""
    with rc_context({"font.family": "sans-serif", "font.sans-serif": list(_families())}):
        yield


@contextmanager
def relettered(figure: Figure, other: Callable[[str], str]) -> Iterator[list[tuple[Text, str]]]:
    """For as long as it lasts, whatever words of texts no font here can draw are others; each text with what it was."""
    ticks = [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) if any(map(_undrawn, _labels(axis)))]
    formatters = [axis.get_major_formatter() for axis in ticks]
    named = [(label, label.get_text()) for axis in ticks for label in _labels(axis) if _undrawn(label)]
    found = {id(label) for label, _ in named}
    texts = [
        (each, each.get_text())
        for each in figure.findobj(Text)
        if isinstance(each, Text) and _undrawn(each) and id(each) not in found
    ]
    for axis in ticks:  # their texts are set again whenever they are drawn
        words = [label.get_text() for label in _labels(axis)]
        axis.set_major_formatter(FixedFormatter([_replaced(word, other) for word in words]))
    for text, word in texts:
        text.set_text(_replaced(word, other))
    try:
        yield [*named, *texts]
    finally:
        for axis, formatter in zip(ticks, formatters, strict=True):
            axis.set_major_formatter(formatter)
        for text, word in texts:
            text.set_text(word)


def _replaced(text: str, other: Callable[[str], str]) -> str:
    """A text with other words for those that cannot be drawn, however many stand in a row."""
    parts = groupby(re.split(r"(\W)", text), key=lambda word: _missing(word) or not word.strip())
    said = ""
    for strange, words in parts:
        run = "".join(words)
        inner = run.strip()
        said += run.replace(inner, other(inner)) if strange and inner else run
    return said


def _labels(axis: Axis) -> list[Text]:
    return axis.get_majorticklabels()


def _undrawn(text: Text) -> bool:
    return _missing(text.get_text())


def stand_in(text: str) -> str:
    """A text that takes the same room as another, of letters that every font has."""
    return "".join(("W" if _width(c) == 2 else "n") if _missing(c) else c for c in text)


def _width(text: str) -> int:
    """How wide a text is, in letters: those of East Asia count twice."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


@cache
def _families() -> tuple[str, ...]:
    here = set(fontManager.get_font_names())
    return (FAMILY, *(family for family in OTHERS if family in here))


def _missing(text: str) -> bool:
    return not all(_drawn(c) for c in set(text) if c.isprintable() and c != " ")


@cache
def _drawn(letter: str) -> bool:
    return any(get_font(findfont(family)).get_char_index(ord(letter)) for family in _families())
