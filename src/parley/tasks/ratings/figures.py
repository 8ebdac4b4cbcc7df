"""A figure of owners that learned items together: whose error falls."""

import numpy as np
from matplotlib.figure import Figure

from parley.report.figures.owner_gains import OwnerGain, owner_gains
from parley.tasks.ratings.run import ItemsResult


def items_gains(result: ItemsResult) -> Figure | None:
    """What joint items, made each owner's own, save of its error alone; None where nothing was measured."""
    users = {part.name: part.records for part in result.terms.owners}
    judged = [each for each in result.owners if each.rmse_alone and each.rmse_personal is not None]
    if not judged:
        return None
    saved = np.array([1 - (each.rmse_personal or 0.0) / (each.rmse_alone or 1.0) for each in judged])
    title = f"Better off together: {int((saved > 0).sum())} of {len(saved)}"
    names = [f"{each.name} ({users[each.name]:,} users)" for each in judged]
    gains = [
        OwnerGain(name, each, each, each, "join" if each > 0 else "stay")
        for name, each in zip(names, saved.tolist(), strict=True)
    ]
    return owner_gains(
        gains, title, "error that joining saves, of the error alone", "on own held-out ratings", shares=True
    )
