"""Draw the house from the code itself: python docs/draw_house.py [FILE.png]

Storeys rest on those below them, as the first contract of `lint-imports` says; wings stand beside the trunk, which
looks them up and does not import them. A room is a folder, or what lies loose in a storey; its width says how many
lines it has.
"""

import argparse
import tomllib
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "src" / "parley"
LABORATORY = "parley_lab/papers"  # a package of its own
WINGS = (LABORATORY, "tasks")
WALL, PAPER, WING, INK = "#8a7f6d", "#f4efe6", "#e3ebf3", "#222222"
SAYS = {
    "studio": "what people see",
    "cli": "what people type",
    "workflows": "what a user does: one function each",
    LABORATORY: "the source documents again: the laboratory",
    "tasks": "whatever else owners do together",
    "demo": "tables and terms to start with",
    "report": "tables, sentences, pictures",
    "audit": "attacks on what is promised below",
    "decisions": "should we, and on what terms?",
    "learning": "rounds, updates, what came out",
    "network": "parties on different machines",
    "owner": "answers, having debited its ledger",
    "protocol": "what is asked; how answers become one",
    "losses": "what is minimised, and bounded",
    "privacy": "noise, and what it costs",
    "data": "tables, cell by cell",
    "terms": "the one file that people write",
}


def storeys() -> list[str]:
    """The storeys, top first, as pyproject.toml has them; files that all rest on are left out."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    return [layer for layer in contract["layers"] if (HOUSE / layer).is_dir()]


def folder_of(storey: str) -> Path:
    """Where a storey or a wing lies."""
    return HOUSE.parent / storey if storey == LABORATORY else HOUSE / storey


def rooms(storey: str) -> dict[str, int]:
    """The rooms of a storey, with their lines; what lies loose in it comes first."""
    found: Counter[str] = Counter()
    for path in sorted(folder_of(storey).rglob("*.py")):
        inside = path.relative_to(folder_of(storey)).parts
        found[inside[0] if len(inside) > 1 else ""] += len(path.read_text(encoding="utf-8").splitlines())
    return {name: lines for name, lines in found.items() if lines > 30}


def draw_storey(
    axes: plt.Axes, storey: str, left: float, bottom: float, width: float, height: float, fill: str
) -> None:
    """One storey: its name, a line about it, and its rooms side by side."""
    axes.add_patch(
        FancyBboxPatch((left, bottom), width, height, boxstyle="round,pad=0.03", facecolor=fill, edgecolor=WALL)
    )
    axes.text(left + 0.12, bottom + height - 0.08, storey, fontsize=11.5, weight="bold", color=INK, va="top")
    axes.text(left + 0.12, bottom + 0.07, SAYS[storey], fontsize=7.5, color="#666666", va="bottom")
    found = rooms(storey)
    names = [name for name in found if name]
    if not names:
        files = sorted((HOUSE / storey).glob("[a-z]*.py"), key=lambda file: -file.stat().st_size)[:5]
        nouns = " · ".join(sorted(file.stem.replace("_", " ") for file in files))
        axes.text(left + 2.75, bottom + height / 2, f"{nouns} …", fontsize=8, color="#666666", va="center")
        return
    begin, gap = left + 2.75, 0.08
    free = width - 2.85 - gap * len(names)
    sizes = {name: max(found[name], sum(found.values()) // 6) for name in names}  # wide enough for its name
    for name in names:
        wide = free * sizes[name] / sum(sizes.values())
        box = FancyBboxPatch(
            (begin, bottom + 0.1), wide, height - 0.2, boxstyle="round,pad=0.01", facecolor="white", edgecolor=WALL
        )
        axes.add_patch(box)
        label = name.replace("_", "\n") if wide < 0.11 * len(name) else name
        size = min(8.5, 100 * wide / max(map(len, label.split("\n"))))
        axes.text(begin + wide / 2, bottom + height / 2, label, ha="center", va="center", fontsize=size, color=INK)
        begin += wide + gap


def draw(path: Path) -> None:
    """The trunk from top to bottom, the wings beside it."""
    trunk = [name for name in storeys() if name not in WINGS]
    figure, axes = plt.subplots(figsize=(11.5, 8.2))
    height, step = 0.56, 0.68
    for level, storey in enumerate(reversed(trunk)):
        draw_storey(axes, storey, 0.0, level * step, 7.4, height, PAPER)
    tall = (len(trunk) * step - 0.1) / 2
    for place, wing in enumerate(reversed(WINGS)):
        left, bottom = 8.6, place * (tall + 0.05) + 0.02
        axes.add_patch(
            FancyBboxPatch((left, bottom), 3.4, tall - 0.1, boxstyle="round,pad=0.03", facecolor=WING, edgecolor=WALL)
        )
        axes.text(left + 0.15, bottom + tall - 0.3, wing, fontsize=11.5, weight="bold", color=INK, va="top")
        axes.text(left + 0.15, bottom + tall - 0.62, SAYS[wing], fontsize=7.5, color="#666666", va="top")
        names = [name for name in rooms(wing) if name]
        high = (tall - 1.1) / max(len(names), 1)
        for number, name in enumerate(reversed(names)):
            low = bottom + 0.1 + number * high
            box = FancyBboxPatch(
                (left + 0.2, low), 3.0, high - 0.12, boxstyle="round,pad=0.01", facecolor="white", edgecolor=WALL
            )
            axes.add_patch(box)
            axes.text(left + 1.7, low + (high - 0.12) / 2, name, ha="center", va="center", fontsize=8.5, color=INK)
        ends = (left - 0.05, bottom + tall / 2), (7.5, bottom + tall / 2)
        axes.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=12, color="#3b6ea5"))
        axes.text(8.05, bottom + tall / 2 + 0.08, "imports", ha="center", fontsize=7.5, color="#3b6ea5")
    axes.set_xlim(-0.15, 12.2)
    axes.set_ylim(-0.25, len(trunk) * step + 0.35)
    axes.axis("off")
    axes.set_title("The house: storeys rest on those below, wings stand beside the trunk", fontsize=12.5)
    figure.tight_layout()
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=ROOT / "docs" / "images" / "house.png")
    draw(parser.parse_args().file)
