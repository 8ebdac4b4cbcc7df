"""A negotiation as a table, in words, and as a figure."""

from collections.abc import Sequence

from parley.decisions.games.break_even import BreakEven
from parley.decisions.games.budget_game import EXACT_UP_TO
from parley.decisions.games.negotiate import Negotiation
from parley.numerals import number
from parley.privacy.events import Adjacency

CAVEAT = (
    "Gains are those of parley forecast at the terms' budgets and without noise; in between they are taken to fall in "
    "line with what the joint model costs. Assumes that owners state their values truthfully. Test cost: the mean loss "
    "of a prediction on new rows; of numbers, its squared error."
)

STATED = (
    "Value: what one unit of test cost is worth to an owner, in money. Privacy cost: what each unit of its ε costs it, "
    "in the same money. Only they know."
)
SHARED = (
    "Value and privacy cost are part of the terms: everybody who gets the file reads them, and terms that state others "
    "are another agreement, whose release is debited anew."
)
UNSTATED = "Not every owner has stated its value and its privacy cost yet."
BREAK_EVEN = "If all join, at the terms' own budgets"


def headline(result: Negotiation) -> str:
    """How good the agreed model would be, or that there is none."""
    if result.relative_fitness is None:
        found = "is" if result.game.owners <= EXACT_UP_TO else "was found"
        return f"Nobody joins: there {found} no coalition in which every member does better than alone."
    psi = number(result.relative_fitness)
    return f"Expected relative fitness ψ = {psi} (how far from the best model without privacy; 0 is the best)"


def wishes_title(result: Negotiation) -> str:
    """The title of the table of wishes."""
    return f"In the best company, each with the budget it likes best (ε: {adjacency(result)})"


def wish_rows(result: Negotiation) -> list[list[str]]:
    """What each owner would choose there, what that is worth to it, and what it lacks."""
    rows = [
        ["owner", "would choose ε", "gain in test cost", "worth to it", "without noise", "privacy costs it", "lacks"]
    ]
    for wish in result.wishes():
        money = [number(each, 3) for each in (wish.worth, wish.most, wish.privacy_cost)]
        rows.append(
            [
                wish.name,
                number(wish.wants),
                number(wish.gain, 3),
                *money,
                number(wish.short, 3) if wish.short else "nothing",
            ]
        )
    return rows


def moves(result: Negotiation) -> list[str]:
    """What would move owners where nobody joins, in sentences."""
    found = result.wishes()
    moved = [wish for wish in found if wish.short > 0 and wish.bearable > 0]
    useless, willing = [wish for wish in found if not wish.gain > 0], [wish for wish in found if not wish.short > 0]
    said = []
    if moved:
        least = min(moved, key=lambda wish: wish.short)
        said.append(
            f"Nearest to joining is {least.name}: it lacks {number(least.short, 3)}, and would come for a payment of "
            f"that, or if its privacy cost it {least.bearable:.0%} of what its terms say. All {len(moved)} that gain "
            f"lack {number(sum(wish.short for wish in moved), 3)}."
        )
    if useless:
        who = "every owner" if len(useless) == len(found) else ", ".join(wish.name for wish in useless[:6])
        more = f" and {len(useless) - 6} more" if 6 < len(useless) < len(found) else ""
        top = max(useless, key=lambda wish: wish.most)
        hosts = "" if result.terms.noise.common else ', one noise for all (privacy.noise = "shared")'
        better = (
            f"; less noise could (larger budgets of the others{hosts}, or more owners): without any it would be worth "
            f"{number(top.most, 3)} to {top.name}, and its privacy may not cost it more than that."
            if top.most > 0
            else ", and without any noise it would not be either: on these terms there is nothing to gain by joining "
            "(parley plan looks for better ones)."
        )
        said.append(f"For {who}{more} the joint model at these budgets would be no better than an own one{better}")
    if willing and len(willing) < len(found):
        said.append(
            f"By itself would come: {', '.join(wish.name for wish in willing[:6])}; but a joint model takes two that "
            f"hold on."
        )
    return [
        *said,
        "Payments that bring owners in: parley negotiate TERMS --target PSI, a relative fitness such as 0.01.",
    ]


def break_even_rows(found: Sequence[BreakEven]) -> list[list[str]]:
    """What joining saves each owner at the terms' budgets, and from which value on that pays."""
    rows = [["owner", "ε", "saves it in test cost", "without noise", "value that pays, for a privacy cost of 1"]]
    for each in found:
        pays = "none" if each.value is None else number(each.value, 3)
        rows.append([each.name, number(each.epsilon), number(each.gain, 3), number(each.most, 3), pays])
    return rows


def break_even_line(found: Sequence[BreakEven]) -> str:
    """How to choose a value, in one sentence."""
    pays = [each.value for each in found if each.value is not None]
    if not pays:
        return (
            "At these budgets joining saves nobody anything, so no value makes it pay. parley forecast says which "
            "terms would change that, if any do."
        )
    least = f"{min(pays):.2g}"
    return (
        f"Say what these budgets cost an owner in privacy, as money (1, say), and what one unit of test cost is worth "
        f"to it: joining pays from {least} times that on. As in --privacy-cost 1 --value {2 * float(least):.2g}."
    )


def title(result: Negotiation) -> str:
    """The title of the table of a negotiation."""
    what = "What each owner would choose" if result.target is None else "The cheapest contracts found"
    return f"{what} (ε: {adjacency(result)})"


def owner_rows(result: Negotiation) -> list[list[str]]:
    """Who joins with which budget, and what for."""
    paid = result.target is not None
    rows = [["owner", "joins", "budget ε", "gain in test cost", *(["payment"] if paid else []), "payoff"]]
    for owner in result.owners:
        money = [number(owner.payment)] if paid else []
        joins = "yes" if owner.participates else "stays out"
        rows.append([owner.name, joins, number(owner.epsilon), number(owner.gain, 3), *money, number(owner.payoff)])
    return rows


def prices(result: Negotiation) -> list[str]:
    """What the learner pays, and what privacy costs everybody."""
    said = []
    if result.target is not None:
        spend = result.deal.spend
        paid = max((abs(owner.payment) for owner in result.owners), default=0.0)
        said.append(f"The learner pays {number(spend if abs(spend) > 1e-9 * paid else 0.0)} in all.")
        if result.posted is not None:
            price, more = number(result.posted.price), number(result.posted.spend)
            said[0] += f" One price for all, {price} for each unit of ε, would cost {more}."
    if result.price_of_privacy is not None:
        lost = f"{result.price_of_privacy:.1%}"
        said.append(f"Price of privacy: {lost} of what everyone could gain together without noise is lost.")
    return said


def checked(result: Negotiation) -> str:
    """That it is an equilibrium, and how nearly."""
    return f"Checked: no owner gains more than {number(result.largest_gain, 2)} by another choice of its own."


def adjacency(result: Negotiation) -> Adjacency:
    return Adjacency.of_unit(result.terms.privacy.unit)
