"""A negotiation as a table, in words, and as a figure."""

from typing import TYPE_CHECKING

from parley.games.budget_game import EXACT_UP_TO
from parley.games.negotiate import Negotiation
from parley.numerals import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAVEAT = "Assumes that the owners' data follow one law and that they state their values truthfully."


def headline(result: Negotiation) -> str:
    """How good the agreed model would be, or that there is none."""
    if result.relative_fitness is None:
        found = "is" if result.game.owners <= EXACT_UP_TO else "was found"
        return f"Nobody joins: there {found} no coalition in which every member does better than alone."
    return f"Expected relative fitness ψ = {number(result.relative_fitness)}"


def title(result: Negotiation) -> str:
    """What the table is."""
    return "What each owner would choose" if result.target is None else "The cheapest contracts found"


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
        said.append(f"The learner pays {number(result.deal.spend)} in all.")
        if result.posted is not None:
            price, spend = number(result.posted.price), number(result.posted.spend)
            said[0] += f" One price for all, {price} for each unit of ε, would cost {spend}."
    if result.price_of_privacy is not None:
        lost = f"{result.price_of_privacy:.1%}"
        said.append(f"Price of privacy: {lost} of what everyone could gain together without noise is lost.")
    return said


def checked(result: Negotiation) -> str:
    """That it is an equilibrium, and how nearly."""
    return f"Checked: no owner gains more than {number(result.largest_gain, 2)} by another choice of its own."


def figure(result: Negotiation) -> "Figure":
    """Payoffs by own budget with the choices marked, and quality against spend."""
    epsilons, payoffs = result.payoff_curves()
    chosen = {owner.name: owner.epsilon for owner in result.owners if owner.epsilon is not None}
    budget = "common budget ε" if result.terms.shared else "own budget ε"
    from parley.report import game_figures  # a library that takes its time

    return game_figures.negotiation(epsilons, payoffs, chosen, result.spending(), budget)
