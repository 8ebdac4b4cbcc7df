"""What columns became, and what else they might have."""

from collections.abc import Sequence

from parley.decisions.forecasting.column_choice import Tried


def columns_line(tried: Sequence[Tried], taken: str | None) -> str:
    """What each way for columns would give, in a sentence; `taken` is what the terms say."""
    costs = [f"{each.way.label} {'cannot be judged' if each.why is not None else f'{each.cost:.4g}'}" for each in tried]
    words = {None: "straight lines", "bins": "bins", "trees": "public trees"}[taken]
    return f"Columns become {words}: expected cost of the joint model as {', '.join(costs)}."
