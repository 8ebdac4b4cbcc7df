"""What learning together will be worth, before anybody trains: P's Phi from a small public set of ratings.

Some users of the public set stand for each owner: half of the set for both together, then all of it. Gains over
learning alone are measured there at every pair of p and followed along the learning curve to the owners' own sizes.
Noise on ratings is as it will be. Noise on sums of updates is the same for any number of users, while what they say
adds up; so it is scaled down by the root of the sizes' ratio, which keeps noise to signal as it will be. Measured, it
was little better than the public set's own gains (docs/together_or_alone.md).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.errors import SettingError
from parley.tasks.ratings.factorization import Factorization
from parley.tasks.ratings.table import Ratings, divide, hold_out
from parley_lab.papers.pejo2018.divided_ratings import Division, Repeats, solved_errors, ticks
from parley_lab.papers.pejo2018.games.gain_sample import GainSample
from parley_lab.papers.pejo2018.games.gain_table import Pair, equilibrium
from parley_lab.papers.pejo2018.learning_curve import expect
from parley_lab.papers.pejo2018.measured_game import CONCERNS, by_mechanism
from parley_lab.papers.pejo2018.measurements import PAIR_LEVELS, Choice, Mechanism, together
from parley_lab.papers.pejo2018.released_updates import Contribution, learned_from, quieter

PUBLIC_USERS = 943  # users of the smallest MovieLens set
PUBLIC_DIVISORS = (2, 1)  # of the public set that are used, one in so many


def public_part(ratings: Ratings, users: int = PUBLIC_USERS, seed: int = 0) -> tuple[Ratings, Ratings]:
    """(so many users at random, all others): the first are public, the others are who it is about."""
    rest = len(ratings.user_names) - users
    if not rest >= users >= 32:
        raise SettingError(f"public users = {users}: expected at least 32, and as many others")
    public, private = divide(ratings, [users, rest], np.random.default_rng([seed, users]))
    return public, private


@dataclass(frozen=True)
class _Size:
    users: int  # of each owner
    repeats: Repeats


def forecast_gains(
    public: Ratings,
    users: int,
    mechanisms: Sequence[Mechanism],
    splits: int,
    rule: Factorization,
    progress: Callable[[int, int], None],
    levels: Sequence[float] = PAIR_LEVELS,
) -> list[dict[str, Any]]:
    """What two owners of so many users each will gain, in percent, at every pair of p; as points of figure 5."""
    pairs = [(a, b) for a in levels for b in levels]
    tick = ticks(progress, len(mechanisms) * len(pairs) * len(PUBLIC_DIVISORS) * splits)
    sizes, points = [_size(public, part, splits, rule) for part in PUBLIC_DIVISORS], []
    for mechanism in mechanisms:
        for pair in pairs:
            chosen = [Choice(mechanism, p) for p in pair]
            found = [one.repeats.measure(_errors(chosen, rule, users), tick) for one in sizes]
            for player, own, other in ((0, *pair), (1, *pair[::-1])):
                gains = [[float(g) for g in one[player]["improvements"]] for one in found]  # type: ignore[attr-defined]
                expected = expect([one.users for one in sizes], gains, users)
                at_sizes = [{"users": one.users, "improvements": g} for one, g in zip(sizes, gains, strict=True)]
                facts = {"mechanism": mechanism, "p": own, "p_other": other, "player": player + 1, "public": at_sizes}
                points.append(
                    {
                        **facts,
                        "improvement": expected.gain,
                        "error": expected.error,
                        "unscaled": float(np.mean(gains[-1])),
                    }
                )
    return points


def _size(public: Ratings, part: int, splits: int, rule: Factorization) -> _Size:
    users = len(np.unique(public.users)) // part // 2
    return _Size(users, Repeats([_pseudo_owners(public, users, split) for split in range(splits)], rule))


def _pseudo_owners(public: Ratings, users: int, split: int) -> Division:
    """So many users of the public set for each of two."""
    rng = np.random.default_rng([split, users])
    order = rng.permutation(np.unique(public.users))
    parts = [public.pick(np.isin(public.users, some)) for some in (order[:users], order[users : 2 * users])]
    halves = [hold_out(part, 0.2, rng) for part in parts]
    return Division(tuple(a for a, _ in halves), tuple(b for _, b in halves), None)


def _errors(chosen: Sequence[Choice], rule: Factorization, users: int) -> Callable[[Division, int], Sequence[float]]:
    def errors(division: Division, split: int) -> Sequence[float]:
        if chosen[0].mechanism != "updates":
            return together(division, chosen, rule, split).best
        parts = zip(division.trains, chosen, strict=True)
        return solved_errors(
            learned_from([stands_for(train, choice, users) for train, choice in parts], split), division
        )

    return errors


def stands_for(train: Ratings, choice: Choice, users: int) -> Contribution:
    """Some public users in the place of an owner of so many. Their epsilon means nothing but the noise that belongs to
    them."""
    if choice.p == 0:
        return Contribution(train)
    return Contribution(train, quieter(choice.epsilon, min(len(np.unique(train.users)) / users, 1.0) ** 0.5))


def judge(
    forecast: Sequence[dict[str, Any]], measured: Sequence[dict[str, Any]], concerns: Sequence[Pair] = CONCERNS
) -> list[dict[str, Any]]:
    """For each mechanism: the root mean square error of the forecast in percent of gain, of "as on the public set" and
    of "nothing is gained", how large measurements' own errors are, and whether both lead to the same equilibrium."""
    judged, truth = [], by_mechanism(measured)
    for mechanism, points in by_mechanism(forecast).items():
        known = {(p["p"], p["p_other"], p["player"]): p for p in truth[mechanism]}
        pairs = [(p, known[p["p"], p["p_other"], p["player"]]) for p in points]
        gained = np.array([m["improvement"] for _, m in pairs])
        known_errors = [m["error"] for _, m in pairs if m["error"] is not None]
        tables = [
            GainSample.of_points([{**p, "improvements": [p["improvement"]]} for p in side]).table()
            for side in (points, truth[mechanism])
        ]
        ends = [[equilibrium(table, concern) for table in tables] for concern in concerns]
        judged.append(
            {
                "mechanism": mechanism,
                "error": _rms(gained - [p["improvement"] for p, _ in pairs]),
                "error_unscaled": _rms(gained - [p["unscaled"] for p, _ in pairs]),
                "error_of_nothing": _rms(gained),
                "measured_error": _rms(np.array(known_errors)) if known_errors else None,
                "right_sign": float(np.mean([(p["improvement"] > 0) == (m["improvement"] > 0) for p, m in pairs])),
                "equilibria": [
                    {"concern": list(concern), "forecast": list(a.privacy), "measured": list(b.privacy)}
                    for concern, (a, b) in zip(concerns, ends, strict=True)
                ],
            }
        )
    return judged


def _rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
