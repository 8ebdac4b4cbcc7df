"""A local update: an owner walks s gradient steps on its own records and answers with the mean direction it walked (FedAvg).

Why local steps cost no extra noise. For a cost of the margin a record's gradient is a number, its slope, times x. The slope of a convex
loss never falls as the margin grows; clipped, it still never falls, and nowhere rises faster. So the clipped gradient is itself the
gradient of a convex cost that bends by no more than the unclipped one. A gradient step of length rho <= 2/L on a convex cost that bends
by at most L brings no two points further apart in L2, and neither does the projection on the box. Let two tables differ in the rows of
one person. Their paths begin at one point; in every step the two maps differ by at most rho D, D the L2 sensitivity of one mean gradient,
and what lay between the paths before does not grow. After s steps they are at most s rho D apart, so the mean direction
(start - w_s)/(rho s) moves by at most D, as one gradient does.

An update that is clipped as a whole to C and sent as it is can move by 2C, however many records there are: nothing is known of how one
record acts on it. Here every record is clipped inside the walk, which is what brings the 1/n.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from parley.accounting import mechanism_norm
from parley.data import Design, Preparation
from parley.data.design import UNIT
from parley.errors import TermsError
from parley.mechanisms import Bounded, Extent, Norm
from parley.objectives.margin import MarginObjective, RecordBound
from parley.terms import Terms
from parley.validate import Floats


def walk(
    gradient: Callable[[Floats], Floats], start: Floats, steps: int, step: float, regularisation: float, radius: float | None
) -> Floats:
    """The mean direction (start - w_s)/(rho s) of w <- proj(w - rho (r w + gradient(w))), s times from `start` [..., p].

    >>> walk(lambda w: 2 * w, np.array([1.0]), steps=2, step=0.25, regularisation=0.0, radius=None)  # 1, 0.5, 0.25
    array([1.5])
    """
    w = start
    for _ in range(steps):
        w = w - step * (regularisation * w + gradient(w))
        if radius is not None:
            w = np.clip(w, -radius, radius)
    return np.asarray((start - w) / (step * steps))


@dataclass(frozen=True)
class LocalUpdate:
    """What the terms and public knowledge fix about the owners' local walks. `norm` is the one that the noise needs."""

    steps: int  # s
    step: float  # rho
    regularisation: float  # r
    radius: float
    curvature: float  # L, penalty included
    reach: float  # the largest bend * sum |theta_j x_j| * |x|: how far a margin that is wholly wrong would move a record's gradient
    width: int
    norm: Norm

    def bounded(
        self, objective: MarginObjective, design: Design, start: Floats, bound: RecordBound, persons_records: int
    ) -> Bounded:
        """The mean direction of a walk from every start [..., p] in the box, with its sensitivity.

        Formal guarantee: see `Bounded`, and `sensitivity` for the proof.
        """
        value = walk(
            lambda w: objective.mean_gradient(design, w, bound), start, self.steps, self.step, self.regularisation, self.radius
        )
        return Bounded(value, self.sensitivity(bound, len(design), design.summation_slack, persons_records), self.norm)

    def sensitivity(self, bound: RecordBound, records: int, slack: float, records_per_person: int = 1) -> float:
        """How far one person can move the computed mean direction of a walk on `records` rows.

        Formal guarantee: by at most share * 2 k Xi/n + 2 rounding in L2, Xi the largest L2 norm of one record's gradient. Neighbours'
        maps differ by at most rho 2 k Xi/n at every point; each map is a contraction by q (`share`), so after s steps the paths are at
        most rho 2 k Xi/n (1 + q + ... + q^(s-1)) apart. Each computed step lands at most rho `rounding` from where the exact map leads
        (the last division included), and non-expansive maps carry such errors on without making them larger: s of them, divided by
        rho s, are one. In L1 a vector of p numbers measures at most sqrt p times as much.
        """
        if bound.norm != "l2":
            raise ValueError("local steps are non-expansive in L2 alone, so records are bounded there")
        reach = 2 * (self.share * bound.value * records_per_person / records + self._rounding(bound.value, slack))
        return reach * (1.0 if self.norm == "l2" else math.sqrt(self.width)) * (1 + 1e-12)

    def extent(self, bound: RecordBound, slack: float) -> Extent:
        """Where the computed mean direction of a walk from within the box lies, whatever the table holds.

        Formal guarantee: a step goes from w in the box to the projection of w - rho (r w + g), which moves it by at most
        rho (r |w| + |g|) in L2, |w| <= radius sqrt p and |g| <= Xi, and by rho `rounding` for the computation; s steps divided by rho s
        are at most one. No coordinate moves further than across the box.
        """
        root = math.sqrt(self.width)
        rounding = self._rounding(bound.value, slack)
        step = self.regularisation * self.radius * root + bound.value + rounding
        across = 2 * self.radius / (self.step * self.steps) + rounding
        coordinate, largest = min(step, across), min(step, across * root)
        return Extent(-coordinate, coordinate, largest * (1.0 if self.norm == "l2" else root), self.norm)

    @property
    def share(self) -> float:
        """(1 + q + ... + q^(s-1))/s: 1 without a penalty, less with one.

        Formal guarantee: with h the clipped data cost, convex and bending by at most L - r, the step maps w to (1 - rho r) w - rho h'(w).
        For d = a - b and D = h'(a) - h'(b) the images' distance squared is (1 - rho r)^2 |d|^2 - 2 rho (1 - rho r) d.D + rho^2 |D|^2.
        Since d.D >= |D|^2/(L - r), the last two terms are at most 0 if rho (L + r) <= 2: then q = 1 - rho r. Without that, q = 1 by the
        same argument for h + r/2 |w|^2, which bends by at most L, as long as rho L <= 2.
        """
        fade = self.step * self.regularisation
        if not 0 < fade < 1 or not self.step * (self.curvature + self.regularisation) <= 2 * (1 - 1e-12):
            return 1.0
        return min(1.0, -math.expm1(self.steps * math.log1p(-fade)) / (self.steps * fade) * (1 + 1e-12))

    def _rounding(self, largest: float, slack: float) -> float:
        """How far, in L2 and divided by rho, a computed step may land from the exact one; the last division included.

        - The mean of given slopes times rows: slack Xi (`summation_slack`).
        - A slope given its margin: a few roundings and scipy's expit, together within 16 u of it; where that lifts it over the clip
          both are clipped, so at most 32 u Xi.
        - A margin: p products, at most 2 (p + 8) u times sum |theta_j| |x_j|, and a slope moves by largest bend times that.
        - The step w - rho (r w + g): at most 16 u (radius + rho Xi) a coordinate, since rho r <= 2; the answer's subtraction and
          division: at most 8 u radius/(rho s) a coordinate.
        """
        sums = (slack + 32 * UNIT) * largest + 2 * (self.width + 8) * UNIT * self.reach
        return sums + 32 * UNIT * math.sqrt(self.width) * (self.radius / self.step + largest)


def local_update(terms: Terms, objective: MarginObjective, preparation: Preparation) -> LocalUpdate:
    """The local walks of these terms, or a `TermsError` if nothing limits what one record does to them."""
    step, radius, steps = local_step(terms, objective, preparation), terms.model.radius, terms.learning.local_steps
    features, curvature = preparation.feature_bound, objective.largest_curvature(preparation)
    if radius is None or steps is None or features is None or curvature is None:
        raise TermsError("learning.algorithm: expected federated-averaging, with model.radius and bounds of every feature")
    bend = objective.largest_bend * terms.model.largest_weight
    reach = bend * radius * float(features.sum()) * float(np.sqrt(np.sum(features**2)))
    norm = mechanism_norm(terms.privacy.mechanism)
    return LocalUpdate(steps, step, objective.regularisation, radius, curvature, reach, preparation.width, norm)


def local_step(terms: Terms, objective: MarginObjective, preparation: Preparation) -> float:
    """rho: the terms' step if it is at most 2/L, or for "auto" 1/L, rounded down to six digits; the same for owners and learner.

    L bounds the curvature of every table that keeps to the bounds. The curvature of the owner's own table would allow longer steps, but
    it is private, and the neighbouring table's may be another.
    """
    if not objective.smooth:
        raise TermsError("model.kind: expected a smooth loss beside federated-averaging: steps on the hinge may drive tables apart")
    largest, step = objective.largest_curvature(preparation), terms.learning.step
    if largest is None or not 0 < largest < math.inf:
        raise TermsError(
            "model.bounds: expected bounds of every feature (declared, or from a public sample) beside federated-averaging: without "
            "them no local step is short enough for every table"
        )
    if isinstance(step, str):
        return float(f"{(1 - 1e-5) / largest:.6g}")
    if not step * largest <= 2 * (1 - 1e-12):
        raise TermsError(
            f"learning.step = {step:g}: expected at most {2 * (1 - 1e-5) / largest:.6g} beside federated-averaging, 2 over the largest "
            "curvature that records within the bounds can have: longer local steps may drive neighbouring tables apart"
        )
    return step
