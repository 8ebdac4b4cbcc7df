"""How far noise moves one number of owners' mean second moments, by the law that adds up."""

from dataclasses import dataclass

import numpy as np

from parley.privacy.mechanisms.stable import StableOnSums
from parley.privacy.mechanisms.stable_law import reach
from parley.protocol.aggregation import EachOwnerNoise
from parley.protocol.setup import Setup
from parley.validate import Floats

MIDDLE = 0.6827  # the share of normal numbers that lie within one deviation


@dataclass(frozen=True, eq=False)
class MomentNoise:
    """The squares [N] of how far one number of each owner's answer moves: its variance, or of stable noise, which has
    none, the squared reach of its middle 68 %; empty where one noise is drawn for all. Reaches grow with the scale, and
    weighted sums have a scale of |w|_alpha, those of normal noise with alpha = 2."""

    records: Floats  # n_l [N]
    squares: Floats
    together: float  # how far that of all owners' mean moves
    alpha: float = 2.0


def moment_noise(setup: Setup) -> MomentNoise:
    """That of the training answers of all owners."""
    parts = setup.parts.values()
    laws = [law for part in parts if isinstance(law := part.training.series.mechanism, StableOnSums)]
    if not laws:
        known = setup.aggregation.noise(setup)
        variances = known.variances if isinstance(known, EachOwnerNoise) else np.zeros(0)
        return MomentNoise(known.records, variances, known.all_together**0.5)
    alpha, records = laws[0].alpha, np.array([float(part.training.question.records) for part in parts])
    reaches = np.array([reach(MIDDLE, alpha, law.scale, 0.0) for law in laws])
    together = float(np.sum((records / records.sum() * reaches) ** alpha)) ** (1 / alpha)
    return MomentNoise(records, reaches**2, together, alpha)
