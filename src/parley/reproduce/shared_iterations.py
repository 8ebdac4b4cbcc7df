"""Sharing only some iterations: what it costs, what it saves, and the game in which each player names p and a number of iterations.

As P learns (in turn, from ratings) the last passes are made at home: fewer messages, and no less privacy lost, since noisy ratings are paid
for once. Released updates are paid for by iteration: whoever shares fewer has less noise on each for the same epsilon. The learning goes on
as long as both share, so of two numbers of iterations the smaller counts.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from parley.accounting import exact, make_series
from parley.data.ratings import Ratings, centre
from parley.games.gain_sample import GainSample
from parley.games.gain_table import Pair, equilibrium
from parley.learning.factor_updates import UpdateRule
from parley.learning.joint_factorization import factorize
from parley.objectives.factorization import Factorization
from parley.reproduce.joint_factorization import (
    DELTA,
    Choice,
    Division,
    Repeats,
    by_updates,
    make_division,
    prediction_error,
    ticks,
)
from parley.reproduce.measured_game import CONCERNS, share, spread

PASSES = (1, 2, 5, 10, 20)
ROUNDS = (2, 5, 20)
LEVELS = (0.0, 0.2, 0.6)
NUMBER = 8  # bytes

Report = Callable[[int, int], None]


def passes_in_turn(
    ratings: Ratings, splits: int, rule: Factorization, progress: Report, passes: Sequence[int] = PASSES
) -> list[dict[str, Any]]:
    """P's learning, without privacy, of two alike that share the first passes only; with what they send."""
    repeats = Repeats([make_division(ratings, (1, 1), split) for split in range(splits)], rule)
    size, tick, points = len(ratings.item_names) * rule.factors * NUMBER, ticks(progress, len(passes) * splits), []
    for shared in passes:
        found = repeats.measure(lambda division, split: _in_turn(division, rule, split, shared), tick)  # noqa: B023
        points += [{"iterations": shared, "player": n + 1, "sent": shared * size, **one} for n, one in enumerate(found)]
    return points


def _in_turn(division: Division, rule: Factorization, seed: int, shared: int) -> list[float]:
    centred = centre(division.everything)
    joint = factorize([train.with_values(centred.residuals_of(train)) for train in division.trains], rule, seed, shared=shared)
    judged = zip(joint.players, joint.own_items, division.tests, strict=True)
    return [prediction_error(division, test, centred, player.predicted(Q, test)) for player, Q, test in judged]


def rounds_of_updates(
    ratings: Ratings,
    splits: int,
    rule: Factorization,
    progress: Report,
    rounds: Sequence[int] = ROUNDS,
    levels: Sequence[float] = LEVELS,
) -> list[dict[str, Any]]:
    """Released updates of two alike at every pair of p and every number of iterations, noise calibrated for just so many."""
    repeats = Repeats([make_division(ratings, (1, 1), split) for split in range(splits)], rule)
    cases = [(UpdateRule(rounds=count), (a, b)) for count in rounds for a in levels for b in levels if a <= b]
    tick, points = ticks(progress, len(cases) * splits), []
    for updates, pair in cases:
        chosen = [Choice("updates", p) for p in pair]
        found = repeats.measure(lambda division, split: by_updates(division, chosen, split, updates).errors, tick)  # noqa: B023
        for player, own, other in ((0, *pair), (1, *pair[::-1])):
            spent = spent_by(own, updates.rounds, max(rounds)) if own else None
            facts = {"iterations": updates.rounds, "p": own, "p_other": other, "player": player + 1}
            budget = {"epsilon": 1 / own - 1 if own else None, "stopped": spent}
            points.append({**facts, **budget, **found[player]})
    return points


def spent_by(p: float, answers: int, planned: int) -> float:
    """The epsilon spent by whoever stops after so many answers of a series that was calibrated for `planned` of them."""
    series = make_series("gaussian", exact(1 / p - 1), Fraction(str(DELTA)), planned, 1.0)
    return float(series.spent_after(answers))


def iteration_games(
    points: Sequence[dict[str, Any]], concerns: Sequence[Pair] = CONCERNS, resamples: int = 20, seed: int = 0
) -> list[dict[str, Any]]:
    """For each concern: the equilibrium of the game in which each names p and a number of iterations, and that with all iterations."""
    rounds = sorted({one["iterations"] for one in points})
    measured = [
        (_called(one["p"], own), _called(one["p_other"], other), one["improvements"])
        for one in points
        for own in rounds
        for other in rounds
        if min(own, other) == one["iterations"]
    ]
    sample = GainSample.of(measured)
    whole_run = GainSample.of_points([one for one in points if one["iterations"] == rounds[-1]]).table()
    table, drawn, games = sample.table(), sample.drawn(resamples, seed), []
    for concern in concerns:
        found, again = equilibrium(table, concern), [equilibrium(one, concern) for one in drawn]
        all_of_them = equilibrium(whole_run, concern)
        games.append(
            {
                "concern": list(concern),
                "strategies": list(found.names),
                "payoff": list(found.payoff),
                "price": found.price,
                "price_spread": spread([one.price for one in again]),
                "same": share([one.names == found.names for one in again]),
                "all_iterations": {"privacy": list(all_of_them.privacy), "payoff": list(all_of_them.payoff)},
            }
        )
    return games


def _called(p: float, iterations: int) -> tuple[str, float]:
    noise = "no noise" if p == 0 else f"ε = {np.round(1 / p - 1, 2):g}"
    return f"{noise}, {iterations} iterations", p
