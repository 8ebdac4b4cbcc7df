"""Local updates: an owner takes s gradient steps on its own records and answers with their mean direction (FedAvg
etc.). If every record is bounded in every step and steps are at most 2/(L + mu) long, replacing one person's rows moves
it in L2 no further than one mean gradient, up to rounding and for any s. Proof in docs/proofs/answers.md ("Local steps
cost no noise")."""

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
    """An objective on which owners can take local steps, if its loss is smooth."""

    @abstractmethod
    def local_gradient(self, design: Summable, theta: Floats, bound: RecordBound) -> Floats:
        """Return the mean gradient that local steps follow [..., P].

        Formal guarantee: every record's share has L2 norm at most Xi and is the gradient of a convex cost of curvature
        at most `EmpiricalRisk.walked_curvature`, so steps on it drive no two points apart.
        """

    @abstractmethod
    def local_rounding(self, preparation: Preparation, limits: Limits, bound: RecordBound) -> float:
        """Return how far rounding can move a record's share of `local_gradient`, in L2, for any theta in the box."""


def margin_rounding(curvature: float, preparation: Preparation, limits: Limits) -> float:
    """Return how far rounding of a margin can move a record's gradient, in L2: 2 (p + 8) u sum |theta_j| |x_j| times
    its loss's largest curvature, its weight and |x|, all within the bounds; infinite without bounds or a box."""
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
    """Return (start - w_s)/(rho s), where w <- proj(w - rho (r w + gradient(w) + c + mu (w - start))) s times from
    `start`.

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
    """What terms and public knowledge fix about an owner's local updates. The noise is calibrated in `norm`."""

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
        """Return how many steps round `number` asks for; 0 asks for the gradient at the start."""
        return 0 if self.paired and number % 2 else self.steps

    def direction(
        self,
        gradient: Callable[[Floats], Floats],
        start: Floats,
        correction: Floats | None = None,
        steps: int | None = None,
    ) -> Floats:
        """Return the mean direction from every start [..., P] in the box; with 0 steps the gradient at the start.
        `gradient` is the owner's `LocallyUpdated.local_gradient`."""
        if steps == 0:
            return np.asarray(self.regularisation * start + gradient(start))
        pull = self.proximal, correction
        return mean_direction(gradient, start, steps or self.steps, self.step, self.regularisation, self.radius, *pull)

    def sensitivity(self, bound: RecordBound, records: int, slack: float, records_per_person: int = 1) -> float:
        """Return how far one person can move the computed mean direction of steps on `records` rows.

        Formal guarantee: at most share * 2 k Xi/n + 2 rounding in L2, with Xi the largest L2 norm of one record's
        gradient, for any start in the box and any correction up to `reach`. Neighbours' maps differ by at most rho 2 k
        Xi/n at every point. Each map is a contraction by q (`share`), so after s steps the paths are at most rho 2 k
        Xi/n (1 + q + ... + q^(s-1)) apart. Each computed step (last division included) is off by at most rho
        `rounding`, and non-expansive maps do not enlarge such errors: s of them, divided by rho s, are one. In L1 the
        norm of p numbers is at most sqrt p times as large. The gradient at the start is a mean of clipped gradients and
        a constant: 2 k Xi/n, share 1, and fewer roundings.
        """
        if bound.norm != "l2":
            raise ValueError("local steps are non-expansive only in L2, so records must be bounded in L2")
        reach = 2 * (self.share * bound.value * records_per_person / records + self._rounding(bound.value, slack))
        return reach * (1.0 if self.norm == "l2" else math.sqrt(self.parameters)) * (1 + 1e-12)

    def extent(self, bound: RecordBound, slack: float) -> Extent:
        """Return where the computed mean direction of steps from within the box lies, for any table.

        Formal guarantee: a step from w in the box to the projection of w - rho (r w + g + c + mu (w - start)) moves it
        by at most rho (r |w| + |g| + |c| + mu |w - start|) in L2, plus rho `rounding`. |w| <= radius sqrt p, |w -
        start| is at most twice that, and |g| <= `most` Xi. So s steps divided by rho s are at most one step divided by
        rho. No coordinate moves further than across the box.
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
        """(1 + q + ... + q^(s-1))/s: 1 without a penalty or pull, less with one; 1 where gradients are asked for, too.

        Formal guarantee: let h be the clipped data cost, convex and of curvature at most L - r, and m = r + mu. The
        step maps w to (1 - rho m) w - rho h'(w) plus a constant. For d = a - b and D = h'(a) - h'(b) the squared
        distance of the images is (1 - rho m)^2 |d|^2 - 2 rho (1 - rho m) d.D + rho^2 |D|^2. Since d.D >= |D|^2/(L - r),
        the last two terms are at most 0 if rho (L - r + 2 m) <= 2: then q = 1 - rho m. Otherwise q = 1, by the same
        argument for h + m/2 |w|^2, of curvature at most L + mu, if rho (L + mu) <= 2. So the end of the steps moves by
        at most 2 k Xi/n rho/(1 - q) = 2 k Xi/(n m) for any number of steps, as the prox of strong convexity m does.
        """
        strong_convexity = self.regularisation + self.proximal
        shrinkage_per_step = self.step * strong_convexity
        shrinks = 0 < shrinkage_per_step < 1 and self.step * (
            self.curvature + self.proximal + strong_convexity
        ) <= 2 * (1 - 1e-12)
        if self.paired or not shrinks:
            return 1.0
        return min(
            1.0,
            -math.expm1(self.steps * math.log1p(-shrinkage_per_step)) / (self.steps * shrinkage_per_step) * (1 + 1e-12),
        )

    def _rounding(self, largest: float, slack: float) -> float:
        """Return how far a computed step may be from the exact one, in L2 and divided by rho; the last division
        included.

        - The mean of given shares: slack Xi (`summation_slack`). A record's share: `record_rounding`, `most` times in a
          mean. Below, Xi stands for `most` Xi.
        - The step w - rho (r w + g): at most 16 u (radius + rho Xi) a coordinate, since rho r <= 2; the answer's
          subtraction and division: at most 8 u radius/(rho s) a coordinate.
        - With a correction of at most radius/rho + Xi, and a pull with rho mu <= 2 and |w - start| <= 2 radius, a
          coordinate of the sum is at most 7 radius/rho + 2 Xi. Its six operations, the product with rho and the
          difference are off by at most 48 u (radius + rho Xi) in all, so twice as much as without covers both.
        """
        roundings_per_step = 64 if self.proximal or self.reach else 32
        return (
            slack * largest
            + self.record_rounding * self.most
            + roundings_per_step
            * UNIT_ROUNDOFF
            * math.sqrt(self.parameters)
            * (self.radius / self.step + self.most * largest)
        )


def local_update(
    terms: Terms,
    objective: EmpiricalRisk,
    preparation: Preparation,
    limits: Limits,
    norm: Norm,
    owner: str | None = None,
) -> LocalUpdate:
    """Return an owner's local updates under these terms, or raise `TermsError` if nothing limits what one record does
    to them. None stands for an owner without a number or length of steps of its own."""
    learning, algorithm = terms.learning, terms.learning.algorithm
    step, steps = _own_steps(terms, objective, preparation, owner)
    curvature = _mean_curvature(objective, preparation, terms)
    bound = objective.record_bound(preparation, limits, "l2")
    if not isinstance(objective, LocallyUpdated):
        raise TermsError(
            f"learning.algorithm: for {terms.model.kind}, no bound is known on the effect of one record on local "
            "steps; choose an algorithm without local steps"
        )
    if limits.radius is None or not steps or curvature is None or bound is None:
        raise TermsError(f"learning.algorithm: {algorithm} needs model.radius and bounds of every feature; set both")
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
        largest_row_ratio(terms),
    )


def largest_row_ratio(terms: Terms) -> float:
    """Return an owner's largest ratio of training rows to the divisor of their sum: 1 unless people are held out."""
    return max(terms.train_places(part.name) / terms.train_rows(part.name) for part in terms.owners)


def _mean_curvature(objective: EmpiricalRisk, preparation: Preparation, terms: Terms) -> float | None:
    """Return L of the mean that local steps follow, with penalty: a sum of N rows over n bends N/n times as much."""
    curvature = objective.walked_curvature(preparation, Limits.from_terms(terms, preparation))
    if curvature is None or (most := largest_row_ratio(terms)) == 1:
        return curvature
    return (curvature - objective.regularisation) * most * (1 + 1e-12) + objective.regularisation


def _own_steps(
    terms: Terms, objective: EmpiricalRisk, preparation: Preparation, owner: str | None
) -> tuple[float, int]:
    """Return (length, number) of an owner's steps."""
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
    """Return rho, the same for all parties: the terms' step if at most 2/(L + mu); for "auto" 1/(L + mu) rounded down
    to six digits. L bounds the curvature of every table within the bounds. An owner's own curvature would allow longer
    steps, but it is private, and the neighbouring table's may differ."""
    algorithm, proximal = terms.learning.algorithm, terms.learning.proximal or 0.0
    if not objective.loss.smooth:
        raise TermsError(
            f"model.kind: expected a smooth loss with {algorithm}, because local steps on the hinge loss may amplify "
            "the effect of one record"
        )
    data = _mean_curvature(objective, preparation, terms)
    if data is None or not 0 < data < math.inf:
        raise TermsError(
            f"model.bounds: expected bounds of every feature with {algorithm} (declared, or from a public sample). "
            "Without bounds, no local step is short enough for every table"
        )
    largest = data + proximal
    if isinstance(step, str):
        return float(f"{(1 - 1e-5) / largest:.6g}")
    if not step * largest <= 2 * (1 - 1e-12):
        pull = " and the pull of learning.proximal" if proximal else ""
        raise TermsError(
            f"{key} = {step:g}: expected at most {2 * (1 - 1e-5) / largest:.6g} with {algorithm}. Longer local steps "
            "may amplify the effect of one record. The limit is 2 divided by the largest curvature that records "
            f"within the bounds{pull} can have"
        )
    return step
