"""A self-contained HTML page: text, tables, figures, no outside resource."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from string import Template


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs, an optional table (first row = head) and an optional figure (SVG text)."""

    heading: str
    paragraphs: Sequence[str] = ()
    table: Sequence[Sequence[str]] = ()
    figure: str = ""

    def html(self) -> str:
        parts = [f"<h2>{escape(self.heading)}</h2>", *(f"<p>{escape(text)}</p>" for text in self.paragraphs)]
        if self.table:
            head, *rows = self.table
            parts.append(
                "<div class='wide'><table><thead><tr>"
                + "".join(f"<th>{escape(c)}</th>" for c in head)
                + "</tr></thead>"
            )
            parts += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
            parts.append("</table></div>")
        if self.figure:
            parts.append(f"<figure>{self.figure}</figure>")
        return "\n".join(parts)


def page(title: str, lead: str, sections: Sequence[Section], footer: str) -> str:
    """An HTML page as text: title, lead, sections, footer."""
    body = "\n".join(f"<section>{section.html()}</section>" for section in sections)
    return _PAGE.substitute(title=escape(title), lead=escape(lead), body=body, footer=escape(footer))


_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
 :root { color-scheme: light; }
 body { margin: 0; background: #f4f6f8; color: #1c2733;
   font: 16px/1.55 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
 header { background: #1f6f78; color: white; padding: 2.2rem 1rem 1.8rem; }
 header > *, main, footer { max-width: 46rem; margin-inline: auto; }
 h1 { margin-block: 0 .4rem; font-size: 1.9rem; line-height: 1.2; }
 header p { margin-block: 0; opacity: .92; }
 section { background: white; border-radius: 10px; padding: 1.2rem 1.6rem 1.4rem; margin: 1.2rem .8rem;
  box-shadow: 0 1px 3px #1c273318; }
 h2 { margin: 0 0 .5rem; font-size: 1.2rem; }
 section p { margin: .5rem 0; }
 .wide { overflow-x: auto; }
 table { border-collapse: collapse; margin: .8rem 0; width: 100%; font-variant-numeric: tabular-nums; }
 th { text-align: right; color: #66727f; font-weight: 600; font-size: .85rem;
  border-bottom: 2px solid #e3e8ed; padding: .35rem .6rem; }
 td { text-align: right; border-bottom: 1px solid #e3e8ed; padding: .4rem .6rem; }
 th:first-child, td:first-child { text-align: left; padding-left: 0; }
 figure { margin: 1rem 0 0; } svg { width: 100%; height: auto; }
 footer { color: #66727f; font-size: .85rem; padding: .4rem 1.6rem 2.5rem; overflow-wrap: anywhere; }
</style></head><body>
<header><h1>$title</h1><p>$lead</p></header>
<main>
$body
</main>
<footer>$footer</footer>
</body></html>
""")
