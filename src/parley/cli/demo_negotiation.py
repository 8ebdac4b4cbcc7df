"""The demo's negotiation: what the banks would choose by themselves, and what it takes to get the quality that the terms assume."""

from parley.cli.negotiate import show
from parley.cli.screen import console
from parley.games.negotiate import negotiate
from parley.terms import Terms

TARGET = 0.0002


def show_negotiation(terms: Terms) -> None:
    """A short table of the cheapest contracts for the demo's terms."""
    free = negotiate(terms)
    joining = ", ".join(owner.name for owner in free.owners if owner.participates)
    console.print("[bold]Which budgets would they choose, if all had the same kind of customers?[/bold]")
    console.print(f"Unpaid: {joining or 'nobody joins, each has rows enough'}. To reach ψ = {TARGET:g}:")
    show(negotiate(terms, target=TARGET))
    console.print()
