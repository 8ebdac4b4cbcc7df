"""The Aarhus report (A), section 3.3: what differential privacy means for one answer, before any learning.

Figure 4: the laws of a count's answer where the truth is 100 and where it is 101, which must be within e^eps of each
other everywhere; A draws Laplace noise and names no eps, ours is ln 2. Beside it the same on whole numbers. And A's
game of two coins, which is randomised response: its eps is ln 3 (A's "3/4 / 1/4 = ln 3" leaves out a logarithm).
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from parley.privacy.events import Adjacency
from parley.privacy.mechanisms import Geometric, Laplace
from parley.privacy.mechanisms.randomised_response import RandomisedResponse
from parley.validate import Floats
from parley_lab.papers.document import Progress, Shown, Titled

TRUE_COUNTS = (100, 101)
EPSILON = Fraction(math.log(2))
AXIS_MARGIN = 6.0


def laplace_density(x: Floats, truth: float, scale: float) -> Floats:
    """Of an answer with Laplace noise."""
    return np.exp(-np.abs(x - truth) / scale) / (2 * scale)


def geometric_chance(k: Floats, truth: float, scale: float) -> Floats:
    """Of an answer with two-sided geometric noise."""
    q = math.exp(-1 / scale)
    return (1 - q) / (1 + q) * q ** np.abs(k - truth)


def shown(bench: Any, word: str, progress: Progress) -> Shown:
    """How far apart the two laws are, and what the coins cost."""
    scales = Laplace.calibrate(EPSILON, 1.0).scale, Geometric.calibrate(EPSILON, 1).scale
    x = np.linspace(TRUE_COUNTS[0] - AXIS_MARGIN, TRUE_COUNTS[1] + AXIS_MARGIN, 1301)
    k = np.arange(math.ceil(x[0]), math.floor(x[-1]) + 1, dtype=np.float64)
    curves = [laplace_density(x, truth, scales[0]) for truth in TRUE_COUNTS]
    bars = [geometric_chance(k, truth, scales[1]) for truth in TRUE_COUNTS]
    worst = [float(np.max(np.maximum(a / b, b / a))) for a, b in (curves, bars)]
    odds = RandomisedResponse(2**63, cells=2, records=1, per_person=1, sensitivity=2.0).odds
    rows = [["", "published", "ours"], ["largest ratio, Laplace noise, ε = ln 2", "", f"{worst[0]:.4f}"]]
    rows += [["largest ratio, geometric noise, ε = ln 2", "", f"{worst[1]:.4f}"]]
    rows += [["two coins: e^ε", "(3/4)/(1/4)", str(odds)], ["two coins: ε", "ln 3", f"{math.log(odds):.4f}"]]
    content = {"output_laws": {"ratios": worst, "coins": str(odds), "adjacency": Adjacency.REPLACE_ONE}}
    return Shown(content, [Titled("One answer, two truths (figure 4)", rows)], (x, curves, k, bars))
