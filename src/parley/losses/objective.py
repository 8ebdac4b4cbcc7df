"""What is minimised: f(theta) = g1(theta) + mean over records of w loss(theta, record), g1 = r/2 |theta - theta0|^2 (W
section II, where theta0 = 0).

Every objective knows how many parameters it has and where a search begins. An empirical risk knows records' losses and
gradients, and how much one record can do to them. What only some can do beside that is a class of its own, asked for
where it is needed: local updates (`local_update.LocallyUpdated`), batches split by classes (`SplitBatches`), second
moments that say everything (`moments.SufficientMoments`), a random linear term in the cost
(`objective_perturbation.Perturbable`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from parley.data import Design, Preparation, Summable
from parley.losses.class_loss import ClassLoss
from parley.losses.loss import ClipNorm, Limits, Loss, RecordBound
from parley.validate import Floats

LARGEST_HESSIAN = 600  # parameters up to which the second derivative of several classes is written out


@dataclass(frozen=True, eq=False)
class Origin:
    """The parameter [P] that costs no penalty."""

    theta: Floats

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Origin) and np.array_equal(self.theta, other.theta)

    def __hash__(self) -> int:
        return hash(self.theta.tobytes())


@dataclass(frozen=True)
class Objective(ABC):
    """A cost of parameters theta [..., P]; "..." are replicates."""

    regularisation: float = 0.0
    origin: Origin | None = None  # theta0; None: zero

    def bounded_by(self, preparation: Preparation) -> Self:
        """The same with what the bounds of columns say about it."""
        return self

    @abstractmethod
    def parameters(self, preparation: Preparation) -> int:
        """P: how many numbers a parameter has."""

    def start(self, preparation: Preparation) -> Floats:
        """The parameter at which a search begins [P]: the public model that the columns bring along, else zero."""
        return np.zeros(self.parameters(preparation)) if preparation.origin is None else preparation.origin

    def around(self, preparation: Preparation) -> Self:
        """The same with its penalty pulling towards the public model that the columns bring along, where they do."""
        return self if preparation.origin is None else replace(self, origin=Origin(preparation.origin))

    def penalty(self, theta: Floats) -> Floats:
        """g1 at every parameter of a batch [..., P] -> [...]."""
        return np.asarray(0.5 * self.regularisation * np.sum(self._away(theta) ** 2, axis=-1))

    def penalty_gradient(self, theta: Floats) -> Floats:
        """The gradient of g1, which the learner adds itself."""
        return self.regularisation * self._away(theta)

    def _away(self, theta: Floats) -> Floats:
        return theta if self.origin is None else theta - self.origin.theta


@dataclass(frozen=True)
class EmpiricalRisk(Objective):
    """The mean of records' losses, searched by gradients. An optimum to compare with and a second derivative may be
    missing (None)."""

    loss: Loss | ClassLoss = field(kw_only=True)

    quadratic: ClassVar[bool] = False  # whether the second moments of [x, y] say everything about it
    # whether parameters are one for each column, for each class alike
    alike: ClassVar[bool] = True

    def constants(self, preparation: Preparation) -> Floats:
        """1 for each parameter that belongs to no feature, else 0 [P]."""
        constant = np.zeros(preparation.width)
        constant[preparation.width - preparation.model.has_intercept :] = 1.0
        return np.tile(constant, self.parameters(preparation) // preparation.width)

    @abstractmethod
    def scores(self, X: Floats, theta: Floats) -> Floats:
        """What the model says of rows X [n, p] at parameters [..., P]: a margin [..., n], or one for each class [...,
        n, classes]."""

    @abstractmethod
    def cost(self, design: Summable, theta: Floats) -> Floats:
        """f at every parameter of a batch [..., P] -> [...]. Private: a study may look at it, an owner never sends
        it."""

    @abstractmethod
    def record_losses(self, design: Design, theta: Floats) -> Floats:
        """Every record's weighted loss at every parameter [..., P] -> [..., n]; their mean is f without g1. Private."""

    @property
    def smoothed(self) -> "EmpiricalRisk":
        """The same with corners rounded off, for searches that need a second derivative."""
        return self

    @abstractmethod
    def mean_gradient(self, design: Summable, theta: Floats, bound: RecordBound | None = None) -> Floats:
        """The mean record gradient (without g1) at every parameter [..., P], each record scaled down to `bound`;
        without one, unclipped."""

    @abstractmethod
    def record_gradients(self, design: Design, theta: Floats) -> Floats:
        """Every record's unclipped gradient at one parameter [P] -> [n, P]. For small tables: pilots and tests."""

    @abstractmethod
    def record_norms(self, design: Design, theta: Floats, norm: ClipNorm) -> Floats:
        """The norm of every record's unclipped gradient at one parameter [P] -> [n]."""

    @abstractmethod
    def record_bound(self, preparation: Preparation, limits: Limits, norm: ClipNorm) -> RecordBound | None:
        """Xi: the smaller of the clip and what the bounds of features, targets and parameters imply; None if nothing
        limits a record."""

    def optimum(
        self,
        designs: Sequence[Summable],
        radius: float | None = None,
        precision: float = 1e-10,
        start: Floats | None = None,
    ) -> Floats | None:
        """The minimiser [P] of the cost over all rows of all designs within the box, searched from `start` [P]; None
        where none can be found."""
        return None

    def hessian(self, design: Summable, theta: Floats) -> Floats | None:
        """The second derivative of f at one parameter [P, P], of a smoothed cost where f has corners; None where it is
        out of reach."""
        return None

    def principal_curvatures(self, design: Summable, theta: Floats) -> tuple[Floats, Floats] | None:
        """(eigenvalues [P] of the second derivative without g1's at one parameter [P], rising, and their directions as
        columns [P, P]); None where it is out of reach."""
        hessian = self.hessian(design, theta)
        if hessian is None:
            return None
        values, directions = np.linalg.eigh(hessian - self.regularisation * np.eye(len(theta)))
        return values, directions

    def record_curvatures(self, design: Design, theta: Floats) -> Floats | None:
        """The second derivative of every record's weighted loss by its raw prediction [n] at one parameter [P], the sum
        of them where it has several; None where it is out of reach."""
        return None

    def curvature(self, design: Summable) -> float:
        """A bound on the largest eigenvalue of f's Hessian at any parameter (for the hinge: of its natural
        smoothing)."""
        largest = design.derived("largest moment", lambda: float(np.linalg.eigvalsh(design.statistics[0])[-1]))
        return self.loss.largest_curvature * largest + self.regularisation

    def largest_curvature(self, preparation: Preparation) -> float | None:
        """L: the largest curvature of the cost of any table within the bounds, in any direction; None if some feature
        is unbounded.

        Formal guarantee: that of a record's own cost is at most its loss's largest curvature times its weight times
        |x|^2, and that of a mean no more.
        """
        features = preparation.feature_bound
        if features is None:
            return None
        return (
            self.loss.largest_curvature * preparation.largest_weight * float(np.sum(features**2)) + self.regularisation
        )

    def walked_curvature(self, preparation: Preparation, limits: Limits) -> float | None:
        """L of the cost that local steps walk on, of which every record is clipped; at most `largest_curvature`."""
        return self.largest_curvature(preparation)


def batched(part: Callable[[Design, Floats], Floats], design: Summable, theta: Floats) -> Floats:
    """Sum `part` over the blocks, the batch [..., P] of parameters flattened to [R, P] and back."""
    flat = np.ascontiguousarray(theta).reshape(-1, theta.shape[-1])
    total = design.sum(lambda block: part(block, flat))
    return total.reshape(theta.shape[:-1] + total.shape[1:])


class SplitBatches(ABC):
    """Batches split by classes: an objective of which every record of a batch enters one block of the parameters only
    (A).

    What an objective knows whose batches are split into disjoint parts, part c for block c of the parameters.
    """

    @abstractmethod
    def parts(self, preparation: Preparation) -> int:
        """Into how many parts a batch is split."""

    @abstractmethod
    def batch_bound(self, preparation: Preparation, limits: Limits, norm: ClipNorm) -> RecordBound | None:
        """Xi of a record in a batch, which enters one part only."""

    @abstractmethod
    def batch_norms(self, design: Design, theta: Floats, norm: ClipNorm) -> Floats:
        """How much every record may measure in a batch at one parameter [P] -> [n], unclipped."""

    @abstractmethod
    def split_gradient(self, parts: Iterable[Summable], theta: Floats, bound: RecordBound) -> Floats:
        """The sum of clipped record gradients [..., P]; part c enters block c alone."""
