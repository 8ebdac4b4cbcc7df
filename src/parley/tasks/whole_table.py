"""A prepared table that a task's own question reads as a whole: it is not made of rows of numbers."""

from collections.abc import Callable
from typing import Any, ClassVar, Never, Self

import numpy as np
from numpy.typing import NDArray

from parley.data.design import Summable
from parley.errors import DataError
from parley.validate import Floats


class WholeTable(Summable):
    """Records of a task's own, `called` so in messages. What takes rows of numbers is refused: moments, designs,
    batches."""

    called: ClassVar[str]

    def for_studies(self) -> Self:
        return self

    @property
    def studied(self) -> None:
        """None: reading the whole table takes the same time whatever it holds."""
        return

    @property
    def statistics(self) -> Never:
        raise self._no("moments")

    def sum(self, part: Callable[[Any], Floats]) -> Floats:
        raise self._no("sums over rows")

    def in_memory(self) -> Never:
        raise self._no("rows of numbers")

    def batch(self, places: NDArray[np.int64]) -> Never:
        raise self._no("batches")

    drawn = batch

    def _no(self, what: str) -> DataError:
        return DataError(f"{self.called} have no {what}: their own question reads all of them")
