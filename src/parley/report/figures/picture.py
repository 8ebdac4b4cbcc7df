"""What all figures share: their look, words that say what is seen, and how they are written to a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from parley.durable import replacing, write_file
from parley.errors import SettingError
from parley.report.figures.colours import GRID, INK, LIMIT, MUTED
from parley.report.figures.lettering import NUMBERED, fonts, relettered
from parley.report.figures.vector import vector

KINDS = (".png", ".svg", ".pdf")
DOTS = 160  # of a bitmap, an inch
PAPER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}  # behind words on curves


class Picture(Figure):
    """A figure on light paper that also says in words what is seen on it, for who cannot see it."""

    def __init__(self, width: float, height: float, alt: str) -> None:
        margin = ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.09)
        super().__init__(figsize=(width, height), layout=margin, facecolor="white")
        self.alt = alt


def decorate(axes: Axes) -> Axes:
    """The look that all figures share."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LIMIT)
    axes.tick_params(colors=MUTED, which="both")
    axes.xaxis.label.set_color(MUTED)
    axes.yaxis.label.set_color(MUTED)
    axes.set_axisbelow(True)
    axes.grid(color=GRID, linewidth=0.8)
    return axes


def headed(axes: Axes, title: str) -> Axes:
    """A panel with its title: what is seen there."""
    axes.set_title(title, loc="left", color=INK, fontsize=11, fontweight="bold")
    return axes


def alt_text(figure: Figure) -> str:
    """What a figure says of itself; of one that says nothing, its titles."""
    if isinstance(figure, Picture):
        return figure.alt
    titles = [figure.get_suptitle(), *(axes.get_title(loc) for axes in figure.axes for loc in ("left", "center"))]
    return "; ".join(title for title in titles if title) or "a figure"


def require_figure_name(path: str | Path) -> None:
    """Refuse a file name whose ending is no format for figures."""
    if Path(path).suffix.lower() not in KINDS:
        raise SettingError(f"{path}: expected a file name that ends in one of {', '.join(KINDS)}")


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure to a file, with its words; its ending says the format."""
    require_figure_name(path)
    kind, words = Path(path).suffix.lower(), alt_text(figure)
    if kind == ".svg":
        text = '<?xml version="1.0" encoding="utf-8"?>\n' + vector(figure, words)
        write_file(path, text)
        return
    metadata = {"Description": words} if kind == ".png" else {"Subject": words, "CreationDate": None}
    with fonts(), _numbered_names(figure), replacing(path) as file:
        figure.savefig(file, format=kind[1:], dpi=DOTS, metadata=metadata)


def svg(figure: Figure) -> str:
    """The figure as SVG text to put into a page."""
    return vector(figure, alt_text(figure), page=True)


@contextmanager
def _numbered_names(figure: Figure) -> Iterator[None]:
    """For as long as it lasts, names that no font here can draw have numbers instead, and the figure says so."""
    numbers: dict[str, str] = {}
    below = figure.get_supxlabel()
    with relettered(figure, lambda word: numbers.setdefault(word, f"name {len(numbers) + 1}")) as texts:
        note = figure.supxlabel(f"{below}\n{NUMBERED}".strip(), color=MUTED, fontsize=8) if texts else None
        yield
        if note is not None:
            note.set_text(below)
