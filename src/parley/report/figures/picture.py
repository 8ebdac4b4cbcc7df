"""The look of figures, their descriptions, and writing them to a file or a page. Text stays text in any script."""

import hashlib
import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, fontManager, get_font
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter

from parley.durable import replacing, write_file
from parley.errors import SettingError
from parley.report.figures.colours import GRID, INK, LIMIT, MUTED
from parley.validate import printable

FONT_FAMILY = "DejaVu Sans"  # comes with the library: figures look alike everywhere
FALLBACK_FONTS = (
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
MAX_NAME_WIDTH = 28  # letters of a name
NUMBERED_NOTE = (
    "No installed font has the letters of some names, so numbers replace these names. Save as .svg to see all names."
)


def lettered(text: str, longest: int = MAX_NAME_WIDTH) -> str:
    """Return a name as figures show it; a long one keeps its beginning and its end.

    >>> lettered("Regional Hospital of the North, Ward A", 18), lettered("_$x$")
    ('Regional Ho…Ward A', '\\u2009_\\\\$x\\\\$')
    """
    shown = printable(text)
    if _width(shown) > longest:
        tail = shown[-(longest // 3) :]
        while _width(tail) > longest // 3:
            tail = tail[1:]
        head = shown[:longest]
        while _width(head) + 1 + _width(tail) > longest:
            head = head[:-1]
        shown = f"{head}…{tail}"
    shown = shown.replace("$", r"\$")  # else a formula
    return f"\u2009{shown}" if shown.startswith("_") else shown  # else no legend shows it


def first_names(names: Iterable[str], shown: int) -> str:
    """List the first names, and how many more there are.

    >>> first_names("abcd", 2)
    'a, b and 2 more'
    """
    every = list(names)
    more = len(every) - shown
    return ", ".join(every[:shown]) + (f" and {more:,} more" if more > 0 else "")


@contextmanager
def fonts() -> Iterator[None]:
    """Draw with the fonts of figures, whatever the machine's settings."""
    with rc_context({"font.family": "sans-serif", "font.sans-serif": list(_families())}):
        yield


@contextmanager
def relettered(figure: Figure, other: Callable[[str], str]) -> Iterator[list[tuple[Text, str]]]:
    """Replace words that no font here can draw within this block; yield each text with its original."""
    ticks = [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) if any(map(_undrawn, _labels(axis)))]
    formatters = [axis.get_major_formatter() for axis in ticks]
    named = [(label, label.get_text()) for axis in ticks for label in _labels(axis) if _undrawn(label)]
    label_ids = {id(label) for label, _ in named}
    texts = [
        (each, each.get_text())
        for each in figure.findobj(Text)
        if isinstance(each, Text) and _undrawn(each) and id(each) not in label_ids
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
    """Replace runs of words that cannot be drawn."""
    parts = groupby(re.split(r"(\W)", text), key=lambda word: _has_undrawable_letter(word) or not word.strip())
    replaced = ""
    for strange, words in parts:
        run = "".join(words)
        inner = run.strip()
        replaced += run.replace(inner, other(inner)) if strange and inner else run
    return replaced


def _labels(axis: Axis) -> list[Text]:
    return axis.get_majorticklabels()


def _undrawn(text: Text) -> bool:
    return _has_undrawable_letter(text.get_text())


def stand_in(text: str) -> str:
    """Return a text of the same width in letters that every font has."""
    return "".join(("W" if _width(c) == 2 else "n") if _has_undrawable_letter(c) else c for c in text)


def _width(text: str) -> int:
    """Return the width of a text in letters; East Asian ones count twice."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


@cache
def _families() -> tuple[str, ...]:
    here = set(fontManager.get_font_names())
    return (FONT_FAMILY, *(family for family in FALLBACK_FONTS if family in here))


def _has_undrawable_letter(text: str) -> bool:
    return not all(_drawn(c) for c in set(text) if c.isprintable() and c != " ")


@cache
def _drawn(letter: str) -> bool:
    return any(get_font(findfont(family)).get_char_index(ord(letter)) for family in _families())


SVG_FONT_FAMILIES = f"{FONT_FAMILY}, Verdana, sans-serif"
SVG_SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "parley"}
SVG_NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'
UNDRAWN_PREFIX = "undrawn-"  # of the groups that hold texts whose letters no font here has
FILE_ENDINGS = (".png", ".svg", ".pdf")
DPI = 160  # of a bitmap, an inch
TEXT_BACKGROUND = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}  # behind words on curves


class Picture(Figure):
    """A figure on light paper with a description in words for those who cannot see it."""

    def __init__(self, width: float, height: float, alt: str) -> None:
        margin = ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.09)
        super().__init__(figsize=(width, height), layout=margin, facecolor="white")
        self.alt = alt


def decorate(axes: Axes) -> Axes:
    """Give axes the common look."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LIMIT)
    axes.tick_params(colors=MUTED, which="both")
    axes.xaxis.label.set_color(MUTED)
    axes.yaxis.label.set_color(MUTED)
    axes.set_axisbelow(True)
    axes.grid(color=GRID, linewidth=0.8)
    return axes


def headed(axes: Axes, title: str) -> Axes:
    """Give a panel its title."""
    axes.set_title(title, loc="left", color=INK, fontsize=11, fontweight="bold")
    return axes


def alt_text(figure: Figure) -> str:
    """Return a figure's description, or its titles."""
    if isinstance(figure, Picture):
        return figure.alt
    titles = [figure.get_suptitle(), *(axes.get_title(loc) for axes in figure.axes for loc in ("left", "center"))]
    return "; ".join(title for title in titles if title) or "a figure"


def require_figure_name(path: str | Path) -> None:
    """Refuse a file name whose ending is no format for figures."""
    if Path(path).suffix.lower() not in FILE_ENDINGS:
        raise SettingError(
            f"{path}: Parley cannot write a figure in this format; choose a file name that ends in "
            f"{' or '.join(FILE_ENDINGS)}"
        )


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure and its description to a file in the format of its ending."""
    require_figure_name(path)
    kind, words = Path(path).suffix.lower(), alt_text(figure)
    if kind == ".svg":
        text = '<?xml version="1.0" encoding="utf-8"?>\n' + vector(figure, words)
        write_file(path, text)
        return
    metadata = {"Description": words} if kind == ".png" else {"Subject": words, "CreationDate": None}
    with fonts(), _numbered_names(figure), replacing(path) as file:
        figure.savefig(file, format=kind[1:], dpi=DPI, metadata=metadata)


def svg(figure: Figure) -> str:
    """Return the figure as SVG text for a page."""
    return vector(figure, alt_text(figure), page=True)


def vector(figure: Figure, words: str, page: bool = False) -> str:
    """Return the figure as SVG with its description; its first sentence is the title. A `page` needs no namespace."""
    buffer = io.StringIO()
    with rc_context(SVG_SETTINGS), fonts(), relettered(figure, stand_in) as texts:
        names = {f"{UNDRAWN_PREFIX}{place}": word for place, (_, word) in enumerate(texts)}
        for mark, (stands, _) in zip(names, texts, strict=True):
            stands.set_gid(mark)
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = buffer.getvalue()
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    begin, end = text.index("</defs>") + len("</defs>"), text.rindex("</svg>")
    id_prefix = "f" + hashlib.sha256((words + text).encode()).hexdigest()[:8]  # two figures of a page share no name
    body = _inert(_named(text[begin:end], names), id_prefix)
    width, height = size.groups() if size else ("720", "480")
    description = f'<title id="{id_prefix}-title">{escape(_first(words))}</title>'
    description += f'<desc id="{id_prefix}-desc">{escape(words)}</desc>'
    return (
        f'<svg{"" if page else SVG_NAMESPACE} role="img" aria-labelledby="{id_prefix}-title {id_prefix}-desc" '
        f'viewBox="0 0 {width} '
        f'{height}" width="{width}pt" height="{height}pt" font-family="{SVG_FONT_FAMILIES}" stroke-linejoin="round" '
        f'stroke-linecap="butt">{description}{body}</svg>\n'
    )


@contextmanager
def _numbered_names(figure: Figure) -> Iterator[None]:
    """Number the names that no font here can draw within this block, and add a note."""
    numbers: dict[str, str] = {}
    below = figure.get_supxlabel()
    with relettered(figure, lambda word: numbers.setdefault(word, f"name {len(numbers) + 1}")) as texts:
        note = figure.supxlabel(f"{below}\n{NUMBERED_NOTE}".strip(), color=MUTED, fontsize=8) if texts else None
        yield
        if note is not None:
            note.set_text(below)


def _first(words: str) -> str:
    """Return the first sentence of a description."""
    return re.split(r"(?<=[.:?!])\s", words, maxsplit=1)[0].rstrip(".:")


def _named(body: str, names: dict[str, str]) -> str:
    """Put the original texts back in place of their stand-ins."""

    def again(found: re.Match[str]) -> str:
        name = names[found["mark"]].replace(r"\$", "$")
        return f"{found['before']}{escape(name, quote=False)}</text>"

    return re.sub(rf'(?P<before><g id="(?P<mark>{UNDRAWN_PREFIX}\d+)">\s*<text[^>]*>)[^<]*</text>', again, body)


def _inert(body: str, own: str) -> str:
    """Replace styles by attributes and make ids unique; texts stay as they are."""

    def tag(found: re.Match[str]) -> str:
        plain = re.sub(r'\s+style="([^"]*)"', _attributes, found[0].replace("xlink:href", "href"))
        return re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{own}-", plain)

    return re.sub(r"<[^<>]*>", tag, body)


def _attributes(style: re.Match[str]) -> str:
    """Return a style as attributes, without font families."""
    attributes = []
    for declaration in style[1].split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font":  # as older versions of the library write it
            words = value.partition("px")[0].split()
            attributes += [("font-size", f"{words[-1]}px")]
            attributes += [("font-weight", word) for word in words[:-1] if word in ("bold", "600", "700")]
        elif name and name != "font-family":
            attributes.append((name, value))
    return "".join(f' {name}="{value}"' for name, value in attributes)
