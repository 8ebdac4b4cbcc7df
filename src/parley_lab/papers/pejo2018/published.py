"""Pejo, Tang, Arriaga, "Together or Alone" (P): the equilibria of section 7.3 and the best responses of table 6,
recomputed.

Three printed numbers do not follow from P's own table 5 and equations; each row says what was found. The printed
payoffs come out with the opposite sign of eta1 (+0.7225) and the two improvements exchanged; 0.816 is the share of
accuracy kept, 1 - PoP.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parley.decisions.games import Equilibrium, solve
from parley_lab.papers.pejo2018.games.joint_learning import PUBLISHED, Mechanism, published, table_6

JOINT_GAIN_PERCENT = {
    "1M": 2.5,
    "NF10": 4.0,
}  # percent by which joint learning improves on the means, at any ratio (figure 3)
FIT_BY_MECHANISM: dict[str, Mechanism] = {  # whose fit of table 5 stands for which of ours in figure 5
    "hide": "hide",
    "bounded": "bDP",
    "bounded-published": "bDP",
    "unbounded": "uDP",
    "unbounded-published": "uDP",
}


@dataclass(frozen=True)
class Comparison:
    """One number of the document beside ours."""

    where: str
    quantity: str
    published: float
    recomputed: float
    remark: str = ""

    @property
    def agrees(self) -> bool:
        """Within half a unit of the third digit, which is what P prints."""
        return abs(self.published - self.recomputed) <= 5.1e-4 * max(1.0, abs(self.published))


def equilibrium_numbers() -> list[Comparison]:
    """P section 7.3.1 and 7.3.2, bounded DP, from the unclamped interpolation."""
    uneven, even = solve(published("bDP", concern=(5, 0.2))), solve(published("bDP", concern=(1, 1)))
    order, sign = "the two are listed in the wrong order", "follows from eta1 = +0.7225, improvements exchanged"
    case = "C/B = (5, 0.2)"
    rows = [
        *_pair(case, "p*", (0.315, 0.107), uneven, "privacy"),
        *_pair(case, "eps*", (2.175, 8.310), uneven, "epsilon"),
        *_pair(case, "improvement, %", (0.906, 0.585), uneven, "improvement", order),
        *_pair(case, "payoff", (-2.470, 0.456), uneven, "payoff", sign),
        Comparison(case, "price of privacy", 0.816, _price(uneven), "0.816 is what is kept, not what is lost"),
    ]
    case = "C/B = (1, 1)"
    return [
        *rows,
        Comparison(case, "eps*, either player", 5.8456, _first(even, "epsilon")),
        Comparison(case, "payoff, either player", 0.258547, _first(even, "payoff"), "follows from eta1 = +0.7225"),
    ]


def outcomes() -> list[Comparison]:
    """What players do who may stay out (table 6's condition): p of player 1 as P concludes it, and as solved."""
    apart, unconcerned = (solve(published("bDP", concern=c, participation=True)) for c in ((5, 0.2), (0, 0)))
    return [
        Comparison("may stay out, C/B = (5, 0.2)", "p of player 1 (1 = trains alone)", 1.0, _first(apart, "privacy")),
        Comparison("may stay out, C/B = (5, 0.2)", "price of privacy", 1.0, _price(apart)),
        Comparison("may stay out, C/B = (0, 0)", "p of player 1", 0.0, _first(unconcerned, "privacy")),
    ]


def published_gain(figure: int, point: Mapping[str, Any]) -> float | None:
    """The gain in percent that P has at this point, by its own comparison: what it says of 1M (figure 3), its fit of
    1M (figure 5); None where it has none in numbers.

    >>> published_gain(5, {"mechanism": "hide", "p": 0.0, "p_other": 0.0}), published_gain(3, {"player": 2})
    (1.19595, 2.5)
    """
    if figure == 3:
        return JOINT_GAIN_PERCENT["1M"]
    if figure != 5 or point["mechanism"] not in FIT_BY_MECHANISM:
        return None
    return float(PUBLISHED[FIT_BY_MECHANISM[point["mechanism"]]](point["p_other"], point["p"]))


def best_response_rows(others: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75), concern: float = 0.5) -> list[list[str]]:
    """Table 6 as numbers: the best response of each mechanism against some p of the other, at one concern."""
    head = ["best response to the other's p", *(f"{x:g}" for x in others)]
    return [head, *([m, *(f"{table_6(m, concern, x):.4g}" for x in others)] for m in PUBLISHED)]


def _pair(
    case: str, quantity: str, printed: tuple[float, float], found: Equilibrium, name: str, remark: str = ""
) -> list[Comparison]:
    values = getattr(found, name)
    return [Comparison(case, f"{quantity} of player {n + 1}", printed[n], float(values[n]), remark) for n in range(2)]


def _first(found: Equilibrium, name: str) -> float:
    return float(getattr(found, name)[0])


def _price(found: Equilibrium) -> float:
    return float("nan") if found.price_of_privacy is None else found.price_of_privacy
