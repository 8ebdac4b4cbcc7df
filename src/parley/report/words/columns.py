"""What columns became, and what else they might have."""

import math
from collections.abc import Sequence

from parley.decisions.from_files.column_choice import Tried


def columns_line(tried: Sequence[Tried], taken: str | None) -> str:
    """What each way for columns would give, in a sentence; `taken` is what the terms say."""
    costs = []
    for each in tried:
        alone = None if each.proposal is None else each.proposal.public_fit
        known = f"{each.cost:.4g}" if math.isfinite(each.cost) else "cannot be judged"
        costs.append(f"{each.way.label} {known}" + ("" if alone is None else f" (the public sample alone {alone:.4g})"))
    words = {
        None: "straight lines",
        "bins": "bins",
        "hinges": "bins joined by lines",
        "trees": "leaves of public trees",
    }[taken]
    return f"Columns become {words}. Expected cost of the joint model by {', by '.join(costs)}."
