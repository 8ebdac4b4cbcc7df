"""The manual is whole: every page has its place, every link leads somewhere, docstrings read, commands exist."""

import inspect
import multiprocessing
import os
import re
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest
from blocks import blocks

import parley
from parley_lab.papers.reproduce import COMMAND_BY_DOCUMENT, reproduce_app

DOCS = Path(__file__).parents[1] / "docs"
# in games.md and notebooks, since its module is called as it is; in networks.md, since that takes an extra
SHOWN_ELSEWHERE = {"negotiate", "NetworkPlan", "StablePlan", "train_network"}
ROOMS = {"__version__", "data", "report"}  # of the package, beside what the reference lists


def test_it_builds_without_a_warning(tmp_path):
    """All of it is read and every reference looked up; nothing is drawn, which would take as long again. A fork does
    it: it need not import what the reference shows, and what it mocks is gone with it."""
    for library in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(library, reason="the manual needs the extra parley-dp[docs]")
    for module, name, _ in listed():
        if "networks" not in module:
            getattr(import_module(module), name)
    words = ["-q", "-W", "--keep-going", "-b", "dummy", "-d", tmp_path / "read", DOCS, tmp_path / "built"]
    with warnings.catch_warnings(action="ignore"):  # of threads that a fork does not have: a build waits for none
        child = multiprocessing.get_context("fork").Process(target=build, args=([*map(str, words)], tmp_path / "said"))
        child.start()
    child.join()
    assert child.exitcode == 0, (tmp_path / "said").read_text()


def build(words, said):
    """Run Sphinx in this process, and leave what it says in a file."""
    from sphinx.cmd.build import build_main

    warnings.resetwarnings()
    os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT, 0o600), 2)
    sys.stderr = os.fdopen(2, "w")
    code = build_main(words)
    sys.stderr.flush()
    os._exit(code)


def test_what_shows_an_erratum_exists():
    named = re.findall(r"`parley reproduce ([\w-]+) --(figure|table) (\S+?)[ `]", (DOCS / "errata.md").read_text())
    assert len(named) > 12
    assert "equations" in {command.name for command in reproduce_app.registered_commands}
    there = {(paper.name, exhibit.option, exhibit.word) for paper in COMMAND_BY_DOCUMENT for exhibit in paper.exhibits}
    assert set(named) - there == set()


def test_every_word_of_the_glossary_stands_once_and_in_order():
    lines = [line for line in (DOCS / "glossary.md").read_text().splitlines() if line.startswith("- ")]
    words = [found[1].lower() for line in lines if (found := re.match(r"- \*\*(.+?)\*\*: \S", line))]
    assert len(words) == len(lines) > 50
    assert words == sorted(set(words))


def listed():
    """Every (module, name) of the reference, and whether it shows how that is made: what only others make has ()."""
    module = None
    for line in (DOCS / "api.md").read_text().splitlines():
        if found := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.fullmatch(r"\.\. auto(?:function|class):: (\w+)(\(\))?", line):
            yield module, found[1], found[2] is None


def imported():
    """Every (module, name) of ours that a block of a document imports; the laboratory's own names are its own."""
    for page in (DOCS.parent / "README.md", *DOCS.rglob("*.md")):
        for block in blocks(page):
            if block.language == "python":
                for module, names in re.findall(
                    r"^(?:>>> )?from (parley[\w.]*) import (.+)$", block.text, re.MULTILINE
                ):
                    if not module.startswith("parley_lab."):
                        yield from ((module, name) for name in names.split(", "))


def test_the_reference_lists_what_is_public():
    shown = {(module, name) for module, name, _ in listed()}
    assert {("parley", name) for name in parley.__all__ if name not in ROOMS} - shown == set()
    assert {*imported()} - shown == set()
    assert len({*imported()}) > 12


def members():
    """(class, method) for whatever the reference shows of a class."""
    module = shown = None
    for line in (DOCS / "api.md").read_text().splitlines():
        if found := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.fullmatch(r"\.\. autoclass:: (\w+)(?:\(\))?", line):
            shown = found[1]
        elif found := re.fullmatch(r" +:members: (.+)", line):
            yield from ((getattr(import_module(module), shown), name) for name in found[1].split(", "))


def test_every_method_of_the_reference_says_what_it_does():
    found = [*members()]
    assert len(found) > 40
    assert [(kind.__name__, name) for kind, name in found if not inspect.getdoc(getattr(kind, name))] == []


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, name, made in listed() if made])
def test_every_parameter_of_the_reference_has_its_words(module, name):
    """In the docstring of a class or of one that it is made from: an estimator has those that all of them share."""
    if "networks" in module:
        pytest.importorskip("torch", reason="networks need the extra parley-dp[torch]")
    thing = getattr(import_module(module), name)
    kinds = inspect.getmro(thing) if inspect.isclass(thing) else (thing,)
    texts = [inspect.cleandoc(kind.__doc__ or "") for kind in kinds if kind.__module__.startswith("parley")]
    lists = [text.partition("Parameters\n----------\n")[2].partition("\n\n")[0] for text in texts]
    named = {word for text in lists for line in re.findall(r"^\w.*$", text, re.MULTILINE) for word in line.split(", ")}
    assert {*inspect.signature(thing).parameters} - named == set()
    assert inspect.isclass(thing) or "\nReturns\n-------\n" in texts[0]
    assert ("Examples\n--------\n>>> " in texts[0]) != (name in SHOWN_ELSEWHERE)
