"""Models that are not searched for by gradients of records: owners are asked something else about them."""

from dataclasses import dataclass
from typing import ClassVar, NoReturn

import numpy as np

from parley.data import Design, Preparation, Summable
from parley.errors import GuaranteeError
from parley.losses.objective import ClipNorm, Limits, Objective, RecordBound
from parley.validate import Floats


@dataclass(frozen=True)
class AskedOtherwise(Objective):
    """Every question that a gradient method would ask is refused, with a sentence that says why."""

    why: ClassVar[str]

    def scores(self, X: Floats, theta: Floats) -> NoReturn:
        self._refuse()

    def cost(self, design: Summable, theta: Floats) -> NoReturn:
        self._refuse()

    def record_losses(self, design: Design, theta: Floats) -> NoReturn:
        self._refuse()

    def mean_gradient(self, design: Summable, theta: Floats, bound: RecordBound | None = None) -> NoReturn:
        self._refuse()

    def record_gradients(self, design: Design, theta: Floats) -> NoReturn:
        self._refuse()

    def record_norms(self, design: Design, theta: Floats, norm: ClipNorm) -> NoReturn:
        self._refuse()

    def record_bound(self, preparation: Preparation, limits: Limits, norm: ClipNorm) -> None:
        """Nothing limits a gradient, because none is ever asked for."""
        return

    def walk_gradient(self, design: Summable, theta: Floats, bound: RecordBound) -> NoReturn:
        self._refuse()

    def walk_rounding(self, preparation: Preparation, limits: Limits, bound: RecordBound) -> float:
        return float(np.inf)

    def _refuse(self) -> NoReturn:
        raise GuaranteeError(self.why)
