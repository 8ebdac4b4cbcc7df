"""The question of network training: the sum of clipped gradients over records drawn in secret.

Formal guarantee: a prepared row, rounded to float32, is a function of that row, the terms and the public sample
(`data.preparation`). Replacing one record replaces one row. A record without a target adds nothing to any sum.
"""

import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from parley.data import Design, Preparation, fit_preparation
from parley.data.encoding import Numbers
from parley.data.sources import Rows
from parley.data.split import Places, draw_places
from parley.errors import DataError, GuaranteeError, SettingError
from parley.learning.algorithms.algorithm import Asker, State
from parley.learning.algorithms.private_sgd import OPTIMISER_MEMORY, PrivateSGD
from parley.losses.loss import ClipNorm
from parley.privacy.mechanisms import Bounded, Extent, Norm
from parley.protocol.queries import Answer
from parley.protocol.queries.query import Query, check_parameter
from parley.protocol.queries.question import Context, Question, Tables
from parley.tasks.networks.architectures import Architecture, architecture_of, cross_entropy, squared
from parley.tasks.networks.clipping import RecordGradients
from parley.tasks.networks.terms import IMAGE_ARCHITECTURES, NetworkModel
from parley.tasks.records import TargetPreparation, TargetRows
from parley.terms import Terms
from parley.validate import Floats


class NetworkRows(TargetRows):
    """Records of float32 numbers; a class is its place."""

    called: ClassVar[str] = "records of a network"


class NetworkPreparation(TargetPreparation):
    """Columns scaled by public numbers, as float32."""

    made_of: ClassVar = NetworkRows
    no_target: ClassVar[float] = 0.0

    def cells(self, rows: Rows, name: str) -> NDArray[np.float32]:
        return float32_rows(self.matrix(rows, name))


def network_preparation(terms: Terms) -> tuple[NetworkPreparation, Design | None]:
    """Return the terms' preparation; columns without scales map from bounds to [-1, 1], pixels to [0, 1]."""
    plain, public = fit_preparation(terms)
    made = NetworkPreparation(**{each.name: getattr(plain, each.name) for each in fields(Preparation)})
    model = NetworkModel.expect(terms.model)
    if model.public is not None:
        return made, public
    centre, scale, first = made.centre.copy(), made.scale.copy(), 0
    for encoding in made.encodings:
        low, high = made.low[first], made.high[first]
        declared = encoding.column in model.centres or encoding.column in model.scales
        if isinstance(encoding, Numbers) and np.isfinite([low, high]).all() and not declared:
            centre[first] = low if model.architecture in IMAGE_ARCHITECTURES else low / 2 + high / 2
            scale[first] = (high - low) / (1 if model.architecture in IMAGE_ARCHITECTURES else 2)
        first += len(encoding.labels)
    made = replace(made, centre=centre, scale=scale)
    if model.classifies:
        return made, None
    low, high = made.target_bounds
    return replace(made, target_centre=low / 2 + high / 2, target_scale=(high - low) / 2), None


def float32_rows(X: Floats) -> NDArray[np.float32]:
    """Return the numbers as float32; beyond its range they are infinite, and such a record counts 0."""
    with np.errstate(over="ignore"):
        return X.astype(np.float32)


def network_rows_of(rows: object) -> NetworkRows:
    """Return rows that were prepared for a network; refuse others."""
    if not isinstance(rows, NetworkRows):
        raise DataError("records: expected a table prepared with terms for networks")
    return rows


@dataclass(frozen=True, eq=False)
class NetworkGradientQuery(Query):
    """The clipped gradients at theta [..., P] over records that the owner draws for this round."""

    kind: ClassVar[str] = "network-gradient"
    theta: Floats


@dataclass(frozen=True, eq=False)
class NetworkGradientQuestion(Question):
    """The sum of the drawn records' clipped gradients over n/M, the public average number drawn.

    Formal guarantee (M = `batches`, C the clip in the noise's norm (`RecordGradients.bound`), r the relative rounding
    of a sum over all n rows): every record is drawn with probability 1/M, in secret and independently. Its contribution
    is a function of itself and theta with norm at most C, whoever else was drawn (`clipping`). So exact sums over a
    draw with and without a record differ by at most C, computed ones by r n C each more. The answer moves by at most C
    (M/n + 2 r M), half of `sensitivity`, as sampled events need it. An empty draw is exactly 0. Nothing is divided by
    the number drawn.
    """

    asks = NetworkGradientQuery

    gradients: RecordGradients
    batches: int

    @classmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        terms = context.terms
        rows, table = terms.train_rows(owner), terms.train_places(owner)
        batches = terms.learning.batches or 1
        return cls.from_gradients(agreed_gradients(context, owner), rows, batches, table, context.norm)

    @classmethod
    def from_gradients(
        cls, gradients: RecordGradients, rows: int, batches: int, table: int | None = None, norm: Norm = "l2"
    ) -> Self:
        """Return the question about `rows` rows, of `table` rows in all where people are held out; noise is calibrated
        in `norm`."""
        table = rows if table is None else table
        clip, rounding, table_share = gradients.bound(norm), gradients.rounding(table), table / rows
        largest = clip * batches * (1 + rounding) * table_share
        return cls(
            parameters=gradients.parameters,
            records=rows,
            size=gradients.parameters,
            norm=norm,
            sensitivity=2 * clip * (batches / rows + 2 * rounding * batches * table_share),
            extent=Extent(-largest, largest, largest, norm),
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
        return f"{self.mean_words()}, as vectors of {self.size:,} numbers"

    def mean_words(self) -> str:
        """Describe the records that an answer averages."""
        if not self.draws:
            return f"a mean over {self.records:,} records"
        return (
            f"a mean over about {self.records / self.batches:,.0f} of {self.records:,} records, drawn in secret, each "
            f"with probability 1/{self.batches}"
        )

    def require_sound_arithmetic(self) -> None:
        self.gradients.require_sound_shapes()

    def check(self, query: Query, replicates: tuple[int, ...]) -> None:
        super().check(query, replicates)
        check_parameter(query.arrays["theta"], (*replicates, self.parameters))

    def exact(self, query: NetworkGradientQuery, tables: Tables) -> Floats:
        raise GuaranteeError("network-gradient: owners draw records in secret; call bounded() with the seed of a draw")

    def bounded(self, query: Query, tables: Tables, replicates: tuple[int, ...] = (), seed: bytes = b"") -> Bounded:
        if self.draws and len(seed) < 32:
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
        """Return the sum of clipped gradients [P] over the rows that this seed draws."""
        places = draw_places(len(rows), seed, self.rate) if self.draws else np.arange(len(rows))
        return self._sum(rows, theta, places)

    def _sum(self, rows: NetworkRows, theta: Floats, places: Places) -> Floats:
        return self.gradients.clipped_sum(theta, rows.X, rows.y, places, rows.present)


def clipped_share(gradients: RecordGradients, tables: Tables, theta: Floats) -> float:
    """Return the share of records whose gradients the clip scales down at theta [P]."""
    rows = network_rows_of(tables.train)
    norms = gradients.record_norms(theta, rows.X, rows.y)
    return float(np.mean((norms > gradients.clip) & rows.present))


def agreed_gradients(context: Context, owner: str) -> RecordGradients:
    """Return the clipped gradients of the terms' network for this owner's records."""
    terms = context.terms
    return _record_gradients(
        architecture_of(context.preparation),
        terms.model.classifies,
        terms.privacy.clip or 0.0,
        terms.privacy.clip_norm or context.norm,
        terms.train_rows(owner) / (terms.learning.batches or 1),
        os.environ.get("PARLEY_DEVICE", "cpu"),
    )


@lru_cache(maxsize=8)
def _record_gradients(
    network: Architecture, classes: bool, clip: float, norm: ClipNorm, expected: float, device: str
) -> RecordGradients:
    losses = cross_entropy if classes else squared
    return RecordGradients(network.module(), losses, (network.inputs,), clip, norm, expected, device)


DECAYS = ("cosine", "none")


def check_steps(optimiser: str, decay: str) -> None:
    """Refuse (SettingError) an unknown optimiser or decay."""
    for name, value, known in (("optimiser", optimiser, tuple(OPTIMISER_MEMORY)), ("decay", decay, DECAYS)):
        if value not in known:
            raise SettingError(f"{name} = {value!r}: expected {', '.join(map(repr, known[:-1]))} or {known[-1]!r}")


def cosine_share(number: int, steps: int) -> float:
    """Return the length of step `number` of all relative to the first."""
    return (1 + math.cos(math.pi * (number - 1) / steps)) / 2


@dataclass(frozen=True)
class NetworkSGD(PrivateSGD):
    """Private SGD whose k-th of T steps is scaled by (1 + cos(pi (k - 1)/T))/2, unless `constant`."""

    constant: bool = False

    def thetas(self, state: State) -> Floats:
        """Return the parameters that this round's question carries."""
        return state.theta

    def query(self, state: State, asker: Asker) -> NetworkGradientQuery:
        return NetworkGradientQuery.ask(asker.terms_hash, asker.learner, state.round, state.theta)

    def share(self, number: int) -> float:
        """Return the length of this round's step relative to the first."""
        return 1.0 if self.constant else cosine_share(number, self.horizon)

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        shrunk = replace(self, step=self.step * self.share(state.round))
        return super(NetworkSGD, shrunk).update(state, combined, answers)
