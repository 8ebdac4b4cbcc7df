"""What P leaves open, measured: mechanisms that differ, iterations that are not shared, Phi before anybody trains."""

from collections.abc import Sequence

import numpy as np

from parley.tasks.ratings.factorization import Factorization
from parley_lab.papers.document import Parts, Progress, Shown, Titled
from parley_lab.papers.pejo2018 import tables
from parley_lab.papers.pejo2018.gain_forecast import forecast_gains, judge, public_part
from parley_lab.papers.pejo2018.measurements import Mechanism, chosen_mechanisms, privacy_curves
from parley_lab.papers.pejo2018.mechanism_pairs import DEFAULT_MECHANISMS, mechanism_games, mechanism_pairs, strategies
from parley_lab.papers.pejo2018.settings import Settings
from parley_lab.papers.pejo2018.shared_iterations import iteration_games, passes_in_turn, updates_at_strides


def mechanisms(bench: Settings, word: str, progress: Progress) -> Shown:
    """A different mechanism for each player: gains, games and best answers."""
    chosen = strategies(chosen_mechanisms(bench.mechanism) if bench.mechanism else DEFAULT_MECHANISMS)
    points = mechanism_pairs(bench.ratings, chosen, bench.splits, Factorization(), progress, bench.memory)
    found = {"points": points, "games": mechanism_games(points)}
    parts: Parts = [
        Titled("Gain in % by the row's strategy against the column's", tables.mechanism_rows(found["points"])),
        Titled("The game over mechanisms", tables.mechanism_game_rows(found["games"])),
        Titled("Best answers", tables.best_answer_rows(found["games"])),
        "Updates hide a user, bounded noise a rating's value; a cost C/B (1 - p) is the same for both.",
    ]
    return bench.shown({"mechanisms": found}, parts)


def iterations(bench: Settings, word: str, progress: Progress) -> Shown:
    """Sharing only some iterations: as P learns, by released updates, and the game over both p and how often each
    answers."""
    in_turn = passes_in_turn(bench.ratings, bench.splits, Factorization(), progress)
    updates = updates_at_strides(bench.ratings, bench.splits, Factorization(), progress)
    found = {"in_turn": in_turn, "updates": updates, "games": iteration_games(updates)}
    parts: Parts = [
        Titled(
            "As published, without privacy, sharing the first iterations only", tables.in_turn_rows(found["in_turn"])
        ),
        Titled(
            "Released updates, each with noise for as many answers as it gives", tables.update_rows(found["updates"])
        ),
        Titled(
            "The game in which each names its noise and how often it answers",
            tables.iteration_game_rows(found["games"]),
        ),
    ]
    return bench.shown({"iterations": found}, parts)


def forecast(bench: Settings, word: str, progress: Progress) -> Shown:
    """A forecast from so many public users, and what the others measured afterwards."""
    chosen: Sequence[Mechanism] = chosen_mechanisms(bench.mechanism) if bench.mechanism else DEFAULT_MECHANISMS
    public, private = public_part(bench.ratings, bench.public)
    each = len(np.unique(private.users)) // 2
    expected = forecast_gains(public, each, chosen, bench.splits, Factorization(), progress)
    measured = privacy_curves(private, chosen, bench.splits, Factorization(), progress, both=True, memory=bench.memory)
    facts = {"public_users": bench.public, "users_of_each": each}
    judged = judge(expected, measured)
    found = {**facts, "forecast": expected, "points": measured, "judged": judged}
    parts: Parts = [
        "{public_users:,} users are public, the owners have {users_of_each:,} others each".format(**found),
        Titled("What learning together was forecast to be worth, and was", tables.forecast_rows(expected, measured)),
        Titled("How far off, in percent of gain (root mean square)", tables.judged_rows(judged)),
        Titled("The game on the forecast, and on what was measured", tables.judged_game_rows(judged)),
    ]
    return bench.shown({"forecast": found}, parts)
