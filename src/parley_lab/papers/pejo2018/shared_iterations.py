"""Sharing only some iterations: what it costs, what it saves, and the game in which each player names p and how often
it answers.

As P learns (in turn, from ratings) the last passes are made at home: fewer messages, and no less privacy lost, since
noisy ratings are paid for once. Released updates are paid for by answer: whoever answers in every fourth round only has
less noise on each answer for the same epsilon, and says less. Each player chooses for itself (`owners[].stride` in
terms); the other goes on in between.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from parley.privacy.accounting import exact, make_series
from parley.tasks.ratings.factorization import Factorization, factorize
from parley.tasks.ratings.table import Ratings, centre
from parley.tasks.ratings.terms import DEFAULT_ROUNDS
from parley_lab.papers.pejo2018.divided_ratings import (
    Division,
    Repeats,
    item_vectors,
    make_division,
    prediction_error,
    solved_error,
    ticks,
)
from parley_lab.papers.pejo2018.games.gain_sample import GainSample
from parley_lab.papers.pejo2018.games.gain_table import Pair, equilibrium
from parley_lab.papers.pejo2018.measured_game import CONCERNS, price_spread, share
from parley_lab.papers.pejo2018.measurements import ADJACENCY, Choice, by_updates
from parley_lab.papers.pejo2018.released_updates import DELTA

PASS_COUNTS = (1, 2, 5, 10, 20)
STRIDES = (1, 4)
PRIVACY_LEVELS = (0.0, 0.2, 0.6)
NUMBER_BYTES = 8  # bytes

Report = Callable[[int, int], None]


def passes_in_turn(
    ratings: Ratings, splits: int, rule: Factorization, progress: Report, passes: Sequence[int] = PASS_COUNTS
) -> list[dict[str, Any]]:
    """P's learning, without privacy, of two alike that share the first passes only; with what they send."""
    repeats = Repeats([make_division(ratings, (1, 1), split) for split in range(splits)], rule)
    size, tick, points = (
        len(ratings.item_names) * rule.factors * NUMBER_BYTES,
        ticks(progress, len(passes) * splits),
        [],
    )
    for shared in passes:
        found = repeats.measure(lambda division, split: _in_turn(division, rule, split, shared), tick)  # noqa: B023
        points += [{"iterations": shared, "player": n + 1, "sent": shared * size, **one} for n, one in enumerate(found)]
    return points


def _in_turn(division: Division, rule: Factorization, seed: int, shared: int) -> list[float]:
    centred = centre(division.everything)
    joint = factorize(
        [train.with_values(centred.residuals_of(train)) for train in division.trains], rule, seed, shared=shared
    )
    judged = zip(joint.players, joint.own_items, division.trains, division.tests, strict=True)
    return [
        min(
            prediction_error(division, test, centred, player.predicted(Q, test)),
            solved_error(item_vectors(centred, Q), train, test),
        )
        for player, Q, train, test in judged
    ]


def updates_at_strides(
    ratings: Ratings,
    splits: int,
    rule: Factorization,
    progress: Report,
    strides: Sequence[int] = STRIDES,
    levels: Sequence[float] = PRIVACY_LEVELS,
) -> list[dict[str, Any]]:
    """Released updates of two alike at every pair of (p, stride), the noise of each calibrated for its own number of
    answers."""
    repeats = Repeats([make_division(ratings, (1, 1), split) for split in range(splits)], rule)
    ways = [(p, stride) for p in levels for stride in strides]
    pairs = [(a, b) for a in ways for b in ways]
    tick, points = ticks(progress, len(pairs) * splits), []
    for pair in pairs:
        found = repeats.measure(partial(_by_updates, pair), tick)
        for player, own, other in ((0, *pair), (1, *pair[::-1])):
            facts = {
                "p": own[0],
                "p_other": other[0],
                "iterations": _answers(own[1]),
                "iterations_other": _answers(other[1]),
            }
            budget = {"epsilon": 1 / own[0] - 1 if own[0] else None, "stopped": spent_by(*own) if own[0] else None}
            about = {"adjacency": ADJACENCY["updates"] if own[0] else None, "player": player + 1}
            points.append({**facts, **about, **budget, **found[player]})
    return points


def _by_updates(pair: Sequence[tuple[float, int]], division: Division, split: int) -> list[float]:
    return by_updates(division, [Choice("updates", p) for p, _ in pair], split, [stride for _, stride in pair]).errors


def _answers(stride: int) -> int:
    """In how many of all rounds one answers."""
    return -(-DEFAULT_ROUNDS // stride)


def spent_by(p: float, stride: int) -> float:
    """The epsilon that so many answers cost of noise that was calibrated for an answer in every round."""
    series = make_series("gaussian", exact(1 / p - 1), exact(DELTA), DEFAULT_ROUNDS, 1.0)
    return float(series.spent_after(_answers(stride)))


def iteration_games(
    points: Sequence[dict[str, Any]], concerns: Sequence[Pair] = CONCERNS, resamples: int = 20, seed: int = 0
) -> list[dict[str, Any]]:
    """For each concern: the equilibrium of the game in which each names p and how often it answers, and that with all
    answers."""
    max_iterations = max(one["iterations"] for one in points)
    sample = GainSample.of(
        [
            (
                _called(one["p"], one["iterations"]),
                _called(one["p_other"], one["iterations_other"]),
                one["improvements"],
            )
            for one in points
        ]
    )
    every = GainSample.of_points(
        [one for one in points if min(one["iterations"], one["iterations_other"]) == max_iterations]
    ).table()
    table, drawn, games = sample.table(), sample.drawn(resamples, seed), []
    for concern in concerns:
        found, again = equilibrium(table, concern), [equilibrium(one, concern) for one in drawn]
        all_of_them = equilibrium(every, concern)
        games.append(
            {
                "concern": list(concern),
                "strategies": list(found.names),
                "payoff": list(found.payoff),
                "price": found.price,
                "price_spread": price_spread(found.price, [one.price for one in again]),
                "same": share([one.names == found.names for one in again]),
                "all_iterations": {"privacy": list(all_of_them.privacy), "payoff": list(all_of_them.payoff)},
            }
        )
    return games


def _called(p: float, iterations: int) -> tuple[str, float]:
    noise = "no noise" if p == 0 else f"ε = {np.round(1 / p - 1, 2):g}"
    return f"{noise}, {iterations} iterations", p
