"""Graphs of owners without a centre, as pairs of names; part of the terms and of their hash."""

from collections.abc import Collection, Sequence
from itertools import combinations, pairwise
from math import isqrt
from pathlib import Path
from typing import Any

from pydantic_core import PydanticCustomError

from parley.errors import TermsError

NAMED_TOPOLOGIES = ("ring", "grid", "star", "complete")
MAX_EDGES_FILE_CHARS = 1_000_000  # characters of a file of edges

Edges = tuple[tuple[str, str], ...]

EXPECTED_TOPOLOGY = (
    "'ring', 'grid', 'star' or 'complete', or a list of pairs of different owners; a terms file may also name a file "
    "with one pair per line"
)


def read_topology(value: Any) -> str | Edges:
    """Read a name or pairs, in one order, so that equal graphs have one hash."""
    if isinstance(value, str) and value in NAMED_TOPOLOGIES:
        return value
    pairs = value if isinstance(value, (list, tuple)) else ()
    sound = all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 and all(isinstance(end, str) for end in pair)
        for pair in pairs
    )
    if not pairs or not sound or any(one == other for one, other in pairs):
        raise PydanticCustomError("topology", "{expected}", {"expected": EXPECTED_TOPOLOGY})
    return tuple(sorted({(min(pair), max(pair)) for pair in pairs}))


def edges(topology: str | Edges, names: Sequence[str]) -> Edges:
    """Return the pairs of joined owners, in the order of the terms.

    A ring also joins the last to the first; a star joins all to the first; a grid has rows of about sqrt K owners.

    >>> edges("ring", "abcd"), edges("star", "abc")
    ((('a', 'b'), ('b', 'c'), ('c', 'd'), ('a', 'd')), (('a', 'b'), ('a', 'c')))
    """
    if not isinstance(topology, str):
        return topology
    if topology == "complete":
        return tuple(combinations(names, 2))
    if topology == "star":
        return tuple((names[0], other) for other in names[1:])
    if topology == "ring":
        line = tuple(pairwise(names))
        return (*line, (names[0], names[-1])) if len(names) > 2 else line
    width = isqrt(len(names) - 1) + 1
    along = [(names[k], names[k + 1]) for k in range(len(names) - 1) if (k + 1) % width]
    return (*along, *zip(names, names[width:], strict=False))


def edges_among(topology: str | Edges | None, names: Collection[str]) -> str | Edges | None:
    """Return the part of a graph among these owners."""
    if topology is None or isinstance(topology, str):
        return topology
    return tuple(pair for pair in topology if {*pair} <= {*names}) or None


def with_edges(content: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Read in a terms file's file of edges: two names a line, separated by a comma or blanks; # begins a comment."""
    learning = content.get("learning")
    if not isinstance(learning, dict):
        return content
    file = learning.get("topology")
    if not isinstance(file, str) or file in NAMED_TOPOLOGIES:
        return content
    try:
        with (folder / file).open(encoding="utf-8") as lines:
            text = lines.read(MAX_EDGES_FILE_CHARS + 1)
    except (OSError, ValueError):
        raise TermsError(
            f"learning.topology: no readable text file {file!r} in the folder of the terms file; expected "
            f"{EXPECTED_TOPOLOGY}"
        ) from None
    if len(text) > MAX_EDGES_FILE_CHARS:
        raise TermsError(f"learning.topology: expected a file of at most {MAX_EDGES_FILE_CHARS:,} characters")
    pairs = (line.partition("#")[0].replace(",", " ").split() for line in text.splitlines())
    return {**content, "learning": {**learning, "topology": [pair for pair in pairs if pair]}}
