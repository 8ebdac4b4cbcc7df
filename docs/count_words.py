"""Count the words of README and documents: python docs/count_words.py

For each page and for all: words; words per sentence and the share of sentences above 30 words, both of prose alone
(no tables, code, headings, pictures); the characters of the longest table cell. Generated text, between the marks
`<!-- generated -->` and `<!-- end of generated -->`, counts for nothing.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONG = 30  # words of a sentence that a reader loses

GENERATED = re.compile(r"<!-- generated -->.*?<!-- end of generated -->", re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
PICTURE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
APART = re.compile(r"^(\||#|    |\s*$)")  # table, heading, formula or blank line: no sentence goes on across it
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")
END = re.compile(r"(?<=[.?!])[)\]*_\"”]*\s+")


@dataclass(frozen=True)
class Measures:
    """What is counted of one page, or of all."""

    words: int
    sentences: tuple[int, ...]  # words of each
    longest_cell: int

    @property
    def mean(self) -> float:
        return sum(self.sentences) / max(len(self.sentences), 1)

    @property
    def long(self) -> float:
        return sum(words > LONG for words in self.sentences) / max(len(self.sentences), 1)


def pages() -> list[Path]:
    """README and every document, in the order in which they are printed."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def measure(text: str) -> Measures:
    """The measures of one page."""
    text = GENERATED.sub("", text)
    cells = [cell.strip() for row in _prose_lines(text) if row.startswith("|") for cell in re.split(r"(?<!\\)\|", row)]
    counts = tuple(len(_words(sentence)) for sentence in sentences(text))
    return Measures(len(text.split()), counts, max(map(len, cells), default=0))


def together(parts: Iterable[Measures]) -> Measures:
    """The measures of several pages as one."""
    each = list(parts)
    return Measures(
        sum(part.words for part in each),
        tuple(words for part in each for words in part.sentences),
        max((part.longest_cell for part in each), default=0),
    )


def sentences(text: str) -> list[str]:
    """The sentences of a page's prose; an item of a list begins one.

    >>> sentences("# Title\\n\\nOne [link](a.md). Two\\nlines.\\n\\n- an item\\n- another: x\\n\\n| a | b |\\n")
    ['One link.', 'Two lines.', 'an item', 'another: x']
    """
    blocks: list[list[str]] = [[]]
    for line in _prose_lines(LINK.sub(r"\1", PICTURE.sub("", text))):
        if APART.match(line):
            blocks.append([])
            continue
        if ITEM.match(line):
            blocks.append([])
        blocks[-1].append(ITEM.sub("", line).strip())
    return [sentence for block in blocks for sentence in END.split(" ".join(block)) if _words(sentence)]


def _prose_lines(text: str) -> list[str]:
    return COMMENT.sub("", FENCED.sub("", text)).splitlines()


def _words(sentence: str) -> list[str]:
    return [word for word in sentence.split() if re.search(r"\w", word)]


def main(words: Sequence[str]) -> None:
    """Print a line for each page, then one for all; with names of pages, the long sentences of those."""
    if words:
        for name in words:
            text = GENERATED.sub("", Path(name).read_text(encoding="utf-8"))
            found = [(len(_words(sentence)), sentence) for sentence in sentences(text)]
            print(*(f"{name}: {count}  {sentence}" for count, sentence in found if count > 25), sep="\n")  # noqa: T201
        return
    found = {page: measure(page.read_text(encoding="utf-8")) for page in pages()}
    print(f"{'page':28} {'words':>7} {'a sentence':>11} {f'above {LONG}':>9} {'longest cell':>13}")  # noqa: T201
    for name, counted in [
        *((str(page.relative_to(ROOT)), measures) for page, measures in found.items()),
        ("all", together(found.values())),
    ]:
        print(  # noqa: T201
            f"{name:28} {counted.words:7,} {counted.mean:11.1f} {counted.long:9.1%} {counted.longest_cell:13}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
