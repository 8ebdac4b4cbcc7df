"""An owner's own verdict on the joint model, as a table and in words. For its eyes only."""

from parley.numerals import number
from parley.outcome.verdict import Verdict

INSIDE = "Computed from private rows without noise: keep it inside."


def verdict_rows(verdict: Verdict) -> list[list[str]]:
    """Costs and metrics of the two models."""
    rows = [[f"{verdict.rows:,} held-out rows of {verdict.owner}", "together", "alone"]]
    rows.append(["cost", number(verdict.cost_together), number(verdict.cost_alone)])
    for name, value in verdict.together.items():
        if value is not None:
            rows.append([name.replace("_", " "), number(value), number(verdict.alone[name])])
    return rows


def headline(verdict: Verdict) -> str:
    """Which of the two serves this owner's own rows better."""
    return f"Better for {verdict.owner}'s own rows: {'together' if verdict.gain > 0 else 'alone'}."
