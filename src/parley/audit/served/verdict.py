"""What an audit of a served owner found: claimed beside proved, and what else was not as agreed."""

from dataclasses import dataclass
from typing import Any

from parley.audit.one_run import Guesses
from parley.audit.served.noise_law import NoiseVerdict, RepeatVerdict


@dataclass(frozen=True)
class ServedVerdict:
    """What an owner's daemon claims, and what was found of it over its own interface."""

    owner: str
    claimed_epsilon: float  # of its training answers, all together
    delta: float
    guesses: Guesses
    confidence: float
    tables: int  # each served by a start of its own
    rounds: int  # answered, in all tables together
    changed: int
    charged: int
    noise: NoiseVerdict | None  # None: no two answers differ by their noise alone
    repeats: RepeatVerdict | None  # None: rows are drawn in secret, so that the noise is not known
    seconds: float

    @property
    def lower_bound(self) -> float:
        """Of epsilon, proved at `confidence` from the coins that were guessed."""
        return self.guesses.bound(self.delta, self.confidence)

    @property
    def leaks(self) -> bool:
        """Whether the coins prove more than is claimed."""
        return self.lower_bound > self.claimed_epsilon

    @property
    def faults(self) -> tuple[str, ...]:
        """What contradicts the claim, in words."""
        found = {
            "the answers tell more than is claimed": self.leaks,
            "a question that is asked again gets another answer": self.changed > 0,
            "answers are not debited as agreed, once each": self.charged > 0,
            "there is less noise than claimed": self.noise is not None and self.noise.too_small,
        }
        if not any(found.values()):
            found["the noise is not of the claimed law"] = self.noise is not None and not self.noise.holds
        found["noise that was drawn before comes again"] = self.repeats is not None and not self.repeats.holds
        return tuple(sentence for sentence, is_so in found.items() if is_so)

    @property
    def holds(self) -> bool:
        """Whether nothing was found that contradicts the claim. It proves nothing beyond that."""
        return not self.faults

    def to_json(self) -> dict[str, Any]:
        """The object that `parley audit --served --json` prints of the owner."""
        return {
            **self.guesses.to_json(self.owner, self.claimed_epsilon, self.delta, self.confidence),
            "runs": self.tables,
            "rounds": self.rounds,
            "retries_changed": self.changed,
            "debits_wrong": self.charged,
            "noise": None if self.noise is None else self.noise.to_json(),
            "repeats": None if self.repeats is None else self.repeats.to_json(),
            "faults": list(self.faults),
            "holds": self.holds,
            "seconds": self.seconds,
        }
