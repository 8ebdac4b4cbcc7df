"""Draw the rooms of the house and the arrows between them, from the code itself: python docs/draw_rooms.py [FILE.png]

A room is a file or folder of src/parley; an arrow says that something in one room imports something of another (arrows that a longer way
makes plain are left out). The floors are the layers that `lint-imports` enforces, so all arrows point down. Thicker arrows carry more.
"""

import sys
import tomllib
from collections import Counter
from pathlib import Path

import grimp
import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

ROOT = Path(__file__).parents[1]
QUIET = {"errors", "validate", "version"}  # used everywhere: their arrows would hide the others


def floors() -> list[list[str]]:
    """The layers, top first, as pyproject.toml has them."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    return [[room.strip() for room in layer.split(":")] for layer in contract["layers"]]


def arrows() -> Counter[tuple[str, str]]:
    """How many imports lead from one room to another."""
    graph = grimp.build_graph("parley")
    found: Counter[tuple[str, str]] = Counter()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            ends = tuple(name.split(".")[1] if "." in name else "" for name in (module, imported))
            if ends[0] != ends[1] and "" not in ends:
                found[ends[0], ends[1]] += 1
    return found


def essential(links: Counter[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Without arrows that a way over other rooms makes plain: who may use a room may use what lies below it."""
    below: dict[str, set[str]] = {}
    for source, target in links:
        below.setdefault(source, set()).add(target)

    def reaches(start: str, goal: str) -> bool:
        return any(step == goal or reaches(step, goal) for step in below.get(start, ()))

    def around(source: str, target: str) -> bool:
        return any(step != target and reaches(step, target) for step in below[source])

    return {link: count for link, count in links.items() if not around(*link)}


def draw(path: Path) -> None:
    """Rooms from top to bottom as the floors are; arrows as arcs."""
    layers, links = floors(), essential(arrows())
    figure, axes = plt.subplots(figsize=(9, 0.55 * len(layers) + 1))
    places: dict[str, tuple[float, float]] = {}
    for level, rooms in enumerate(layers):
        for number, room in enumerate(rooms):
            shift = 2.6 if level % 2 else -2.6
            places[room] = (shift + 4.2 * (number - (len(rooms) - 1) / 2), -float(level))
    most = max(links.values())
    for (source, target), count in sorted(links.items(), key=lambda link: link[1]):
        if source not in places or target not in places or {source, target} & QUIET:
            continue
        bend = 0.25 if places[source][0] <= places[target][0] else -0.25
        axes.add_patch(
            FancyArrowPatch(
                places[source],
                places[target],
                connectionstyle=f"arc3,rad={bend}",
                arrowstyle="-|>",
                mutation_scale=8,
                linewidth=0.4 + 2.6 * count / most,
                color="#3b6ea5",
                alpha=0.25 + 0.6 * count / most,
                shrinkA=12,
                shrinkB=12,
            )
        )
    for room, (x, y) in places.items():
        box = FancyBboxPatch((x - 1.15, y - 0.27), 2.3, 0.54, boxstyle="round,pad=0.05", facecolor="#f4efe6", edgecolor="#8a7f6d")
        axes.add_patch(box)
        axes.text(x, y, room, ha="center", va="center", fontsize=11, color="#222222")
    axes.set_xlim(-6, 6)
    axes.set_ylim(-len(layers) + 0.3, 0.7)
    axes.axis("off")
    axes.set_title("The rooms of the house: imports point down", fontsize=13)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "rooms.png")
