"""The joint-learning game where each player knows its own concern C/B, and of the other's a public prior: Bayes-Nash
equilibria.

Formal guarantee (steps). A player of concern c that plays strategy i has A_i - c (1 - p_i) q, where q is the
probability that the other takes part and A_i what it gains on average: a straight line in c whose slope grows with p_i,
and staying out is the line 0. So for q > 0 a larger concern never keeps less: every best response is a step function
from concerns to privacy. With finitely many concerns these are finitely many, and all pairs are looked at: no
equilibrium in pure strategies is missed (for q = 0 nobody learns together, whatever the other would have played). That
both stay out is always one, so there is one.
"""

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from parley.errors import NoEquilibriumError, SettingError
from parley.validate import Floats
from parley_lab.papers.pejo2018.games.gain_table import TIE_TOLERANCE, GainTable
from parley_lab.papers.pejo2018.games.prior import Prior

MAX_STEP_FUNCTIONS = 800  # step functions of a player: nine concerns and four strategies

Priors = tuple[Prior, Prior]


@dataclass(frozen=True)
class Steps:
    """What a player of each concern of its prior keeps to itself (1: it stays out) and has of it, and from which
    concern on it would keep more: `switches` holds (concern, p), also for concerns that the prior does not have."""

    concerns: tuple[float, ...]
    privacy: tuple[float, ...]
    payoff: tuple[float, ...]
    switches: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class BayesianOutcome:
    """A Bayes-Nash equilibrium; payoffs and price are expected ones. `together` is the probability that they learn
    together, `count` how many equilibria there are besides staying out (None where not all are looked for)."""

    players: tuple[Steps, Steps]
    payoff: tuple[float, float]
    price: float | None
    together: float
    count: int | None


def bayesian_equilibrium(table: GainTable, priors: Priors, may_stay_out: bool = True) -> BayesianOutcome:
    """The Bayes-Nash equilibrium in step strategies with the largest sum of expected payoffs.

    Without `may_stay_out` nobody has that choice, as in P section 7.3; then there may be none in pure strategies:
    `NoEquilibriumError`.

    >>> table = GainTable.alike([0.0, 0.5], [[3.0, 2.0], [2.8, 1.0]])
    >>> known = bayesian_equilibrium(table, (Prior.point(1.0), Prior.point(0.1)))
    >>> [player.privacy for player in known.players], known.payoff
    ([(0.5,), (0.0,)], (2.3, 1.9))
    """
    if any(len(np.unique(p)) < len(p) for p in table.privacy):
        raise SettingError("strategies: expected a different p for each, so that a concern decides between them")
    rules = [
        _rules(np.argsort(p), len(prior.concerns), may_stay_out) for p, prior in zip(table.privacy, priors, strict=True)
    ]
    shares = [_shares(rule, prior, len(p)) for rule, prior, p in zip(rules, priors, table.privacy, strict=True)]
    played = [_played(table, n, priors[n], rules[n], shares[1 - n], may_stay_out) for n in range(2)]
    (stable, expected), (also, others) = played
    settled, total = stable & also.T, expected + others.T
    if not settled.any():
        raise NoEquilibriumError("prior: no equilibrium in pure strategies where nobody may stay out")
    # exactly 0 for who stays out: a sum of weights need not be 1
    parts = [share[:, :-1].sum(axis=1) for share in shares]
    counted = settled & (np.outer(*parts) > 0)
    among = np.where(settled, total, -np.inf)
    at = divmod(int(among.argmax()), among.shape[1])
    if may_stay_out and not among[at] > TIE_TOLERANCE:
        at = len(rules[0]) - 1, len(rules[1]) - 1  # the last rules: everybody stays out
    return BayesianOutcome(
        (
            _steps(table, 0, priors[0], rules[0][at[0]], shares[1][at[1]]),
            _steps(table, 1, priors[1], rules[1][at[1]], shares[0][at[0]]),
        ),
        (float(expected[at]), float(others.T[at])),
        _price(table, shares[0][at[0]], shares[1][at[1]]),
        min(float(parts[0][at[0]] * parts[1][at[1]]), 1.0),
        int(counted.sum()),
    )


def _rules(order: NDArray[np.int64], concerns: int, may_stay_out: bool) -> NDArray[np.int64]:
    """All step functions [rules, concerns] of places of strategies, by rising p; the place beyond the last is staying
    out."""
    choices = [*order, len(order)] if may_stay_out else [*order]
    found = 1
    for k in range(1, concerns + 1):  # (choices + concerns - 1 over concerns)
        found = found * (len(choices) + k - 1) // k
    if found > MAX_STEP_FUNCTIONS:
        raise SettingError(
            f"prior: {concerns} concerns and {len(order)} strategies make {found:,} step functions; at most "
            f"{MAX_STEP_FUNCTIONS:,}"
        )
    return np.array(list(combinations_with_replacement(choices, concerns)))


def _shares(rules: NDArray[np.int64], prior: Prior, strategies: int) -> Floats:
    """How likely each strategy is, staying out last [rules, strategies + 1]."""
    shares = np.zeros((len(rules), strategies + 1))
    for k, weight in enumerate(prior.weights):
        np.add.at(shares, (np.arange(len(rules)), rules[:, k]), weight)
    return shares


def _values(table: GainTable, player: int, concern: float, shares: Floats) -> Floats:
    """What each strategy of a player is worth against these shares of the other's, staying out (0) last [...,
    strategies + 1]."""
    joined = shares[..., :-1] @ table.payoffs(player, concern).T
    return np.concatenate([joined, np.zeros((*joined.shape[:-1], 1))], axis=-1)


def _played(
    table: GainTable, player: int, prior: Prior, rules: NDArray[np.int64], others: Floats, may_stay_out: bool
) -> tuple[NDArray[np.bool_], Floats]:
    """(whether a rule is a best response, its expected payoff), each [own rules, other's rules]."""
    best, expected = np.ones((len(rules), len(others)), dtype=bool), np.zeros((len(rules), len(others)))
    for k, (concern, weight) in enumerate(zip(prior.concerns, prior.weights, strict=True)):
        values = _values(table, player, concern, others)
        top = (values if may_stay_out else values[:, :-1]).max(axis=1)
        own = values[:, rules[:, k]].T
        best &= own >= top - TIE_TOLERANCE
        expected += weight * own
    return best, expected


def _steps(table: GainTable, player: int, prior: Prior, rule: NDArray[np.int64], others: Floats) -> Steps:
    keeps = np.append(table.privacy[player], 1.0)
    payoff = [float(_values(table, player, c, others)[i]) for c, i in zip(prior.concerns, rule, strict=True)]
    return Steps(prior.concerns, tuple(float(keeps[i]) for i in rule), tuple(payoff), switches(table, player, others))


def switches(table: GainTable, player: int, others: Floats) -> tuple[tuple[float, float], ...]:
    """(concern, p): from this concern on the player keeps p against these shares of the other's strategies. The upper
    edge of the lines.

    >>> table = GainTable.alike([0.0, 0.5], [[3.0, 2.0], [2.8, 1.0]])
    >>> [(round(float(c), 3), p) for c, p in switches(table, 0, np.array([1.0, 0.0, 0.0]))]
    [(0.0, 0.0), (0.4, 0.5), (5.6, 1.0)]
    """
    if not others[:-1].sum() > 0:
        return ((0.0, 1.0),)
    keeps, height = np.append(table.privacy[player], 1.0), _values(table, player, 0.0, others)
    slope = np.append(-(1 - table.privacy[player]) * others[:-1].sum(), 0.0)
    at, line_index = 0.0, int(np.lexsort((slope, height))[-1])  # the highest, of those the flattest
    found = [(0.0, float(keeps[line_index]))]
    while (slope > slope[line_index]).any():
        later = np.flatnonzero(slope > slope[line_index])
        meets = np.maximum((height[line_index] - height[later]) / (slope[later] - slope[line_index]), at)
        first = meets.min()
        line_index = int(max(later[meets == first], key=lambda i: slope[i]))
        at = float(first)
        found.append((at, float(keeps[line_index])))
    return tuple(found)


def _price(table: GainTable, first: Floats, second: Floats) -> float | None:
    """1 - expected gains / gains without privacy."""
    kept = float(
        first[:-1] @ np.maximum(table.gains[0], 0) @ second[:-1]
        + second[:-1] @ np.maximum(table.gains[1], 0) @ first[:-1]
    )
    return None if table.without_privacy is None else 1 - kept / table.without_privacy
