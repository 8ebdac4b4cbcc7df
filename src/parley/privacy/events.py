"""Releases as frozen data (dp_accounting: `DpEvent`) that ledgers store. The class says which noise was added, not its
eps; `accounting.releases` says what is proved of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Literal, Self, get_args

from parley.errors import SettingError


class Adjacency(StrEnum):
    """What makes two tables neighbours (dp_accounting: `NeighboringRelation`), as commands and JSON write it.

    Parley promises for `REPLACE_ONE`: the number of records is public, and one person's records are replaced by others.
    Where terms say so, it promises for `REPLACE_OWNER`: all of an owner's records are replaced by as many others, so
    what holds there holds for a person, too. Some papers add or remove one. Replacing is leaving out and adding: what
    is eps-DP there is 2 eps-DP here.

    >>> f"eps = 1 ({Adjacency.REPLACE_ONE}: a record is {Adjacency.REPLACE_ONE.verb})"
    'eps = 1 (replace-one: a record is replaced)'
    """

    REPLACE_ONE = "replace-one"
    REPLACE_OWNER = "replace-one-owner"
    ADD_OR_REMOVE_ONE = "add-or-remove-one"

    @classmethod
    def from_unit(cls, unit: str) -> "Adjacency":
        """Return the adjacency of terms with this `privacy.unit`."""
        return cls.REPLACE_OWNER if unit == "owner" else cls.REPLACE_ONE

    @property
    def verb(self) -> str:
        """What happens to the record by which two neighbouring tables differ."""
        return "added or left out" if self is Adjacency.ADD_OR_REMOVE_ONE else "replaced"


Norm = Literal["l1", "l2"]  # in which a value is bounded


@dataclass(frozen=True)
class Event:
    """One kind of release: how large its noise is beside the sensitivity, on which share of the records, how often.
    `multiplier` is scale/sensitivity (dp_accounting: noise_multiplier); the sensitivity is how far replacing one record
    moves the value in `norm`. With `sampling` below 1 (Poisson, drawn in secret) a record that is not drawn must leave
    the value midway: with or without it, the value moves by at most half the sensitivity (as in sums of clipped
    records, where that half is the clip)."""

    mechanism: ClassVar[str]  # as ledgers and commands write it
    adjacency: ClassVar[Adjacency] = Adjacency.REPLACE_ONE

    multiplier: float
    sampling: float = 1.0
    count: int = 1
    norm: Norm = field(default="l1", init=False)

    def __post_init__(self) -> None:
        from parley.validate import whole  # loads numpy, which names of adjacencies do not need

        if not isinstance(self.multiplier, int | float) or not 1e-9 <= self.multiplier <= 1e15:
            raise SettingError(f"multiplier = {self.multiplier!r}: expected a number from 1e-9 to 1e15")
        if not isinstance(self.sampling, int | float) or not 0 < self.sampling <= 1:
            raise SettingError(f"sampling = {self.sampling!r}: expected a rate above 0 and at most 1")
        if whole(self.count, "count") > 10**18:
            raise SettingError("count: expected at most 1e18 releases")

    def times(self, count: int) -> Self:
        """Return the same release `count` times (dp_accounting: SelfComposedDpEvent)."""
        return self if count == self.count else replace(self, count=count)

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain data, for a ledger.

        >>> Event.from_dict(GaussianEvent(2.0, count=3).to_dict())
        GaussianEvent(multiplier=2.0, sampling=1.0, count=3, norm='l2')
        """
        return {
            "mechanism": self.mechanism,
            "multiplier": self.multiplier,
            "norm": self.norm,
            "alpha": None,
            "sampling": self.sampling,
            "count": self.count,
        }

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> "Event":
        """Return the event from plain data, written by this version or an earlier one."""
        known = dict(content)
        name, norm, alpha = known.pop("mechanism"), known.pop("norm"), known.pop("alpha", None)
        if name not in EVENTS:
            raise SettingError(f"mechanism = {name!r}: expected one of {', '.join(EVENTS)}")
        event = StableEvent(**known, norm=norm, alpha=alpha) if EVENTS[name] is StableEvent else EVENTS[name](**known)
        if event.norm != norm:
            raise SettingError(f"norm = {norm!r}: {name} noise needs a value bounded in {event.norm.upper()}")
        return event


@dataclass(frozen=True)
class PureEvent(Event):
    """Any release that is 1/multiplier-DP without a delta, whatever its noise."""

    mechanism = "pure"


@dataclass(frozen=True)
class LaplaceEvent(PureEvent):
    """Laplace noise on every coordinate of a value bounded in L1."""

    mechanism = "laplace"


@dataclass(frozen=True)
class GeometricEvent(PureEvent):
    """Two-sided geometric noise (discrete Laplace) on every coordinate of a value bounded in L1."""

    mechanism = "geometric"


@dataclass(frozen=True)
class GaussianEvent(Event):
    """Normal noise, of standard deviation multiplier x sensitivity, on every coordinate of a value bounded in L2."""

    mechanism = "gaussian"

    norm: Norm = field(default="l2", init=False)


@dataclass(frozen=True)
class StableEvent(Event):
    """Symmetric alpha-stable noise on every coordinate of a value bounded in L1 (below alpha = 2 pure) or in L2."""

    mechanism = "stable"

    alpha: float = field(kw_only=True)
    norm: Norm = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norm not in get_args(Norm):
            raise SettingError(f"norm = {self.norm!r}: stable noise needs a value bounded in L1 or L2")
        if self.alpha is None or not 1 <= self.alpha <= 2:
            raise SettingError(f"alpha = {self.alpha!r}: expected a number from 1 (Cauchy) to 2 (Gaussian)")

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain data, for a ledger."""
        return super().to_dict() | {"alpha": self.alpha}


@dataclass(frozen=True)
class MatchedEvent(Event):
    """Second moments over matched people with normal noise, of standard deviation multiplier x sensitivity on every
    number; and, for those who match, how many people match, at (`match_epsilon`, `match_delta`)."""

    mechanism = "matched-gaussian"

    norm: Norm = field(default="l2", init=False)
    match_epsilon: float = field(kw_only=True)
    match_delta: float = field(kw_only=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain data, for a ledger."""
        return super().to_dict() | {"match_epsilon": self.match_epsilon, "match_delta": self.match_delta}


EVENTS: dict[str, type[Event]] = {
    kind.mechanism: kind for kind in (LaplaceEvent, GaussianEvent, GeometricEvent, StableEvent, PureEvent, MatchedEvent)
}
