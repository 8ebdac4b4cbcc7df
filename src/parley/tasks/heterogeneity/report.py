"""How much owners differ, in sentences."""

from parley.learning.outcome.guarantee import INSIDE
from parley.numerals import number, percent
from parley.privacy.adjacency import Adjacency
from parley.tasks.heterogeneity.run import DifferencesResult

MANY = 0.05  # of the public rows: a clip that scales down more of them hides some of what differs


def summary(result: DifferencesResult) -> str:
    """What the run was."""
    privacy = result.asked.privacy
    epsilon, delta = number(result.asked.owners[0].epsilon, side="above"), number(privacy.delta, side="above")
    cost = f"ε = {epsilon}, δ = {delta} of every owner ({Adjacency.REPLACE_ONE})"
    if not result.released:
        return f"Simulation, not a release: seeded noise, no ledger was debited. A release by these terms costs {cost}. {INSIDE}"
    return f"Released: {cost}, debited in its ledger before anything left."


def clip_note(result: DifferencesResult) -> str | None:
    """Where the clip hides differences, as far as the public sample tells."""
    if not result.clipped > MANY:
        return None
    return f"The clip scales down {percent(result.clipped)} of the public rows' gradients: owners may differ more than it lets through."


def left(result: DifferencesResult) -> str:
    """What is left to learn with."""
    budgets = ", ".join(f"{owner.name} {number(owner.epsilon, side='below')}" for owner in result.ready.owners)
    return f"Left of ε: {budgets}; of δ: {number(result.ready.privacy.delta, side='below')}."


def release_note(result: DifferencesResult) -> tuple[str, ...]:
    """What a reader of the terms that follow should know, as lines of a comment."""
    kind = "released by the owners with noise, debited in their ledgers" if result.released else "SIMULATED, with seeded noise"
    return (
        f"How much owners differ was {kind}, under the terms {result.asked.hash[:16]}...:",
        result.between.sentence(),
        f"It took epsilon = {result.asked.owners[0].epsilon:g} and delta = {result.asked.privacy.delta:g} of every owner.",
        "The budgets below are what that left.",
    )
