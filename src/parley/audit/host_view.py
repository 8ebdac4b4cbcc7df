"""What one of three hosts and the learner know together of a sum with one noise for all: can they take it off again?

A host holds two of the three shares of the noise and two of the three keys that it was drawn from; and it may play the
whole protocol through by itself, with a key of its own making for the one that it lacks. The learner has the sum.
Whatever they guess the noise to be, what is left must hide a person as the terms claim.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from parley.audit.distinguishing import best_event
from parley.privacy.mechanisms.random_words import Words
from parley.privacy.mechanisms.recipe import Recipe
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.privacy.sharing import secret_noise
from parley.privacy.sharing.channel import HOSTS, together, wires
from parley.privacy.sharing.party import Party
from parley.privacy.sharing.ring import KEY, Replicated
from parley.protocol.setup import Setup
from parley.validate import Floats, upper

DRAWS = 8192  # numbers of which hits are counted, of each of two answers; as many again choose the event


@dataclass(frozen=True)
class HostVerdict:
    """What a host and the learner were shown to learn of one answer, at least, by the guess that told most."""

    host: str
    guess: str
    claimed_epsilon: float
    delta: float
    lower_bound: float  # infinite where they know the noise
    draws: int

    @property
    def holds(self) -> bool:
        """Whether nothing was found that contradicts the claim."""
        return self.lower_bound <= self.claimed_epsilon

    def to_json(self) -> dict[str, Any]:
        """The object that `parley audit --json` prints of a host."""
        bound = self.lower_bound if math.isfinite(self.lower_bound) else None
        return {**vars(self), "lower_bound": bound, "holds": self.holds}


def audit_hosts(
    setup: Setup, name: str, confidence: float = 0.99, draws: int = DRAWS, seed: int | None = None
) -> list[HostVerdict]:
    """What each host and the learner learn of this owner's first answer; none where each owner draws its own noise.

    The two answers differ in one number, by all that one person moves a sum.

    Formal guarantee: as for `Event.bound`, for all hosts and all their guesses together.
    """
    stage = setup.part(name).training
    noise = stage.series.mechanism
    if not isinstance(noise, SharedNoise):
        return []
    claimed, delta = upper(stage.series.spent_after(1)), float(setup.terms.privacy.delta)
    rng = np.random.default_rng(seed)  # keys of an audit hide nobody
    keys = [rng.bytes(KEY) for _ in range(HOSTS)]
    shares = draw_together(noise.recipe, keys, 4 * draws)
    verdicts = []
    for host, called in enumerate(setup.terms.hosts):
        guesses = guessed(noise.recipe, keys, host, shares[host], rng.bytes(KEY))
        each = 1 - (1 - confidence) / (HOSTS * len(guesses))
        bounds = {
            guess: _bound(_opened(shares) - words, noise.moved, delta, each, draws) for guess, words in guesses.items()
        }
        best = max(bounds, key=bounds.__getitem__)
        verdicts.append(HostVerdict(called.name, best, claimed, delta, bounds[best], draws))
    return verdicts


def guessed(recipe: Recipe, keys: list[bytes], host: int, own: Replicated, made_up: bytes) -> dict[str, Words]:
    """What a host may take the noise to be, by what it holds and a key that it makes up."""
    lacking = (host + 2) % HOSTS
    imagined = [made_up if place == lacking else key for place, key in enumerate(keys)]
    return {
        "nothing": np.zeros_like(own.first),
        "its first share": own.first,
        "its second share": own.second,
        "both of its shares": own.first + own.second,
        "what the protocol gives with a key of its own": _opened(draw_together(recipe, imagined, own.first.size)),
    }


def draw_together(recipe: Recipe, keys: list[bytes], size: int) -> tuple[Replicated, ...]:
    """The shares that the three hosts hold of so many numbers, drawn from these keys."""
    ends = wires()
    parties = [Party(end, (keys[end.index], keys[(end.index + 1) % HOSTS])) for end in ends]
    return together(*(partial(secret_noise.draw, party, recipe, size) for party in parties), wires=ends)


def _opened(shares: tuple[Replicated, ...]) -> Words:
    return np.asarray(shares[0].first + shares[1].first + shares[2].first)


def _bound(left: Words, moved: float, delta: float, confidence: float, draws: int) -> float:
    """What `left`, four times as many numbers, proves about answers 0 and `moved`."""
    if not left.any():
        return math.inf
    values: Floats = left.view(np.int64).astype(np.float64).reshape(4, draws)
    values[1::2] += moved
    event = best_event(values[0], values[1], delta, confidence)
    return event.bound(event.hits(values[2]), event.hits(values[3]), draws, delta, confidence)
