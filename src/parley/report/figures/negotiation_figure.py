"""A negotiation as a figure."""

from matplotlib.figure import Figure

from parley.decisions.games.negotiate import Negotiation
from parley.report.figures.game_figures import negotiation
from parley.report.words.negotiation import adjacency


def negotiation_figure(result: Negotiation) -> Figure:
    """Payoffs by own budget with the choices marked, and quality against spend."""
    epsilons, payoffs = result.payoff_curves()
    chosen = {owner.name: owner.epsilon for owner in result.owners if owner.epsilon is not None}
    budget = f"{'common' if result.terms.noise.common else 'own'} budget ε ({adjacency(result)})"
    return negotiation(epsilons, payoffs, chosen, result.spending(), budget)
