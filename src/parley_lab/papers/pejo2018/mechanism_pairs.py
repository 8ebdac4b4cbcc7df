"""A different mechanism for each player: gains at every pair of strategies (mechanism, p), and which mechanism answers
which best.

All learn from updates here. An owner either puts noise on its updates (and hides a user) or on its ratings, and answers
from those (and hides a rating's value); the learner knows how noisy each is. P's cost of privacy is that of p alone,
whatever is hidden.
"""

from collections.abc import Callable, Sequence
from typing import Any

from parley.errors import SettingError
from parley.tasks.ratings.factorization import Factorization
from parley.tasks.ratings.table import Ratings
from parley_lab.papers.pejo2018.divided_ratings import Repeats, make_division, ticks
from parley_lab.papers.pejo2018.games.gain_sample import GainSample
from parley_lab.papers.pejo2018.games.gain_table import GainTable, Pair, best_responses, dominant, equilibrium
from parley_lab.papers.pejo2018.measured_game import CONCERNS, price_spread, share
from parley_lab.papers.pejo2018.measurements import ADJACENCY, HIDDEN_UNIT, Choice, Mechanism, by_updates

DEFAULT_MECHANISMS: tuple[Mechanism, ...] = ("bounded", "updates")
PRIVACY_LEVELS = (0.0, 0.2, 0.6)  # pairs grow with the square of strategies


def strategies(mechanisms: Sequence[Mechanism], levels: Sequence[float] = PRIVACY_LEVELS) -> list[Choice]:
    """No privacy, and each mechanism at every other p."""
    if len(mechanisms) < 2 or any(one.endswith("published") for one in mechanisms):
        raise SettingError("--mechanism: expected two or more of hide, bounded, unbounded, updates, to tell between")
    return [Choice("updates", 0.0), *(Choice(one, p) for p in levels if p > 0 for one in mechanisms)]


def called(choice: Choice) -> str:
    """A strategy's name.

    >>> called(Choice("bounded", 0.2)), called(Choice("hide", 0.5)), called(Choice("updates", 0.0))
    ('bounded, ε = 4', 'hide 0.5', 'no privacy')
    """
    if choice.p == 0:
        return "no privacy"
    return f"hide {choice.p:g}" if choice.mechanism == "hide" else f"{choice.mechanism}, ε = {choice.epsilon:.3g}"


def mechanism_pairs(
    ratings: Ratings,
    chosen: Sequence[Choice],
    splits: int,
    rule: Factorization,
    progress: Callable[[int, int], None],
    memory: float = 2e9,
) -> list[dict[str, Any]]:
    """Two owners alike at every pair of strategies, each in either role: what either gains over learning alone, in
    percent."""
    repeats = Repeats([make_division(ratings, (1, 1), split) for split in range(splits)], rule)
    pairs = [(a, b) for a in chosen for b in chosen]
    tick, points = ticks(progress, len(pairs) * splits), []
    for pair in pairs:
        found = repeats.measure(lambda division, split: by_updates(division, pair, split, memory=memory).errors, tick)  # noqa: B023
        for player, own, other in ((0, *pair), (1, *pair[::-1])):
            facts = {
                "strategy": called(own),
                "other": called(other),
                "mechanism": own.mechanism if own.p else None,
                "p": own.p,
            }
            facts |= {
                "p_other": other.p,
                "hides": HIDDEN_UNIT[own.mechanism] if own.p else "nothing",
                "player": player + 1,
            }
            facts |= {"adjacency": ADJACENCY[own.mechanism] if own.p else None}
            points.append({**facts, **found[player]})
    return points


def mechanism_games(
    points: Sequence[dict[str, Any]], concerns: Sequence[Pair] = CONCERNS, resamples: int = 20, seed: int = 0
) -> list[dict[str, Any]]:
    """For each concern: the equilibrium over mechanisms and p, each player's best answers, and a strategy that is
    always best."""
    sample = GainSample.of(
        [((one["strategy"], one["p"]), (one["other"], one["p_other"]), one["improvements"]) for one in points]
    )
    table, drawn = sample.table(), sample.drawn(resamples, seed)
    return [_game(table, drawn, concern) for concern in concerns]


def _game(table: GainTable, drawn: Sequence[GainTable], concern: Pair) -> dict[str, Any]:
    found, again = equilibrium(table, concern), [equilibrium(one, concern) for one in drawn]
    answers = [dict(zip(table.names[1 - n], best_responses(table, n, c), strict=True)) for n, c in enumerate(concern)]
    return {
        "concern": list(concern),
        "strategies": list(found.names),
        "privacy": list(found.privacy),
        "payoff": list(found.payoff),
        "price": found.price,
        "price_spread": price_spread(found.price, [one.price for one in again]),
        "same": share([one.names == found.names for one in again]),
        "best_answers": answers,
        "always_best": [dominant(table, n, c) for n, c in enumerate(concern)],
    }
