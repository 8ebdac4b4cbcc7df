"""Linear support vector machine: g2 = max(0, 1 - y theta.[x, 1]), g1 = r/2 |theta|^2 (W section IV-B)."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from parley.data import Design, Summable
from parley.data.design import pooled
from parley.losses.margin import MarginObjective
from parley.validate import Floats

HINGE_WIDTH = 0.2  # over which the hinge's corner is smoothed to have a curvature


@dataclass(frozen=True)
class LinearSVM(MarginObjective):
    """The hinge; `smoothing` m > 0 rounds its corner into a parabola of width m that lies at most m/2 below it.

    >>> LinearSVM().slope(np.array([0.5, 2.0]), np.array([1.0, 1.0]))
    array([-1., -0.])
    """

    smoothing: float = 0.0
    smooth: ClassVar[bool] = False

    def loss(self, margin: Floats, y: Floats) -> Floats:
        gap = np.maximum(0.0, 1 - y * margin)
        if not self.smoothing > 0:
            return gap
        return np.where(gap < self.smoothing, gap**2 / (2 * self.smoothing), gap - self.smoothing / 2)

    def slope(self, margin: Floats, y: Floats) -> Floats:
        margin *= y
        if not self.smoothing > 0:
            return np.multiply(margin < 1, -y, out=margin)
        return np.clip((1 - margin) / self.smoothing, 0.0, 1.0) * -y

    def bend(self, margin: Floats, y: Floats) -> Floats:
        gap = 1 - y * margin
        return ((gap > 0) & (gap < self.smoothing)) / max(self.smoothing, np.finfo(np.float64).tiny)

    def largest_slope(self, largest_margin: float, target_bound: float) -> float:
        return 1.0

    @property
    def rounded(self) -> "LinearSVM":
        return self if self.smoothing > 0 else replace(self, smoothing=HINGE_WIDTH)

    def hessian(self, design: Summable, theta: Floats) -> Floats:
        """Of the hinge with its corner rounded off."""
        return super(LinearSVM, self.rounded).hessian(design, theta)

    def optimum(
        self, designs: Sequence[Summable], radius: float | None = None, precision: float = 1e-10, start: Floats | None = None
    ) -> Floats:
        """liblinear's dual solver; where a box binds or there is no regularisation, ever sharper smoothings of the hinge, whose minimum
        at width m lies within m/2 of the hinge's own, down to this precision of the cost."""
        dual = self._liblinear(pooled([design.in_memory() for design in designs]), np.inf if radius is None else radius)
        if dual is not None:
            return dual
        theta, width = np.zeros(designs[0].width) if start is None else start, 1.0
        while width >= precision:
            theta = replace(self, smoothing=width)._newton(designs, radius, theta)
            width /= 10
        return theta

    def _liblinear(self, design: Design, radius: float) -> Floats | None:
        """The optimum by dual coordinate descent, or None if that does not apply or does not converge."""
        both = np.unique(design.y).size == 2
        if not self.regularisation > 0 or not both:
            return None
        from sklearn.exceptions import ConvergenceWarning  # a library that other objectives need not wait for
        from sklearn.svm import LinearSVC

        solver = LinearSVC(
            loss="hinge",
            C=1 / (len(design) * self.regularisation),
            fit_intercept=False,
            tol=1e-9,
            max_iter=2000,
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            try:
                theta = solver.fit(design.X, design.y, sample_weight=design.weight).coef_[0]
            except ConvergenceWarning:
                return None
        return theta if np.abs(theta).max() <= radius else None
