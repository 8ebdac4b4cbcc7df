"""Public tables from which a secret place and a secret word draw a small number (Walker's alias method): a comparison
of one word draws a number of up to 2^7 values, where comparing with each threshold would take one for each."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from parley.privacy.mechanisms.exact_samplers import Integers, Words

WORD_BITS = 64  # binary digits of a threshold
PLACE_BITS = 7  # binary digits of a place in the table
PLACES = 1 << PLACE_BITS


@dataclass(frozen=True)
class AliasTable:
    """A number below 2^7: with a uniform place and a uniform word r it is the place if r + thresholds[place] >= 2^64,
    else aliases[place].

    Formal guarantee: its probabilities are whole multiples of 2^-71, and that of each number but 0 is within 2^-72 of
    what its maker asked for. So the total variation between the two laws is below 2^-65.
    """

    thresholds: tuple[int, ...]
    aliases: tuple[int, ...]

    @classmethod
    def from_chances(cls, chances: Sequence[Decimal]) -> "AliasTable":
        """Make the table of numbers 0, 1, ... with these probabilities; 0 takes up what rounding leaves. The
        probabilities need 60 digits (`shared_noise.with_sixty_digits`)."""
        full = 1 << WORD_BITS
        due = [int((chance * PLACES * full).to_integral_value()) for chance in chances]
        due += [0] * (PLACES - len(due))
        due[0] = PLACES * full - sum(due[1:])
        thresholds, aliases = [0] * PLACES, list(range(PLACES))
        small = [place for place in range(PLACES) if due[place] < full]
        large = [place for place in range(PLACES) if due[place] >= full]
        while small:
            place, giver = small.pop(), large[-1]
            thresholds[place], aliases[place] = due[place], giver
            due[giver] -= full - due[place]
            if due[giver] < full:
                small.append(large.pop())
        return cls(tuple(thresholds), tuple(aliases))  # a place that is still full is its own alias

    def numbers(self, places: Integers, words: Words) -> Integers:
        """Return the numbers that follow from places and words."""
        thresholds = np.array(self.thresholds, dtype=np.uint64)[places]
        accepted = words > ~thresholds  # r + t >= 2^64
        return np.where(accepted, places, np.array(self.aliases)[places])
