"""What is minimised: f(theta) = g1(theta) + mean over records of w loss(theta, record), g1 = r/2 |theta|^2 (W section II).

An objective knows how many parameters it has, where a search begins, and how much one record can do to a mean gradient. What only some
have - an optimum to compare with, a curvature, statistics that say everything - is asked for and may be missing (None).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from parley.data import Design, Preparation, Summable
from parley.data.design import UNIT
from parley.errors import GuaranteeError
from parley.privacy.mechanisms import Extent, Norm
from parley.validate import SMALLEST, Floats

ClipNorm = Literal["l1", "l2", "linf"]  # in which a record's gradient can be clipped


@dataclass(frozen=True)
class Limits:
    """What the terms allow one record and every parameter: its gradient's clip (None: what the bounds imply), the weight of its loss,
    and the box |theta| <= radius."""

    clip: float | None
    largest_weight: float
    radius: float | None


@dataclass(frozen=True)
class RecordBound:
    """The most that one record's gradient can measure in `norm` (Xi), and whether clipping enforces it or the bounds do."""

    value: float
    norm: ClipNorm
    clips: bool

    def within(self, norm: Norm, coordinates: int) -> float:
        """The most that a record's gradient of so many coordinates can measure in another norm, rounded up.

        Formal guarantee: |v|_2 <= |v|_1 <= sqrt d |v|_2, and for d coordinates |v|_1 <= d |v|_inf, |v|_2 <= sqrt d |v|_inf.

        >>> 50.0 < RecordBound(0.5, "linf", clips=True).within("l1", 100) < 50.0000001
        True
        """
        if self.norm == norm or (self.norm, norm) == ("l1", "l2"):
            return self.value
        if (self.norm, norm) == ("linf", "l1"):
            return self.value * coordinates * (1 + 4 * UNIT)
        return self.value * float(np.sqrt(coordinates)) * (1 + 4 * UNIT)

    def sensitivity(self, records: int, slack: float, records_per_person: int = 1) -> float:
        """How far one person can move the computed mean gradient of `records` rows.

        Formal guarantee: replacing up to k rows changes the exact mean by at most 2 k Xi/n. Each of the two computed means is
        off by at most `slack` Xi (`data.design.summation_slack`), which adds 2 slack Xi.
        """
        return 2 * self.value * (records_per_person / records + slack)

    def extent(self, slack: float) -> Extent:
        """Where the computed mean over any table lies: a mean of what measures at most Xi does too, but for its rounding, `slack` Xi."""
        largest = self.value * (1 + slack)
        return Extent(-largest, largest, largest, self.noise_norm)

    @property
    def noise_norm(self) -> Norm:
        """The norm, where it is one that noise is calibrated in."""
        if self.norm == "linf":
            raise GuaranteeError("no noise is calibrated in LINF: take the bound in the mechanism's norm (`within`)")
        return self.norm


def tightest(clip: float | None, implied: float, norm: ClipNorm) -> RecordBound | None:
    """The smaller of the terms' clip and what the bounds imply; None if neither limits a record."""
    if clip is not None and clip < implied:
        return RecordBound(clip, norm, clips=True)
    return RecordBound(implied, norm, clips=False) if np.isfinite(implied) else None


@dataclass(frozen=True)
class Objective(ABC):
    """A cost of parameters theta [..., P]; "..." are replicates."""

    regularisation: float = 0.0

    quadratic: ClassVar[bool] = False  # whether the second moments of [x, y] say everything about it
    largest_bend: ClassVar[float] = 1.0  # of a record's loss, as its scores move
    smooth: ClassVar[bool] = True  # whether slopes nowhere rise faster than that; not so for the hinge

    @abstractmethod
    def parameters(self, preparation: Preparation) -> int:
        """P: how many numbers a parameter has."""

    @abstractmethod
    def scores(self, X: Floats, theta: Floats) -> Floats:
        """What the model says of rows X [n, p] at parameters [..., P]: a margin [..., n], or one for each class [..., n, classes]."""

    @abstractmethod
    def cost(self, design: Summable, theta: Floats) -> Floats:
        """f at every parameter of a batch [..., P] -> [...]. Private: a study may look at it, an owner never sends it."""

    @abstractmethod
    def record_losses(self, design: Design, theta: Floats) -> Floats:
        """Every record's weighted loss at every parameter [..., P] -> [..., n]; their mean is f without g1. Private."""

    def outcomes(self, preparation: Preparation) -> Callable[[Design], Floats] | None:
        """What the second moments of a record need beside x, [n, q] of a block, to say everything about its loss; None: nothing does."""
        return None

    @property
    def rounded(self) -> "Objective":
        """The same with corners rounded off, for searches that need a second derivative."""
        return self

    @abstractmethod
    def mean_gradient(self, design: Summable, theta: Floats, bound: RecordBound | None = None) -> Floats:
        """The mean record gradient (without g1) at every parameter [..., P], each record scaled down to `bound`; without one, unclipped."""

    @abstractmethod
    def record_gradients(self, design: Design, theta: Floats) -> Floats:
        """Every record's unclipped gradient at one parameter [P] -> [n, P]. For small tables: pilots and tests."""

    @abstractmethod
    def record_norms(self, design: Design, theta: Floats, norm: ClipNorm) -> Floats:
        """The norm of every record's unclipped gradient at one parameter [P] -> [n]."""

    @abstractmethod
    def record_bound(self, preparation: Preparation, limits: Limits, norm: ClipNorm) -> RecordBound | None:
        """Xi: the smaller of the clip and what the bounds of features, targets and parameters imply; None if nothing limits a record."""

    def parts(self, preparation: Preparation) -> int:
        """Into how many disjoint parts a batch is split, each for a block of the parameters of its own; 1: it is not."""
        return 1

    def batch_bound(self, preparation: Preparation, limits: Limits, norm: ClipNorm) -> RecordBound | None:
        """Xi of a record in a batch, which enters one part only."""
        return self.record_bound(preparation, limits, norm)

    def batch_norms(self, design: Design, theta: Floats, norm: ClipNorm) -> Floats:
        """How much every record may measure in a batch at one parameter [P] -> [n], unclipped."""
        return self.record_norms(design, theta, norm)

    def split_gradient(self, parts: Iterable[Summable], theta: Floats, bound: RecordBound) -> Floats:
        """The sum of clipped record gradients [..., P], part c entering block c alone."""
        raise GuaranteeError("batches of this model are not split, so nothing bounds a part of one")

    @abstractmethod
    def walk_gradient(self, design: Summable, theta: Floats, bound: RecordBound) -> Floats:
        """The mean gradient that local steps follow [..., P].

        Formal guarantee: every record's share measures at most Xi in L2, and it is the gradient of a convex cost that bends by no more
        than `largest_curvature`: steps on it drive no two points apart.
        """

    @abstractmethod
    def walk_rounding(self, preparation: Preparation, limits: Limits, bound: RecordBound) -> float:
        """How far rounding can move one record's share of `walk_gradient`, in L2, for any parameter in the box."""

    def start(self, preparation: Preparation) -> Floats:
        """Where a search begins [P]."""
        return np.zeros(self.parameters(preparation))

    def penalty_gradient(self, theta: Floats) -> Floats:
        """The gradient of g1, which the learner adds itself."""
        return self.regularisation * theta

    def optimum(
        self, designs: Sequence[Summable], radius: float | None = None, precision: float = 1e-10, start: Floats | None = None
    ) -> Floats | None:
        """The minimiser [P] of the cost over all rows of all designs within the box, searched from `start` [P]; None where none can be
        found."""
        return None

    def hessian(self, design: Summable, theta: Floats) -> Floats | None:
        """The second derivative of f at one parameter [P, P], of a smoothed cost where f has corners; None where it is out of reach."""
        return None

    def curvature(self, design: Summable) -> float:
        """A bound on the largest eigenvalue of f's Hessian at any parameter (for the hinge: of its natural smoothing)."""
        moments = design.statistics[0]
        return self.largest_bend * float(np.linalg.eigvalsh(moments)[-1]) + self.regularisation

    def largest_curvature(self, preparation: Preparation) -> float | None:
        """L: the most that the cost of any table within the bounds can bend, in any direction; None if some feature is unbounded.

        Formal guarantee: a record bends its own cost by at most largest_bend times its weight times |x|^2, and a mean by no more.
        """
        features = preparation.feature_bound
        if features is None:
            return None
        return self.largest_bend * preparation.model.largest_weight * float(np.sum(features**2)) + self.regularisation


def slope_limit(design: Design, bound: RecordBound) -> Floats:
    """How large each record's slope may be, a hair below Xi/|x| so that rounding cannot lift the product above Xi.

    A row that measures less than SMALLEST is taken to measure that: its limit is below Xi/|x|, and finite.
    """
    limit = bound.value / np.maximum(design.row_norms(bound.norm), SMALLEST)
    return limit * (1 - (design.width + 8) * UNIT)


def bound_norm(features: Floats, norm: ClipNorm) -> float:
    """How much a row within these bounds measures at most."""
    if norm == "linf":
        return float(features.max(initial=0.0))
    return float(features.sum()) if norm == "l1" else float(np.sqrt(np.sum(features**2)))


def batched(part: Callable[[Design, Floats], Floats], design: Summable, theta: Floats) -> Floats:
    """Sum `part` over the blocks, the batch [..., P] of parameters flattened to [R, P] and back."""
    flat = np.ascontiguousarray(theta).reshape(-1, theta.shape[-1])
    total = design.sum(lambda block: part(block, flat))
    return total.reshape(theta.shape[:-1] + total.shape[1:])
