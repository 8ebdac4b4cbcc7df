"""P section 4 on MovieLens: alone and together over size ratios (figure 3), beside an unconcerned partner (4), both
concerned (5), table 3.

Figure 3 centres all ratings before they are divided and measures errors of centred ratings, as P does. Figures 4 and 5
take means of the ratings that are learned from, as the owners release them (held-out ratings would tell of themselves
otherwise), and measure errors of the ratings themselves: noisy means would be judged by themselves otherwise.

Two comparisons stand side by side. P's own: figure 3 against the model before any learning, item mean plus user mean
(`over_means`); figures 4 and 5 against P's own descent without the partner (`as_printed`). Ours (`improvement`):
against the best that an owner's own ratings give, without noise, by any method that is tried together; together it has
the better of items as they were learned and of its users solved again. So no gain of ours is that of a better method.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from parley.errors import SettingError
from parley.privacy.events import Adjacency
from parley.privacy.mechanisms import FastNoise
from parley.tasks.ratings.factorization import Factorization, Order, Player, factorize
from parley.tasks.ratings.rating_noise import (
    Claim,
    RatingMechanism,
    Thinning,
    bounded,
    claim,
    expected_ratings,
    hide,
    published_noise,
    published_scale,
    require_memory,
    unbounded,
)
from parley.tasks.ratings.table import Ratings, centre
from parley_lab.papers.pejo2018.divided_ratings import (
    RATING_SCALE,
    Division,
    Measured,
    alone,
    gains,
    item_vectors,
    make_division,
    prediction_error,
    solved_errors,
    summary,
    union,
)
from parley_lab.papers.pejo2018.released_updates import Contribution, learned_from

Mechanism = RatingMechanism | Literal["updates"]
HIDDEN_UNIT: dict[Mechanism, str] = {  # what is hidden
    "hide": "nothing that is kept",
    "bounded": "a rating's value",
    "unbounded": "a rating",
    "bounded-published": "a rating's value",
    "unbounded-published": "a rating",
    "updates": "a user",
}
ADJACENCY: dict[Mechanism, Adjacency | None] = {  # of what is hidden: P calls them bounded and unbounded
    "hide": None,
    "bounded": Adjacency.REPLACE_ONE,
    "unbounded": Adjacency.ADD_OR_REMOVE_ONE,
    "bounded-published": Adjacency.REPLACE_ONE,
    "unbounded-published": Adjacency.ADD_OR_REMOVE_ONE,
    "updates": Adjacency.REPLACE_ONE,
}
SIZE_RATIOS = ((1, 9), (1, 4), (1, 2), (1, 1))
PRIVACY_LEVELS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)  # P's p; eps = 1/p - 1
PAIR_LEVELS = (0.0, 0.2, 0.4, 0.6)
NETFLIX_COUNTS = {"ratings": 10_033_823, "users": 46_462, "items": 16_395}  # P table 2
TABLE_3 = {9.0: 1, 2.33: 24, 1.0: 45, 0.53: 42, 0.11: 23}  # eps: by how much NF10 grows
HALF_RANGE = 2.0


@dataclass(frozen=True)
class Choice:
    """An owner's mechanism and P's parameter of it: the share hidden, or 1/(1 + eps); 0 is no privacy."""

    mechanism: Mechanism = "hide"
    p: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.p < 1:
            raise SettingError(f"p = {self.p}: expected a number from 0 to below 1")

    @property
    def epsilon(self) -> float:
        """The epsilon that the mechanism names; infinite without privacy."""
        return 1 / self.p - 1 if self.p > 0 else float("inf")


def chosen_mechanisms(names: Sequence[str] | None) -> list[Mechanism]:
    """The mechanisms of these names, or all of them; an unknown name is refused."""
    chosen = [known for known in HIDDEN_UNIT if not names or known in names]
    if names and len(chosen) < len(set(names)):
        raise SettingError(f"mechanism: expected some of {', '.join(HIDDEN_UNIT)}")
    return chosen


@dataclass(frozen=True)
class Together:
    """Every owner's error; and if it solves its users' factors from their own ratings in the end, which stay with it.
    None in figure 3."""

    errors: list[float]
    solved: list[float] | None

    @property
    def best(self) -> list[float]:
        """The better of the two, for every owner: nobody else is touched by which one it takes."""
        return [min(pair) for pair in zip(self.errors, self.solved or self.errors, strict=True)]


def together(
    division: Division,
    choices: Sequence[Choice],
    rule: Factorization,
    seed: int,
    order: Order = "in-turn",
    memory: float = 2e9,
) -> Together:
    """Owners learn together from what the mechanisms leave of their ratings, or from released updates."""
    if any(choice.mechanism == "updates" for choice in choices):
        return by_updates(division, choices, seed, memory=memory)
    sources = [np.random.default_rng([seed, owner]) for owner in range(len(choices))]
    raw = [_raw(train, c, rng, memory) for train, c, rng in zip(division.trains, choices, sources, strict=True)]
    centred = division.centred or centre(union(raw))
    parts = [part.with_values(centred.residuals_of(part)) for part in raw]
    noisy = [_residuals(part, c, rule, rng, memory) for part, c, rng in zip(parts, choices, sources, strict=True)]
    joint = factorize(noisy, rule, seed, order)
    judged: list[tuple[Player, Ratings]] = list(zip(joint.players, division.tests, strict=True))
    errors = [prediction_error(division, test, centred, player.predicted(joint.items, test)) for player, test in judged]
    if division.centred is not None:
        return Together(errors, None)
    return Together(errors, solved_errors(item_vectors(centred, joint.items), division))


def by_updates(
    division: Division, choices: Sequence[Choice], seed: int, strides: Sequence[int] = (1, 1), memory: float = 2e9
) -> Together:
    """Owners answer with updates. One of mechanism "updates" puts noise on them; of another it answers from ratings
    that carry theirs.

    One without privacy has noise that is not heard. Whoever answers in every `stride`-th round has noise for as many
    answers only.
    """
    parts = enumerate(zip(division.trains, choices, strides, strict=True))
    owners = [_contribution(train, choice, stride, [seed, place], memory) for place, (train, choice, stride) in parts]
    errors = solved_errors(learned_from(owners, seed), division)
    return Together(errors, errors)


def _contribution(train: Ratings, choice: Choice, stride: int, seed: list[int], memory: float) -> Contribution:
    if choice.p == 0:
        return Contribution(train, stride=stride)
    if choice.mechanism == "updates":
        return Contribution(train, choice.epsilon, stride)
    if choice.mechanism.endswith("published"):
        raise SettingError(
            f"mechanism = {choice.mechanism!r}: it puts noise on centred ratings, of which updates know nothing"
        )
    variance = 0.0 if choice.mechanism == "hide" else 2 * (RATING_SCALE.range / choice.epsilon) ** 2
    return Contribution(_raw(train, choice, np.random.default_rng(seed), memory), stride=stride, variance=variance)


def size_ratios(
    ratings: Ratings, splits: int, rule: Factorization, progress: Callable[[int, int], None], order: Order = "in-turn"
) -> list[dict[str, object]]:
    """Figure 3: both players at every ratio of their numbers of users; player 1 is the smaller one."""
    points = []
    for done, ratio in enumerate(SIZE_RATIOS):
        runs: list[list[Measured]] = []
        for split in range(splits):
            progress(done * splits + split, len(SIZE_RATIOS) * splits)
            division = make_division(ratings, ratio, split, all_means=True)
            both = together(division, [Choice()] * 2, rule, split, order).errors
            runs.append(
                [
                    Measured(own.means, own.best, joint)
                    for own, joint in zip(alone(division, rule, split), both, strict=True)
                ]
            )
        for player in range(2):
            own = [run[player] for run in runs]
            over_means = gains("over_means", [one.baseline for one in own], [one.together for one in own])
            named = {"ratio": f"{ratio[0]}:{ratio[1]}", "player": player + 1}
            points.append({**named, **summary(own), **over_means})
    return points


def privacy_curves(
    ratings: Ratings,
    mechanisms: Sequence[Mechanism],
    splits: int,
    rule: Factorization,
    progress: Callable[[int, int], None],
    both: bool = False,
    memory: float = 2e9,
) -> list[dict[str, object]]:
    """Figure 4: what privacy costs the smaller owner of 1:4 whose partner has none. Figure 5 (`both`): two alike, each
    with its own p.

    Of two alike both are measured in either role: their users differ, and a role that only one of them had would show
    that, too.
    """
    shares, players = ((1, 1), (0, 1)) if both else ((1, 4), (0,))
    pairs = [(a, b) for a in PAIR_LEVELS for b in PAIR_LEVELS] if both else [(p, 0.0) for p in PRIVACY_LEVELS]
    cases = [(m, pair) for m in mechanisms for pair in pairs]
    divisions = [make_division(ratings, shares, split) for split in range(splits)]
    for mechanism, pair in cases:
        for train, p in zip(divisions[0].trains, pair, strict=True):
            _require_memory(train, Choice(mechanism, p), rule, memory)
    alone_results = [alone(division, rule, split) for split, division in enumerate(divisions)]
    points = []
    for done, (mechanism, pair) in enumerate(cases):
        found = []
        for split, division in enumerate(divisions):
            progress(done * splits + split, len(cases) * splits)
            found.append(together(division, [Choice(mechanism, p) for p in pair], rule, split, memory=memory))
        for player in players:
            p, other = pair[player], pair[1 - player]
            says = _claim(mechanism, 1 / p - 1, rule) if p else None
            facts: dict[str, Any] = {
                "mechanism": mechanism,
                "hides": HIDDEN_UNIT[mechanism],
                "adjacency": ADJACENCY[mechanism],
            }
            facts |= {"p": p, "p_other": other, "player": player + 1}
            named = {
                "ratio": f"{shares[0]}:{shares[1]}",
                "epsilon_named": says and says.named,
                "epsilon": says and says.real,
            }
            runs = [
                Measured(own[player].means, own[player].best, one.best[player])
                for own, one in zip(alone_results, found, strict=True)
            ]
            ways = {
                "alone_by": {
                    way: float(np.mean([own[player].by[way] for own in alone_results]))
                    for way in alone_results[0][player].by
                },
                "together_walked": float(np.mean([one.errors[player] for one in found])),
                "together_solved": float(np.mean([(one.solved or one.errors)[player] for one in found])),
            }
            printed = gains(
                "as_printed",
                [own[player].by["walked"] for own in alone_results],
                [one.errors[player] for one in found],
            )
            points.append({**facts, **named, **summary(runs), **ways, **printed})
    return points


def expansion(counts: dict[str, int], rule: Factorization, thinning: Thinning = Thinning()) -> list[dict[str, Any]]:  # noqa: B008 - frozen
    """Table 3: by how much unbounded DP inflates a matrix of these counts; P's is NF10 by the published scale."""
    rows = []
    for epsilon, printed in TABLE_3.items():
        scales = {
            "published_scale": published_scale(epsilon, rule, RATING_SCALE),
            "sound": RATING_SCALE.range / epsilon,
        }
        own = {
            name: expected_ratings(counts["users"], counts["items"], b, HALF_RANGE, thinning) / counts["ratings"]
            for name, b in scales.items()
        }
        netflix = (
            expected_ratings(
                NETFLIX_COUNTS["users"], NETFLIX_COUNTS["items"], scales["published_scale"], HALF_RANGE, thinning
            )
            / NETFLIX_COUNTS["ratings"]
        )
        rows.append(
            {
                "epsilon": epsilon,
                "adjacency": ADJACENCY["unbounded"],
                "netflix_printed": printed,
                "netflix": netflix,
                **own,
            }
        )
    return rows


def _claim(mechanism: Mechanism, epsilon: float, rule: Factorization) -> Claim:
    """What a point of the figures gives. As published, means of both owners' raw ratings centre everybody's: one rating
    moves residuals of the partner, who may add less noise or none, so that no epsilon holds, though noise of that scale
    would give some to an owner alone."""
    if mechanism == "updates":
        return Claim(epsilon, epsilon)
    says = claim(mechanism, epsilon, rule, RATING_SCALE)
    return Claim(says.named, None) if mechanism.endswith("published") else says


def _raw(train: Ratings, choice: Choice, rng: np.random.Generator, memory: float) -> Ratings:
    """Raw ratings as an owner lets them out of its hands; the published mechanisms act later."""
    if choice.p == 0 or choice.mechanism.endswith("published"):
        return train
    if choice.mechanism == "hide":
        return hide(train, choice.p, rng)
    noise = FastNoise(int(rng.integers(2**62)))
    if choice.mechanism == "bounded":
        return bounded(train, choice.epsilon, RATING_SCALE, noise)
    return unbounded(
        train, np.unique(train.users).astype(np.int64), choice.epsilon, RATING_SCALE, noise, rng, memory=memory
    )


def _residuals(part: Ratings, choice: Choice, rule: Factorization, rng: np.random.Generator, memory: float) -> Ratings:
    """Centred ratings as they are learned from."""
    if choice.p == 0 or not choice.mechanism.endswith("published"):
        return part
    scale, users = published_scale(choice.epsilon, rule, RATING_SCALE), None
    if choice.mechanism == "unbounded-published":
        users = np.unique(part.users).astype(np.int64)
        require_memory(len(users), len(part.item_names), scale, HALF_RANGE, Thinning(), memory)
    return published_noise(part, users, scale, rng, Thinning())


def _require_memory(train: Ratings, choice: Choice, rule: Factorization, memory: float) -> None:
    """Refuse unbounded DP that would blow up before anything is learned, not only when its turn comes."""
    if choice.p > 0 and choice.mechanism.startswith("unbounded"):
        sound = choice.mechanism == "unbounded"
        noise_scale = (
            RATING_SCALE.range / choice.epsilon if sound else published_scale(choice.epsilon, rule, RATING_SCALE)
        )
        require_memory(len(np.unique(train.users)), len(train.item_names), noise_scale, HALF_RANGE, Thinning(), memory)
