"""What columns became, and what else they might have."""

import math
from collections.abc import Sequence

from parley.decisions.from_files.column_choice import Tried


def columns_line(tried: Sequence[Tried]) -> str:
    """What each way for columns would give, in a sentence or two; the first is the one that was taken."""
    taken, *others = tried
    alone = None if taken.proposal is None else taken.proposal.public_fit
    beside = "" if alone is None else f"; a model of the public sample alone {alone:.4g}"
    said = f"Columns become {taken.way.label}: expected cost {taken.cost:.4g}{beside}."
    judged = [f"{each.way.label} {_cost(each)} ({_distance(each, taken)})" for each in others if _known(each)]
    unjudged = [each.way.label for each in others if not _known(each)]
    said += f" Instead: {', '.join(judged)}." if judged else ""
    said += f" Not judged: {', '.join(unjudged)}." if unjudged else ""
    better = [each.way.label for each in others if each.judged is not None and each.judged < taken.cost]
    return said + "".join(
        f" --kind {kind} takes it; what it is worth to each owner nobody can forecast." for kind in better
    )


def _known(each: Tried) -> bool:
    return math.isfinite(each.compared)


def _cost(each: Tried) -> str:
    return f"{each.cost:.4g}" if each.least is None else "not planned"


def _distance(each: Tried, taken: Tried) -> str:
    """How much worse a way is, as ways are compared: half of what owners are forecast to add counts."""
    mine, other = (taken.compared, each.compared) if each.judged is None else (taken.cost, each.judged)
    more = other / mine - 1 if mine > 0 else math.inf
    amount = f"{abs(more):.1%} {'more' if more >= 0 else 'less'}"
    return amount if each.least is None else f"at least {amount}, even with no noise"
