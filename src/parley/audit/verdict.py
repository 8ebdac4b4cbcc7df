"""What an audit of runs found: claimed beside proved."""

import math
from dataclasses import dataclass, field
from typing import Any

from parley.privacy.adjacency import Adjacency


@dataclass(frozen=True)
class Verdict:
    """What is promised to a person in one owner's table, and what an attacker who sees all answers was shown to learn,
    at least."""

    owner: str
    claimed_epsilon: float  # of its training answers, all together
    delta: float
    adjacency: Adjacency
    lower_bound: float  # proved at `confidence`; infinite where noise repeats
    confidence: float
    runs: int  # by either table, on average; those beside that chose how to guess
    noise_repeats: bool  # whether two runs had the same noise, which then hides nobody
    like: str  # the owner whose runs were looked at: one with the same promise, maybe itself
    # (false alarms, misses) of the attack
    curve: tuple[tuple[float, float], ...] = field(default=(), repr=False)
    by_noise: float = 0.0  # the epsilon of noise so small that what was seen is possible (`noise_size`)
    records: int = 0  # of the tables

    @property
    def holds(self) -> bool:
        """Whether nothing was found that contradicts the claim. It proves nothing beyond that."""
        return max(self.lower_bound, self.by_noise) <= self.claimed_epsilon

    def to_json(self) -> dict[str, Any]:
        """The object that `parley audit --json` prints of an owner."""
        return {
            "name": self.owner,
            "claimed_epsilon": self.claimed_epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency,
            "lower_bound": self.lower_bound if math.isfinite(self.lower_bound) else None,
            "by_noise": self.by_noise,
            "confidence": self.confidence,
            "runs": self.runs,
            "records": self.records,
            "noise_repeats": self.noise_repeats,
            "holds": self.holds,
            "like": self.like,
        }
