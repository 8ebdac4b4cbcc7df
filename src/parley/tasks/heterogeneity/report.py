"""How much owners differ, in sentences."""

from parley.numerals import percent
from parley.tasks.heterogeneity.run import HeterogeneityResult

MANY = 0.05  # of the public rows: a clip that scales down more of them hides some of what differs


def clip_note(result: HeterogeneityResult) -> str | None:
    """Where the clip hides heterogeneity, as far as the public sample tells."""
    if not result.clipped > MANY:
        return None
    return f"The clip scales down {percent(result.clipped)} of the public rows' gradients: owners may differ more than it lets through."


def release_note(result: HeterogeneityResult) -> tuple[str, ...]:
    """What a reader of the terms that follow should know, as lines of a comment."""
    kind = "released by the owners with noise, debited in their ledgers" if result.released else "SIMULATED, with seeded noise"
    return (
        f"How much owners differ was {kind}, under the terms {result.asked.hash[:16]}...:",
        result.between.sentence(),
        f"It took epsilon = {result.asked.owners[0].epsilon:g} and delta = {result.asked.privacy.delta:g} of every owner.",
        "The budgets below are what that left.",
    )
