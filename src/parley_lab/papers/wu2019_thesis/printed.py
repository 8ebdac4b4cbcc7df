"""What T prints, figure by figure and table by table, and whether it comes out here."""

from dataclasses import replace

from parley_lab.papers.printed import Outcome, Printed, pictures
from parley_lab.papers.wu2019.document import DOCUMENT as WU

CHAPTER_3 = (2, 3, 4, 5, 6, 8, 7, 9, 10, 11)  # its figures are W's, in this order


def _again(place: int, word: str) -> Printed:
    """A figure of chapter 3: W's, under another number."""
    same = next(each for each in WU.printed if each.number == f"figure {word}")
    title, asked = WU.title_of(same), f"parley reproduce {WU.name} --figure {word}"
    return replace(same, number=f"figure 3.{place}", title=title, asked=asked)


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
        Outcome.COMES_OUT,
        "reached on odd rings, on cliques and for a count of one record, where T says that it is strict; counts of 2 "
        "records or more stay below",
        "how often a reader of a private answer is right at most",
        "--figure bound",
        quick=True,
    ),
    *(_again(place, str(word)) for place, word in enumerate(CHAPTER_3, 1)),
    *pictures({"figure 4.1": "who answers which queries"}),
    Printed(
        "figure 4.2",
        Outcome.COMES_OUT,
        "with parameters of our own, since none are printed: (a) one top, at the equilibrium; (b, c) one end from "
        "three starts",
        "leakage compensation: payoff, and budgets that converge",
        "--figure payoffs --figure convergence",
        quick=True,
    ),
    Printed(
        "figure 4.3",
        Outcome.DIFFERS,
        "(a) one top, (b, c) one end from three starts, but the equilibrium is not unique: from the lowest budgets "
        "nobody moves",
        "utility compensation: utility, and budgets that converge",
        "--figure payoffs --figure convergence",
        quick=True,
    ),
)
