"""A self-contained HTML page of text, tables and figures. It loads nothing, and user input stays text."""

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from string import Template

LONG_CELL_LETTERS = 32  # letters of a cell that may break


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs, an optional table (first row: head) with a caption, and an optional SVG figure."""

    heading: str
    paragraphs: Sequence[str] = ()
    table: Sequence[Sequence[str]] = ()
    figure: str = ""
    caption: str = ""

    def html(self) -> str:
        parts = [f"<h2>{escape(self.heading)}</h2>", *map(_paragraph, self.paragraphs)]
        if self.figure:  # before the table, which may be long
            parts.append(_wide(f"{self.heading} (figure)", f"<figure>{self.figure}</figure>"))
        if self.table:
            parts.append(_wide(self.caption or self.heading, _table(self.table, self.caption)))
        return "\n".join(parts)


def page(title: str, lead: str, sections: Sequence[Section], footer: str) -> str:
    """Return an HTML page: title, lead, sections, footer."""
    body = "\n".join(f"<section>{section.html()}</section>" for section in sections)
    fields = {"title": escape(title), "lead": escape(lead), "body": body, "footer": escape(footer)}
    return _PAGE.substitute(fields, style=_STYLE, policy=_POLICY)


def _paragraph(text: str) -> str:
    """Return a paragraph that keeps its line breaks."""
    kind = ' class="lines"' if "\n" in text else ""
    return f"<p{kind}>{escape(text)}</p>"


def _wide(label: str, inner: str) -> str:
    """Return content that may be wider than the page, scrollable by keyboard too."""
    return f'<div class="wide" role="region" tabindex="0" aria-label="{escape(label)}">{inner}</div>'


def _table(rows: Sequence[Sequence[str]], caption: str) -> str:
    head, *body = rows
    caption_html = f"<caption>{escape(caption)}</caption>" if caption else ""
    first = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    others = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(map(_cell, cells))}</tr>' for name, *cells in body
    )
    return f"<table>{caption_html}<thead><tr>{first}</tr></thead>\n<tbody>{others}</tbody></table>"


def _cell(text: str) -> str:
    """Return a cell; numbers stay on one line, sentences may wrap."""
    kind = ' class="long"' if len(text) > LONG_CELL_LETTERS else ""
    return f"<td{kind}>{escape(text)}</td>"


_STYLE = """
 :root { color-scheme: light dark; --paper: #f4f6f8; --card: #fff; --ink: #1c2733; --muted: #56616d; --rule: #dde3e9;
   --band: #1f6f78; }
 @media (prefers-color-scheme: dark) { :root { --paper: #11171d; --card: #1a222b; --ink: #e7ecf1; --muted: #a9b5c1;
   --rule: #35414d; --band: #17525a; } }
 body { margin: 0; background: var(--paper); color: var(--ink);
   font: 16px/1.55 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
 header { background: var(--band); color: #fff; padding: 2.2rem 1rem 1.8rem; overflow-wrap: anywhere; }
 header > *, main, footer { max-width: 56rem; margin-inline: auto; }
 header > * { padding-inline: .8rem; }
 h1 { margin-block: 0 .4rem; font-size: 1.9rem; line-height: 1.2; }
 header p { margin-block: 0; }
 section { background: var(--card); border-radius: 10px; padding: 1.2rem 1.6rem 1.4rem; margin: 1.2rem .8rem;
  border: 1px solid var(--rule); overflow-wrap: anywhere; }
 h2 { margin: 0 0 .5rem; font-size: 1.2rem; }
 section p { margin: .5rem 0; }
 .lines { white-space: pre-wrap; font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .9rem; }
 .wide { overflow-x: auto; overflow-wrap: normal; }
 .wide:focus-visible { outline: 2px solid var(--band); outline-offset: 2px; }
 table { border-collapse: collapse; margin: .8rem 0; width: 100%; font-variant-numeric: tabular-nums; }
 caption { text-align: left; color: var(--muted); font-size: .9rem; padding-bottom: .3rem; }
 thead th { color: var(--muted); font-weight: 600; font-size: .85rem; border-bottom: 2px solid var(--rule); }
 th, td { text-align: right; padding: .4rem .6rem; border-bottom: 1px solid var(--rule); font-weight: 400; }
 tr > :first-child { text-align: left; padding-left: 0; min-width: 7rem; }
 td { white-space: nowrap; }
 td.long { white-space: normal; min-width: 14rem; overflow-wrap: anywhere; }
 figure { margin: 1rem 0 0; background: #fff; border-radius: 6px; padding: .4rem; }
 svg { display: block; width: 100%; min-width: 32rem; height: auto; }
 footer { color: var(--muted); font-size: .85rem; padding: .4rem 1.6rem 2.5rem; overflow-wrap: anywhere; }
 @media (max-width: 40rem) { section { padding: 1rem; } h1 { font-size: 1.5rem; } }
 @media print { :root { color-scheme: light; --paper: #fff; --card: #fff; --ink: #000; --muted: #444; --rule: #bbb; }
  header { background: #fff; color: #000; padding: 0 1rem; } section { border: 0; padding: 0 1rem; }
  tr, figure, h2 { break-inside: avoid; } h2 { break-after: avoid; } .wide { overflow: visible; }
  svg { min-width: 0; } }
"""
_POLICY = (
    "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; style-src 'sha256-"
    + b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    + "'"
)
_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="$policy">
<meta name="referrer" content="no-referrer">
<title>$title</title>
<style>$style</style></head><body>
<header><h1>$title</h1><p>$lead</p></header>
<main>
$body
</main>
<footer>$footer</footer>
</body></html>
""")
