"""A figure as SVG text that a page may hold under a strict policy: no style attribute, no address, its own words.

Text stays text: browsers draw names in any letters, and others can search it.
"""

import hashlib
import io
import re
from html import escape
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from parley.report.figures.lettering import FAMILY, fonts, relettered, stand_in

FAMILIES = f"{FAMILY}, Verdana, sans-serif"
PLAIN: Any = {"svg.fonttype": "none", "svg.hashsalt": "parley"}
NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'
MARK = "undrawn-"  # of the groups that hold texts whose letters no font here has


def vector(figure: Figure, words: str, page: bool = False) -> str:
    """The figure as SVG, with its first line as title and its words as description; for a page without a namespace."""
    buffer = io.StringIO()
    with rc_context(PLAIN), fonts(), relettered(figure, stand_in) as texts:
        names = {f"{MARK}{place}": word for place, (_, word) in enumerate(texts)}
        for mark, (stands, _) in zip(names, texts, strict=True):
            stands.set_gid(mark)
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = buffer.getvalue()
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    begin, end = text.index("</defs>") + len("</defs>"), text.rindex("</svg>")
    own = "f" + hashlib.sha256((words + text).encode()).hexdigest()[:8]  # two figures of a page share no name
    body = _inert(_named(text[begin:end], names), own)
    width, height = size.groups() if size else ("720", "480")
    said = f'<title id="{own}-title">{escape(_first(words))}</title><desc id="{own}-desc">{escape(words)}</desc>'
    return (
        f'<svg{"" if page else NAMESPACE} role="img" aria-labelledby="{own}-title {own}-desc" viewBox="0 0 {width} '
        f'{height}" width="{width}pt" height="{height}pt" font-family="{FAMILIES}" stroke-linejoin="round" '
        f'stroke-linecap="butt">{said}{body}</svg>\n'
    )


def _first(words: str) -> str:
    """The first sentence of a description."""
    return re.split(r"(?<=[.:?!])\s", words, maxsplit=1)[0].rstrip(".:")


def _named(body: str, names: dict[str, str]) -> str:
    """The texts again, where others stood for them."""

    def again(found: re.Match[str]) -> str:
        name = names[found["mark"]].replace(r"\$", "$")
        return f"{found['before']}{escape(name, quote=False)}</text>"

    return re.sub(rf'(?P<before><g id="(?P<mark>{MARK}\d+)">\s*<text[^>]*>)[^<]*</text>', again, body)


def _inert(body: str, own: str) -> str:
    """The same drawing with attributes instead of styles, and with names of its own; texts stay as they are."""

    def tag(found: re.Match[str]) -> str:
        plain = re.sub(r'\s+style="([^"]*)"', _attributes, found[0].replace("xlink:href", "href"))
        return re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{own}-", plain)

    return re.sub(r"<[^<>]*>", tag, body)


def _attributes(style: re.Match[str]) -> str:
    """A style as attributes that say the same; families are the figure's."""
    said = []
    for declaration in style[1].split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font":  # as older versions of the library write it
            words = value.partition("px")[0].split()
            said += [("font-size", f"{words[-1]}px")]
            said += [("font-weight", word) for word in words[:-1] if word in ("bold", "600", "700")]
        elif name and name != "font-family":
            said.append((name, value))
    return "".join(f' {name}="{value}"' for name, value in said)
