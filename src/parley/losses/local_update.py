"""A local update: an owner takes s gradient steps on its own records and answers with their mean direction (FedAvg and
its kin).

Why local steps cost no extra noise. For a loss of the margin a record's gradient is a number, its loss's derivative,
times x. The derivative of a convex loss never falls as the margin grows; clipped, it still never falls, and nowhere
rises faster. So the clipped gradient is itself the gradient of a convex cost of no larger curvature than the unclipped
one. A gradient step of length rho <= 2/L on a convex cost of curvature at most L brings no two points further apart in
L2, and neither does the projection on the box. Let two tables differ in the rows of one person. Their paths begin at
one point; in every step the two maps differ by at most rho D, D the L2 sensitivity of one mean gradient, and what lay
between the paths before does not grow. After s steps they are at most s rho D apart, so the mean direction
(start - w_s)/(rho s) moves by at most D, as one gradient does.

Corrections and pulls. A constant c that is added to every gradient is the gradient of a linear cost, the same for both
tables: it has no curvature and cancels where their maps are compared. A pull mu (w - start) is the gradient of
mu/2 |w - start|^2, the same for both, too: all of the above holds for L + mu in the place of L. Start and correction
are the learner's, in the question; what an owner might have kept to itself enters nowhere, so two tables' paths do
begin together.

An update that is clipped as a whole to C and sent as it is can move by 2C, however many records there are: nothing is
known of how one record acts on it. Here every record is clipped in every step, which is what brings the 1/n.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from parley.data import Preparation, Summable
from parley.data.design import UNIT_ROUNDOFF
from parley.errors import TermsError
from parley.losses.loss import Limits, RecordBound
from parley.losses.objective import EmpiricalRisk
from parley.privacy.mechanisms import Extent, Norm
from parley.terms import Terms
from parley.validate import LARGEST, Floats


class LocallyUpdated(ABC):
    """What an objective knows on which owners can take local steps, as far as its loss is smooth."""

    @abstractmethod
    def local_gradient(self, design: Summable, theta: Floats, bound: RecordBound) -> Floats:
        """The mean gradient that local steps follow [..., P].

        Formal guarantee: every record's share measures at most Xi in L2, and it is the gradient of a convex cost whose
        curvature is at most `EmpiricalRisk.walked_curvature`: steps on it drive no two points apart.
        """

    @abstractmethod
    def local_rounding(self, preparation: Preparation, limits: Limits, bound: RecordBound) -> float:
        """How far rounding can move one record's share of `local_gradient`, in L2, for any parameter in the box."""


def margin_rounding(curvature: float, preparation: Preparation, limits: Limits) -> float:
    """How far the rounding of a margin can move the gradient of a record within the bounds, in L2: 2 (p + 8) u sum
    |theta_j| |x_j| times the largest curvature of its loss, its weight and |x|; infinite without bounds or a box."""
    features, radius = preparation.feature_bound, limits.radius
    if features is None or radius is None:
        return math.inf
    reach = curvature * limits.largest_weight * radius * float(features.sum()) * float(np.sqrt(np.sum(features**2)))
    return 2 * (preparation.width + 8) * UNIT_ROUNDOFF * reach


def mean_direction(
    gradient: Callable[[Floats], Floats],
    start: Floats,
    steps: int,
    step: float,
    regularisation: float,
    radius: float | None,
    proximal: float = 0.0,
    correction: Floats | None = None,
) -> Floats:
    """The mean direction (start - w_s)/(rho s) of w <- proj(w - rho (r w + gradient(w) + c + mu (w - start))), s times
    from `start`.

    >>> mean_direction(lambda w: 2 * w, np.array([1.0]), 2, step=0.25, regularisation=0.0, radius=None)  # 1, 0.5, 0.25
    array([1.5])
    >>> mean_direction(lambda w: 2 * w, np.array([1.0]), 2, 0.25, 0.0, None, correction=np.array([-2.0]))  # it stays
    array([0.])
    """
    w = start
    for _ in range(steps):
        total = regularisation * w + gradient(w)
        if correction is not None:
            total = total + correction
        if proximal:
            total = total + proximal * (w - start)
        w = w - step * total
        if radius is not None:
            w = np.clip(w, -radius, radius)
    return np.asarray((start - w) / (step * steps))


@dataclass(frozen=True)
class LocalUpdate:
    """What the terms and public knowledge fix about an owner's local updates. `norm` is the one that the noise
    needs."""

    steps: int  # s
    step: float  # rho
    regularisation: float  # r
    radius: float
    curvature: float  # L, penalty included
    record_rounding: float  # how far rounding may move one record's share, in L2 (`LocallyUpdated.local_rounding`)
    parameters: int
    norm: Norm
    proximal: float = 0.0  # mu
    reach: float = 0.0  # the most that a coordinate of a correction may measure
    paired: bool = False  # whether odd rounds ask for the gradient at the start, and even ones for local steps
    most: float = 1.0  # rows over what their sum is divided by: a mean gradient measures at most this times Xi

    def steps_in(self, number: int) -> int:
        """How many steps round `number` asks for; 0: none, the gradient at the start."""
        return 0 if self.paired and number % 2 else self.steps

    def direction(
        self,
        gradient: Callable[[Floats], Floats],
        start: Floats,
        correction: Floats | None = None,
        steps: int | None = None,
    ) -> Floats:
        """The mean direction of local steps from every start [..., P] in the box, along an owner's
        `LocallyUpdated.local_gradient`; with 0 steps the gradient at the start."""
        if steps == 0:
            return np.asarray(self.regularisation * start + gradient(start))
        pull = self.proximal, correction
        return mean_direction(gradient, start, steps or self.steps, self.step, self.regularisation, self.radius, *pull)

    def sensitivity(self, bound: RecordBound, records: int, slack: float, records_per_person: int = 1) -> float:
        """How far one person can move the computed mean direction of steps on `records` rows.

        Formal guarantee: by at most share * 2 k Xi/n + 2 rounding in L2, Xi the largest L2 norm of one record's
        gradient, whatever the start in the box and the correction up to `reach` are. Neighbours' maps differ by at most
        rho 2 k Xi/n at every point; each map is a contraction by q (`share`), so after s steps the paths are at most
        rho 2 k Xi/n (1 + q + ... + q^(s-1)) apart. Each computed step lands at most rho `rounding` from where the exact
        map leads (the last division included), and non-expansive maps carry such errors on without making them larger:
        s of them, divided by rho s, are one. In L1 a vector of p numbers measures at most sqrt p times as much. The
        gradient at the start is a mean of clipped gradients and a constant: 2 k Xi/n, share 1, and fewer roundings.
        """
        if bound.norm != "l2":
            raise ValueError("local steps are non-expansive in L2 alone, so records are bounded there")
        reach = 2 * (self.share * bound.value * records_per_person / records + self._rounding(bound.value, slack))
        return reach * (1.0 if self.norm == "l2" else math.sqrt(self.parameters)) * (1 + 1e-12)

    def extent(self, bound: RecordBound, slack: float) -> Extent:
        """Where the computed mean direction of steps from within the box lies, whatever the table holds.

        Formal guarantee: a step goes from w in the box to the projection of w - rho (r w + g + c + mu (w - start)),
        which moves it by at most rho (r |w| + |g| + |c| + mu |w - start|) in L2, |w| <= radius sqrt p, |w - start|
        twice that and |g| <= `most` Xi, and by rho `rounding` for the computation; s steps divided by rho s are at most
        one. No coordinate moves further than across the box.
        """
        root = math.sqrt(self.parameters)
        rounding = self._rounding(bound.value, slack)
        pulls = ((self.regularisation + 2 * self.proximal) * self.radius + self.reach) * root
        step = pulls + self.most * bound.value + rounding
        across = math.inf if self.paired else 2 * self.radius / (self.step * self.steps) + rounding
        coordinate, largest = min(step, across), min(step, across * root)
        return Extent(-coordinate, coordinate, largest * (1.0 if self.norm == "l2" else root), self.norm)

    @property
    def share(self) -> float:
        """(1 + q + ... + q^(s-1))/s: 1 without a penalty or a pull, less with one. Where gradients are asked for, too,
        it is theirs: 1.

        Formal guarantee: with h the clipped data cost, convex and of curvature at most L - r, and m = r + mu, the step
        maps w to (1 - rho m) w - rho h'(w) and a constant. For d = a - b and D = h'(a) - h'(b) the images' distance
        squared is (1 - rho m)^2 |d|^2 - 2 rho (1 - rho m) d.D + rho^2 |D|^2. Since d.D >= |D|^2/(L - r), the last two
        terms are at most 0 if rho (L - r + 2 m) <= 2: then q = 1 - rho m. Without that, q = 1 by the same argument for
        h + m/2 |w|^2, of curvature at most L + mu, as long as rho (L + mu) <= 2. So where the steps end moves by at
        most 2 k Xi/n rho/(1 - q) = 2 k Xi/(n m), however many steps it takes: the sensitivity of the prox of strong
        convexity m.
        """
        held = self.regularisation + self.proximal
        fade = self.step * held
        shrinks = 0 < fade < 1 and self.step * (self.curvature + self.proximal + held) <= 2 * (1 - 1e-12)
        if self.paired or not shrinks:
            return 1.0
        return min(1.0, -math.expm1(self.steps * math.log1p(-fade)) / (self.steps * fade) * (1 + 1e-12))

    def _rounding(self, largest: float, slack: float) -> float:
        """How far, in L2 and divided by rho, a computed step may land from the exact one; the last division included.

        - The mean of given shares: slack Xi (`summation_slack`).
        - A record's share: `record_rounding`, `most` times in a mean.
        - Below, Xi stands for `most` Xi.
        - The step w - rho (r w + g): at most 16 u (radius + rho Xi) a coordinate, since rho r <= 2; the answer's
          subtraction and division: at most 8 u radius/(rho s) a coordinate.
        - With a correction of at most radius/rho + Xi, and a pull with rho mu <= 2 and |w - start| <= 2 radius: the sum
          measures at most 7 radius/rho + 2 Xi a coordinate and its six operations, the product with rho and the
          difference are off by at most 48 u (radius + rho Xi) in all. So twice as much as without covers both.
        """
        often = 64 if self.proximal or self.reach else 32
        return (
            slack * largest
            + self.record_rounding * self.most
            + often * UNIT_ROUNDOFF * math.sqrt(self.parameters) * (self.radius / self.step + self.most * largest)
        )


def local_update(
    terms: Terms,
    objective: EmpiricalRisk,
    preparation: Preparation,
    limits: Limits,
    norm: Norm,
    owner: str | None = None,
) -> LocalUpdate:
    """The local updates of an owner by these terms (None: of one that has no number or length of steps of its own), or
    a `TermsError` if nothing limits what one record does to them."""
    learning, algorithm = terms.learning, terms.learning.algorithm
    step, steps = _own_steps(terms, objective, preparation, owner)
    curvature = _mean_curvature(objective, preparation, terms)
    bound = objective.record_bound(preparation, limits, "l2")
    if not isinstance(objective, LocallyUpdated):
        raise TermsError(
            f"learning.algorithm: no bound is known on how far one record moves local steps of {terms.model.kind} is "
            f"not known"
        )
    if limits.radius is None or not steps or curvature is None or bound is None:
        raise TermsError(f"learning.algorithm: expected {algorithm}, with model.radius and bounds of every feature")
    return LocalUpdate(
        steps,
        step,
        objective.regularisation,
        limits.radius,
        curvature,
        objective.local_rounding(preparation, limits, bound),
        objective.parameters(preparation),
        norm,
        learning.proximal or 0.0,
        min(limits.radius / step + bound.value, LARGEST) if learning.rules.corrects_drift else 0.0,
        learning.paired,
        most_rows(terms),
    )


def most_rows(terms: Terms) -> float:
    """The rows of an owner's training table over what their sum is divided by, of the owner where that is most: 1
    unless people are held out."""
    return max(terms.train_places(part.name) / terms.train_rows(part.name) for part in terms.owners)


def _mean_curvature(objective: EmpiricalRisk, preparation: Preparation, terms: Terms) -> float | None:
    """L of the mean that local steps walk on, penalty included: the sum of N rows over n bends N/n times as much."""
    found = objective.walked_curvature(preparation, Limits.of(terms, preparation))
    if found is None or (most := most_rows(terms)) == 1:
        return found
    return (found - objective.regularisation) * most * (1 + 1e-12) + objective.regularisation


def _own_steps(
    terms: Terms, objective: EmpiricalRisk, preparation: Preparation, owner: str | None
) -> tuple[float, int]:
    """(length, number) of an owner's steps."""
    learning, own = terms.learning, None if owner is None else terms.owner(owner)
    step = local_step(learning.step, objective, preparation, terms)
    if own is None:
        return step, learning.local_steps or 0
    usual = learning.local_steps or 1
    steps = own.local_steps or usual
    if own.step is not None:
        return local_step(own.step, objective, preparation, terms, f"owners.{own.name}.step"), steps
    return learning.rules.local_step(step, steps, (each.local_steps or usual for each in terms.owners)), steps


def local_step(
    step: float | str, objective: EmpiricalRisk, preparation: Preparation, terms: Terms, key: str = "learning.step"
) -> float:
    """rho: the terms' step if it is at most 2/(L + mu), or for "auto" 1/(L + mu), rounded down to six digits; the same
    for all parties.

    L bounds the curvature of every table that keeps to the bounds. The curvature of the owner's own table would allow
    longer steps, but it is private, and the neighbouring table's may be another.
    """
    algorithm, proximal = terms.learning.algorithm, terms.learning.proximal or 0.0
    if not objective.loss.smooth:
        raise TermsError(
            f"model.kind: expected a smooth loss with {algorithm}: steps on the hinge may drive tables apart"
        )
    data = _mean_curvature(objective, preparation, terms)
    if data is None or not 0 < data < math.inf:
        raise TermsError(
            f"model.bounds: expected bounds of every feature (declared, or from a public sample) with {algorithm}: "
            "without them no local step is short enough for every table"
        )
    largest = data + proximal
    if isinstance(step, str):
        return float(f"{(1 - 1e-5) / largest:.6g}")
    if not step * largest <= 2 * (1 - 1e-12):
        pull = " and the pull of learning.proximal" if proximal else ""
        raise TermsError(
            f"{key} = {step:g}: expected at most {2 * (1 - 1e-5) / largest:.6g} with {algorithm}, 2 over the largest "
            f"curvature that records within the bounds{pull} can have: longer local steps may drive neighbouring "
            f"tables apart"
        )
    return step
