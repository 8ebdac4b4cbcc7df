"""The one verdict that a forecast ends with: should these owners learn together by these terms?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from parley.decisions.outlook.owner_forecast import OwnerForecast
from parley.decisions.outlook.worth import Worth
from parley.protocol.aggregation import Members

Kind = Literal["yes", "some", "no", "unknown"]


@dataclass(frozen=True)
class ConsortiumVerdict:
    """Yes where all gain whatever is left open, some where only a few do; no where a model that asks nobody is as good
    or nobody is even expected to gain; unknown where somebody is expected to, and nobody for sure."""

    kind: Kind
    join: tuple[str, ...]  # who gains whatever is left open
    stay: tuple[str, ...]  # who does not, whatever is left open
    unknown: tuple[str, ...]
    expected: tuple[str, ...]  # who is expected to gain, surely or not
    below: str | None  # what a model that asks nobody has ahead, in words

    def to_json(self) -> dict[str, Any]:
        """The object under `verdict` in `parley forecast --json`."""
        return {**vars(self)}


def consortium_verdict(owners: Sequence[OwnerForecast], counting: Members, worth: Worth) -> ConsortiumVerdict:
    """The verdict on these owners, of whom those that are `counting` [N] are expected to gain."""
    join, stay, unknown = (
        tuple(owner.name for owner in owners if owner.verdict == verdict) for verdict in ("join", "stay", "unknown")
    )
    expected = tuple(owner.name for owner, counts in zip(owners, counting, strict=True) if counts)
    below = worth.sentence()
    kind = _kind(len(owners), len(join), len(expected), below)
    return ConsortiumVerdict(kind, join, stay, unknown, expected, below)


def _kind(owners: int, surely: int, expected: int, below: str | None) -> Kind:
    if below is not None:
        return "no"
    if owners == 1:
        return "unknown"  # nobody to join: whom the model serves, no forecast knows
    if surely:
        return "yes" if surely == owners else "some"
    return "unknown" if expected else "no"
