"""What T prints, figure by figure and table by table, and what compares it with a run."""

from parley_lab.papers.printed import Printed, pictures
from parley_lab.papers.wu2019.document import DOCUMENT as WU

GAME_NOTE = (
    "T prints no parameters, and its scale upside down: both ours; by the printed scale everybody gives the least"
)
CHAPTER_3 = (2, 3, 4, 5, 6, 8, 7, 9, 10, 11)  # its figures are W's, in this order


def _again(place: int, word: str) -> Printed:
    """A figure of chapter 3: W's, under another number."""
    same = next(each for each in WU.printed if each.number == f"figure {word}")
    asked = f"parley reproduce {WU.name} --figure {word}"
    return Printed(f"figure 3.{place}", same.note, WU.title_of(same), asked, again=(WU.name, same.number))


PRINTED = (
    *pictures(
        {
            "figure 1.1": "who sends what to an aggregator",
            "figure 1.2": "learner and owners",
            "table 2.1": "words of game theory",
            "figure 2.1": "kinds of games",
            "figure 2.2": "kinds of static games",
            "figure 2.3": "kinds of dynamic games",
            "figure 2.4": "leakage and utility",
        }
    ),
    Printed(
        "equation 2.3",
        "T says itself where its bound is strict",
        "how often a reader of a private answer is right at most",
        "--figure bound",
        "comparisons:bound",
        ("bound",),
        quick=True,
    ),
    *(_again(place, str(word)) for place, word in enumerate(CHAPTER_3, 1)),
    *pictures({"figure 4.1": "who answers which queries"}),
    Printed(
        "figure 4.2",
        GAME_NOTE,
        "leakage compensation: payoff, and budgets that converge",
        "--figure payoffs --figure convergence",
        "comparisons:leakage",
        ("convergence", "payoffs"),
        quick=True,
    ),
    Printed(
        "figure 4.3",
        f"{GAME_NOTE}; from the lowest budgets (0.01, ours; T has ε ≥ 0) nobody moves, a second equilibrium",
        "utility compensation: utility, and budgets that converge",
        "--figure payoffs --figure convergence",
        "comparisons:utility",
        ("convergence", "payoffs"),
        quick=True,
    ),
)
