"""What travels between a learner and an owner: frozen, numeric, nothing executable.

A query's id is the learner's to choose and names one question for ever: asked again it gets the same answer. `ask`
derives it from the content, so that a learner that restarts and computes the same parameter asks the same question.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any, ClassVar, Self

import numpy as np

from parley.errors import Malformed
from parley.validate import LARGEST, Floats


@dataclass(frozen=True, eq=False)
class Query:
    """Round `round` of the agreement with this hash. A kind of query adds its own fields: arrays of numbers and whole
    numbers."""

    kind: ClassVar[str]  # as it is named in messages and in the hash of its content
    matrices: ClassVar[frozenset[str]] = frozenset()  # of its arrays, those that travel row by row; others are lists
    id: str
    terms_hash: str
    learner: str
    round: int

    @classmethod
    def ask(cls, terms_hash: str, learner: str, round: int, *content: Any) -> Self:  # noqa: A002
        """The query with an id that follows from its content."""
        held = [_read_only(value) if isinstance(value, np.ndarray) else value for value in content]
        content_hash = cls("", terms_hash, learner, round, *held).content
        asked = cls(content_hash[:32], terms_hash, learner, round, *held)
        vars(asked)["content"] = content_hash  # the id is no part of it, so long parameters are hashed once
        return asked

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
        """The query of a message that brings these fields, exactly those of its kind."""
        own = cls._own()
        if arrays.keys() != {n for n, whole in own.items() if not whole} or counts.keys() != {
            n for n, whole in own.items() if whole
        }:
            said = [f"{name} as {'a whole number' if whole else 'numbers'}" for name, whole in own.items()]
            raise Malformed(f"query: expected {' and '.join(said) or 'nothing'} to be sent along")
        return cls(
            id, terms_hash, learner, round, *(counts[name] if whole else arrays[name] for name, whole in own.items())
        )

    @property
    def arrays(self) -> dict[str, Floats]:
        """The arrays that travel with the query, by name."""
        return {name: getattr(self, name) for name, whole in self._own().items() if not whole}

    @property
    def counts(self) -> dict[str, int]:
        """The whole numbers that travel with the query, by name."""
        return {name: getattr(self, name) for name, whole in self._own().items() if whole}

    @classmethod
    def own_fields(cls) -> tuple[str, ...]:
        """The names of what its kind adds, in the order in which `ask` takes it."""
        return tuple(cls._own())

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
    def _own(cls) -> dict[str, bool]:
        """The fields of its kind, and whether each is declared as a whole number; else it is an array."""
        return {field.name: field.type is int for field in fields(cls)[4:]}


@dataclass(frozen=True, eq=False)
class Answer:
    """One owner's noisy answer; `records` is its public n_l, by which answers are weighted. The answer of several
    owners, of whose sum alone anything is known, names them in `members` and has no `owner`."""

    query: str
    owner: str
    records: int
    value: Floats
    members: tuple[str, ...] = ()

    @property
    def owners(self) -> tuple[str, ...]:
        """The owners of whose records the answer is made."""
        return self.members or (self.owner,)


def check_parameter(theta: Any, shape: tuple[int, ...], name: str = "theta") -> float:
    """The size of a parameter's largest number, if it is an array of this shape of numbers that arithmetic can bear; or
    a refusal."""
    if not isinstance(theta, np.ndarray) or theta.dtype != np.float64 or theta.shape != shape:
        raise Malformed(f"{name}: expected float64 numbers of shape {shape}")
    size = float(np.abs(theta).max())
    if not size <= LARGEST:
        raise Malformed(f"{name}: expected finite numbers, at most {LARGEST:g} in size")
    return size


def _read_only(values: Floats) -> Floats:
    """Algorithms make a new array each round, so a read-only view is enough."""
    view = values.view()
    view.flags.writeable = False
    return view
