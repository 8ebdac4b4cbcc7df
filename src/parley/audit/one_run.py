"""How large epsilon is at least, from one run: many coins at once (Steinke, Nasr and Jagielski 2023), in pairs.

A table has m places, and at each of them one of two records stands, by a fair coin of its own. Whoever has seen
everything that was released guesses some of the coins. If too many guesses are right, the release told too much.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.audit.black_box import check_confidence
from parley.audit.distinguishing import rates
from parley.errors import SettingError
from parley.privacy.events import Adjacency
from parley.validate import Floats, whole

Coins = NDArray[np.int64]  # of each place, -1 or 1: which of its two records stands there; as a guess, 0: none

GUESSED = 0.5  # share of the places whose coins are guessed: those of which the answers say most


def one_run_bound(correct: int, guesses: int, places: int, delta: float = 0.0, confidence: float = 0.99) -> float:
    """The largest epsilon that so many correct guesses prove, at `delta`; 0 where nothing is proved.

    Formal guarantee: let S be m = `places` independent fair coins, T in {-1, 0, 1}^m any function of what an
    (eps, delta)-DP release says (replace-one) about the table in which coin i says which of two given records stands at
    place i. The result exceeds eps with probability at most 1 - confidence. How many guesses are made (T_i is not 0)
    may depend on what was seen.

    Proof. Let q = e^eps/(1 + e^eps).
    1. Flipping coin i replaces one record, so given all other coins the two laws of T, for S_i = 1 and S_i = -1, are
       (eps, delta)-close. So are their mixtures P_1 and P_-1 over the coins after i, given those before.
    2. Given the coins before i, T has the law (P_1 + P_-1)/2, and S_i = b has the probability
       p_b(t) = P_b(t)/(P_1(t) + P_-1(t)) given T = t. It exceeds q on average by
       E max(p_b(T) - q, 0) = sum over t of max(P_b(t) - q (P_1(t) + P_-1(t)), 0)/2
                            = (1 - q) sum over t of max(P_b(t) - e^eps P_-b(t), 0)/2 <= (1 - q) delta/2 <= delta/4.
       For the guess b = T_i this is at most the sum over both b, delta/2; without a guess there is none.
    3. Given T, draw coin after coin by independent uniform U_i: the guess at place i is right where U_i < p_i. Let B
       count the guesses with U_i < q and N those with q <= U_i < p_i. Right guesses are at most B + N. Given T, B is
       Binomial(r, q) for r guesses, and by 2. N is at most m delta/2 on average. So by Markov's inequality N > j has a
       probability of at most m delta/(2 (j + 1)).
    4. j (`free_guesses`) depends on m, delta and the confidence alone, on nothing that was seen. Unless N > j, right
       guesses less j are at most B, and the bound grows with them. So whatever r is, the one-sided Clopper-Pearson
       bound on q at `correct` - j that fails with 1 - confidence - m delta/(2 (j + 1)) exceeds q with probability at
       most 1 - confidence, and eps is q's log odds.

    >>> one_run_bound(50, 100, 200), round(one_run_bound(100, 100, 200), 2)
    (0.0, 3.05)
    >>> round(one_run_bound(6000, 6000, 12_000, delta=1e-5), 2)
    5.57
    """
    guesses, places = whole(guesses, "guesses", least=0), whole(places, "places")
    correct = whole(correct, "correct", least=0)
    check_confidence(delta, confidence)
    if not correct <= guesses <= places:
        raise SettingError(
            f"correct, guesses, places: expected numbers that do not fall, got {correct}, {guesses}, {places}"
        )
    free = free_guesses(places, delta, confidence)
    miss = 1 - confidence - places * delta / (2 * (free + 1))
    if not correct > free:
        return 0.0
    least = float(rates(correct - free, guesses, miss)[0]) * (1 - 1e-9)  # it comes from an iteration
    return max(math.log(least / (1 - least)), 0.0) if least > 0 else 0.0


def free_guesses(places: int, delta: float, confidence: float) -> int:
    """How many right guesses delta may have given away, but for half of 1 - confidence at most: the fewest j with
    places delta/(2 (j + 1)) <= (1 - confidence)/2.

    >>> free_guesses(200, 1e-6, 0.99), free_guesses(12_000, 1e-5, 0.99)
    (0, 11)
    """
    return max(math.ceil(places * delta / (1 - confidence)) - 1, 0)


def flipped(places: int, rng: np.random.Generator) -> Coins:
    """A fair coin for each place [places]."""
    return rng.choice(np.array([-1, 1], dtype=np.int64), size=places)


def guessed(scores: Floats, share: float = GUESSED) -> Coins:
    """The coins [places] that scores speak for, of those places whose scores are largest in size; 0 elsewhere.

    >>> guessed(np.array([3.0, -2.0, 0.1, -0.2])).tolist()
    [1, -1, 0, 0]
    """
    kept = np.argsort(-np.abs(scores), kind="stable")[: math.ceil(share * len(scores))]
    found = np.zeros(len(scores), dtype=np.int64)
    found[kept] = np.where(scores[kept] >= 0, 1, -1)
    return found


@dataclass(frozen=True)
class Guesses:
    """How many coins were guessed, in all tables together, and how many rightly."""

    places: int
    made: int
    correct: int

    @classmethod
    def of(cls, coins: Coins, scores: Floats) -> "Guesses":
        """Of the coins of all tables, from what was seen of each; those of other tables are coins of other places."""
        found = guessed(scores)
        return cls(len(coins), int(np.count_nonzero(found)), int(np.count_nonzero(found == coins)))

    def bound(self, delta: float, confidence: float) -> float:
        """What they prove (`one_run_bound`)."""
        return one_run_bound(self.correct, self.made, self.places, delta, confidence)

    def to_json(self, owner: str, claimed_epsilon: float, delta: float, confidence: float) -> dict[str, Any]:
        """What an owner claims, and what its coins prove."""
        return {
            "name": owner,
            "claimed_epsilon": claimed_epsilon,
            "delta": delta,
            "adjacency": Adjacency.REPLACE_ONE,
            "lower_bound": self.bound(delta, confidence),
            "confidence": confidence,
            "places": self.places,
            "guesses": self.made,
            "correct": self.correct,
        }
