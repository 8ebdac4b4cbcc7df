"""A figure of owners that learned items together: whose error falls."""

import numpy as np
from matplotlib.figure import Figure

from parley.report.figures.gains_figure import owners_gains
from parley.tasks.ratings.result import ItemsResult


def items_gains(result: ItemsResult) -> Figure | None:
    """What joint items, made each owner's own, save of its error alone, owners by their numbers of users; None where
    nothing was measured."""
    users = {part.name: part.records for part in result.terms.owners}
    judged = [each for each in result.owners if each.rmse_alone and each.rmse_personal is not None]
    judged = sorted(judged, key=lambda each: users[each.name])
    if not judged:
        return None
    saved = np.array([1 - (each.rmse_personal or 0.0) / (each.rmse_alone or 1.0) for each in judged])
    title = f"Better off together: {int((saved > 0).sum())} of {len(saved)}"
    names = [f"{each.name} ({users[each.name]:,} users)" for each in judged]
    return owners_gains(
        names, None, np.repeat(saved[:, None], 3, axis=1), title, came_out="came out, on own held-out ratings"
    )
