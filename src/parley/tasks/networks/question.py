"""The sum of clipped gradients of a network over records drawn in secret: what training asks, round after round."""

import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np

from parley.data.batches import Places, drawn
from parley.errors import GuaranteeError
from parley.privacy.mechanisms import Bounded, Extent, Norm
from parley.protocol.queries.query import Query, check_parameter
from parley.protocol.queries.question import Context, Question, Tables
from parley.tasks.networks.architectures import Architecture
from parley.tasks.networks.clipping import RecordGradients
from parley.tasks.networks.objective import architecture_of, cross_entropy, squared
from parley.tasks.networks.prepared_rows import NetworkRows, network_rows_of
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class NetworkGradientQuery(Query):
    """The clipped gradients at theta [..., P] over records that the owner draws for this round."""

    kind: ClassVar[str] = "network-gradient"
    theta: Floats


@dataclass(frozen=True, eq=False)
class NetworkGradientQuestion(Question):
    """The sum of the drawn records' clipped gradients, divided by the public n/M: how many are drawn on average.

    Formal guarantee (M = `batches`, C the clip, r the relative rounding of a sum over all n rows): every record is
    drawn with probability 1/M, in secret and independently, and hands the sum a function of itself and theta that
    measures at most C, whoever else was drawn (`clipping`). So the exact sums over a draw with and without a record
    differ by at most C, and the computed ones by r n C each more: the answer moves by at most C (M/n + 2 r M), half
    of `sensitivity`, as sampled events need it. An empty draw is 0, exactly. Nothing is divided by how many were drawn.
    """

    asks = NetworkGradientQuery

    gradients: RecordGradients
    batches: int

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        terms = context.terms
        rows, table = terms.train_rows(owner), terms.train_places(owner)
        return cls.of(agreed_gradients(context, owner), rows, terms.learning.batches or 1, table)

    @classmethod
    def of(cls, gradients: RecordGradients, rows: int, batches: int, table: int | None = None) -> Self:
        """The question about a table of so many rows; `table`: how many it has where people are held out, whose rows
        are drawn as all are and add 0, so that about `rows` count."""
        table = rows if table is None else table
        clip, rounding, most = gradients.clip, gradients.rounding(table), table / rows
        largest = clip * batches * (1 + rounding) * most
        return cls(
            parameters=gradients.parameters,
            records=rows,
            size=gradients.parameters,
            norm=gradients.norm,
            sensitivity=2 * clip * (batches / rows + 2 * rounding * batches * most),
            extent=Extent(-largest, largest, largest, gradients.norm),
            bound=None,
            gradients=gradients,
            batches=batches,
        )

    @property
    def rate(self) -> float:
        return 1 / self.batches

    @property
    def public_numbers(self) -> dict[str, float]:
        return {"bound": self.gradients.clip, "parameters": float(self.parameters)}

    def words(self) -> str:
        return (
            f"a mean over about {self.records / self.batches:,.0f} of {self.records:,} records, drawn in secret, each "
            f"with probability 1/{self.batches}, as vectors of {self.size:,} numbers"
        )

    def require_sound_arithmetic(self) -> None:
        self.gradients.require_sound_shapes()

    def check(self, query: Query, replicates: tuple[int, ...]) -> None:
        super().check(query, replicates)
        check_parameter(query.arrays["theta"], (*replicates, self.parameters))

    def exact(self, query: NetworkGradientQuery, tables: Tables) -> Floats:
        raise GuaranteeError("network-gradient: owners draw their records in secret; a draw needs a seed")

    def bounded(self, query: Query, tables: Tables, replicates: tuple[int, ...] = (), seed: bytes = b"") -> Bounded:
        if len(seed) < 32:
            raise GuaranteeError("network-gradient: a secret draw needs a seed of 32 bytes")
        rows = network_rows_of(tables.train)
        thetas = query.arrays["theta"].reshape(-1, self.parameters)
        sums = [
            self.sum(rows, theta, hashlib.sha256(seed + place.to_bytes(8, "little")).digest())
            for place, theta in enumerate(thetas)  # each replicate has draws of its own
        ]
        value = np.array(sums).reshape(*replicates, self.size) * (self.batches / self.records)
        return Bounded(value, self.sensitivity, self.norm)

    def about(self, query: Query, tables: Tables, places: Places) -> Floats:
        total = self._sum(network_rows_of(tables.train), query.arrays["theta"], places)
        return np.asarray(total * (self.batches / self.records))

    def sum(self, rows: NetworkRows, theta: Floats, seed: bytes) -> Floats:
        """The sum of clipped gradients over the rows that this seed draws [P]."""
        return self._sum(rows, theta, drawn(len(rows), seed, self.rate))

    def _sum(self, rows: NetworkRows, theta: Floats, places: Places) -> Floats:
        return self.gradients.clipped_sum(theta, rows.X, rows.y, places, rows.present)


def clipped_share(gradients: RecordGradients, tables: Tables, theta: Floats) -> float:
    """The share of records whose gradients the clip scales down at theta [P]."""
    rows = network_rows_of(tables.train)
    norms = gradients.record_norms(theta, rows.X, rows.y)
    return float(np.mean((norms > gradients.clip) & rows.present))


def agreed_gradients(context: Context, owner: str) -> RecordGradients:
    """The clipped gradients of the network that the terms name, about this owner's records."""
    terms = context.terms
    return _record_gradients(
        architecture_of(context.preparation),
        terms.model.classifies,
        terms.privacy.clip or 0.0,
        context.norm,
        terms.train_rows(owner) / (terms.learning.batches or 1),
        os.environ.get("PARLEY_DEVICE", "cpu"),
    )


@lru_cache(maxsize=8)
def _record_gradients(
    network: Architecture, classes: bool, clip: float, norm: Norm, expected: float, device: str
) -> RecordGradients:
    """One network's gradients: made once, whoever asks."""
    losses = cross_entropy if classes else squared
    return RecordGradients(network.module(), losses, (network.inputs,), clip, norm, expected, device)
