"""Batches split by classes: an objective of which every record of a batch enters one block of the parameters only
(A)."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from parley.data import Design, Preparation, Summable
from parley.losses.record_bound import ClipNorm, Limits, RecordBound
from parley.validate import Floats


class SplitBatches(ABC):
    """What an objective knows whose batches are split into disjoint parts, part c for block c of the parameters."""

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
