"""Mechanisms for a count as finite channels, in exact fractions: what is answered with which probability, and how often
a reader who guesses well is right (T section 2.4).

A channel is a row of probabilities for every true answer; all are private for neighbouring counts, q = e^-eps being the
least ratio of their probabilities.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

Channel: TypeAlias = Sequence[Sequence[Fraction]]  # [true answers][reported ones]
Prior: TypeAlias = Sequence[Fraction]  # of the true answer
Remap: TypeAlias = Sequence[int]  # the guess for every reported answer


def truncated_geometric(records: int, q: Fraction) -> Channel:
    """Two-sided geometric noise on a count, cut to {0..n}: what is beyond an end is reported as that end.

    Formal guarantee: -ln q, for cutting follows the noise.

    >>> [str(p) for p in truncated_geometric(2, Fraction(1, 2))[0]]
    ['2/3', '1/6', '1/6']
    """
    ends = (0, records)
    return [
        [q ** abs(y - z) * (1 if z in ends else 1 - q) / (1 + q) for z in range(records + 1)]
        for y in range(records + 1)
    ]


def response_channel(cells: int, truthful: Fraction) -> Channel:
    """Randomised response among so many names, each meant with probability `truthful`, else any of them."""
    other = (1 - truthful) / cells
    return [[other + (truthful if y == z else 0) for z in range(cells)] for y in range(cells)]


def uniform_prior(answers: int) -> Prior:
    """Every answer alike."""
    return [Fraction(1, answers)] * answers


def best_remap(channel: Channel, prior: Prior) -> Remap:
    """The likeliest true answer for every reported one, the smallest of several: what a reader makes of it, for free
    (post-processing)."""
    answers = range(len(channel))
    return [max(answers, key=lambda y: (prior[y] * channel[y][z], -y)) for z in range(len(channel[0]))]


def chance_right(channel: Channel, prior: Prior, remap: Remap | None = None) -> Fraction:
    """How often a reader is right that guesses so (T's utility with binary gain); without a remap: by the reported
    answer itself."""
    guesses = range(len(channel[0])) if remap is None else remap
    return sum(
        (prior[guess] * channel[guess][z] for z, guess in enumerate(guesses) if guess < len(channel)), Fraction(0)
    )


def worst_ratio(channel: Channel, neighbours: Sequence[tuple[int, int]]) -> Fraction:
    """The largest ratio of probabilities of one report at two neighbouring true answers: e^eps, exactly."""
    pairs = [*neighbours, *((b, a) for a, b in neighbours)]
    return max(channel[a][z] / channel[b][z] for a, b in pairs for z in range(len(channel[0])))
