"""Linear support vector machine: the hinge of the margin theta.[x, 1], g1 = r/2 |theta|^2 (W section IV-B)."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from parley.data import Design, Summable
from parley.data.design import pooled
from parley.losses.loss import Hinge
from parley.losses.objectives.margin import MarginObjective
from parley.validate import Floats


@dataclass(frozen=True)
class LinearSVM(MarginObjective):
    """Where a second derivative is needed, its hinge is smoothed."""

    loss: Hinge = field(default=Hinge(), kw_only=True)

    @property
    def smoothed(self) -> "LinearSVM":
        return self if self.loss.smoothing > 0 else replace(self, loss=self.loss.smoothed())

    def hessian(self, design: Summable, theta: Floats) -> Floats:
        """The second derivative of the hinge with its corner smoothed."""
        return super(LinearSVM, self.smoothed).hessian(design, theta)

    def optimum(
        self,
        designs: Sequence[Summable],
        radius: float | None = None,
        precision: float = 1e-10,
        start: Floats | None = None,
    ) -> Floats:
        """liblinear's dual solver; where a box binds or there is no regularisation, ever sharper smoothings of the
        hinge, whose minimum at width m lies within m/2 of the hinge's own, down to this precision of the cost."""
        dual = self._liblinear(pooled([design.in_memory() for design in designs]), np.inf if radius is None else radius)
        if dual is not None:
            return dual
        theta, width = np.zeros(designs[0].width) if start is None else start, 1.0
        while width >= precision:
            theta = replace(self, loss=self.loss.smoothed(width))._newton(designs, radius, theta)
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
            C=1 / (design.divisor * self.regularisation),
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
