"""What travels between a learner and an owner: frozen, numeric, nothing executable. The learner chooses a query's id,
which names one question for ever: asked again it gets the same answer. `ask` derives it from the content, so a
restarted learner that computes the same parameter asks the same question."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from parley.errors import Malformed
from parley.validate import LARGEST, Floats


@dataclass(frozen=True, eq=False)
class Query:
    """Round `round` of the agreement with this hash. Each kind adds its own arrays of numbers and whole numbers."""

    kind: ClassVar[str]  # as it is named in messages and in the hash of its content
    matrices: ClassVar[frozenset[str]] = frozenset()  # of its arrays, those that travel row by row; others are lists
    id: str
    terms_hash: str
    learner: str
    round: int

    @classmethod
    def ask(cls, terms_hash: str, learner: str, round: int, *content: Any) -> Self:  # noqa: A002
        """Return the query with an id that follows from its content."""
        frozen_content = [_read_only(value) if isinstance(value, np.ndarray) else value for value in content]
        content_hash = cls("", terms_hash, learner, round, *frozen_content).content
        query = cls(content_hash[:32], terms_hash, learner, round, *frozen_content)
        vars(query)["content"] = content_hash  # the id is no part of it, so long parameters are hashed once
        return query

    @classmethod
    def read(
        cls,
        id: str,  # noqa: A002
        terms_hash: str,
        learner: str,
        round: int,  # noqa: A002
        arrays: Mapping[str, Floats],
        counts: Mapping[str, int],
    ) -> Self:
        """Return the query of a message that brings exactly the fields of its kind, or refuse it."""
        is_whole_number = cls._own_fields()
        if arrays.keys() != {n for n, whole in is_whole_number.items() if not whole} or counts.keys() != {
            n for n, whole in is_whole_number.items() if whole
        }:
            expected_fields = [
                f"{name} as {'a whole number' if whole else 'numbers'}" for name, whole in is_whole_number.items()
            ]
            raise Malformed(f"{cls.kind} query: expected {' and '.join(expected_fields) or 'no fields'}")
        return cls(
            id,
            terms_hash,
            learner,
            round,
            *(counts[name] if whole else arrays[name] for name, whole in is_whole_number.items()),
        )

    @property
    def arrays(self) -> dict[str, Floats]:
        """The arrays that travel with the query, by name."""
        return {name: getattr(self, name) for name, whole in self._own_fields().items() if not whole}

    @property
    def counts(self) -> dict[str, int]:
        """The whole numbers that travel with the query, by name."""
        return {name: getattr(self, name) for name, whole in self._own_fields().items() if whole}

    @classmethod
    def own_fields(cls) -> tuple[str, ...]:
        """Return the names of the fields its kind adds, in the order in which `ask` takes them."""
        return tuple(cls._own_fields())

    @cached_property
    def content(self) -> str:
        """SHA-256 of everything the answer depends on."""
        facts = [self.kind, self.terms_hash, self.learner, str(self.round), *map(str, self.counts.values())]
        digest = hashlib.sha256("\n".join(facts).encode())
        for array in self.arrays.values():
            numbers = np.ascontiguousarray(array, dtype="<f8")
            digest.update(f"\n{numbers.shape}\n".encode())
            digest.update(numbers.data)
        return digest.hexdigest()

    @classmethod
    @cache
    def _own_fields(cls) -> dict[str, bool]:
        """Return the fields of its kind, True for whole numbers and False for arrays."""
        return {field.name: field.type is int for field in fields(cls)[4:]}


@dataclass(frozen=True, eq=False)
class Answer:
    """One owner's noisy answer, weighted by its public n_l, `records`. An answer known only as several owners' sum
    names them in `members` and has no `owner`."""

    query: str
    owner: str
    records: int
    value: Floats
    members: tuple[str, ...] = ()
    heard: NDArray[np.bool_] | None = None  # in which runs of a study it arrived [*replicates]; None: in all

    @property
    def owners(self) -> tuple[str, ...]:
        """The owners whose records the answer covers."""
        return self.members or (self.owner,)


def check_parameter(theta: Any, shape: tuple[int, ...], name: str = "theta") -> float:
    """Return the largest absolute number of a parameter; refuse other shapes, types or sizes than expected."""
    if not isinstance(theta, np.ndarray) or theta.dtype != np.float64 or theta.shape != shape:
        found = f"{theta.dtype} of shape {theta.shape}" if isinstance(theta, np.ndarray) else type(theta).__name__
        raise Malformed(f"{name}: expected float64 numbers of shape {shape}, found {found}")
    size = float(np.abs(theta).max())
    if not size <= LARGEST:
        raise Malformed(f"{name}: expected finite numbers of at most {LARGEST:g} in absolute value, found {size:g}")
    return size


def _read_only(values: Floats) -> Floats:
    """Return a read-only view; algorithms make a new array each round."""
    view = values.view()
    view.flags.writeable = False
    return view
