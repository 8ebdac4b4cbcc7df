"""Wu's thesis (T, June 2019), chapter 4: one owner's payoff over its own budget, figures 4.2 (a) and 4.3 (a).

T prints no parameters; ours are those of `convergence`. The others stay at their equilibrium budgets, and the curve's
top is the owner's own: that is an equilibrium. In the utility game a second curve has the others at the lowest budgets,
where the top is the lowest budget again: a second equilibrium, where T says that there is one.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from parley.decisions.games import solve
from parley.validate import Floats
from parley_lab.papers.document import Progress, Shown, Titled
from parley_lab.papers.wu2019_thesis.compensation import compensation_game
from parley_lab.papers.wu2019_thesis.convergence import EQUAL

GRID_POINTS = 1001


@dataclass(frozen=True, eq=False)
class PayoffCurve:
    """The first owner's payoff [points] at its own budgets, the others' fixed; `top`: where it is largest."""

    figure: str
    game: Literal["leakage", "utility"]
    others: tuple[float, ...]
    epsilon: Floats
    payoff: Floats

    @property
    def top(self) -> float:
        """The budget of the largest payoff."""
        return float(self.epsilon[int(np.argmax(self.payoff))])

    @property
    def peaks(self) -> int:
        """How many tops the curve has, ends included."""
        before = np.concatenate([[-np.inf], self.payoff[:-1]])
        after = np.concatenate([self.payoff[1:], [-np.inf]])
        return int(np.count_nonzero((self.payoff > before) & (self.payoff > after)))


def payoff_curves(printed: bool = False) -> list[PayoffCurve]:
    """Figure 4.2 (a), and 4.3 (a) with the others at either of two equilibria."""
    curves = []
    kinds: tuple[tuple[str, Literal["leakage", "utility"]], ...] = (("4.2 (a)", "leakage"), ("4.3 (a)", "utility"))
    for figure, game in kinds:
        rules = compensation_game(EQUAL, game, printed=printed)
        fixed = [solve(rules).strategies, *([rules.low] if game == "utility" else [])]
        for others in fixed:
            epsilon = np.unique([*np.linspace(rules.low[0], rules.high[0], GRID_POINTS), others[0]])
            profiles = np.tile(others, (len(epsilon), 1))
            profiles[:, 0] = epsilon
            curves.append(PayoffCurve(figure, game, tuple(others[1:].tolist()), epsilon, rules.payoff(profiles)[:, 0]))
    return curves


def shown(printed: bool, word: str, progress: Progress) -> Shown:
    """Where an owner's payoff is largest, and how many tops it has."""
    curves = payoff_curves(printed)
    rows = [["figure, game", "the others' budgets", "best own budget", "payoff there", "tops"]]
    rows += [
        [
            f"{c.figure} {c.game}",
            " ".join(f"{e:.3f}" for e in c.others),
            f"{c.top:.3f}",
            f"{c.payoff.max():.3f}",
            f"{c.peaks}",
        ]
        for c in curves
    ]
    parts: list[Titled | str] = [
        Titled("One owner's payoff, the others at an equilibrium" + (", scale as printed" if printed else ""), rows),
        "An owner whose best budget is the others' has no reason to move: that is an equilibrium. The thesis calls it "
        "unique; the utility game has another at the lowest budgets.",
    ]
    content = {
        "curves": [
            {"figure": c.figure, "game": c.game, "others": c.others, "top": c.top, "payoff": float(c.payoff.max())}
            for c in curves
        ]
    }
    return Shown(content, parts, (curves,))
