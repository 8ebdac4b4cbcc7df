"""List the sentences of the program that people can see: python docs/list_messages.py [--long | --draw SEED]

Errors that are raised, texts of options and commands, what `report/`, `workflows/` and the acceptance texts say, and
the studio's pages. What a value is filled into shows as an ellipsis. The last line counts words per sentence as
`count_words` does; `--long` lists sentences above 25 words alone. `--draw` draws 30 of them and 30 of the documents, to
be judged by a reader who knows only the rules of style.
"""

import ast
import random
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from count_words import END, GENERATED, ROOT, Measures, _words, pages, sentences

SOURCE = Path(__file__).parents[1] / "src" / "parley"
SPOKEN = ("report", "workflows", "studio", "cli", "demo")  # rooms in which every sentence is for people
SPOKEN_FILES = re.compile(r"(words|acceptance|warnings|notices|notes|advice)")  # and files anywhere
CALLS = {
    "warn",
    "say",
    "says",
    "print",
    "echo",
    "Line",
    "refuse",
    "append",
    "TermsWarning",
}  # what they are given is shown
SENTENCES = {"sentences", "sentence", "warnings", "notices"}  # functions that return what is shown
TAG = re.compile(r"\{[%#].*?[%#]\}|<(script|style).*?</\1>|<[^>]+>", re.DOTALL)


def spoken(file: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of every literal of a module that people can see."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    everywhere = file.relative_to(SOURCE).parts[0] in SPOKEN or SPOKEN_FILES.search(file.stem)
    roots = [tree] if everywhere else [node for node in ast.walk(tree) if _speaks(node)]
    quiet = {id(inner) for node in ast.walk(tree) for inner in _docstring(node)}
    for root in roots:
        yield from _literals(root, quiet)


def _speaks(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return getattr(node.func, "attr", getattr(node.func, "id", "")) in CALLS
    return isinstance(node, ast.Raise) or (isinstance(node, ast.FunctionDef) and node.name in SENTENCES)


def _docstring(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
        first = node.body[0]
        if isinstance(first, ast.Expr) and not node.__dict__.get("name", "").endswith("_command"):
            yield first.value


def _literals(node: ast.AST, quiet: set[int]) -> Iterator[tuple[int, str]]:
    if id(node) in quiet:
        return
    if isinstance(node, ast.JoinedStr):
        parts = [str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values]
        yield node.lineno, "".join(parts)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from _literals(child, quiet)


def messages() -> Iterator[tuple[str, str]]:
    """(place, sentence) of everything that has at least four words."""
    yield from dict.fromkeys(_messages())


def _messages() -> Iterator[tuple[str, str]]:
    for file in sorted(SOURCE.rglob("*.py")):
        for line, text in spoken(file):
            for sentence in END.split(" ".join(text.replace("|", ": ", 1).split())):
                if len(_words(sentence)) >= 4:
                    yield f"{file.relative_to(SOURCE)}:{line}", sentence
    for page in sorted(SOURCE.rglob("*.html")):
        for block in TAG.sub("\n", page.read_text(encoding="utf-8")).split("\n"):
            for sentence in END.split(re.sub(r"\{\{.*?\}\}", "…", block).strip()):
                if len(_words(sentence)) >= 4:
                    yield str(page.relative_to(SOURCE)), sentence


def drawn(seed: int, of_each: int = 30) -> list[tuple[str, str]]:
    """(place, sentence) of so many messages and as many sentences of the documents, by chance."""
    documents = [
        (str(page.relative_to(ROOT)), sentence)
        for page in pages()
        for sentence in sentences(GENERATED.sub("", page.read_text(encoding="utf-8")))
        if len(_words(sentence)) >= 4
    ]
    chance = random.Random(seed)  # noqa: S311
    return chance.sample(list(messages()), of_each) + chance.sample(documents, of_each)


def main(words: Sequence[str]) -> None:
    """Print them, and how long they are."""
    if words[:1] == ["--draw"]:
        print(*(f"{place}  {sentence}" for place, sentence in drawn(int(words[1]))), sep="\n")  # noqa: T201
        return
    found = list(messages())
    for place, sentence in found:
        if "--long" not in words or len(_words(sentence)) > 25:
            print(f"{place}  {sentence}")  # noqa: T201
    counts = tuple(len(_words(sentence)) for _, sentence in found)
    counted = Measures(sum(counts), counts, 0)
    length = f"{counted.mean:.1f} a sentence, {counted.long:.1%} above 30"
    print(f"{len(found)} sentences, {counted.words:,} words, {length}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
