"""Objectives f(theta) = r/2 |theta - theta0|^2 + mean over records of w loss(theta, record) (W section II, theta0 = 0).
Abilities that only some have are separate classes: local updates (`LocallyUpdated`), split batches (`SplitBatches`),
second moments (`SufficientMoments`), a random linear term (`Perturbable`)."""

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
    """The parameter [P] without penalty."""

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
        """Return the objective with what the columns' bounds say about it."""
        return self

    @abstractmethod
    def parameters(self, preparation: Preparation) -> int:
        """Return P, how many numbers a parameter has."""

    def start(self, preparation: Preparation) -> Floats:
        """Return the parameter [P] where a search begins: the columns' public model, else zero."""
        return np.zeros(self.parameters(preparation)) if preparation.origin is None else preparation.origin

    def around(self, preparation: Preparation) -> Self:
        """Return the objective with its penalty pulling towards the columns' public model, if they have one."""
        return self if preparation.origin is None else replace(self, origin=Origin(preparation.origin))

    def penalty(self, theta: Floats) -> Floats:
        """Return g1 = r/2 |theta - theta0|^2 at every parameter of a batch [..., P] -> [...]."""
        return np.asarray(0.5 * self.regularisation * np.sum(self._away(theta) ** 2, axis=-1))

    def penalty_gradient(self, theta: Floats) -> Floats:
        """Return the gradient of g1, which the learner adds itself."""
        return self.regularisation * self._away(theta)

    def _away(self, theta: Floats) -> Floats:
        return theta if self.origin is None else theta - self.origin.theta


@dataclass(frozen=True)
class EmpiricalRisk(Objective):
    """The mean of records' losses, searched by gradients; optimum and second derivative may be missing (None)."""

    loss: Loss | ClassLoss = field(kw_only=True)

    quadratic: ClassVar[bool] = False  # whether the second moments of [x, y] say everything about it
    # whether parameters are one for each column, for each class alike
    alike: ClassVar[bool] = True

    def constants(self, preparation: Preparation) -> Floats:
        """Return 1 for each parameter that belongs to no feature, else 0 [P]."""
        constant = np.zeros(preparation.width)
        constant[preparation.width - preparation.model.has_intercept :] = 1.0
        return np.tile(constant, self.parameters(preparation) // preparation.width)

    @abstractmethod
    def scores(self, X: Floats, theta: Floats) -> Floats:
        """Return margins [..., n] of rows X [n, p] at parameters [..., P], or one per class [..., n, classes]."""

    @abstractmethod
    def cost(self, design: Summable, theta: Floats) -> Floats:
        """Return f at every parameter [..., P] -> [...]. Private: only studies may see it; an owner never sends it."""

    @abstractmethod
    def record_losses(self, design: Design, theta: Floats) -> Floats:
        """Return every record's weighted loss [..., P] -> [..., n]; their mean is f without g1. Private."""

    @property
    def smoothed(self) -> "EmpiricalRisk":
        """The objective with corners rounded off, for searches that need a second derivative."""
        return self

    @abstractmethod
    def mean_gradient(self, design: Summable, theta: Floats, bound: RecordBound | None = None) -> Floats:
        """Return the mean record gradient (without g1) at every parameter [..., P], clipped to any `bound`."""

    @abstractmethod
    def record_gradients(self, design: Design, theta: Floats) -> Floats:
        """Return every record's unclipped gradient at one parameter [P] -> [n, P]. Only for small tables."""

    @abstractmethod
    def record_norms(self, design: Design, theta: Floats, norm: ClipNorm) -> Floats:
        """Return the norm of every record's unclipped gradient at one parameter [P] -> [n]."""

    @abstractmethod
    def record_bound(self, preparation: Preparation, limits: Limits, norm: ClipNorm) -> RecordBound | None:
        """Return Xi, the smaller of the clip and what bounds imply; None if nothing limits a record."""

    def optimum(
        self,
        designs: Sequence[Summable],
        radius: float | None = None,
        precision: float = 1e-10,
        start: Floats | None = None,
    ) -> Floats | None:
        """Return the minimiser [P] of the cost over all rows of all designs in the box; None if none can be found."""
        return None

    def hessian(self, design: Summable, theta: Floats) -> Floats | None:
        """Return f's second derivative [P, P] at one parameter (with corners smoothed); None if out of reach."""
        return None

    def principal_curvatures(self, design: Summable, theta: Floats) -> tuple[Floats, Floats] | None:
        """Return rising eigenvalues [P] of the second derivative without g1's at one parameter [P], and their
        directions as columns [P, P]; None if out of reach."""
        hessian = self.hessian(design, theta)
        if hessian is None:
            return None
        values, directions = np.linalg.eigh(hessian - self.regularisation * np.eye(len(theta)))
        return values, directions

    def record_curvatures(self, design: Design, theta: Floats) -> Floats | None:
        """Return every record's weighted second derivative by its raw prediction [n] at one parameter [P], summed if it
        has several predictions; None if out of reach."""
        return None

    def curvature(self, design: Summable) -> float:
        """Bound the largest eigenvalue of f's Hessian at any parameter (for the hinge: of its natural smoothing)."""
        largest = design.derived("largest moment", lambda: float(np.linalg.eigvalsh(design.statistics[0])[-1]))
        return self.loss.largest_curvature * largest + self.regularisation

    def largest_curvature(self, preparation: Preparation) -> float | None:
        """Return L, the largest curvature of the cost of any table within the bounds; None if a feature is unbounded.

        Formal guarantee: a record's own cost has curvature at most its loss's largest times its weight times |x|^2, and
        a mean no more.
        """
        features = preparation.feature_bound
        if features is None:
            return None
        return (
            self.loss.largest_curvature * preparation.largest_weight * float(np.sum(features**2)) + self.regularisation
        )

    def walked_curvature(self, preparation: Preparation, limits: Limits) -> float | None:
        """Return L of the clipped records' cost that local steps follow; at most `largest_curvature`."""
        return self.largest_curvature(preparation)


def batched(part: Callable[[Design, Floats], Floats], design: Summable, theta: Floats) -> Floats:
    """Sum `part` over the blocks, the batch [..., P] of parameters flattened to [R, P] and back."""
    flat = np.ascontiguousarray(theta).reshape(-1, theta.shape[-1])
    total = design.sum(lambda block: part(block, flat))
    return total.reshape(theta.shape[:-1] + total.shape[1:])


class SplitBatches(ABC):
    """Batches split by classes: each record enters one block of the parameters only (A); part c is for block c."""

    @abstractmethod
    def parts(self, preparation: Preparation) -> int:
        """Return into how many parts a batch is split."""

    @abstractmethod
    def batch_bound(self, preparation: Preparation, limits: Limits, norm: ClipNorm) -> RecordBound | None:
        """Return Xi of a record in a batch, where it enters one part only."""

    @abstractmethod
    def batch_norms(self, design: Design, theta: Floats, norm: ClipNorm) -> Floats:
        """Return every record's largest unclipped norm in a batch at one parameter [P] -> [n]."""

    @abstractmethod
    def split_gradient(self, parts: Iterable[Summable], theta: Floats, bound: RecordBound) -> Floats:
        """Return the sum of clipped record gradients [..., P]; part c enters block c alone."""
