"""Wu's thesis (T, June 2019), chapter 4: convergence of the compensation games, figures 4.2 and 4.3.

T prints no parameters. Ours: three owners, one person with two values, answers up to five apart, budgets from 0.01 to
5. What T says of its figures is checked: equal sizes end at equal budgets from different starts, unequal sizes at
unequal ones. What it says of uniqueness is not true of the utility game: from the lowest budgets nobody moves.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from parley.decisions.games import best_response_dynamics
from parley.validate import Floats
from parley_lab.papers.document import Progress, Shown, Titled
from parley_lab.papers.wu2019_thesis.compensation import compensation_game

EQUAL, UNEQUAL = (1000, 1000, 1000), (500, 1000, 2000)
START_BUDGETS = ((0.5, 2.0, 4.0), (4.5, 1.0, 0.3), (3.0, 3.0, 3.0))
LOWEST_BUDGETS = (0.01, 0.01, 0.01)


@dataclass(frozen=True, eq=False)
class Convergence:
    """One panel: the paths of best responses from several starts, each [rounds + 1, owners]."""

    figure: str
    game: Literal["leakage", "utility"]
    sizes: tuple[int, ...]
    paths: tuple[Floats, ...]

    @property
    def ends(self) -> Floats:
        """The last budgets of each path [starts, owners]."""
        return np.array([path[-1] for path in self.paths])


def convergence(printed: bool = False) -> list[Convergence]:
    """Figures 4.2 (b, c) and 4.3 (b, c): from three starts, and from the lowest budgets last."""
    panels = []
    kinds: tuple[tuple[str, Literal["leakage", "utility"]], ...] = (("4.2", "leakage"), ("4.3", "utility"))
    for figure, game in kinds:
        for sizes in (EQUAL, UNEQUAL):
            rules = compensation_game(sizes, game, printed=printed)
            paths = [
                best_response_dynamics(rules, start, "simultaneous").path for start in (*START_BUDGETS, LOWEST_BUDGETS)
            ]
            panels.append(Convergence(figure, game, sizes, tuple(paths)))
    return panels


def shown(printed: bool, word: str, progress: Progress) -> Shown:
    """Where best responses come to rest, panel by panel."""
    panels = convergence(printed)
    rows = [["figure, game, sizes", *(f"from {start}" for start in (*START_BUDGETS, "the lowest"))]]
    rows += [[f"{p.figure} {p.game} {p.sizes}", *(" ".join(f"{e:.3f}" for e in end) for end in p.ends)] for p in panels]
    parts: list[Titled | str] = [
        Titled("Where best responses come to rest" + (", scale as printed" if printed else ""), rows)
    ]
    if not printed:
        parts.append("The thesis calls the equilibrium unique; the last column refutes it for the utility game.")
    content = {
        "panels": [
            {
                "figure": p.figure,
                "game": p.game,
                "sizes": p.sizes,
                "ends": p.ends.tolist(),
                "ends_as_printed": q.ends.tolist(),
            }
            for p, q in zip(panels, panels if printed else convergence(printed=True), strict=True)
        ]
    }
    drawn = [(f"{p.figure}: {p.game}", p.paths[:-1], [f"n = {size:,}" for size in p.sizes]) for p in panels]
    return Shown(content, parts, (drawn,))
